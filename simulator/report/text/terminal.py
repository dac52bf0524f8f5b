"""Blocks of a terminal page as text; the caller asks for colours where a terminal reads it."""

from collections.abc import Iterable
from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding

WIDTH = 100
"""Columns of a page where the terminal is not narrower."""


def draw(blocks: Iterable[RenderableType], *, width: int = WIDTH, colour: bool = False) -> str:
    """Blocks one below the other, indented by a column, as text without trailing spaces."""
    console = Console(
        file=StringIO(),
        width=width,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        _environ={},
    )
    with console.capture() as capture:
        for block in blocks:
            console.print(Padding(block, (0, 1)))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"
