"""Passes through model chunks as pieces: kernels, collectives, launches and copies on the lanes of a device.

Every kernel and collective is rounded to ticks on its own. A layer is a piece: its kernels, one after the other, with
the tensor-parallel collectives that block them between; on a lane of its own a collective that the stack runs beside a
product, from which it takes multiprocessors and bandwidth of the memory; beside all of it the host's launches and
the copies of offloaded activations. Launches and copies run one layer ahead: those that stand beside a layer are the
next one's, so that the next layer waits for them. Where launches block, the host's time comes on top. Exchanges with
experts that overlap run beside the kernels of another microbatch's pass (`partners`); a pass without a partner, and
what is computed again, waits for its own.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from simulator import units
from simulator.axes import CP, EP, ETP
from simulator.cost import Attention, Device, Stream, kernel_cost
from simulator.program.content import Call, Comm, Content
from simulator.program.piece import COPY, FREE, HOST, InParts, Part, Piece, PieceBuilder, Takes, single
from simulator.specs.model import LayerKind
from simulator.training import operators, zeroth_order
from simulator.training.context.shards import SHARDS
from simulator.training.job import Job
from simulator.training.memory import Chunk, copy_time
from simulator.training.optimizers.step import optimizer_step, subgroup, updates
from simulator.training.overlap.exchanged import staged
from simulator.training.overlap.ladder import blocks_backward, blocks_forward, late
from simulator.training.overlap.launches import host_time, of_steps, rates, sends_rows, waits_for_counts
from simulator.training.overlap.partners import Stretch, exchanges, stretches
from simulator.training.step import Chunks, Collective, Kernel, Step, Turn, Work
from simulator.training.tiers.gathered import gathered_units
from simulator.training.tiers.levels import levels_of

EXPERTS = "experts"
"""Lane of copies of experts."""
LONG_RUNS = 0.87
"""Clock of long runs over that of short benchmarks on the devices that efficiencies of stacks were fitted on, which
they hold: 0.89 on A100, 0.86 on H100 (docs/models/compute.md, bursts and long runs)."""
Ticks = Callable[[Comm], int]
"""Ticks of a collective of the group that this device belongs to."""
TakenBy = Callable[[Comm, bool], Takes]
"""What it takes of the device meanwhile, beside a product that has something to do with it or not."""


@dataclass(frozen=True, slots=True)
class LayerPasses:
    """Passes of a layer of one kind."""

    forward: Piece
    backward: Piece
    again: Piece | None
    """What the backward pass of a layer computes again."""
    input_gradient: Piece
    """The backward pass without the gradients of weights."""
    weight_gradient: Piece
    """Gradients of weights."""
    ends: Mapping[str, tuple[Piece, Piece]] = field(default_factory=dict)
    """Where collectives run one block late, by pass: of the layer that a chunk's pass begins with, beside which nothing
    is under way, and what is waited for after its last layer."""


@dataclass(frozen=True, slots=True)
class LayerCosts:
    """Passes of the layers by their kind, of the embedding and of the head."""

    of: Mapping[LayerKind, LayerPasses]
    embedding: tuple[Piece, Piece]
    """Forward, backward."""
    head: tuple[Piece, Piece]
    """Forward, backward."""
    head_halves: tuple[Piece, Piece]
    """Backward pass of the head: gradients of inputs, gradients of weights."""
    part: tuple[Piece, Piece] | None = None
    """Scores of a rank's part of the vocabulary, and their gradients; None where ranks hold none."""


class ChunkPasses(NamedTuple):
    """Passes of a chunk, each in pieces in the order in which they run."""

    forward: list[Piece]
    backward: list[Piece]
    """Last layer first."""
    input_gradient: list[Piece]
    weight_gradient: list[Piece]
    scores: list[Piece]
    """Of the rank's part of the vocabulary; nothing where it holds none."""
    scores_gradient: list[Piece]


class PassCosts:
    """Costs of the passes of one job on one device with one group's collectives."""

    def __init__(self, job: Job, device: Device, ticks: Ticks, takes: TakenBy = lambda comm, bulk: FREE) -> None:
        self.job, self.device, self.ticks, self.takes = job, device, ticks, takes
        self.invalid: set[str] = set()
        """Names of kernels priced outside the range of their measurements."""
        self.kernel = lru_cache(maxsize=None)(self._kernel)
        self.host = lru_cache(maxsize=None)(self._host)

    def _kernel(self, work: Work) -> Content:
        cost = kernel_cost(work, self.device)
        rate = _efficiency(work, self.job, self.device.sustained)
        pace = self.job.slowest if cost.bound == "compute" else 1.0
        ticks = units.to_ticks(cost.seconds / rate * pace)
        return Content(ticks, memory=ticks * (cost.bound == "memory"), latency=ticks * (cost.bound == "latency"))

    def _call(self, step: Collective) -> Content:
        comm = called(step, self.job)
        return Content(calls=(Call(comm, 1, self.ticks(comm)),))

    def _aside(self, step: Collective) -> Part:
        """A collective on the lane of its axis, or of all exchanges with experts."""
        lane = EP.name if self.job.one_lane and step.axis == ETP.name else step.axis
        return Part(
            lane, self._call(step), takes=FREE if step.near_memory else self.takes(called(step, self.job), step.bulk)
        )

    def _works(self, step: Kernel | Turn) -> Content:
        """The kernels of a step; of a turn those of its slowest rank."""
        ranks = step.ranks if isinstance(step, Turn) else ((step.work,),)
        if not all(kernel_cost(work, self.device).valid for works in ranks for work in works):
            self.invalid.add(step.name)
        whole = max((sum(map(self.kernel, works), Content()) for works in ranks), key=lambda content: content.total)
        if not isinstance(step, Kernel):
            return whole
        whole = whole.at(step.share) if step.share < 1.0 else whole
        return whole.times(step.times) if step.times > 1 else whole

    def piece(self, steps: Iterable[Step], beside: Iterable[Part] = ()) -> Piece:
        """Steps one after the other; `beside` all of them run parts on other lanes."""
        built = PieceBuilder(beside)
        self._run(built, steps)
        return built.build()

    def _run(self, built: PieceBuilder, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, Collective):
                built.run(self._call(step))
            elif isinstance(step, Chunks):
                part = self._part(step)
                arrived = built.begin_parts(part, step.parts)
                self._run(built, step.meanwhile)
                sent = built.run_parts(part, arrived)
                self._run(built, step.afterwards)
                built.wait(sent)
            else:
                built.run(self._works(step), map(self._aside, step.beside))

    def _part(self, step: Chunks) -> InParts:
        """One of the parts of a work on lanes."""
        stages = staged(step.steps)
        return InParts(
            tuple(map(self._aside, stages.needs)),
            tuple(self._call(one) if isinstance(one, Collective) else self._works(one) for one in stages.works),
            tuple(map(self._aside, stages.sends)),
            tuple(map(self._works, stages.later)),
        )

    def layer_pass(
        self, stretches: Sequence[Stretch], kind: LayerKind, copies: Sequence[Collective] = (), back: bool = False
    ) -> Piece:
        """A pass through one layer, forward or `back`, beside it the host's launches, the copies of what is offloaded,
        and of experts."""
        launches = Content(host=units.to_ticks(self.host(kind, back)))
        if self.job.blocking:
            return self.piece([*copies, *(step for one in stretches for step in one.steps)]) + single(launches)
        late: tuple[Part, ...] = ()
        if not back and launches.host and len(stretches) == 1 and waits_for_counts(self.job, kind):
            stretches, launches, late = self._around_counts(stretches[0], kind)
        ahead = (Part(HOST, launches), Part(COPY, Content(offload=units.to_ticks(copy_time(self.job, kind)))))
        beside = [part for part in ahead if part.content.total]
        experts = [self._aside(one)._replace(lane=EXPERTS) for one in copies]
        built = PieceBuilder([*beside, *experts])
        for place, stretch in enumerate(stretches, 1):
            own = late if place == len(stretches) else ()
            hidden = built.begin((*map(self._aside, stretch.beside), *own))
            self._run(built, stretch.steps)
            built.wait(hidden)
        return built.build()

    def _around_counts(self, whole: Stretch, kind: LayerKind) -> tuple[list[Stretch], Content, tuple[Part, ...]]:
        """A forward pass before and after rows are counted, what the host launches ahead of it, and until when each
        step of its second half and what follows it last after the launches of that step."""
        first, per, host, end = sends_rows(whole.steps), rates(self.job, kind), 0.0, 0
        for step in whole.steps[first:]:
            launched, lasts = of_steps((step,)), self.piece((step,)).ticks
            host += per.of(launched)
            end = max(end + lasts, units.to_ticks(host) + lasts // max(launched.kernels, 1))
        ahead = max(units.to_ticks(self.host(kind)) - max(end, units.to_ticks(host)), 0)
        halves = [whole._replace(steps=whole.steps[:first]), Stretch(whole.steps[first:])]
        return halves, Content(host=ahead), (Part(HOST, Content(host=end)),)

    def _host(self, kind: LayerKind, back: bool = False) -> float:
        """Seconds that the host takes to launch a pass through a layer."""
        return host_time(self.job, kind, back)

    def _lists(self, kind: LayerKind, near: bool = False, reductions: bool = False) -> Piece:
        """Waiting for the host while it fills the lists of the gathers of a layer, `near` ones of second shards, or of
        its reductions: one tensor for each rank that takes part."""
        job, each = self.job, self.job.stack.list_overhead
        levels, second = levels_of(job, job.dense), job.sharding.secondary if job.sharding and near else None
        ranks = levels.gradients if reductions else min(second or levels.parameters, job.dense.shard)
        sizes = operators.layer_units if reductions else gathered_units
        listed = ranks * len(sizes(job, kind, job.dense)) if job.per_pass and ranks > 1 else 0
        return single(Content(host=units.to_ticks(each.value * listed) if each is not None else 0))

    def _backward_lists(self, kind: LayerKind) -> Piece:
        """The same of all that goes on around the backward pass of a layer."""
        return self._lists(kind, near=True) + self._lists(kind, reductions=True)

    def _again(self, kind: LayerKind) -> Piece | None:
        """What the backward pass of a layer computes again; None where it computes nothing."""
        job, steps = self.job, list(operators.recomputed(self.job, kind))
        if not steps:
            return None
        found = (
            self.layer_pass(_whole(steps, job.ping_pong), kind) if job.recompute == "full" else self.piece(steps)
        ).again()
        if job.token_wise is not None:
            found = found.at(1.0 - job.token_wise)  # kernels on a share of the rows; what they send travels whole
        if job.synchronous and job.recompute == "full":
            found += self._lists(kind)
        return found

    def _layer(self, kind: LayerKind, paired: bool) -> LayerPasses:
        """All passes of a layer; `paired` ones have another pass beside them."""
        job = self.job
        if job.ladder:
            return self._late_layer(kind)
        once, back = operators.layer_forward(job, kind), list(operators.layer_backward(job, kind))
        forth = zeroth_order.repeated(job, operators.layer_parameters(job, kind), once)
        inputs, weights = _halves(back)
        apart = (_whole(steps, job.ping_pong) for steps in (forth, back, inputs))
        forward, backward, half = _stretches(forth, back, inputs) if paired else apart
        copies, summed = (operators.copied_experts(job, kind, late) for late in (False, True))
        return LayerPasses(
            forward=self.layer_pass(forward, kind, copies) + self._lists(kind),
            backward=self.layer_pass(backward, kind, summed, back=True) + self._backward_lists(kind),
            again=self._again(kind),
            input_gradient=self.layer_pass(half, kind, summed, back=True),
            weight_gradient=self.piece(weights),
        )

    def _late_layer(self, kind: LayerKind) -> LayerPasses:
        """All passes of a layer whose tensor-parallel collectives run one block late."""
        job = self.job
        gradients_of = blocks_backward(job, kind)
        halves = [_halves(block) for block in gradients_of]
        copies, summed = (operators.copied_experts(job, kind, gradients) for gradients in (False, True))
        found: dict[str, Piece] = {}
        ends: dict[str, tuple[Piece, Piece]] = {}
        for name, blocks, experts, lists in (
            ("forward", blocks_forward(job, kind), copies, self._lists(kind)),
            ("backward", gradients_of, summed, self._backward_lists(kind)),
            ("input_gradient", [inputs for inputs, _ in halves], summed, single(Content())),
        ):
            own = late(blocks)
            back = name != "forward"
            found[name] = self.layer_pass(own.stretches, kind, experts, back) + lists
            ends[name] = self.layer_pass(own.first, kind, experts, back) + lists, self.piece(own.left)
        weights = self.piece(step for _, steps in halves for step in steps)
        return LayerPasses(**found, again=self._again(kind), weight_gradient=weights, ends=ends)

    def layers(self, paired: bool = False) -> LayerCosts:
        """All passes of layers, of embedding and head; `paired` ones have another microbatch's beside them."""
        job = self.job
        return LayerCosts(
            of={kind: self._layer(kind, paired) for kind in job.kinds},
            embedding=(
                self.piece(zeroth_order.repeated(job, 0.0, operators.embedding_forward(job))),
                self.piece(operators.embedding_backward(job)),
            ),
            head=(
                self.piece(zeroth_order.repeated(job, 0.0, operators.head_forward(job))),
                self.piece(operators.head_backward(job)),
            ),
            head_halves=tuple(self.piece(half) for half in _halves(operators.head_backward(job))),  # type: ignore[arg-type]  # two
            part=tuple(map(self.piece, operators.part_of_vocabulary(job))) if job.vocabulary_sums else None,  # type: ignore[arg-type]  # two
        )

    def updates(self, chunk: Chunk) -> list[Piece]:
        """The optimizer of each layer of a chunk, last layer first; none where all are updated together."""
        return [self.piece(steps) for steps in updates(self.job, chunk)]

    def optimizer(self, stage: int) -> Piece:
        """The optimizer on a rank of the stage."""
        return self.piece(optimizer_step(self.job, stage))

    def subgroup(self, stage: int) -> Piece:
        """The update of a subgroup whose states came to the device."""
        return self.piece(subgroup(self.job, stage))


def _whole(steps: Sequence[Step], ping_pong: bool) -> list[Stretch]:
    """A pass that runs its own exchanges; beside it, where halves of a microbatch take turns, what travels for
    attention on other ranks."""
    aside = tuple(step for step in steps if isinstance(step, Collective) and step.name == SHARDS)
    if not ping_pong or not aside:
        return [Stretch(tuple(steps))]
    return [Stretch(tuple(step for step in steps if step not in aside), aside)]


def _stretches(forth: list[Step], back: list[Step], inputs: list[Step]) -> tuple[list[Stretch], ...]:
    """Forward pass, backward pass and the backward pass without weights, each beside the other way's exchanges."""
    return (
        stretches(forth, exchanges(back)),
        stretches(back, exchanges(forth), backward=True),
        stretches(inputs, exchanges(forth), backward=True),
    )


def _efficiency(work: Work, job: Job, sustained: bool) -> float:
    """Rate of a kernel over that of its measured table; of a device with a stated clock of long runs without what the
    clock of other devices falls by."""
    if isinstance(work, Stream):
        return 1.0
    apart = job.stack.attention_efficiency if isinstance(work, Attention) else None
    held = (apart or job.stack.compute_efficiency).value
    return min(1.0, held / LONG_RUNS) if sustained else held


def called(step: Collective, job: Job) -> Comm:
    """The collective of a step, run by the groups of its axis or by parts of them."""
    among = step.among or (step.axis if step.part is None else f"{step.axis}, {step.part[0]} of every {step.part[1]}")
    if job.grouped and step.axis == CP.name and not step.among:
        among = f"{among}, {job.cp} ranks"
    return Comm(step.operation, step.axis, step.size, among)


def _halves(steps: Iterable[Step]) -> tuple[list[Step], list[Step]]:
    """A backward pass in two: what the next layer waits for, with all collectives, and the gradients of weights."""
    inputs: list[Step] = []
    weights: list[Step] = []
    for step in steps:
        if isinstance(step, Chunks):
            halves = [_halves(some) for some in (step.steps, step.meanwhile, step.afterwards)]
            inputs.append(Chunks(step.parts, *(tuple(operators.each(own)) for own, _ in halves)))
            weights += step.parts * halves[0][1] + halves[1][1] + halves[2][1]
        elif isinstance(step, Kernel) and step.weight_gradient:
            inputs += step.beside
            weights.append(step._replace(beside=()))
        else:
            inputs.append(step)
    return inputs, weights


def recomputed_layers(job: Job, layers: int) -> int:
    """Of the layers of a chunk, those whose backward pass computes something again."""
    if job.recompute == "none":
        return 0
    return job.recomputed(layers) if job.recompute == "full" else layers


def _with_again(job: Job, layers: list[LayerPasses], backward: list[Piece]) -> list[Piece]:
    """Backward pass of each layer of a chunk, last layer first; the last ones are recomputed where not all are."""
    again, joined = recomputed_layers(job, len(layers)), lru_cache(maxsize=None)(_after)
    return [
        joined(layer.again, piece) if layer.again and i < again else piece
        for i, (layer, piece) in enumerate(zip(layers, backward, strict=True))
    ]


def _after(first: Piece, then: Piece) -> Piece:
    """One piece after the other."""
    return first + then


def chunk_passes(job: Job, chunk: Chunk, costs: LayerCosts) -> ChunkPasses:
    """Passes of a chunk in pieces: embedding with the first layer, head with the last.

    A chunk without layers is one piece.
    """
    first, last = chunk.first, chunk.last
    layers = [costs.of[kind] for kind in reversed(chunk.kinds)]
    forward = _joined(
        _each(layers[::-1], "forward"),
        costs.embedding[0] if first else None,
        costs.head[0] if last else None,
    )
    ends = costs.head[1] if last else None, costs.embedding[1] if first else None
    inputs = costs.head_halves[0] if last else None, ends[1]
    weights = [costs.head_halves[1]] * last + [layer.weight_gradient for layer in layers]
    scores, gradients = costs.part or (single(Content()), single(Content()))
    return ChunkPasses(
        forward,
        _joined(_with_again(job, layers, _each(layers, "backward")), *ends),
        _joined(_with_again(job, layers, _each(layers, "input_gradient")), *inputs),
        weights or [single(Content())],
        [scores],
        [gradients],
    )


def _each(layers: Sequence[LayerPasses], name: str) -> list[Piece]:
    """One of the passes of each layer, in the order in which they are passed."""
    found: list[Piece] = [getattr(layer, name) for layer in layers]
    if layers and layers[0].ends:
        found[0] = layers[0].ends[name][0]
        found[-1] += layers[-1].ends[name][1]
    return found


def _joined(layers: list[Piece], before: Piece | None, after: Piece | None) -> list[Piece]:
    """Pieces of a pass, with what comes before the first layer and after the last one."""
    pieces = layers or [single(Content())]
    if before is not None:
        pieces = [before + pieces[0], *pieces[1:]]
    if after is not None:
        pieces = [*pieces[:-1], pieces[-1] + after]
    return pieces
