"""A workflow as a page for a terminal; reads the document that `run.workflow.simulate` makes."""

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from simulator import units
from simulator.report.text import blocks, wording
from simulator.report.text.plain import clean
from simulator.report.text.terminal import WIDTH, draw
from simulator.report.workflow import contents
from simulator.results.documents.workflow import WorkflowDocument

_NAME = 16
_LEAST = 20


def page(document: WorkflowDocument, *, width: int = WIDTH, colour: bool = False) -> str:
    """The page as text that ends with a newline."""
    return draw(_blocks(document, width), width=width, colour=colour)


def _blocks(document: WorkflowDocument, width: int) -> Iterable[RenderableType]:
    ground = " · ".join(document.ground)
    yield blocks.title(document.name, *contents.header_lines(document), ground=ground)
    for stage in document.stages:
        if not stage.feasible:
            yield Text.assemble(("INFEASIBLE  ", "bold red"), (clean(f"{stage.name}: {stage.why}"), "bold"))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True, justify="right")
    table.add_column(style="dim")
    for figure, words in contents.headline(document):
        table.add_row(figure, words)
    yield table
    yield blocks.heading("Stages: a run on average, and the share of the whole that hangs on it")
    yield _stages(document)
    yield blocks.heading("When they ran")
    yield from _timeline(document, max(width - _NAME - 4, _LEAST))
    yield from blocks.notes("Assumptions", document.assumptions, "dim")
    yield from blocks.notes("Warnings", document.warnings, "yellow")


def _stages(document: WorkflowDocument) -> RenderableType:
    table = blocks.headed("", "takes", "waits", "critical", "devices")
    table.add_column("", overflow="fold")
    for stage in document.stages:
        what = " · ".join(filter(None, (contents.figures(stage), clean(stage.about))))
        table.add_row(
            Text(clean(stage.name), "bold"),
            contents.seconds(stage.seconds),
            contents.seconds(stage.waits_s),
            wording.percent(stage.critical),
            f"{stage.devices:,}" if stage.devices else "-",
            Text(what, "dim"),
        )
    return table


def _timeline(document: WorkflowDocument, width: int) -> Iterable[RenderableType]:
    """A line a pool; each stage has a letter."""
    end = document.metrics["makespan_s"] or 1.0
    letters = {stage.name: chr(ord("A") + i % 26) for i, stage in enumerate(document.stages)}
    table = blocks.grid("left", "left")
    for lane, numbers in contents.lanes(document).items():
        row = ["·"] * width
        for run in (document.runs[number] for number in numbers):
            first = min(int(run.begin_s / end * width), width - 1)
            last = max(min(round(run.end_s / end * width), width), first + 1)
            row[first:last] = letters[run.stage] * (last - first)
        table.add_row(Text(clean(lane)[:_NAME], "bold"), "".join(row))
    yield table
    names = "  ".join(f"{letters[stage.name]} {clean(stage.name)}" for stage in document.stages)
    yield Text(f"{names}  · idle   0 to {units.format(end, 'time')}", "dim")
