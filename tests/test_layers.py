"""The package's layers, and what importing it may do."""

import ast
import importlib
import importlib.util
import pathlib
import subprocess
import sys

import pytest

import empbody

# From the top. A module imports only from lines below its own; names that share a line do
# not import each other. Files named _*.py directly in the package are leaf utilities,
# below everything.
LAYERS = (
    ("cli",),
    ("viz", "bench", "environments"),
    ("models",),
    ("control", "batch"),
    ("pipeline",),
    ("io",),
    ("fitting",),
    ("sharing",),
    ("simulation",),
    ("muscles",),
    ("dae",),
    ("kronecker", "autodiff"),
    ("paths",),
    ("dynamics", "forces"),
    ("kinematics",),
    ("model",),
    ("solvers", "rhythms"),
    ("calculus", "signals", "native"),
)
LEVEL = {name: -depth for depth, line in enumerate(LAYERS) for name in line}
BOTTOM = -len(LAYERS)

_spec = importlib.util.find_spec("empbody")
assert _spec is not None
assert _spec.origin is not None
PACKAGE = pathlib.Path(_spec.origin).parent
FILES = sorted(PACKAGE.rglob("*.py"))


def level(name: str) -> int:
    """Height of a top-level module of the package."""
    if name.startswith("_"):
        return BOTTOM
    if name not in LEVEL:
        raise ValueError(f"empbody.{name} has no place in LAYERS of tests/test_layers.py")
    return LEVEL[name]


def top_level_imports(source: str, package: tuple[str, ...], modules: set[str]) -> set[str]:
    """Top-level modules of empbody that a source imports, anywhere in it.

    `package` holds the parts of the package it belongs to, ("empbody", "rhythms") for
    empbody/rhythms/_affine.py; `modules` the top-level names there are. "" stands for
    the package itself (`import empbody`, or a name that only its __init__ defines).
    """
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            paths = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            paths = [(*base, alias.name) for alias in node.names]
        else:
            continue
        for path in paths:
            if path[0] == "empbody":
                found.add(path[1] if len(path) > 1 and path[1] in modules else "")
    return found


def modules_of_package() -> set[str]:
    return {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES} - {"__init__"}


def test_every_module_has_a_layer():
    unknown = {name for name in modules_of_package() if name not in LEVEL and name[0] != "_"}
    assert not unknown, f"give {sorted(unknown)} a place in LAYERS of tests/test_layers.py"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_only_from_lower_layers(path):
    parts = path.relative_to(PACKAGE).parts
    if parts in {("__init__.py",), ("__main__.py",)}:
        return  # gathers, or starts, everything
    own = parts[0].removesuffix(".py")
    imported = top_level_imports(
        path.read_text(encoding="utf-8"), ("empbody", *parts[:-1]), modules_of_package()
    )
    assert "" not in imported, "import the module that defines the name, not the whole package"
    wrong = {name for name in imported - {own} if level(name) >= level(own)}
    assert not wrong, f"{own} must not import from {sorted(wrong)}"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import empbody.dynamics as d", {"dynamics"}),
        ("from empbody import calculus, _checks", {"calculus", "_checks"}),
        ("from empbody.rhythms._base import Jet", {"rhythms"}),
        ("from ._base import Jet", {"rhythms"}),
        ("from ..model import Model", {"model"}),
        ("from .. import model", {"model"}),
        ("def f():\n    from empbody.cli import main", {"cli"}),
        ("import empbody", {""}),
        ("from empbody import Model", {""}),
        ("import jax\nfrom numpy import empbody", set()),
    ],
)
def test_imports_are_found(source, expected):
    modules = {"dynamics", "calculus", "_checks", "rhythms", "model", "cli"}
    assert top_level_imports(source, ("empbody", "rhythms"), modules) == expected


def test_importing_changes_no_setting_of_jax():
    program = """
import logging, sys, jax
before = dict(jax.config.values), list(logging.getLogger().handlers)
import empbody
for name in dir(empbody):
    getattr(empbody, name)
assert "empbody.simulation" in sys.modules
after = dict(jax.config.values), list(logging.getLogger().handlers)
assert "jax_enable_x64" in before[0]
changed = {name for name in before[0] if before[0][name] != after[0][name]}
assert not changed, changed
assert before[1] == after[1]
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_names_of_the_package_are_those_of_its_stub():
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) > 10
    for node in imports:
        module = importlib.import_module("." + (node.module or ""), "empbody")
        for alias in node.names:
            assert alias.asname == alias.name  # else type checkers take it for private
            assert getattr(empbody, alias.name) is getattr(module, alias.name)
            assert alias.name in dir(empbody)
    with pytest.raises(AttributeError, match="'empbody' has no attribute 'nothing'"):
        empbody.nothing  # noqa: B018


def test_help_does_not_wait_for_jax():
    program = """
import contextlib, io, sys
from empbody.cli import main
for words in ([], ["fit"], ["simulate"], ["run"], ["bench"]):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()) as out:
        main([*words, "--help"])
    assert "usage: empbody" in out.getvalue()
assert main(["fit", "--calibrate", "none"]) == 2
heavy = {"jax", "equinox", "scipy", "matplotlib", "numpy"} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr


def test_names_in_help_are_those_of_the_library():
    from empbody.cli import _run
    from empbody.cli.arguments import _names

    assert tuple(empbody.solvers.SOLVERS) == _names.SOLVERS
    assert _names.FAMILIES == empbody.fitting.FAMILIES
    assert _names.ROUTES == empbody.models.ROUTES
    assert tuple(_run.CASES) == _names.MECHANISMS


def test_is_marked_as_typed():
    assert (PACKAGE / "py.typed").is_file()


def test_a_star_import_brings_every_name():
    """In a process of its own: names that were used before would be there anyway."""
    code = "from empbody import *; print(simulate.__name__, Model.__name__, viz.__name__)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["simulate", "Model", "empbody.viz"]
