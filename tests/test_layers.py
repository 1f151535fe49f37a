"""The package's layers, and what importing it may do."""

import ast
import importlib.util
import pathlib
import subprocess
import sys

import pytest

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
    ("calculus", "signals"),
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
import logging, jax
before = dict(jax.config.values), list(logging.getLogger().handlers)
import empbody
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


def test_is_marked_as_typed():
    assert (PACKAGE / "py.typed").is_file()
