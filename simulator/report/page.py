"""The terminal page of a Result.

A pure function from a Result to text; colours are asked for by the caller, who knows whether a terminal reads it.
"""

from collections.abc import Iterable
from io import StringIO

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from simulator.report import ledger, sections, serving_page, steps
from simulator.report.breakdown import breakdown, critical_path
from simulator.report.plain import clean
from simulator.results.result import Result

WIDTH = 100
"""Columns of a page where the terminal is not narrower."""


def page(result: Result, *, width: int = WIDTH, colour: bool = False, elapsed_s: float | None = None) -> str:
    """The page of a Result as text that ends with a newline.

    `elapsed_s` is how long the simulation took; it is no part of the Result, whose bytes do not depend on the machine.
    """
    return draw(_blocks(result, elapsed_s), width=width, colour=colour)


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


def _blocks(result: Result, elapsed_s: float | None) -> Iterable[RenderableType]:
    if result.kind == "serving":
        yield from serving_page.blocks(result, elapsed_s)
        return
    subject = " · ".join(sections.subject(result.scenario))
    yield sections.title(result.name, sections.changed(result), subject, ground=result.ground.sentence)
    if not result.feasible:
        yield from ledger.out_of_memory(result)
        yield sections.heading("If it fitted")
    yield sections.headline(result)
    if told := sections.causal(result):
        yield Text(told, "dim")
    yield from sections.whole_run(result)
    yield from sections.a_day(result)
    yield from (Text(clean(gap), "dim") for gap in sections.not_known(result))
    yield from steps.section(result)
    yield from breakdown(result)
    yield from critical_path(result)
    yield from sections.sensitivities(result)
    if result.feasible:
        yield from ledger.memory(result)
    yield from sections.ending(result, sections.operations(result), elapsed_s)
