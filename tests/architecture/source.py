"""What the tests of the package's shape need of its source.

Files are read once and their syntax trees dropped: a million nodes kept would slow down every other test.
"""

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
    undocumented: tuple[str, ...]
    """Dotted names of what is public and has no docstring: the module, its classes, functions and public methods."""
    functions: tuple[tuple[str, int], ...]
    """(name, lines) of all functions, methods and inner ones included."""
    imports: tuple[tuple[int, str], ...]
    """(line, dotted name) of everything that it imports, late imports included."""
    words: tuple[tuple[int, str], ...]
    """(line, text) of every text that is one identifier."""


@cache
def modules() -> tuple[Module, ...]:
    """All modules of the package."""
    return tuple(_read(path) for path in sorted(PACKAGE.rglob("*.py")))


def _read(path: Path) -> Module:
    text = path.read_text(encoding="utf-8")
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    name = ".".join(part for part in parts if part != "__init__")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    return Module(
        name,
        text.count("\n"),
        tuple(dotted for dotted, node in _public(name, tree) if not ast.get_docstring(node)),
        tuple((node.name, _lines(node)) for node in nodes if isinstance(node, Function)),
        tuple(found for node in nodes for found in _imports(node)),
        tuple((node.lineno, node.value) for node in nodes if isinstance(node, ast.Constant) and _is_word(node.value)),
    )


def _public(module: str, tree: ast.Module) -> Iterator[tuple[str, ast.Module | ast.ClassDef | Function]]:
    yield module, tree
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, *Function.__args__)) and not node.name.startswith("_"):
            yield f"{module}.{node.name}", node
            if isinstance(node, ast.ClassDef):
                for inner in node.body:
                    if isinstance(inner, Function) and not inner.name.startswith("_"):
                        yield f"{module}.{node.name}.{inner.name}", inner


def _lines(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def _imports(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Import):
        yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and value.isidentifier()
