"""The command line, `empbody`."""

from ._main import main as main
