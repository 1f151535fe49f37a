"""OpenSim model files: the only place that knows the .osim format."""

from ._load import load as load
from ._report import LoadReport as LoadReport, Note as Note
from ._save import save as save

__all__ = ["LoadReport", "Note", "load", "save"]
