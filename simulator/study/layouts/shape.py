"""What layouts share that differ in stages, replicas and the order of passes: kernels and collectives of a layer.

The passes of a layer depend on how attention, sequences and experts are cut, on the microbatch and on recomputation.
They are evaluated once for each of these, on the fewest nodes that hold the groups that meet in a layer: these are
neighbours in the usual order of the mesh, so that more nodes repeat them and add none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import lcm
from typing import NamedTuple

from simulator import fabric
from simulator.axes import DP, EP, PP
from simulator.cost import Device
from simulator.errors import InputError
from simulator.program.piece import COMPUTE, HOST, Piece
from simulator.run.simulate import Prepared, prepare
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.scenario import Scenario
from simulator.study.layouts.layout import Layout
from simulator.training.arranged import arranged_job
from simulator.training.chains import StepCosts
from simulator.training.job import Job, Replicas
from simulator.training.memory import Chunk
from simulator.training.pass_costs import LayerCosts, PassCosts, chunk_passes

Key = tuple[int, int, int, int, int, str]


def key(layout: Layout) -> Key:
    """What the passes of a layer depend on."""
    return layout.tp, layout.cp, layout.ep, layout.etp, layout.micro_batch, layout.recompute


def cuts(layout: Layout) -> tuple[int, ...]:
    """The same without recomputation, which exchanges what the first pass does."""
    return layout.tp, layout.cp, layout.ep, layout.etp, layout.micro_batch


class Ticks(NamedTuple):
    """Ticks of one pass on a lane of the device: of kernels alone, and with the collectives that they wait for."""

    kernels: int
    all: int


class Passes(NamedTuple):
    """Passes of a chunk on the compute lane, and on the host's."""

    forward: Ticks
    backward: Ticks
    inputs: Ticks
    weights: Ticks
    host: int
    """Launches of a forward and a backward pass."""


@dataclass
class Networks:
    """Devices and networks on which layers run, each prepared once: recomputation sends nothing elsewhere."""

    profile: CollectiveProfile
    known: dict[tuple[int, ...], Prepared] = field(default_factory=dict)

    def of(self, key: tuple[int, ...], scenario: Scenario) -> Prepared:
        """That of layers that are so cut on so many nodes, as one scenario of them has it."""
        if key not in self.known:
            self.known[key] = prepare(scenario, profile=self.profile)
        return self.known[key]


@dataclass
class Shape:
    """A job of one stage with the passes of its layers."""

    scenario: Scenario
    job: Job
    cuts: tuple[int, ...]
    """Its key without recomputation."""
    networks: Networks
    known: dict[Chunk, Passes] = field(default_factory=dict)

    @cached_property
    def _prepared(self) -> Prepared:
        return self.networks.of((*self.cuts, self.scenario.cluster.nodes), self.scenario)

    @property
    def device(self) -> Device:
        """What the kernels run on."""
        return self._prepared.device

    @cached_property
    def _layers(self) -> LayerCosts:
        """Passes of the layers, with the cheapest group's collectives."""
        made = self._prepared
        steps = StepCosts(self.job, made.device, made.network)
        steps.inside(self.job)
        paid = {comm: int(priced.ticks.min()) for comm, priced in made.network.priced.items()}
        return PassCosts(self.job, made.device, paid.__getitem__, steps.takes).layers()

    def passes(self, chunk: Chunk) -> Passes:
        """The passes of a chunk."""
        if chunk not in self.known:
            made = chunk_passes(self.job, chunk, self._layers)
            host = sum(_on(piece, HOST) for pieces in (made.forward, made.backward) for piece in pieces)
            ways = (made.forward, made.backward, made.input_gradient, made.weight_gradient)
            forward, backward, inputs, weights = map(_ticks, ways)
            self.known[chunk] = Passes(forward, backward, inputs, weights, host)
        return self.known[chunk]


def _ticks(pieces: Sequence[Piece]) -> Ticks:
    parts = [part.content for piece in pieces for part in piece.parts if part.lane == COMPUTE]
    return Ticks(sum(one.kernels for one in parts), sum(one.total for one in parts))


def _on(piece: Piece, lane: str) -> int:
    return sum(part.content.total for part in piece.parts if part.lane == lane)


def shape(scenario: Scenario, layout: Layout, networks: Networks) -> Shape | str:
    """The shape of a layout, or why there is none: a model or a software that refuses it."""
    try:
        return _made(_smallest(scenario, layout), layout, networks)
    except InputError:
        pass  # some networks have no such part: the whole cluster decides
    try:
        return _made(scenario, layout, networks)
    except InputError as error:
        return " ".join(str(error).split())


def _smallest(scenario: Scenario, layout: Layout) -> Scenario:
    """The scenario on the fewest nodes that hold whole groups of a layer."""
    cluster = scenario.cluster
    if cluster.more_nodes:
        return scenario
    group = lcm(layout.tp * layout.cp, layout.ep * layout.etp)
    nodes = lcm(group, cluster.node.devices) // cluster.node.devices
    if nodes >= cluster.nodes or cluster.nodes % nodes:
        return scenario
    return scenario.model_copy(update={"cluster": cluster.model_copy(update={"nodes": nodes})})


def _made(scenario: Scenario, layout: Layout, networks: Networks) -> Shape:
    dp = scenario.cluster.devices // (layout.tp * layout.cp)
    alone = layout._replace(pp=1, vpp=1, dp=dp, zero=0, schedule="1f1b", offload=0).of(scenario)
    changed = {"global_batch": layout.micro_batch * dp, "stages": None, "slices": None}
    alone = alone.model_copy(update={"training": alone.training.model_copy(update=changed)})
    made = Shape(alone, arranged_job(alone), cuts(layout), networks)
    fabric.build(alone.cluster)
    return made


def staged(job: Job, layout: Layout, chunks: Sequence[int]) -> Job:
    """The job of a shape with stages, ZeRO and replicas of a layout, for what does not ask for its schedule."""
    dp = layout.dp
    mesh = replace(job.mesh, sizes={**job.mesh.sizes, PP.name: layout.pp, DP.name: dp})
    flat = layout.tp * layout.cp * dp
    sizes = {**job.experts.sizes, PP.name: layout.pp, DP.name: dp}
    if EP.name in sizes:
        sizes[DP.name] = flat // (layout.ep * layout.etp)
    experts = mesh if job.experts is job.mesh else replace(job.experts, sizes=sizes)
    return replace(
        job,
        mesh=mesh,
        experts=experts,
        vpp=layout.vpp,
        chunks=tuple(chunks),
        home=tuple(range(layout.pp)) * layout.vpp,
        zero=layout.zero,
        replicas=tuple(_replicas(layout, one.experts, flat) for one in job.replicas),
        microbatches=1,
        offload_layers=layout.offload,
    )


def _replicas(layout: Layout, experts: bool, flat: int) -> Replicas:
    count = flat // (layout.ep * layout.etp) if experts else layout.dp * layout.cp
    return Replicas(experts, count, count if layout.zero else 1)
