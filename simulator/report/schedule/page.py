"""A pipeline schedule as a page for a terminal."""

from collections.abc import Iterable, Iterator

from rich.console import RenderableType
from rich.text import Text

from simulator import units
from simulator.report.schedule.chart import chart
from simulator.report.svg.gantt import sample
from simulator.report.text import wording
from simulator.report.text.blocks import grid, headed, heading, title
from simulator.report.text.plain import clean
from simulator.report.text.terminal import WIDTH, draw
from simulator.results.documents.schedule import ScheduleDocument

MOST_DEVICES = 16
"""Lines of the table of devices; of more, every second, third ... and the last."""


def page(document: ScheduleDocument, *, width: int = WIDTH, colour: bool = False) -> str:
    """The chart, what the schedule comes to beside 1F1B, and each device."""
    return draw(_blocks(document, width, colour), width=width, colour=colour)


def listing(schedules: Iterable[tuple[str, str]], *, width: int = WIDTH, colour: bool = False) -> str:
    """The schedules that there are, (name, sentence) each."""
    table = grid("left", "left")
    table.columns[1].no_wrap = False
    for name, sentence in schedules:
        table.add_row(clean(name), clean(sentence))
    return draw([title("Pipeline schedules"), table], width=width, colour=colour)


def _blocks(document: ScheduleDocument, width: int, colour: bool) -> Iterator[RenderableType]:
    yield title(document.name, *_sizes(document))
    yield from chart(document, width=width, colour=colour)
    yield heading("What it comes to")
    yield _figures(document)
    yield heading("Devices")
    yield _devices(document)
    left_out = document.devices - len(sample(document.devices, MOST_DEVICES))
    if left_out:
        yield Text(f"and {wording.plural(left_out, 'device')} more, which `--json` has", "dim")


def _sizes(document: ScheduleDocument) -> tuple[str, str]:
    chunks = "" if document.stages == document.devices else f" of {document.stages / document.devices:.4g} chunks"
    chunks += "" if document.copies == 1 else f" with {document.copies} copies of the model"
    costs = document.costs
    limit = "" if document.memory_limit is None else f"; at most {document.memory_limit:g} microbatches are kept"
    passes = f"F {costs.forward:g}, I {costs.input_gradient:g}, W {costs.weight_gradient:g}, a send {costs.send:g}"
    if costs.scores is not None and costs.scores_gradient is not None:
        passes += f", S {costs.scores:g}, T {costs.scores_gradient:g}"
    passes += "" if costs.pair is None else f", F and B side by side {costs.pair:g}"
    cut = "" if document.slices is None else f" of {document.slices} slices, which the numbers count"
    if costs.tokens is not None and len(set(costs.tokens)) > 1:
        passes += f"; slices of {', '.join(f'{100 * share:.3g} %' for share in costs.tokens)} of a sequence"
    if costs.attention:
        passes += f"; {100 * costs.attention:g} % of F and I goes with pairs of tokens"
    if costs.kept_for_weights is not None:
        passes += f"; {costs.kept_for_weights:g} of activations is kept from I to W"
    if costs.layers is not None:
        passes += f"; layers {', '.join(f'{own:g}' for own in costs.layers)}, costs of the mean"
    if costs.speeds is not None:
        passes += f"; speeds {', '.join(f'{own:g}' for own in costs.speeds)}"
    if document.weight_versions:
        passes += f"; no flush: a steady step, {document.weight_versions} versions of the weights, gradients "
        passes += f"{wording.plural(document.updates_late or 0, 'update')} late"
    if document.paths:
        shown = ", ".join("-".join(map(str, path)) for path in document.paths[:8])
        passes += f"; by the paths {shown}{' ...' if len(document.paths) > 8 else ''}"
    microbatches = wording.plural(document.microbatches, "microbatch")
    return (
        f"{wording.plural(document.devices, 'device')}{chunks}, {microbatches}{cut}",
        f"a microbatch on a device: {passes}{limit}",
    )


def _figures(document: ScheduleDocument) -> RenderableType:
    """The schedule and 1F1B side by side; one column where it is 1F1B itself."""
    other = document.against
    alone = other.name == document.name
    same = "vocabulary on the last" if document.costs.scores is not None else "same costs"
    table = headed("", clean(document.name), *([] if alone else [f"{other.name}, {same}"]))
    rows = (
        ("makespan", units.plain(document.makespan, 6), units.plain(other.makespan, 6)),
        ("the least that any order takes", units.plain(document.least_makespan, 6), ""),
        ("bubble, idle share of the makespan", *(wording.percent(of.bubble, decimals=2) for of in (document, other))),
        (
            "the most between first and last pass",
            *(wording.percent(of.own_bubble, decimals=2) for of in (document, other)),
        ),
        ("most activations, microbatches", f"{document.peak:.4g}", f"{other.peak:.4g}"),
    )
    for name, own, its in rows:
        table.add_row(name, own, *([] if alone else [its]))
    return table


def _devices(document: ScheduleDocument) -> RenderableType:
    table = headed("", "busy", "idle", "own idle", "activations")
    for index in sample(document.devices, MOST_DEVICES):
        device = document.by_device[index]
        idle = (f"{device.idle:.6g}", f"{device.own_idle:.6g}")
        table.add_row(f"device {index}", f"{device.busy:.6g}", *idle, f"{device.peak:.4g}")
    return table
