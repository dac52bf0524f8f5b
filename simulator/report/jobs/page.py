"""The terminal page of several jobs: what each takes alone and beside the others, where they met, what it stands on."""

from collections.abc import Iterable, Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simulator.report.jobs import contents
from simulator.report.jobs.contents import Meet, Row
from simulator.report.step import sections
from simulator.report.text import blocks, wording
from simulator.report.text.plain import clean
from simulator.results.infeasibility import reason
from simulator.results.result import Result

_TITLES = ("does", "devices", "of a", "alone", "together", "slowdown", "tokens/s", "memory", "runs")
_SUFFERS = 1.1
"""Slowdown from which a job stands out."""


def page_blocks(result: Result, elapsed_s: float | None) -> Iterable[RenderableType]:
    """The page from top to bottom; of jobs that do not fit, first what they would need."""
    stands = contents.ground(result)
    lines = [sections.changed(result), *contents.header_lines(result)]
    if len(stands) == 1:
        yield blocks.title(result.name, *lines, ground=stands[0])
    else:
        yield blocks.title(result.name, *lines, spaced=not stands)
        yield from _grounds(stands)
    yield from not_fitting(result)
    yield headline(result)
    yield from jobs(result)
    yield from meetings(result)
    yield from sections.published(result)
    yield from blocks.notes(*contents.left_open(result), "dim")
    yield from blocks.notes("Warnings", contents.warnings(result), "yellow")
    yield from one_job(result)
    yield from sections.effort(result, [], elapsed_s)


def _grounds(stands: Sequence[str]) -> Iterable[RenderableType]:
    for line in stands:
        yield Text(clean(f"Ground: {line}"), "yellow" if wording.estimated(line) else "dim")
    yield Text("")


def not_fitting(result: Result) -> Iterable[RenderableType]:
    """The jobs that cannot be carried out, and why."""
    for job in result.jobs:
        if not job.result.feasible:
            why = f"{job.name}: {reason(job.result)}"
            yield Text.assemble(("INFEASIBLE  ", "bold red"), (clean(why), "bold"))
    if not result.feasible:
        yield Text("")


def headline(result: Result) -> RenderableType:
    """Slowdowns and the time until all are done, in a line or two."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True, justify="right")
    table.add_column(style="dim")
    slow: list[tuple[str, str]] = []
    others: list[tuple[str, str]] = []
    for figure, words in contents.headline(result):
        (slow if figure.endswith(" x") or figure == "-" else others).append((figure, words))
    if slow:
        shown = Text("  ·  ").join(Text.assemble((figure, "bold"), f" {words}") for figure, words in slow[1:])
        words = f"as long as alone {slow[0][1]}"
        table.add_row(slow[0][0], Text.assemble(words, "  ·  ", shown) if len(result.jobs) > 1 else words)
    for figure, words in others:
        table.add_row(figure, words)
    return table


def jobs(result: Result) -> Iterable[RenderableType]:
    """A row for each job, and what it is."""
    table = blocks.headed("", *_TITLES)
    for column in table.columns[1:4:2]:
        column.justify = "left"
    for row in contents.rows(result):
        table.add_row(*_cells(row))
    yield blocks.heading("Jobs: a step, or a request from arrival to last token, alone and together with the others")
    yield table
    about = Table.grid(padding=(0, 2, 0, 0))
    about.add_column(no_wrap=True)
    for job in result.jobs:
        about.add_row(Text(clean(job.name), "bold"), Text(contents.what(result, job), "dim"))
    yield Text("")
    yield about
    if said := contents.going_on(result):
        yield Text(clean(said), "dim")


def _cells(row: Row) -> Iterable[RenderableType]:
    slow = "" if row.share is None or row.share < _SUFFERS else "red"
    yield Text(clean(row.name), "bold")
    yield from (row.does, row.devices, row.of, row.alone, row.beside, Text(row.slowdown, slow), row.rate)
    yield Text(row.memory, "" if row.fits else "red")
    yield row.runs


def meetings(result: Result) -> Iterable[RenderableType]:
    """The links on which jobs met, for how long, and what each had of them."""
    if len(result.jobs) < 2:
        return
    yield blocks.heading("Where they met: links over which several jobs sent at one time")
    found = contents.meetings(result)
    if not found:
        yield Text(contents.NOWHERE, "dim")
        return
    table = blocks.headed("", "has", "together", "of it full")
    table.add_column("share of each meanwhile", overflow="fold")
    for meet in found[: contents.MOST_MEETINGS]:
        table.add_row(meet.link, meet.capacity, meet.together, meet.full, _shares(meet))
    yield table
    if (rest := len(found) - contents.MOST_MEETINGS) > 0:
        yield Text(f"and {wording.plural(rest, 'row')} more, in the JSON form and the HTML report", "dim")


def _shares(meet: Meet) -> str:
    return " · ".join(f"{clean(share.job)} {wording.percent(share.share)}" for share in meet.shares)


def one_job(result: Result) -> Iterable[RenderableType]:
    """How to see what one job did, by the first name."""
    if result.jobs:
        name = contents.quoted(result.jobs[0].name)
        yield Text("")
        yield Text(f"One job in full: clustersim run FILE --job {name}  ·  all of them: --html FILE", "dim")
