"""The source of the package as syntax trees, for the tests of its shape."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2] / "simulator"

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """One source file."""

    name: str
    """Dotted, for example `simulator.specs.base`."""
    lines: int
    tree: ast.Module


@cache
def modules() -> tuple[Module, ...]:
    """All modules of the package."""
    return tuple(_read(path) for path in sorted(PACKAGE.rglob("*.py")))


def _read(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return Module(".".join(part for part in parts if part != "__init__"), text.count("\n"), ast.parse(text))


def functions(module: Module) -> Iterator[Function]:
    """All functions of a module, methods and inner ones included."""
    return (node for node in ast.walk(module.tree) if isinstance(node, Function))


def public(module: Module) -> Iterator[tuple[str, ast.ClassDef | Function]]:
    """Public classes and functions of a module, and public methods of public classes, by dotted name."""
    for node in module.tree.body:
        if isinstance(node, (ast.ClassDef, *Function.__args__)) and not node.name.startswith("_"):
            yield f"{module.name}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, Function) and not inner.name.startswith("_"):
                        yield f"{module.name}.{node.name}.{inner.name}", inner


def imports(module: Module) -> Iterator[tuple[int, str]]:
    """(line, dotted name) of everything that a module imports, late imports included."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
