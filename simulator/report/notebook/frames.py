"""A Result or a comparison as pandas frames; pandas is the extra `frames` and is imported when one is made.

Times are in seconds, sizes in bytes; columns of metrics have the names of the JSON form.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem, nearest
from simulator.results.documents.comparison import ComparisonDocument
from simulator.results.result import Result
from simulator.results.serving import iterations as of
from simulator.results.serving.request_time import request_time
from simulator.results.serving.service import FINISHED
from simulator.results.summary import class_names, ordered_metrics
from simulator.units import TICKS_PER_SECOND

if TYPE_CHECKING:
    from pandas import DataFrame

_STATUS = np.array(["finished", "rejected", "in flight"], dtype=object)


def frame(result: Result, what: str = "metrics") -> "DataFrame":
    """One of `FRAMES`; InputError for another name, or where pandas is not installed."""
    if not isinstance(what, str) or what not in FRAMES:
        known = nearest(str(what), FRAMES) or "known: " + ", ".join(f"`{name}`" for name in FRAMES)
        raise InputError(Problem(f"`{what}` is no frame of a result", hint=known))
    return FRAMES[what](result)


def comparison_frame(document: ComparisonDocument) -> "DataFrame":
    """A row for each run of a comparison: metrics, and shares of its parts as `part.NAME`."""
    metrics = {name: row.values for name, row in document.metrics.items()}
    keys = dict.fromkeys(key for run in document.runs for key in run.parts)
    shares = {f"part.{key}": [run.parts.get(key) for run in document.runs] for key in keys}
    known = {key: [getattr(run, key) for run in document.runs] for key in ("kind", "feasible")}
    return made({**known, **metrics, **shares}, index=list(document.names), name="run")


def _metrics(result: Result) -> "DataFrame":
    """One row, named after the scenario: every metric."""
    row = {name: [value] for name, value in ordered_metrics(result.metrics).items()}
    return made({"kind": [result.kind], "feasible": [result.feasible], **row}, index=[result.name], name="run")


def _breakdown(result: Result) -> "DataFrame":
    """A row for each device class: how many ranks, and seconds by part."""
    keys = dict.fromkeys(key for parts in result.breakdown for key in parts)
    columns = {key: [parts.get(key, 0.0) for parts in result.breakdown] for key in keys}
    classes = result.classes[: len(result.breakdown)]
    return made({"ranks": [c.ranks for c in classes], **columns}, index=class_names(classes), name="device class")


def _operations(result: Result) -> "DataFrame":
    """A row for each operation: device class, lane, name, stage, microbatch, begin and end."""
    spans, names = result.spans, np.array(class_names(result.classes), dtype=object)
    lanes = np.array([lane for _, lane in spans.lanes], dtype=object)
    owners = np.array([index for index, _ in spans.lanes], np.int64)
    kinds = np.array(spans.names, dtype=object)
    return made(
        {
            "device_class": _picked(names, owners[spans.lane] if len(owners) else spans.lane),
            "lane": _picked(lanes, spans.lane),
            "name": _picked(kinds, spans.name),
            "stage": spans.stage,
            "microbatch": spans.microbatch,
            "start_s": _seconds(spans.start),
            "end_s": _seconds(spans.end),
        }
    )


def _memory(result: Result) -> "DataFrame":
    """A row for each device class: capacity, peak, and bytes by kind at that moment."""
    names = class_names(result.classes)
    keys = dict.fromkeys(kind for use in result.memory for kind in use.at_peak)
    columns = {kind: [use.at_peak.get(kind, 0.0) for use in result.memory] for kind in keys}
    sizes = {"capacity": [use.capacity for use in result.memory], "peak": [use.peak for use in result.memory]}
    return made(sizes | columns, index=[names[use.device_class] for use in result.memory], name="device class")


def _links(result: Result) -> "DataFrame":
    """A row for each kind of link: how many, capacity, bytes of the busiest and its use."""
    columns = {key: [getattr(load, key) for load in result.links] for key in _LINK}
    return made(columns, index=[load.name for load in result.links], name="link")


_LINK = ("links", "capacity", "bytes", "utilisation")


def _requests(result: Result) -> "DataFrame":
    """A row for each request of a serving run: when what happened to it, tokens, and the parts of its time."""
    if result.service is None:
        raise InputError(Problem(f"{result.name} has no requests", hint="they are of runs that serve"))
    records = result.service.requests
    times = {f"{name}_s": _moments(getattr(records, name)) for name in _MOMENTS}
    counts = {name: getattr(records, name) for name in ("prompt", "output", "generated", "cached", "preemptions")}
    done = records.status == FINISHED
    parts = {}
    for name, ticks in request_time(result.service).items():
        parts[f"{name}_s"] = np.full(len(done), np.nan)
        parts[f"{name}_s"][done] = ticks / TICKS_PER_SECOND
    ttft, e2el = (times[f"{moment}_s"] - times["arrival_s"] for moment in ("first_token", "finish"))
    further = np.where(records.generated > 1, records.generated - 1.0, np.nan)  # one token alone has no time per token
    latency = {"ttft_s": ttft, "tpot_s": (e2el - ttft) / further, "e2el_s": e2el}
    names = np.array([*(replica.name for replica in result.service.replicas), None], dtype=object)
    home = names[records.replica]  # -1: the last one, None
    return made(
        {**times, **latency, **counts, "replica": home, "status": _STATUS[records.status], **parts}, name="request"
    )


_MOMENTS = ("arrival", "scheduled", "first_token", "finish")


def _iterations(result: Result) -> "DataFrame":
    """A row for each iteration of a serving run, or for several in a row in which nothing changed, by replica: begin,
    end, how many they are, and what the first of them worked on."""
    if result.service is None:
        raise InputError(Problem(f"{result.name} has no iterations", hint="they are of runs that serve"))
    replicas = result.service.replicas
    names = np.array([one.name for one in replicas], dtype=object)
    rows = [one.iterations for one in replicas]
    lengths = [len(one.count) for one in rows]

    def column(name: str) -> NDArray[Any]:
        return np.concatenate([getattr(one, name) for one in rows]) if rows else np.zeros(0)

    ends = np.concatenate([of.ends(one) for one in rows]) if rows else np.zeros(0, np.int64)
    times = {"start_s": _seconds(column("start")), "end_s": _seconds(ends), "first_s": _seconds(column("first"))}
    amounts = ("count", "decodes", "prompt_tokens", "prompts", "context", "blocks", "waiting", "done")
    return made(
        {"replica": names[np.repeat(np.arange(len(rows)), lengths)], **times}
        | {name: column(name) for name in amounts}
        | {"waited_s": _seconds(column("waited")), "mean_blocks": column("mean_blocks")},
        name="iteration",
    )


def _replicas(result: Result) -> "DataFrame":
    """A row for each replica of a serving run: what it is, how long it worked, and on what."""
    if result.service is None:
        raise InputError(Problem(f"{result.name} has no replicas", hint="they are of runs that serve"))
    replicas = result.service.replicas
    known = {key: [getattr(one, key) for one in replicas] for key in ("pool", "role", "devices", "device", "blocks")}
    keys = dict.fromkeys(key for one in replicas for key in one.parts)
    parts = {f"{key}_s": [one.parts.get(key, 0.0) for one in replicas] for key in keys}
    busy = {"busy_s": [one.busy for one in replicas]}
    return made(known | busy | parts, index=[one.name for one in replicas], name="replica")


def _jobs(result: Result) -> "DataFrame":
    """A row for each of several jobs: when it ran, on how many devices, its slowdown, figures, and those alone."""
    if not result.jobs:
        raise InputError(Problem(f"{result.name} has no jobs", hint="they are of runs of several jobs"))
    jobs = result.jobs
    known = {key: [getattr(job, key) for job in jobs] for key in ("start_s", "end_s", "slowdown")}
    kinds = {"kind": [job.result.kind for job in jobs], "feasible": [job.result.feasible for job in jobs]}
    names = ordered_metrics(dict.fromkeys((name for job in jobs for name in job.result.metrics), 0.0))
    figures = {name: [job.result.metrics.get(name) for job in jobs] for name in names}
    alone = {f"alone.{name}": [job.alone.get(name) for job in jobs] for name in names}
    devices = {"devices": [len(job.devices) for job in jobs]}
    return made({**kinds, **devices, **known, **figures, **alone}, index=[job.name for job in jobs], name="job")


def _meetings(result: Result) -> "DataFrame":
    """A row for each job on each link on which several met: bytes, and those sent while others sent too."""
    if not result.jobs:
        raise InputError(Problem(f"{result.name} has no jobs", hint="they are of runs of several jobs"))
    rows = [(meeting, job) for meeting in result.meetings for job in meeting.bytes]
    own = ("link", "kind", "links", "capacity", "together_s", "full_s")
    known: dict[str, list[Any]] = {key: [getattr(meeting, key) for meeting, _ in rows] for key in own}
    known["job"] = [job for _, job in rows]
    known["bytes"] = [meeting.bytes[job] for meeting, job in rows]
    known["bytes_together"] = [meeting.at_once.get(job, 0.0) for meeting, job in rows]
    return made(known)


FRAMES: dict[str, Callable[[Result], "DataFrame"]] = {
    "metrics": _metrics,
    "breakdown": _breakdown,
    "operations": _operations,
    "memory": _memory,
    "links": _links,
    "requests": _requests,
    "iterations": _iterations,
    "replicas": _replicas,
    "jobs": _jobs,
    "meetings": _meetings,
}
"""What can be made of a Result, by name."""


def _seconds(ticks: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.asarray(ticks / TICKS_PER_SECOND, np.float64)


def _moments(ticks: NDArray[np.int64]) -> NDArray[np.float64]:
    """Seconds; NaN of what never happened."""
    return np.where(ticks >= 0, ticks / TICKS_PER_SECOND, np.nan)


def _picked(names: NDArray[np.object_], index: NDArray[Any]) -> NDArray[np.object_]:
    return names[index] if len(names) else np.zeros(0, dtype=object)


def made(columns: Mapping[str, Any], index: list[str] | None = None, name: str = "") -> "DataFrame":
    """A frame of columns; InputError where pandas is not installed."""
    try:
        import pandas
    except ImportError as error:
        hint = "pip install 'clustersim[frames]'"
        raise InputError(Problem("frames need pandas, which is not installed", hint=hint)) from error
    made = pandas.DataFrame(dict(columns), index=index)
    made.index.name = name or None
    return made
