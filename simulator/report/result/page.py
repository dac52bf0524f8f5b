"""The terminal page of a Result, a pure function from a Result to text."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from simulator.report.jobs import page as jobs_page
from simulator.report.serving import page as serving_page
from simulator.report.step import ledger, long_run, sections, step_times
from simulator.report.step.breakdown import breakdown, critical_path
from simulator.report.text import blocks
from simulator.report.text.plain import clean
from simulator.report.text.terminal import WIDTH, draw
from simulator.report.text.wording import expected
from simulator.results.result import Result


def page(result: Result, *, width: int = WIDTH, colour: bool = False, elapsed_s: float | None = None) -> str:
    """The page of a Result as text that ends with a newline.

    `elapsed_s` is how long the simulation took; it is no part of the Result, whose bytes do not depend on the machine.
    """
    return draw(_blocks(result, elapsed_s), width=width, colour=colour)


def _blocks(result: Result, elapsed_s: float | None) -> Iterable[RenderableType]:
    if result.kind == "serving":
        yield from serving_page.page_blocks(result, elapsed_s)
        return
    if result.kind == "jobs":
        yield from jobs_page.page_blocks(result, elapsed_s)
        return
    subject = " · ".join(sections.header_lines(result.scenario))
    yield blocks.title(
        result.name, sections.changed(result), subject, ground=result.ground.sentence, expected=expected(result)
    )
    if not result.feasible:
        yield from ledger.out_of_memory(result)
        yield blocks.heading("If it fitted")
    yield sections.headline(result)
    yield from (Text(remark, "dim") for remark in sections.remarks_on_figures(result))
    yield from sections.whole_run(result)
    yield from sections.a_day(result)
    yield from (Text(clean(gap), "dim") for gap in sections.not_known(result))
    yield from long_run.section(result)
    yield from step_times.section(result)
    yield from breakdown(result)
    yield from critical_path(result)
    yield from sections.sensitivities(result)
    if result.feasible:
        yield from ledger.memory(result)
    yield from sections.ending(result, sections.operations(result), elapsed_s)
