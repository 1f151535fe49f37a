"""Files: the only place that knows formats."""

from ._atomic import replacing, replacing_files
from ._csv import read_csv, write_csv
from ._errors import FileFormatError, UnsupportedElementError
from ._marker_data import Markers
from ._markers import read_markers, write_markers
from ._motion import Motion, read_motion, read_table, write_motion
from ._observations import Observations, read_observations
from ._rhythm_file import RhythmFile, load_rhythm, read_rhythm_file, save_rhythm
from ._spartacus import SpartacusCurves, read_spartacus
from ._storage import read_storage, write_storage
from ._table import Table
from .osim import LoadReport, load, save

__all__ = [
    "FileFormatError",
    "LoadReport",
    "Markers",
    "Motion",
    "Observations",
    "RhythmFile",
    "SpartacusCurves",
    "Table",
    "UnsupportedElementError",
    "load",
    "load_rhythm",
    "read_csv",
    "read_markers",
    "read_motion",
    "read_observations",
    "read_rhythm_file",
    "read_spartacus",
    "read_storage",
    "read_table",
    "replacing",
    "replacing_files",
    "save",
    "save_rhythm",
    "write_csv",
    "write_markers",
    "write_motion",
    "write_storage",
]
