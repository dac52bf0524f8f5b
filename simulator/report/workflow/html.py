"""A workflow as one self-contained HTML file: its timeline by pool, its stages, its runs."""

from collections.abc import Iterable

from simulator import units
from simulator.report.html import parts as html_parts
from simulator.report.html.markup import Markup, joined, tag
from simulator.report.html.page import standalone
from simulator.report.svg import pictures
from simulator.report.text import wording
from simulator.report.text.plain import clean
from simulator.report.workflow import contents
from simulator.results.documents.workflow import WorkflowDocument

_HEIGHT = 22.0
MOST_RUNS = 2000
"""Runs that are drawn and listed."""


def page(document: WorkflowDocument) -> str:
    """The page as text of an HTML file."""
    about = [tag("p", clean(line), class_="soft") for line in contents.header_lines(document)]
    stands = html_parts.ground(*document.ground)
    alarms = [
        tag("p", f"{stage.name} cannot run: {stage.why}", class_="alarm")
        for stage in document.stages
        if not stage.feasible
    ]
    tiles = [tag("div", tag("dt", words), tag("dd", figure)) for figure, words in contents.headline(document)]
    head = joined(html_parts.heading(document.name, *about, *stands), *alarms, tag("dl", *tiles, class_="tiles"))
    body = (head, tag("main", *html_parts.sections(_sections(document))), _FOOTER)
    return standalone(document.name, body, f"clustersim {document.version}")


_FOOTER = tag("footer", tag("p", "Simulated, not measured.", class_="soft small"))


def _sections(document: WorkflowDocument) -> Iterable[tuple[str, Iterable[Markup]]]:
    yield "When stages ran", _timeline(document)
    yield "Stages", _stages(document)
    yield "Warnings", html_parts.notes([clean(line) for line in document.warnings])
    yield "Assumptions", html_parts.notes([clean(line) for line in document.assumptions])
    yield "Runs", _runs(document)


def _timeline(document: WorkflowDocument) -> Iterable[Markup]:
    end = document.metrics["makespan_s"] or 1.0
    slots = contents.slots(document)
    yield pictures.legend((slots[stage.name], clean(stage.name)) for stage in document.stages)
    rows = []
    for lane, numbers in contents.lanes(document).items():
        boxes = []
        for run in (document.runs[number] for number in numbers[:MOST_RUNS]):
            took = units.format(run.end_s - run.begin_s, "time")
            text = f"{run.stage}, iteration {run.iteration}: {took} from {units.format(run.begin_s, 'time')}"
            x, width = run.begin_s / end * pictures.WIDTH, (run.end_s - run.begin_s) / end * pictures.WIDTH
            place = {"x": pictures.number(x), "width": pictures.number(max(width, 0.5))}
            boxes.append(
                tag("rect", tag("title", clean(text)), y=2, height=_HEIGHT - 4, class_=f"c{slots[run.stage]}", **place)
            )
        rows.append((clean(lane), pictures.picture(_HEIGHT, *boxes, label=f"runs on {lane}", class_="trough")))
    yield pictures.bars([*rows, ("", html_parts.ticks(0.0, end))], named=True)


def _stages(document: WorkflowDocument) -> Iterable[Markup]:
    rows = [
        (
            clean(stage.name),
            stage.does,
            contents.seconds(stage.seconds),
            contents.seconds(stage.waits_s),
            wording.percent(stage.critical),
            f"{stage.devices:,}",
            " · ".join(filter(None, (contents.figures(stage), clean(stage.about)))),
        )
        for stage in document.stages
    ]
    heads = ("stage name", "does source", "takes n", "waits n", "critical n", "devices n", "what source")
    yield html_parts.table(heads, rows)


def _runs(document: WorkflowDocument) -> Iterable[Markup]:
    rows = [
        (
            clean(run.stage),
            f"{run.iteration}",
            contents.seconds(run.ready_s),
            contents.seconds(run.begin_s),
            contents.seconds(run.end_s),
            "yes" if run.critical else "",
        )
        for run in document.runs[:MOST_RUNS]
    ]
    yield html_parts.table(("stage name", "iteration n", "ready n", "begins n", "ends n", "critical source"), rows)
