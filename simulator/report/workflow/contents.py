"""What pages on workflows share: lines of the head, rows of stages, colours, figures of a stage that matter."""

from collections.abc import Iterator

from simulator import units
from simulator.report.text import palette, wording
from simulator.results.documents.workflow import WorkflowDocument, WorkflowStage

SHOWN = {
    "trains": ("step_time_s", "mfu"),
    "generates": ("output_throughput", "total_token_throughput"),
    "hands over": ("moved_bytes",),
    "takes time": ("items",),
}
"""Figures of a stage that a page shows, by what it does."""
_READS = 1.5
"""Answer tokens a request up to which a stage reads only, so that its prompt tokens are its rate."""


def header_lines(document: WorkflowDocument) -> Iterator[str]:
    """The machine, its pools, what runs."""
    total = sum(pool.devices for pool in document.pools)
    iterations = 1 + max((run.iteration for run in document.runs), default=0)
    stages = wording.plural(len(document.stages), "stage")
    machine = f"{total:,} x {document.device}" if total else "no devices"
    yield f"{machine} · {stages} · {wording.plural(iterations, 'iteration')}"
    if document.pools:
        yield "pools: " + ", ".join(f"{pool.name} {pool.devices:,}" for pool in document.pools)


def headline(document: WorkflowDocument) -> list[tuple[str, str]]:
    """(figure, words)."""
    words = {
        "iteration_s": "an iteration",
        "makespan_s": "until the last stage is done",
        "idle_fraction": "of the devices' time is idle",
    }
    return [
        (wording.figure(name, document.metrics[name]), text) for name, text in words.items() if name in document.metrics
    ]


def figures(stage: WorkflowStage) -> str:
    """What matters of a stage in a few words."""
    names = SHOWN[stage.does]
    if stage.does == "generates":
        reads = stage.metrics.get("total_output_tokens", 0.0) <= _READS * stage.metrics.get("completed", 0.0)
        names = names[1:] if reads else names[:1]
    told = {"output_throughput": "output tokens/s", "total_token_throughput": "tokens/s", "mfu": "MFU"}
    told |= {"step_time_s": "a step", "moved_bytes": "moved", "items": "items"}
    known = [name for name in names if name in stage.metrics]
    return " · ".join(f"{wording.figure(name, stage.metrics[name])} {told[name]}" for name in known)


def seconds(value: float) -> str:
    """A time, `-` for none."""
    return units.format(value, "time") if value else "-"


def slots(document: WorkflowDocument) -> dict[str, int]:
    """A colour for each stage."""
    return {stage.name: palette.DISTINCT[i % len(palette.DISTINCT)] for i, stage in enumerate(document.stages)}


def lanes(document: WorkflowDocument) -> dict[str, list[int]]:
    """Indices of the runs on each pool, then those of stages without devices under their own names."""
    pools = {stage.name: stage.pools or (stage.name,) for stage in document.stages}
    found: dict[str, list[int]] = {pool.name: [] for pool in document.pools}
    for number, run in enumerate(document.runs):
        for lane in pools[run.stage]:
            found.setdefault(lane, []).append(number)
    return {name: runs for name, runs in found.items() if runs}
