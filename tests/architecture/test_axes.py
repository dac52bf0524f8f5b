"""Axes take their names from `simulator.axes`: no other room spells one."""

import ast
from pathlib import Path

from simulator.axes import CP, DP, EP, PP, TP

PACKAGE = Path(__file__).parents[2] / "simulator"
SPELLED = {
    "axes.py": "where they are named",
    "specs/training.py": "keys of files, and what frameworks call them",
    "specs/serving.py": "the same",
    "unmodelled.py": "words that people try",
    "interop/": "words of others, and columns of rows",
}
"""Files and folders that may, and why."""
NAMES = {axis.name for axis in (TP, CP, EP, DP, PP)}


def spelled(source: str) -> list[int]:
    """Lines with text that is nothing but the name of an axis."""
    texts = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return [node.lineno for node in texts if node.value in NAMES]


def test_no_axis_is_spelled_by_hand() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not str(path.relative_to(PACKAGE)).startswith(tuple(SPELLED))
        for line in spelled(path.read_text(encoding="utf-8"))
    ]
    assert found == []


def test_files_that_may_spell_axes_do() -> None:
    """An exception that nobody needs is taken away."""
    for allowed in SPELLED:
        path = PACKAGE / allowed
        files = path.rglob("*.py") if path.is_dir() else (path,)
        assert any(spelled(file.read_text(encoding="utf-8")) for file in files), allowed
