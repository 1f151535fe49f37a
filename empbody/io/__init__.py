"""Files: the only place that knows formats."""

from ._atomic import replacing, replacing_files
from ._csv import read_csv, write_csv
from ._errors import FileFormatError, UnsupportedElementError
from ._marker_data import Markers
from ._markers import read_markers, write_markers
from ._motion import Motion, read_motion, read_table, write_motion
from ._storage import read_storage, write_storage
from ._table import Table
from .osim import LoadReport, load, save

__all__ = [
    "FileFormatError",
    "LoadReport",
    "Markers",
    "Motion",
    "Table",
    "UnsupportedElementError",
    "load",
    "read_csv",
    "read_markers",
    "read_motion",
    "read_storage",
    "read_table",
    "replacing",
    "replacing_files",
    "save",
    "write_csv",
    "write_markers",
    "write_motion",
    "write_storage",
]
