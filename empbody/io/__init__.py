"""Files: the only place that knows formats."""

from ._atomic import replacing, replacing_files
from ._errors import FileFormatError
from ._storage import Table, read_storage, write_storage

__all__ = [
    "FileFormatError",
    "Table",
    "read_storage",
    "replacing",
    "replacing_files",
    "write_storage",
]
