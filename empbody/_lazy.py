"""Names of a package that are imported when they are first used."""

import ast
import importlib
import pathlib
from collections.abc import Callable
from typing import Any


def attach(
    package: str, stub: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a package, for the names that its stub imports.

    The stub (.pyi) is what type checkers and editors read, so that the list stands in one
    place. `from .a import b as b` is a name of module a, `from . import a as a` a module.
    """
    homes: dict[str, str | None] = {}
    for node in ast.parse(pathlib.Path(stub).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            homes |= {alias.asname or alias.name: node.module for alias in node.names}

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        module = importlib.import_module(f"{package}.{home or name}")
        found = module if home is None else getattr(module, name)
        setattr(importlib.import_module(package), name, found)  # asked for once
        return found

    def __dir__() -> list[str]:
        return sorted({*vars(importlib.import_module(package)), *homes})

    return __getattr__, __dir__, sorted(homes)
