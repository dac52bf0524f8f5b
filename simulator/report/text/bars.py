"""Bars that take whatever width a table leaves them."""

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from simulator.report.text import wording

LEAST = 24
"""Columns below which a bar says nothing."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Parts that follow each other, in fractions of the full width; each drawn with its (style, glyph)."""

    parts: tuple[tuple[float, str, str], ...]
    """(fraction, style, glyph) of each part."""

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Any width from `LEAST` on."""
        return Measurement(min(LEAST, options.max_width), options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One line."""
        cells = wording.stacked([fraction for fraction, _, _ in self.parts], options.max_width)
        yield Text.assemble(*((glyph * n, style) for n, (_, style, glyph) in zip(cells, self.parts, strict=True)))


@dataclass(frozen=True, slots=True)
class Axis:
    """A line from 0 to a labelled end, as heading of a column of bars."""

    end: str
    """Label of the full width."""

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Any width from `LEAST` on."""
        return Measurement(min(LEAST, options.max_width), options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One line."""
        yield Text(f"0 {'─' * max(options.max_width - len(self.end) - 3, 1)} {self.end}", "dim", no_wrap=True)
