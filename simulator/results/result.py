"""The one frozen Result that every report, plot, trace, comparison and regression check reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.results.documents.network import LoadedNetwork
from simulator.results.ground import Ground
from simulator.results.long_run import LongRun
from simulator.results.serving.adapters import AdapterUse
from simulator.results.serving.cache_tiers import CacheTierUse
from simulator.results.serving.finetuning import FinetuningUse
from simulator.results.serving.fleet import FleetRecord
from simulator.results.serving.model_routing import ModelUse
from simulator.results.spread import Interval, intervals

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """Ranks that behave alike; one of them was simulated."""

    name: str
    """For example `stage 3`."""
    ranks: int
    """How many ranks it stands for."""
    example: int
    """The lowest of them."""


@dataclass(frozen=True, slots=True)
class Spans:
    """What ran when, as columns; row i is one operation. Times count picoseconds from the start of the step."""

    start: NDArray[np.int64]
    end: NDArray[np.int64]
    lane: NDArray[np.int32]
    """Index into `lanes`."""
    name: NDArray[np.int32]
    """Index into `names`."""
    stage: NDArray[np.int32]
    """Pipeline stage (model chunk) or -1."""
    microbatch: NDArray[np.int32]
    """Microbatch or -1."""
    lanes: tuple[tuple[int, str], ...]
    """(index of the device class, name of the lane: compute, tensor, data, pipeline ...)."""
    names: tuple[str, ...]
    """Kinds of operation: forward, backward, send forward, reduce gradients, optimizer ..."""
    flows: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    """Arrows: rows (from operation, to operation) where one lane waited for another device class; shape (k, 2)."""

    @property
    def stage_word(self) -> str:
        """What `stage` numbers: `chunk` where a device class has several (interleaved schedules), else `stage`."""
        staged, stages = self.stage >= 0, int(self.stage.max(initial=0)) + 1
        owner = np.array([owner for owner, _ in self.lanes], np.int64)[self.lane[staged]]
        owners = np.flatnonzero(np.bincount(owner * stages + self.stage[staged])) // stages
        return "chunk" if (np.diff(owners) == 0).any() else "stage"


def no_spans() -> Spans:
    """Those of a run that has none."""
    none, small = np.zeros(0, np.int64), np.zeros(0, np.int32)
    return Spans(none, none, small, small, small, small, (), ())


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """Device memory of one class of ranks."""

    device_class: int
    """Index into `Result.classes`."""
    capacity: float
    """Bytes of the device."""
    peak: float
    """Bytes at the worst moment, all kinds together."""
    at_peak: dict[str, float]
    """Bytes by kind at that moment; sums to `peak`."""
    time: NDArray[np.int64]
    """Picoseconds at which the level changes; shape (t,)."""
    level: NDArray[np.float64]
    """Bytes from each of those moments on; shape (t,)."""


@dataclass(frozen=True, slots=True)
class HostMemory:
    """Memory of the fullest host, or its drives, which all devices of its node share, at its worst moment."""

    capacity: float
    """Bytes of the host or of its drives."""
    peak: float
    """Bytes that its devices keep there."""
    at_peak: dict[str, float]
    """The same by what is kept; sums to `peak`."""


@dataclass(frozen=True, slots=True)
class LinkLoad:
    """Traffic of one kind of link over the step."""

    name: str
    """For example `NIC up`."""
    links: int
    """How many links of that kind there are."""
    capacity: float
    """Bytes per second of one."""
    bytes: float
    """Bytes that the busiest one carried."""
    utilisation: float
    """Those bytes / (capacity x step time)."""
    by_operation: dict[str, float] = field(default_factory=dict)
    """Those bytes by the name of the operations in which they were sent; empty where that is not known."""
    users: tuple[int, ...] = ()
    """Device classes whose ranks send over that link: indices into `Result.classes`."""
    peak: float = 0.0
    """Most bytes per second that it carries at a moment of the step, as `results.link_rates` spreads them; more than
    `capacity` where operations overlap that are simulated as if they had the link for themselves."""
    at_peak: tuple[str, ...] = ()
    """Names of the operations that send at that moment."""
    rates: tuple[tuple[int, float], ...] = ()
    """(picoseconds, bytes per second from then on) of the operations that shared links of this kind, without passes
    that run as one instruction; empty where none did."""
    busiest: str = ""
    """Name of the link whose figures these are, the first of equals; empty where it has none."""


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """Operations that follow each other without a gap from the start of the step to its end."""

    seconds: dict[str, float] = field(default_factory=dict)
    """The step time by what the path is made of: the parts of the breakdown that are on it; no bubble is."""
    by_class: tuple[dict[str, float], ...] = ()
    """The same for each device class that the path runs through; empty for one that it does not meet."""
    operations: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Rows of `Result.spans` in the order of time; shape (k,)."""
    by_operation: dict[str, float] = field(default_factory=dict)
    """The step time by what ran, the longest first: `forward, stage 3` without its exposed tensor-parallel
    collectives, `all_reduce tp` for these; sums to the step time."""
    by_link: dict[str, float] = field(default_factory=dict)
    """The communication on the path by the kind of link that decided its rate, `latency` where nothing moved; sums to
    its `exposed_` parts. Waiting for offloaded activations is beside it as `host link`: its part `offload`."""
    by_roof: dict[str, float] = field(default_factory=dict)
    """The kernels on the path by what bounds them: `compute`, `memory`, `latency`; sums to compute, recompute and
    optimizer."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """What the step would take on a slightly better machine; everything else unchanged, simulated again."""

    name: str
    """What was changed, for example `nic_bandwidth`."""
    change: str
    """By how much, for people: `+10 %`, `4 to 8 per node`."""
    step_time_s: float
    """Seconds of the step after the change."""
    gain: float
    """Share of the step time that the change saves: 1 - changed / unchanged; negative where it costs time."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A published figure beside the simulated one."""

    metric: str
    published: float
    simulated: float
    error: float
    """Of time: positive is too slow. predicted / measured - 1 for times, measured / predicted - 1 for rates."""
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class RequestRecords:
    """What became of each request, as columns; row i is request i in the order of arrival. Times are picoseconds."""

    arrival: NDArray[np.int64]
    """When it reached the system."""
    scheduled: NDArray[np.int64]
    """When the first iteration that worked on it began; -1 if none did."""
    first_token: NDArray[np.int64]
    """When its first token was out; -1 if it never was."""
    finish: NDArray[np.int64]
    """When its last token was out; -1 if it was not."""
    prompt: NDArray[np.int64]
    """Tokens of the prompt."""
    output: NDArray[np.int64]
    """Tokens that were asked for."""
    generated: NDArray[np.int64]
    """Tokens that came out."""
    cached: NDArray[np.int64]
    """Tokens of the prompt that a prefix cache held."""
    preemptions: NDArray[np.int64]
    """Times that it had to give up its memory."""
    replica: NDArray[np.int64]
    """Index into `Result.replicas` of the one that decoded it; -1 if none did."""
    status: NDArray[np.int64]
    """0 finished, 1 rejected (longer than the context or than all memory, or turned away), 2 still in flight, 3 failed
    with its replica."""
    priority: NDArray[np.int64]
    """Priority class, 0 the most urgent."""


@dataclass(frozen=True, slots=True)
class Iterations:
    """What a replica did when, as columns; a row is an iteration, or several alike but for their growing context.

    Iteration j of a row (from 0) lasts `first + j * growth` picoseconds and starts where the one before it ends.
    """

    start: NDArray[np.int64]
    """Picoseconds at which the first one begins."""
    count: NDArray[np.int64]
    """How many iterations."""
    first: NDArray[np.int64]
    """Picoseconds of the first one."""
    growth: NDArray[np.int64]
    """Picoseconds by which each lasts longer than the one before."""
    decodes: NDArray[np.int64]
    """Sequences that get a token from each iteration, prompts that end not counted."""
    prompt_tokens: NDArray[np.int64]
    """Tokens of prompts that each iteration works on."""
    prompts: NDArray[np.int64]
    """Prompts of which it works on a part."""
    context: NDArray[np.int64]
    """Tokens in the cache that the first one's decodes read."""
    blocks: NDArray[np.int64]
    """Cache blocks in use when the first one begins, with those of its prompts."""
    waiting: NDArray[np.int64]
    """Requests in the queue when the first one begins."""
    waited: NDArray[np.int64]
    """Picoseconds of them all in which the replica waited for others that it shares experts with."""
    mean_blocks: NDArray[np.float64]
    """Cache blocks in use over the time of the row, on average, each iteration with those that it began with."""
    last_blocks: NDArray[np.int64]
    """Cache blocks in use when the last one begins."""
    done: NDArray[np.int64]
    """Rows of each iteration that belong to members of a static batch that are done, and grow as `decodes` do."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A copy of the model: where it is and what it did."""

    name: str
    """Pool and number, for example `decode 2`."""
    pool: str
    """Name of its pool."""
    role: str
    """`both`, `prefill` or `decode`."""
    devices: int
    """Devices that it takes."""
    device: str
    """Name of the accelerator."""
    blocks: int
    """Cache blocks that it has."""
    block_size: int
    """Tokens of a block."""
    weights: float
    """Bytes of weights on each device."""
    iterations: Iterations
    """What it did."""
    busy: float
    """Seconds in which it worked."""
    parts: dict[str, float] = field(default_factory=dict)
    """Those seconds by what they consist of: linear, attention, tp communication, host ...; sums to `busy`."""
    batches: int = 1
    """Batches that take turns on it; which one an iteration was of is not recorded."""


@dataclass(frozen=True, slots=True)
class TokenGaps:
    """Times between two tokens of one request, over all requests: `count[i]` gaps of `gap[i]` picoseconds."""

    gap: NDArray[np.int64]
    """Picoseconds."""
    count: NDArray[np.int64]
    """How many gaps are that long."""

    def parts(self) -> "Iterator[TokenGaps]":
        """All of them."""
        yield self


class Gaps(Protocol):
    """Times between two tokens, as `TokenGaps` or as rows of iterations stand for them."""

    @property
    def gap(self) -> NDArray[np.int64]:
        """Picoseconds."""

    @property
    def count(self) -> NDArray[np.int64]:
        """How many gaps are that long."""

    def parts(self) -> Iterator[TokenGaps]:
        """All of them, some at a time."""


@dataclass(frozen=True, slots=True)
class Transfers:
    """Caches that moved from prefill to decode replicas, as columns; picoseconds."""

    request: NDArray[np.int64]
    """Row of `RequestRecords`."""
    start: NDArray[np.int64]
    """When the first byte could leave."""
    end: NDArray[np.int64]
    """When the last byte had arrived."""
    bytes: NDArray[np.float64]
    """Bytes that moved."""


@dataclass(frozen=True, slots=True)
class Service:
    """What a serving run has to say beyond its metrics."""

    requests: RequestRecords
    replicas: tuple[Replica, ...]
    gaps: Gaps
    pauses: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    """Rows (request, from, to) in picoseconds: a request that had first tokens out was preempted and got none."""
    transfers: Transfers | None = None
    """Where prefill and decode are apart."""
    tiers: tuple[CacheTierUse, ...] = ()
    """Memories below the devices' that keep blocks."""
    load_waits: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Picoseconds for which each load from a tier kept its request waiting."""
    fleet: FleetRecord | None = None
    """Replicas that come, go and fail, and tenants; None where there is nothing of it."""
    adapters: AdapterUse | None = None
    """Adapters of low rank that requests asked for; None where there are none."""
    finetuning: FinetuningUse | None = None
    """Training of an adapter beside serving; None where there is none."""
    records: str = "all"
    """`all`; or what of requests, rows of iterations and gaps is here: those of a window (`sample`), or `none`."""
    models: ModelUse | None = None
    """What several models did; None where there is one."""


@dataclass(frozen=True, slots=True)
class Meeting:
    """A link on which several jobs sent at the same time, or one of many that fared alike."""

    link: str
    """Name, such as `leaf up 3`."""
    kind: str
    """Kind of link, such as `leaf up`."""
    links: int
    """How many links of that kind the same jobs shared."""
    capacity: float
    """Bytes per second."""
    bytes: dict[str, float]
    """What each job took of it, in bytes, with what protocols add."""
    at_once: dict[str, float]
    """What of that each took while others sent too."""
    together_s: float
    """Seconds in which more than one of them sent."""
    full_s: float
    """Seconds of these in which it carried all that it has."""
    rates: tuple[tuple[int, dict[str, float]], ...] = ()
    """(picoseconds, bytes per second of each job from then on), piecewise constant; of many intervals
    means over equal stretches."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One of several jobs on a cluster."""

    name: str
    start_s: float
    """When it started."""
    end_s: float
    """When what counts of it was done: its steps, or its last request."""
    devices: tuple[int, ...]
    """The devices that it had, by number."""
    slowdown: float
    """What it took over what it takes alone in the same place: the mean step, or the mean time of a request; NaN where
    there is no such time."""
    alone: dict[str, float]
    """Its metrics when nothing else runs."""
    result: "Result"
    """What it did beside the others."""
    shown_from: int = 0
    """Picoseconds on the clock that all share from which the times in `result` count: when the step that it shows
    began; 0 of a service, whose times are those of that clock."""


@dataclass(frozen=True, slots=True)
class Result:
    """Everything that one simulated run has to say; SI units throughout."""

    kind: str
    """`training` or `serving`, or `jobs` for several that ran at one time."""
    name: str
    """Name of the scenario."""
    metrics: dict[str, float]
    """Headline figures by the names of the command line's JSON form."""
    classes: tuple[DeviceClass, ...]
    """The simulated device classes."""
    breakdown: tuple[dict[str, float], ...]
    """For each class, seconds of the step by what the device did; each sums to the step time."""
    spans: Spans
    """What ran when on one device of each class."""
    memory: tuple[MemoryUse, ...]
    """Device memory of each class."""
    host: HostMemory | None = None
    """Memory of the fullest host; None where nothing is kept there, or where its size is not known."""
    nvme: HostMemory | None = None
    """The same of the drives of the fullest node."""
    links: tuple[LinkLoad, ...] = ()
    """Traffic of each kind of link."""
    network: LoadedNetwork | None = None
    """The network with the share of the step for which its links are busy; None where it is too large to draw."""
    critical_path: CriticalPath = field(default_factory=CriticalPath)
    """What the step time is made of; nothing in it where it was not asked for."""
    sensitivities: tuple[Sensitivity, ...] = ()
    """What better parts of the machine would give; empty where it was not asked for."""
    comparisons: tuple[Comparison, ...] = ()
    """Published figures of the scenario beside the simulated ones."""
    warnings: tuple[str, ...] = ()
    """What was asked for and has no effect, or lies outside the range of a model."""
    assumptions: tuple[str, ...] = ()
    """What the scenario left open and how it was filled in."""
    ground: Ground = field(default_factory=Ground)
    """What it stands on: measured and validated, measured, datasheet or estimate, and why."""
    step_times: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    """Picoseconds of each of several simulated steps, of which the other columns show one; shape (steps,). Empty where
    one step was simulated."""
    feasible: bool = True
    """False if a device or a host is out of memory (metrics then hold what would be if it were not), or if every
    request of a serving run was rejected."""
    provenance: dict[str, Any] = field(default_factory=dict)
    """Version, seed, hash of the resolved scenario, overrides where there are any, how ranks were folded, events."""
    scenario: dict[str, Any] = field(default_factory=dict)
    """The resolved scenario as plain data."""
    service: Service | None = None
    """Requests and replicas of a serving run; None for training."""
    run: LongRun | None = None
    """The whole run with its failures and checkpoints; None where the scenario asks for none."""
    jobs: tuple[JobRecord, ...] = ()
    """Of a run of several jobs, each of them."""
    meetings: tuple[Meeting, ...] = ()
    """Links on which they met, those that were full for the longest time first."""
    schema: int = SCHEMA
    """Version of this form."""

    @property
    def intervals(self) -> dict[str, Interval]:
        """Between which values measured figures are expected, of those that published runs say anything about."""
        return intervals(self.metrics, self.ground.spreads)


def overridden(result: Result, overrides: Sequence[str]) -> Result:
    """The Result with the overrides of its scenario in its provenance, where there are any."""
    return replace(result, provenance={**result.provenance, "overrides": list(overrides)}) if overrides else result
