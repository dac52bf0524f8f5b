"""What a run of each kind of stage takes, on its devices: simulated alone, as the same scenario would be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from simulator import units
from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.model.parameters import total_parameters
from simulator.results.infeasibility import reason
from simulator.results.result import Result
from simulator.run.gather import gather
from simulator.run.simulate import alone, prepare
from simulator.run.site import Seat
from simulator.run.workflow import pieces, stages
from simulator.run.workflow.handover import hand_over
from simulator.run.workflow.partial import Rollouts
from simulator.run.workflow.pieces import Piece
from simulator.run.workflow.pools import Devices, of_stage
from simulator.run.workflow.timed import timed
from simulator.serving.fleet.system import resolve
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import placed_below
from simulator.specs.workflow import AnyStage, HandOverStage, ServingStage, TrainingStage, Workflow
from simulator.training.job import Job

_SIZES = {"fp32": 4.0, "tf32": 4.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5, "int4": 0.5}


@dataclass(slots=True, eq=False)
class Priced:
    """A stage with its time."""

    stage: AnyStage
    does: str
    devices: Devices
    ticks: Callable[[int], int]
    """Of the run in an iteration."""
    metrics: dict[str, float] = field(default_factory=dict)
    result: Result | None = None
    feasible: bool = True
    why: str = ""
    held: list[Piece] = field(default_factory=list)
    weight_bytes: float = 0.0
    """Of the whole model, in the format in which this stage holds it."""
    rollouts: Rollouts | None = None
    of_device: float = 0.0
    """Peak of the fullest device, in bytes."""


@dataclass(slots=True, eq=False)
class Pricer:
    """Prices the stages of one workflow."""

    workflow: Workflow
    pools: Mapping[str, Devices]
    fabric: Fabric
    profile: CollectiveProfile
    known: dict[str, Priced] = field(default_factory=dict)

    def all(self) -> dict[str, Priced]:
        """Every stage by its name; hand-overs last, as they need to know what they hand over."""
        order = sorted(enumerate(self.workflow.stages), key=lambda one: isinstance(one[1], HandOverStage))
        for number, stage in order:
            with placed_below(f"stages.{number}"):
                self.known[stage.name] = self._priced(stage)
        return {stage.name: self.known[stage.name] for stage in self.workflow.stages}

    def _priced(self, stage: AnyStage) -> Priced:
        if isinstance(stage, TrainingStage):
            return self._trains(stage)
        if isinstance(stage, ServingStage):
            return self._generates(stage)
        if isinstance(stage, HandOverStage):
            return self._hands_over(stage)
        return Priced(stage, "takes time", (), timed(stage, self.workflow.seed), {"items": float(stage.items)})

    def _trains(self, stage: TrainingStage) -> Priced:
        devices = of_stage(stage, self.pools)
        _check_whole(devices, self.workflow.cluster)
        scenario = stages.as_training(stage, self.workflow, devices)
        prepared = prepare(scenario, seat=Seat(self.fabric, np.array(devices, np.int64)))
        run = alone(prepared)
        result, ticks = gather(run), run.steps.total
        found = Priced(stage, "trains", devices, lambda _: ticks, dict(result.metrics), result, result.feasible)
        found.why = "" if result.feasible else reason(result)
        found.held = pieces.of_training(run.job, devices)
        found.weight_bytes = _model_bytes(run.job)
        found.of_device = max((use.peak for use in result.memory), default=0.0)
        return found

    def _generates(self, stage: ServingStage) -> Priced:
        devices = of_stage(stage, self.pools)
        scenario = stages.as_serving(stage, self.workflow)
        if stage.enough < 1:
            _check_partial(stage)
        systems = resolve(scenario, devices)
        if not all(system.cost.fits for system in systems):
            why = "the model does not fit into the memory of its replicas"
            return Priced(stage, "generates", devices, lambda _: 0, feasible=False, why=why)
        rollouts = Rollouts(scenario, systems, stage.enough)
        first = rollouts.of(0)
        found = Priced(stage, "generates", devices, lambda i: rollouts.of(i).ticks, rollouts=rollouts)
        found.result, found.metrics = first.result, dict(first.result.metrics)
        found.feasible = first.result.feasible
        found.why = "" if found.feasible else reason(first.result)
        serving = stage.serving
        layouts = [pool.parallel or serving.parallel for pool in serving.all_pools]
        sizes = [(layout.tp, layout.pp, layout.sharers) for layout in layouts]
        found.held = pieces.of_serving(systems, sizes)
        element = _SIZES.get(serving.precision.weights or "bf16", 2.0)
        found.weight_bytes = total_parameters(stage.model) * element
        found.of_device = max((use.peak for use in first.result.memory), default=0.0)
        return found

    def _hands_over(self, stage: HandOverStage) -> Priced:
        have, want = self.known[stage.hands_over.of], self.known[stage.hands_over.to]
        devices = of_stage(stage, self.pools)
        moved = hand_over(have.held, want.held, want.weight_bytes, stage.hands_over.way, self.fabric, self.profile)
        figures = {"moved_bytes": moved.size_bytes, "weight_bytes": want.weight_bytes}
        ticks = units.to_ticks(moved.seconds)
        return Priced(stage, "hands over", devices, lambda _: ticks, figures)


def _model_bytes(job: Job) -> float:
    """Bytes of the weights that a training job works with."""
    return total_parameters(job.model) * job.element


def _check_whole(devices: Sequence[int], cluster: Cluster) -> None:
    """InputError for a stage that trains on different numbers of devices of its nodes."""
    nodes = [cluster.numbering.node_of(device) for device in devices]
    if len({nodes.count(node) for node in nodes}) > 1:
        hint = "give its pool whole nodes, or devices of one node"
        raise InputError(Problem("a stage that trains has as many devices of each node", path="on", hint=hint))


def _check_partial(stage: ServingStage) -> None:
    """InputError for requests that cannot go on in the next iteration."""
    arrivals = stage.requests.arrivals
    timed = arrivals.given and not arrivals.at_once
    if timed or stage.requests.trace or stage.requests.sessions or stage.requests.shared_prefix:
        message = "with `enough` requests are all there at the start and know nothing of each other"
        raise InputError(Problem(message, path="requests", hint="write only `lengths` and `count`"))
    if not stage.enough:
        raise InputError(Problem("`enough` is above 0", path="enough", hint="for example 80 %"))
