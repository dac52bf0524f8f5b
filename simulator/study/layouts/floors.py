r"""Lower bounds of a layout's step and memory in closed form: nothing that a search leaves out by them can be better.

With $F_c, B_c$ the ticks that a pass of chunk $c$ keeps its device busy, $m$ microbatches and $r$ the ranks of the
pipeline, each with the chunks $C_r$ and first of them $c_r$:

* compute roof: $T \ge \max_r m \sum_{c \in C_r} (F_c + B_c)$ of kernels at the stack's efficiency, and the optimizer;
* communication: the same with the collectives that kernels wait for; after it gradients that must leave a node over its
  cards, and parameters that come back, where nothing runs beside them; where something does, the cards' own time. What
  is gathered and reduced around every pass counts for each of the $m$ microbatches;
* bubble: a rank begins when a microbatch has passed the chunks before $c_r$, and what it passed backward last goes back
  through them: $T \ge \sum_{c < c_r} F_c + m \sum_{c \in C_r} (F_c + B_c) + \sum_{c < c_r} B_c$.

Where a schedule splits the backward pass, its second half may come last, and the cheaper of both forms counts; where
ranks hold other chunks than round robin gives them, the mean rank's work is the bound.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.program.piece import COMPUTE
from simulator.run.loads import moves
from simulator.specs import load_spec
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.scenario import Scenario
from simulator.study.layouts.layout import Layout
from simulator.study.layouts.shape import Key, Networks, Passes, Shape, key, shape, staged
from simulator.training import memory
from simulator.training.job import Job, Replicas
from simulator.training.layers import split_layers
from simulator.training.optimizers.step import optimizer_step
from simulator.training.pass_costs import PassCosts
from simulator.training.tiers.gathered import gathered_units

Floats = NDArray[np.float64]

IN_TURN = frozenset(("1f1b", "interleaved-1f1b", "gpipe", "depth-first", "breadth-first"))
"""Schedules whose rank r has the chunks r, r + p and so on, with whole backward passes."""
HALVES = frozenset(("zb-h1", "zb-h2"))
"""The same with backward passes in halves."""
WHOLE = frozenset(("zb-v", "v-half", "v-min", "dualpipe", "dualpipev", "chimera", "hanayo", "auto"))
"""Schedules that pass all microbatches through all chunks, however they lie on ranks."""


class Floor(NamedTuple):
    """Lower bounds of a step in seconds, each at least the one before."""

    compute: float
    communication: float
    bubble: float


Bound = tuple[float, Floor | None, str]
"""Bytes that a layout needs at least, bounds of its step where a device has so many, why there is no such layout."""


@dataclass(frozen=True, slots=True)
class _Ends:
    """What a rank does after its passes, in seconds by stage (pp,): updates, and what leaves its node around them."""

    update: Floats
    reduce: Floats
    gather: Floats
    beside: float
    """Seconds of the cards in a step where something runs beside what they send."""
    around: Floats
    """Seconds of the cards for what the passes of a microbatch gather and reduce, by stage (pp,)."""
    in_turn: bool
    """Whether passes stand still meanwhile."""


class Floors:
    """Lower bounds of the layouts of one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.networks = Networks(load_spec(CollectiveProfile, scenario.cluster.collectives))
        self.shapes: dict[Key, Shape | str] = {}
        self._passes: dict[tuple[object, ...], list[Passes]] = {}
        self._kept: dict[tuple[object, ...], tuple[list[float], list[float]]] = {}
        self._states: dict[tuple[object, ...], list[float]] = {}
        self._ends: dict[tuple[object, ...], _Ends] = {}

    def bound(self, layout: Layout) -> Bound:
        """All that is known of a layout without pricing it."""
        need = self.memory(layout)
        if isinstance(need, str):
            return 0.0, None, need
        fits = need <= self.scenario.cluster.node.accelerator.memory.capacity.value
        return need, self.step(layout) if fits else None, ""

    def memory(self, layout: Layout) -> float | str:
        """Bytes that a device needs at least, or why the model, the software or the cluster has no such layout."""
        made = self._shape(layout)
        return made if isinstance(made, str) else self._memory(made, layout, self._chunks(layout))

    def step(self, layout: Layout) -> Floor:
        """The bounds of the step of a layout that there is."""
        made = self._shape(layout)
        assert isinstance(made, Shape)
        return Floor(*self._step(made, layout, self._chunks(layout)))

    def _chunks(self, layout: Layout) -> tuple[int, ...]:
        return split_layers(self.scenario.model.layers, layout.pp, layout.vpp, self.scenario.training.stages)

    def _shape(self, layout: Layout) -> Shape | str:
        known = key(layout)
        if known not in self.shapes:
            self.shapes[known] = shape(self.scenario, layout, self.networks)
        return self.shapes[known]

    @cached_property
    def bounded(self) -> bool:
        """Whether steps are as the bounds take them: equal microbatches in the usual order of the mesh."""
        training = self.scenario.training
        return (
            training.batching is None
            and training.slices is None
            and training.local_steps is None
            and not moves(self.scenario)
            and training.offload is None
            and not training.overlap_experts
            and "order" not in training.parallel.model_fields_set
            and not training.parallel.more
        )

    # ---- time --------------------------------------------------------------------------------------------------------

    def _step(self, made: Shape, layout: Layout, chunks: tuple[int, ...]) -> tuple[float, float, float]:
        if not self.bounded or layout.schedule not in IN_TURN | HALVES | WHOLE:
            return 0.0, 0.0, 0.0
        microbatches = self.scenario.training.global_batch // (layout.dp * layout.micro_batch)
        passes = self._of_chunks(made, layout, chunks)
        ends = self._after(made, layout, chunks)
        if layout.schedule in WHOLE:
            return _mean(passes, microbatches, ends)
        return _in_turn(passes, layout, microbatches, ends, layout.schedule in HALVES)

    def _of_chunks(self, made: Shape, layout: Layout, chunks: tuple[int, ...]) -> list[Passes]:
        known = (key(layout), chunks)
        if known not in self._passes:
            self._passes[known] = [made.passes(chunk) for chunk in memory.all_chunks(staged(made.job, layout, chunks))]
        return self._passes[known]

    def _after(self, made: Shape, layout: Layout, chunks: tuple[int, ...]) -> _Ends:
        known = (key(layout)[:4], chunks, layout.pp, layout.dp, layout.zero)
        if known not in self._ends:
            job = staged(made.job, layout, chunks)
            costs = PassCosts(job, made.device, lambda comm: 0)
            stages = _examples(job.pp)
            update = [0.0 if job.optimizer.in_backward else _update(costs, job, stage) for stage in stages]
            leaving = np.array([_leaves(self.scenario, job, layout, stage) for stage in stages])
            around = _spread([_around(self.scenario, job, layout, stage) for stage in stages], job.pp)
            self._ends[known] = _ends(job, _spread(update, job.pp), leaving, around)
        return self._ends[known]

    # ---- memory ------------------------------------------------------------------------------------------------------

    def _memory(self, made: Shape, layout: Layout, chunks: tuple[int, ...]) -> float:
        """Bytes of the first and of the last stage at their worst moments, whichever are more."""
        if not self.bounded:
            return 0.0
        places = (key(layout), chunks, layout.pp, layout.offload)
        if places not in self._kept:
            job = staged(made.job, layout, chunks)
            each = [[memory.chunk_activations(job, c) for c in memory.chunks_of_stage(job, s)] for s in _outer(job.pp)]
            working = [memory.working_memory(job, stage) for stage in _outer(job.pp)]
            self._kept[places] = [min(kept) for kept in each], working
        states = (key(layout)[:4], chunks, layout.pp, layout.dp, layout.zero)
        if states not in self._states:
            job = staged(made.job, layout, chunks)
            self._states[states] = [sum(memory.static_memory(job, stage).values()) for stage in _outer(job.pp)]
        kept, working = self._kept[places]
        microbatches = self.scenario.training.global_batch // (layout.dp * layout.micro_batch)
        flying = [_in_flight(layout, stage, microbatches) for stage in _outer(layout.pp)]
        sums = zip(self._states[states], flying, kept, working, strict=True)
        return max(state + count * each + inside for state, count, each, inside in sums)


def _outer(pp: int) -> tuple[int, ...]:
    return (0, pp - 1) if pp > 1 else (0,)


def _examples(pp: int) -> tuple[int, ...]:
    """First stage, one in the middle, last stage."""
    return tuple(dict.fromkeys((0, min(1, pp - 1), pp - 1)))


def _spread(values: list[float], pp: int) -> Floats:
    """Values of `_examples` for all stages, the lowest of them for those in the middle."""
    found = np.full(pp, min(values))
    found[0], found[-1] = values[0], values[-1]
    return found


def _in_flight(layout: Layout, stage: int, microbatches: int) -> int:
    """Passes of a chunk whose activations a rank keeps at once, at least."""
    if layout.schedule == "1f1b":
        return min(layout.pp - stage, microbatches)
    if layout.schedule == "interleaved-1f1b":
        ahead = 2 * (layout.pp - stage - 1) + (layout.vpp - 1) * layout.pp + 1
        return min(ahead, microbatches * layout.vpp)
    return microbatches * layout.vpp if layout.schedule == "gpipe" else 1


def _update(costs: PassCosts, job: Job, stage: int) -> float:
    """Seconds of the optimizer's kernels on a rank of a stage."""
    piece = costs.piece(step for step in optimizer_step(job, stage))
    return units.to_seconds(sum(part.content.kernels for part in piece.parts if part.lane == COMPUTE))


# ---- work and bubble -------------------------------------------------------------------------------------------------


def _mean(passes: list[Passes], microbatches: int, ends: _Ends) -> tuple[float, float, float]:
    """The mean rank's work."""
    sums = [
        sum(one.forward[i] + min(one.backward[i], one.inputs[i] + one.weights[i]) for one in passes) for i in (0, 1)
    ]
    kernels, work = (units.to_seconds(microbatches * total // len(ends.around)) for total in sums)
    around = microbatches * float(ends.around.mean())
    sent = work + around if ends.in_turn else max(work, around)
    return kernels, sent, sent


def _in_turn(
    passes: list[Passes], layout: Layout, microbatches: int, ends: _Ends, halves: bool
) -> tuple[float, float, float]:
    pp = layout.pp
    forward, backward, inputs, weights = (
        np.array(way, np.float64).T for way in zip(*(p[:4] for p in passes), strict=True)
    )
    whole = np.minimum(backward, inputs + weights) if halves else backward
    back = np.minimum(backward, inputs) if halves else backward
    work = microbatches * (forward + whole).reshape(2, layout.vpp, pp).sum(axis=1) / units.TICKS_PER_SECOND
    early = microbatches * (forward + back).reshape(2, layout.vpp, pp).sum(axis=1) / units.TICKS_PER_SECOND
    host = microbatches * np.array([p.host for p in passes], np.float64).reshape(layout.vpp, pp).sum(axis=0)
    around = microbatches * ends.around
    still = around * ends.in_turn
    into = np.concatenate([[0.0], np.cumsum(forward[1, : pp - 1])]) / units.TICKS_PER_SECOND
    out = np.concatenate([[0.0], np.cumsum(back[1, : pp - 1])]) / units.TICKS_PER_SECOND
    tail = ends.reduce + ends.update + ends.gather
    compute = float(np.max(work[0] + ends.update))
    busy = float(np.max(work[1] + still + tail))
    communication = max(compute, busy, ends.beside, float(around.max()), float(host.max()) / units.TICKS_PER_SECOND)
    # What the first microbatch needs may be gathered before it arrives.
    after = np.maximum(work[1] + still * (1 - 1 / microbatches) + tail, early[1] + out + tail[0])
    return compute, communication, max(communication, float(np.max(into + after)))


# ---- what leaves a node ----------------------------------------------------------------------------------------------


def _ends(job: Job, update: Floats, leaving: Floats, around: Floats) -> _Ends:
    """Ends of the ranks, `leaving` (stages, 2) the seconds of the cards for gradients and for parameters."""
    reduce, gather = (_spread(list(column), job.pp) for column in leaving.T)
    none = np.zeros(job.pp)
    if job.per_pass or job.overlap_gradients or job.optimizer.layerwise:
        beside = float(np.max(reduce + gather)) if job.per_pass else float(reduce.max())
        after = none if job.per_pass or job.gathers_ahead or job.optimizer.layerwise else gather
        return _Ends(update, none, after, beside, around, job.synchronous)
    return _Ends(update, reduce, none if job.gathers_ahead else gather, 0.0, around, False)


def _leaves(scenario: Scenario, job: Job, layout: Layout, stage: int) -> tuple[float, float]:
    """Seconds in which a node's cards send what it has of a stage's gradients, and then parameters, once a step."""
    if job.optimizer.name not in _PLAIN:
        return 0.0, 0.0
    reduce = gather = 0.0
    for copies, pace in _outward(scenario, job, layout):
        size = sum(memory.parameters(job, chunk, copies, trained=True) for chunk in memory.chunks_of_stage(job, stage))
        reduce += (1.0 if job.zero else 2.0) * size * job.reduce_bytes * pace
        gather += bool(job.zero) * size * _narrowest(job) * pace
    return reduce * (not _in_network(scenario)), 0.0 if _hybrid(scenario) else gather


def _around(scenario: Scenario, job: Job, layout: Layout, stage: int) -> float:
    """Seconds in which a node's cards send what the passes of one microbatch on a stage gather and reduce; without what
    recomputation gathers again."""
    if not job.per_pass or job.sharding is not None or job.zeroth is not None:
        return 0.0
    chunks = memory.chunks_of_stage(job, stage)
    gathers, reductions = (1 + (job.zero == 3)) * (not _hybrid(scenario)), not _in_network(scenario)
    found = 0.0
    for copies, pace in _outward(scenario, job, layout):
        kinds = [kind for chunk in chunks for kind in chunk.kinds]
        gathered = sum(sum(gathered_units(job, kind, copies)) * count for kind, count in Counter(kinds).items())
        reduced = sum(memory.parameters(job, chunk, copies, trained=True) for chunk in chunks)
        found += (gathers * gathered * _narrowest(job) + reductions * reduced * job.reduce_bytes) * pace
    return found


def _outward(scenario: Scenario, job: Job, layout: Layout) -> Iterator[tuple[Replicas, float]]:
    """What ranks copy over data parallelism, each with seconds of a node's cards for a byte of a rank."""
    rate = _cards(scenario)
    for copies in job.replicas if rate and job.copied else ():
        inner = layout.ep * layout.etp if copies.experts else layout.tp
        groups, share = _across(inner, copies.count, scenario.cluster.node.devices)
        yield copies, groups * share / rate


def _hybrid(scenario: Scenario) -> bool:
    """Whether parameters are gathered among fewer than all replicas."""
    return scenario.training.parallel.shard_size is not None


_PLAIN = ("adam", "adamw", "sgd", "sgd-momentum", "lion", "adam-8bit")
"""Optimizers that exchange nothing of their own."""


def _narrowest(job: Job) -> float:
    """Bytes of a parameter on the wire, at least."""
    return 1.0 if job.recipe is not None or job.lora is not None else float(min(job.element, job.stored))


def _across(inner: int, count: int, devices: int) -> tuple[int, float]:
    """(groups on a node, share of the bytes of each that must leave it) of groups of `count` ranks `inner` apart."""
    block = inner * count
    if block <= devices or block % devices or (devices % inner and inner % devices):
        return 0, 0.0
    nodes = block // devices if inner <= devices else count
    return min(inner, devices), 1.0 - 1.0 / nodes


def _cards(scenario: Scenario) -> float:
    """Bytes a second that leave a node at most; 0 where that is not known."""
    cluster = scenario.cluster
    if cluster.more_nodes or cluster.node.nics is None or cluster.network.kind == "torus":
        return 0.0
    return cluster.node.nics.count * cluster.node.nics.bandwidth.value


def _in_network(scenario: Scenario) -> bool:
    """Whether switches may add gradients up, so that nodes send less."""
    named = any(word in scenario.cluster.collectives for word in ("sharp", "collnet"))
    return named or scenario.cluster.network.switch_reduction is not None
