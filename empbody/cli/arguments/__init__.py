"""Options of all commands, without what they need to run."""

from collections.abc import Callable
from typing import Any

from . import _bench, _check, _fit, _id, _ik, _info, _moment_arms, _run, _share, _simulate

PARSERS: tuple[Callable[[Any, Any], None], ...] = tuple(
    module.add_parser
    for module in (_run, _info, _moment_arms, _ik, _id, _share, _simulate, _fit, _check, _bench)
)
"""In the order of `empbody --help`."""
