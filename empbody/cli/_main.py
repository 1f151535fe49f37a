"""Reads the command line, runs a command, and turns errors into one sentence."""

import argparse
import contextlib
import decimal
import re
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import version
from typing import NoReturn

from ._errors import BAD_INPUT, FAILURE, CommandError, one_sentence
from ._settings import configure_jax, own_process
from .arguments import PARSERS

_NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


class _Parser(argparse.ArgumentParser):
    """Argument parser whose errors are one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise CommandError(f"{message} (see {self.prog} --help)")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of `empbody`. Returns 0, or 2 for bad input, or 1 for a failure.

    Switches JAX to double precision and keeps compiled functions in the user's cache.
    Without `argv` the process is taken to be the command's own (see `own_process`).
    """
    if argv is None:
        own_process()
    arguments = sys.argv[1:] if argv is None else list(argv)
    debug = "--debug" in arguments
    try:
        parsed = _parser().parse_args([_plain(a) for a in arguments])
        configure_jax(own=argv is None)
        return parsed.command(parsed)
    except KeyboardInterrupt:
        sys.stderr.write("\nempbody: interrupted; nothing was written\n")
        return 130
    except BrokenPipeError:
        with contextlib.suppress(Exception):
            sys.stdout = None
        return FAILURE
    except Exception as error:
        if debug:
            traceback.print_exc()
        sentence, code = _explain(error)
        sys.stderr.write(f"empbody: {sentence}\n")
        return code


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--quiet", action="store_true", help="no progress on standard error")
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser = _Parser(
        prog="empbody",
        description="Differentiable multibody dynamics with coupled joints as a plain ODE.",
    )
    parser.add_argument("--version", action="version", version=f"empbody {version('empbody')}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for add_parser in PARSERS:
        add_parser(commands, common)
    return parser


def _explain(error: Exception) -> tuple[str, int]:
    if isinstance(error, CommandError):
        return str(error), error.code
    import equinox as eqx  # not before a command has run: these take seconds

    from ..io import FileFormatError
    from ..simulation import SimulationError

    match error:
        case SimulationError() | eqx.EquinoxRuntimeError():
            return one_sentence(error), FAILURE
        case FileFormatError() | ValueError() | TypeError():
            return one_sentence(error), BAD_INPUT
        case OSError():
            return one_sentence(error), FAILURE
        case _:
            hint = "run again with --debug to see where"
            return f"{type(error).__name__}: {one_sentence(error)} ({hint})", FAILURE


def _plain(argument: str) -> str:
    """argparse takes -1e-3 for an option; -0.001 it knows as a number."""
    if _NEGATIVE.fullmatch(argument):
        return format(decimal.Decimal(argument), "f")
    return argument
