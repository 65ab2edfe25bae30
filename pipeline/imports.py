"""Which modules of the package a module imports, directly or not, found without importing any."""

import ast
from collections.abc import Collection
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent


@cache
def modules() -> dict[str, Path]:
    """The files of all modules of the package, by the modules' names."""
    root = _PACKAGE.parent
    return {".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path
            for path in _PACKAGE.rglob("*.py")}


@cache
def imports(module: str) -> frozenset[str]:
    """The modules of the package that one imports, at its top or within functions.

    >>> sorted(imports("pipeline.names"))
    ['pipeline.errors']
    """
    found = set[str]()
    for node in ast.walk(ast.parse(modules()[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names if names <= modules().keys() else {node.module, *names}
    return frozenset(found & modules().keys() - {_PACKAGE.name})


def with_imports(first: Collection[str]) -> frozenset[str]:
    """Modules and all that they import, directly or not."""
    found, waiting = set(first), list(first)
    while waiting:
        new = imports(waiting.pop()) - found
        found |= new
        waiting += new
    return frozenset(found)
