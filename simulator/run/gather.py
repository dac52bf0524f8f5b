"""From a timeline to a Result: metrics, breakdown, memory over time, spans, link loads, comparisons.

The breakdown accounts for every moment of a rank's compute lane: operations by what they consist of, and the gaps
between them by what ended them. A gap that ends with a transfer from another stage is exposed pipeline communication
while the transfer ran and bubble before; one that ends with a data-parallel collective is exposed data-parallel
communication; the rest, and the time after the last operation, is bubble.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import simulator
from simulator import units
from simulator.cost import Device
from simulator.cost.economy import cost_usd
from simulator.engine.tape import Timeline
from simulator.metrics import METRICS
from simulator.program import codes as d
from simulator.program.piece import COPY, HOST
from simulator.results.documents.network import LoadedNetwork
from simulator.results.infeasibility import close_call
from simulator.results.metrics import compare, mean, run_metrics, step_metrics, training_metrics
from simulator.results.result import Comparison, DeviceClass, LinkLoad, MemoryUse, Result, Spans
from simulator.results.summary import CHAINS
from simulator.run.critical import summary
from simulator.run.energy import guessed_idle, step_energy_j
from simulator.run.ground import memory_error
from simulator.run.links.carried import carried_bytes, host_links, overloaded
from simulator.run.links.drawn import MOST_NODES, loaded
from simulator.run.links.notes import ordered_rings, unused_oversubscription
from simulator.run.local_steps import Exchanged, over_sites
from simulator.run.parts import LAUNCHES, OFFLOAD, STRAGGLER, busy, by_axis
from simulator.run.spans import spans_of
from simulator.run.spread.grounded import grounded
from simulator.run.steps import Steps
from simulator.run.tiers import Waits, loads, memory_of
from simulator.specs.libraries.extrapolated import extrapolated
from simulator.specs.resolve import dump, scenario_hash
from simulator.specs.scenario import Scenario
from simulator.training import flops, memory
from simulator.training.batches.microbatches import unevenness
from simulator.training.batches.rows import shapes_of
from simulator.training.chains import ChainClasses
from simulator.training.communication import Network
from simulator.training.job import Job
from simulator.training.noise import Perturbation
from simulator.training.passes.program import Program
from simulator.training.tiers.ledger import fullest_node
from simulator.training.tiers.nodes import nodes_of

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
NOTABLE = 0.01
"""Relative difference of merged price lists from which folding by tiers is worth a warning."""

TIE = 1_000
"""Ticks between two ends that may be rounding."""


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that a finished run consists of."""

    scenario: Scenario
    job: Job
    device: Device
    network: Network
    classes: ChainClasses
    program: Program
    timeline: Timeline
    fold: str
    executor: str
    noise: Perturbation
    steps: Steps
    """Ticks of every simulated step; `program` and `timeline` are those of the one that is shown."""
    links: tuple[LinkLoad, ...] = ()
    """What the busiest links of the network carried."""
    shared: frozenset[str] = frozenset()
    """Kinds of links on which its own operations met."""
    exchanged: Exchanged | None = None
    """What workers exchange that take local steps; None where all meet in every step."""
    recorded: bool = True
    """Whether what links carried is kept beyond the busiest of each kind."""
    fullest: Job | None = None
    """The job as the step sees it in which devices hold most, where that is another one than the one that is shown."""


def gather(run: Run) -> Result:
    """The Result of a run."""
    classes, ready = _device_classes(run), _ready(run)
    breakdown = tuple(
        _breakdown(run, ready, chain, rank) for chain in range(len(run.classes.costs)) for rank in range(run.job.pp)
    )
    held = run.fullest or run.job
    shapes = shapes_of(held)
    kept = np.array(
        [
            np.multiply((memory.kept_of_chunks(shape), memory.weights_of_chunks(shape)), shape.micro_batch > 0)
            for shape in shapes
        ]
    )
    always = [memory.static_memory(held, rank) for rank in range(run.job.pp)]
    working = np.array([[_working(held, shape, rank) for rank in range(run.job.pp)] for shape in shapes])
    used = tuple(_memory(run, i, kept, always[i % run.job.pp], working) for i in range(len(classes)))
    metrics = _metrics(run, classes, breakdown, used)
    node = run.scenario.cluster.node
    host, nvme = (memory_of(run.job, node, tier) for tier in ("host", "nvme"))
    full = [use for use in (host, nvme) if use is not None and use.peak > use.capacity]
    feasible = all(use.peak <= use.capacity for use in used) and not full
    spans, links = spans_of(run.program, run.timeline, run.job.pp), run.links
    step_s = units.to_seconds(run.timeline.makespan)
    return Result(
        kind="training",
        name=run.scenario.name,
        metrics=metrics,
        classes=classes,
        breakdown=breakdown,
        spans=spans,
        memory=used,
        host=host,
        nvme=nvme,
        links=(*links, *host_links(run.job, step_s, spans), *_beside(run, step_s, spans)),
        network=_drawn(run, step_s),
        critical_path=summary(run.program, run.timeline, run.classes, run.job, run.network.fabric.kinds),
        comparisons=_comparisons(run, metrics),
        warnings=_warnings(run, used) + overloaded(links) + unused_oversubscription(run.scenario.cluster),
        assumptions=(
            *run.job.assumptions,
            *run.noise.assumptions,
            *ordered_rings(run.scenario.cluster, links),
            *guessed_idle([run.scenario.cluster.node.accelerator]),
        ),
        ground=grounded(run.scenario),
        step_times=run.steps.ticks if several(run) else np.zeros(0, np.int64),
        feasible=feasible,
        provenance=_provenance(run),
        scenario=dump(run.scenario),
    )


def _drawn(run: Run, step_s: float) -> LoadedNetwork | None:
    """The network and how busy its links are, where it is small enough to draw."""
    fabric = run.network.fabric
    if fabric.numbering.all_nodes > MOST_NODES or not run.recorded:
        return None
    return loaded(fabric, run.scenario.cluster, carried_bytes(fabric, run.program, run.classes), step_s)


# ---- classes and metrics -----------------------------------------------------------------------------------------


def _device_classes(run: Run) -> tuple[DeviceClass, ...]:
    several = len(run.classes.costs) > 1
    tagged = [
        (f"stage {rank}" + (f", {CHAINS} {int(chains[0])}" if several else ""), rank, chains)
        for chains in run.classes.members
        for rank in range(run.job.pp)
    ]
    return tuple(
        DeviceClass(name, len(chains), int(run.classes.ranks[chains, rank].min())) for name, rank, chains in tagged
    )


def _metrics(
    run: Run,
    classes: tuple[DeviceClass, ...],
    breakdown: tuple[dict[str, float], ...],
    used: tuple[MemoryUse, ...],
) -> dict[str, float]:
    job, cluster = run.job, run.scenario.cluster
    step = run.steps.mean_s
    tokens = float(job.global_batch * job.sequence if job.batch is None else job.batch.tokens)
    metrics = training_metrics(
        step_s=step,
        shown_s=units.to_seconds(run.timeline.makespan),
        tokens=tokens,
        samples=job.global_batch if job.batch is None else job.batch.sequences,
        devices=cluster.devices,
        model_flops=flops.model_flops(job),
        hardware_flops=flops.hardware_flops(job),
        causal_flops=flops.causal_flops(job) if run.scenario.training.causal else None,
        peak_flops=run.device.peak(job.counted),
        breakdown=breakdown,
        ranks=[c.ranks for c in classes],
        peak_memory=max(use.peak for use in used),
    )
    metrics |= _economy(run, metrics, breakdown, classes)
    if job.batch is not None:
        late = mean(breakdown, [c.ranks for c in classes]).get(STRAGGLER, 0.0)
        metrics |= {"straggler_fraction": late / units.to_seconds(run.timeline.makespan), **unevenness(job, job.batch)}
    if run.exchanged is not None:
        metrics |= run.exchanged.metrics()
    if several(run):
        metrics |= step_metrics(run.steps.ticks, metrics)
    if run.scenario.training.tokens is not None:
        metrics |= run_metrics(metrics, tokens, run.scenario.training.tokens)
    return metrics


def several(run: Run) -> bool:
    """Whether there is more than one step to tell of."""
    return len(run.steps.ticks) > 1


def _economy(
    run: Run, metrics: dict[str, float], breakdown: tuple[dict[str, float], ...], classes: tuple[DeviceClass, ...]
) -> dict[str, float]:
    """Energy and money of the mean step, where the accelerator's profile knows power and price.

    Devices do for a share of the step what they do in the one that is shown.
    """
    accelerator, devices, step = (
        run.scenario.cluster.node.accelerator,
        run.scenario.cluster.devices,
        metrics["step_time_s"],
    )
    found = {}
    arithmetic = flops.hardware_flops(run.job) / (devices * run.device.peak(run.job.counted))
    energy = step_energy_j(accelerator, mean(breakdown, [c.ranks for c in classes]), arithmetic, step)
    if energy is not None:
        found["energy_j"] = devices * energy
    if accelerator.price is not None:
        found["cost_usd"] = cost_usd(accelerator.price.value, devices, step)
    return found


# ---- breakdown ---------------------------------------------------------------------------------------------------


def _operations(run: Run, chain: int, rank: int, lane: str) -> slice:
    return run.program.lane(chain * run.job.pp + rank, lane)


def _breakdown(run: Run, ready: "Ready", chain: int, rank: int) -> dict[str, float]:
    """Seconds of the step by what one rank did."""
    part = _operations(run, chain, rank, "compute")
    end = run.timeline.end[part]
    ticks = busy(run.program, run.timeline, part, run.job.slowest)
    _gaps(run, ready, chain, part, _operations(run, chain, rank, "data"), ticks)
    ticks["bubble"] += run.timeline.makespan - int(end[-1])
    return {name: units.to_seconds(value) for name, value in ticks.items()}


def _gaps(run: Run, ready: "Ready", chain: int, part: slice, data: slice, ticks: dict[str, int]) -> None:
    """Time between the operations `part` by what ended the wait; `data` are those of the data lane beside them."""
    start, end = run.timeline.start[part], run.timeline.end[part]
    before = np.concatenate([[0], end[:-1]])
    waited = np.flatnonzero(start > before)
    cause, columns = _causes(run, part.start + waited), run.program.columns
    stages = (start - ready.peers[part])[waited] * ready.meets[part][waited]
    gap = (start - before)[waited] - stages
    ticks["bubble"] += int(stages.sum())
    contents, place = np.unique(columns.content[cause], return_inverse=True)
    alone = np.array([run.program.contents[each].communicates for each in contents.tolist()], np.bool_)
    communicates = alone[place] & (cause >= 0)
    sends = np.isin(columns.kind[cause], (d.SEND_FORWARD, d.SEND_BACKWARD))
    known = np.where(sends, np.minimum(gap, (run.timeline.end - run.timeline.start)[cause]), gap) * communicates
    uneven = run.classes.rendezvous[chain] >= 0 and _uneven(run)
    late = _late(ready, part.start + waited, cause, before[waited], data) if uneven else np.zeros_like(gap)
    if run.program.moved:
        traced, late = _traced(run, before[waited], gap, np.where(sends, -1, cause), late, ticks)
        communicates, gap = communicates & ~traced, np.where(traced, 0, gap)
        known = np.where(traced, 0, known)
    for name, lane in ((LAUNCHES, HOST), (OFFLOAD, COPY)):
        host = run.program.on(cause, lane) & (cause >= 0)
        known = np.where(host, gap, known)
        ticks[name] += int(gap[host].sum())
    if uneven:
        ticks[STRAGGLER] = int(late.sum())
        own = communicates & ~sends
        known, gap = np.where(own, gap - late, known), gap - late
    for content in sorted(set(columns.content[cause[communicates]].tolist())):
        whole = int(known[communicates & (columns.content[cause] == content)].sum())
        for axis, share in by_axis(run.program.contents[content].whole, whole).items():
            ticks[axis] = ticks.get(axis, 0) + share
    ticks["bubble"] += int((gap - known).sum())


def _traced(
    run: Run, since: Ints, gap: Ints, cause: Ints, late: Ints, ticks: dict[str, int]
) -> tuple[NDArray[np.bool_], Ints]:
    """Book the gaps that operations of the tiers led to; which they are, and `late` again, in ticks of all gaps: what
    peers are waited for is no more of these gaps than they have without a transfer."""
    waits = Waits(run.program, run.timeline)
    traced, late = np.array([one >= 0 and waits.traced(one) for one in cause.tolist()], np.bool_), late.copy()
    for at in np.flatnonzero(traced).tolist():
        found = waits.between(int(since[at]), int(since[at] + gap[at]), int(cause[at]))
        late[at] = min(int(late[at]), found["bubble"])
        for name, share in found.items():
            ticks[name] = ticks.get(name, 0) + share
    return traced, late


def _uneven(run: Run) -> bool:
    """Whether data-parallel peers have different work, or do the same at a different pace."""
    factors = run.noise.factors
    return run.job.batch is not None or (factors is not None and bool((factors != 1.0).any()))


def _late(ready: "Ready", operations: Ints, cause: Ints, since: Ints, data: slice) -> Ints:
    """Ticks before each of some operations, whose lane is free `since`, in which only slower peers are waited for: by
    the operation itself where it meets them, or by the collectives up to the one of the data lane that it comes after,
    from when the lane is free and what each comes after has ended."""
    own = ready.peers[operations] - ready.own[operations]
    beside = (cause >= data.start) & (cause < data.stop) & ready.meets[cause]
    if not beside.any():
        return own
    first, last = ready.own[data], ready.peers[data]
    done = np.concatenate([[0], np.cumsum(last - first)])

    def waited(until: Ints) -> Ints:
        """Ticks that the data lane has waited for peers by then."""
        begun = np.searchsorted(first, until, side="right")
        over = np.maximum(np.append(last, 0)[begun - 1] - until, 0) * (begun > 0)
        found: Ints = done[begun] - over
        return found

    return np.where(own > 0, own, np.where(beside, waited(ready.own[operations]) - waited(since), 0))


class Ready(NamedTuple):
    """When operations could begin; shape (n,) each."""

    own: Ints
    """When the lane is free and what it comes after has ended."""
    peers: Ints
    """The same of the last one that it meets on its stage; what begins later waits for other stages."""
    meets: NDArray[np.bool_]
    """Whether it meets any."""


def _ready(run: Run) -> Ready:
    tape, end = run.program.tape, run.timeline.end
    free = np.append(0, end[:-1])
    free[tape.lane_start[:-1][np.diff(tape.lane_start) > 0]] = 0
    edges = tape.after_start
    latest = np.maximum.reduceat(np.append(end[tape.after], 0), edges[:-1])
    own = np.maximum(free, np.where(edges[1:] > edges[:-1], latest, 0))
    meets, peers = tape.rendezvous >= 0, own.copy()
    stage = run.program.device(np.flatnonzero(meets)) % run.job.pp
    _, group = np.unique(tape.rendezvous[meets] * run.job.pp + stage, return_inverse=True)
    last = np.zeros(len(group), np.int64)
    np.maximum.at(last, group, own[meets])
    peers[meets] = last[group]
    return Ready(own, peers, meets)


def _causes(run: Run, operations: Ints) -> Ints:
    """Of what each operation comes after, the one that ended last, the first of those that rounding alone tells apart;
    -1 where there is none."""
    tape, ended = run.program.tape, run.timeline.end
    first, stop = tape.after_start[operations], tape.after_start[operations + 1]
    found = np.append(tape.after, -1)[np.where(stop > first, first, -1)]
    for i in np.flatnonzero(stop - first > 1).tolist():
        several = tape.after[first[i] : stop[i]]
        found[i] = several[np.argmax(ended[several] >= ended[several].max() - TIE)]
    return found


# ---- memory ------------------------------------------------------------------------------------------------------


def _working(job: Job, shape: Job, rank: int) -> float:
    """Bytes inside a pass of a microbatch of one size, or of any of its slices."""
    return memory.working_memory(job if job.slices > 1 else shape, rank)


def _memory(run: Run, index: int, kept: Floats, static: dict[str, float], inside: Floats) -> MemoryUse:
    """Level over time of one class: what is always there, activations between passes, working memory during passes.

    `kept` are the bytes that each chunk keeps of a microbatch of each size until its backward pass or the first half of
    it, and from there to the second half, shape (sizes, 2, chunks); `inside` (sizes, pp) those during a pass.
    """
    chain, rank = divmod(index, run.job.pp)
    part, sizes = _operations(run, chain, rank, "compute"), run.classes.shapes[chain]
    time, level = _activations(run, part, kept[sizes])
    working = float(inside[sizes, rank].max())
    peak = float(level.max(initial=0.0))
    at_peak = {**static, "activations": peak, "working": working}
    lost = run.job.fragmentation
    if lost:
        at_peak["fragmentation"] = lost * (peak + working)
        level, working = (1 + lost) * level, (1 + lost) * working
    base = sum(static.values()) + working
    return MemoryUse(
        index,
        run.scenario.cluster.node.accelerator.memory.capacity.value,
        sum(at_peak.values()),
        at_peak,
        time,
        level + base,
    )


def _beside(run: Run, step_s: float, spans: Spans) -> tuple[LinkLoad, ...]:
    """Loads of links to hosts and of drives, where something lives beside the devices' memory."""
    if not run.program.moved:
        return ()
    nodes = nodes_of(run.classes.members, run.classes.ranks, run.scenario.cluster.node.devices)
    return loads(run.program, nodes, run.job.host, step_s, spans)


def _activations(run: Run, part: slice, kept: Floats) -> tuple[Ints, Floats]:
    """(moments, bytes of kept activations from each on): taken when a forward pass starts, given back when its
    backward ends, of one in two halves what the second half reads when that ends; `kept` (microbatches, 2, chunks).
    Logits of a part of the vocabulary from S to T."""
    columns, timeline = run.program.columns, run.timeline
    kind, stage, microbatch = columns.kind[part], columns.stage[part], columns.microbatch[part]
    key = stage * run.job.schedule.microbatches + microbatch
    start, end = timeline.start[part], timeline.end[part]
    whole, rest = kept[microbatch, 0, stage], kept[microbatch, 1, stage]
    logits = np.full(len(stage), memory.kept_of_part(run.job))
    time, change = list[Ints](), list[Floats]()
    for code, sizes in ((d.FORWARD, whole), (d.SCORES, logits)):
        taken = _once(key, np.flatnonzero(kind == code))
        time.append(start[taken])
        change.append(sizes[taken])
    for code, sizes in ((d.SCORES_GRADIENT, logits), (d.BACKWARD, whole), (d.INPUT, whole - rest), (d.WEIGHT, rest)):
        given = _once(key, np.flatnonzero(kind == code)[::-1])
        time.append(end[given])
        change.append(-sizes[given])
    moments, changes = np.concatenate(time), np.concatenate(change)
    order = np.lexsort((changes, moments))
    return moments[order], np.cumsum(changes[order])


def _once(key: Ints, rows: Ints) -> Ints:
    """Of some operations, the first of each key."""
    return rows[np.unique(key[rows], return_index=True)[1]]


# ---- spans, links, comparisons -----------------------------------------------------------------------------------


def _comparisons(run: Run, metrics: dict[str, float]) -> tuple[Comparison, ...]:
    return tuple(
        compare(p.metric, p.value, metrics[p.metric], p.source, p.note)
        for p in run.scenario.published
        if p.metric in metrics
    )


def _warnings(run: Run, used: tuple[MemoryUse, ...]) -> tuple[str, ...]:
    found = [*run.job.warnings, *over_sites(run.scenario, run.job)]
    if close := close_call(used, *memory_error()):
        found.append(close)
    asked = run.job.counted
    computed = run.device.native(asked)
    if computed != asked:
        found.append(f"{run.device.name} has no {asked}: products are computed and counted in {computed}")
    if words := run.scenario.model.quantization:
        found.append(f"the model's weights are published quantised ({words}); training takes `training.precision`")
    stack = run.scenario.stack
    found += extrapolated(stack.name, stack.memory_overhead, run.scenario.cluster.node.accelerator)
    node = run.scenario.cluster.node
    kept = sum(fullest_node(run.job, "host", node.devices).values()) if node.host_memory is None else 0.0
    if kept and node.host_memory is None:
        size = units.format(kept, "bytes")
        found.append(f"offloaded activations take {size} of the host's memory, whose size is not known: {node.name}")
    if run.classes.outside:
        found.append(f"priced outside the range of measured kernels: {', '.join(run.classes.outside)}")
    found += [
        f"published metric `{p.metric}` is not one of this result"
        for p in run.scenario.published
        if p.metric not in METRICS
    ]
    if run.classes.spread > NOTABLE:
        found.append(
            "folding by tiers merged chains whose prices, or what they ask of shared links, differ by up to"
            f" {100 * run.classes.spread:.2g} %; the slowest counts"
        )
    if len(run.noise.slow) and not any(p.cost.load[run.noise.slow].any() for p in run.classes.priced.values()):
        found.append("no effect: noise.slow_links: nothing travels over these links")
    return tuple(found)


def _provenance(run: Run) -> dict[str, object]:
    shown = {"steps": len(run.steps.ticks), "step_shown": run.steps.shown} if several(run) else {}
    return {
        "version": simulator.__version__,
        "seed": run.scenario.seed,
        "scenario": scenario_hash(run.scenario),
        "fold": run.fold,
        "classes": len(run.classes.costs) * run.job.pp,
        "devices": run.scenario.cluster.devices,
        "fold_error_bound": run.classes.spread,
        "executor": run.executor,
        "operations": len(run.program.tape),
        "events": run.timeline.events,
        "flop_convention": flops.CONVENTION,
        **shown,
    }
