"""Options of `empbody info`."""

import argparse
from typing import Any

from ._common import add_model_parser, later


def add_parser(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = add_model_parser(
        commands, common, "info", "what is in a model, and what was not honoured",
        "Tell what is in a model file: coordinates, bodies, muscles, markers; and what was\n"
        "read, ignored, approximated or left out.",
        wraps=True,
    )  # fmt: skip
    parser.set_defaults(command=later("_info"))
