"""Steps of forward passes alone: parameters are moved along a random direction, and losses are compared.

A microbatch passes each layer `passes` times in a row, before each with the layer's parameters moved on along a
direction that is made again from its seed, and after the last one moved back: as many sweeps over the parameters as
passes, and one. What ranks exchange is a number for each sample. Then each of the directions is made once more and
added to the parameters. A sweep writes and reads the direction and reads and writes the parameters, in their format.

Sources: MeZO, arXiv:2305.17333; ZO2, arXiv:2503.12668 (layers that come from the host, are moved, used and updated, and
leave again); DistZO2, arXiv:2507.03211; Just One Byte, arXiv:2306.10015. Left out: the loss itself, seeds, dropout.
"""

from collections.abc import Iterable, Iterator

from simulator.axes import DP
from simulator.cost.work import Stream
from simulator.errors import InputError, Problem
from simulator.specs.training import Training
from simulator.training import memory
from simulator.training.job import Job
from simulator.training.step import Collective, Kernel, Step

PATH = "training.zeroth_order"
SCHEDULE = "forward-only"
"""The order of passes that such steps have."""
REFUSED = ("batching", "slices", "lora", "local_steps", "sharding", "run", "recompute", "offload_layers", "optimizer")
"""Keys of `training` that say something of what is not there, or are not simulated with it."""


def check(training: Training, dp: int) -> None:
    """Refuse what does not go with forward passes alone; InputError."""
    asked = training.zeroth_order
    if asked is None:
        return
    for name in REFUSED:
        if getattr(training, name) is not None:
            message = f"with `zeroth_order` there is no backward pass and no gradient, and `{name}` has no meaning"
            raise InputError(Problem(message, path=f"training.{name}", hint=f"leave `{name}` out"))
    if training.overlap_experts:
        message = "exchanges with experts run beside backward passes, and `zeroth_order` has none"
        raise InputError(Problem(message, path="training.overlap_experts", hint="leave `overlap_experts` out"))
    if training.schedule not in (None, SCHEDULE):
        message = f"schedule `{training.schedule}` has backward passes, and `zeroth_order` has none"
        raise InputError(Problem(message, path="training.schedule", hint="leave `schedule` out"))
    if training.offload is not None and tuple(training.offload.tiers) != ("parameters",):
        message = "activations and states of an optimizer, which are offloaded, are not there"
        raise InputError(Problem(message, path="training.offload", hint="write `parameters` alone"))
    if training.parallel.zero in (1, 2) or training.parallel.vpp > 1:
        key = "zero" if training.parallel.vpp == 1 else "vpp"
        message = "nothing but parameters is sharded, and a rank has one chunk of the model"
        raise InputError(
            Problem(message, path=f"training.parallel.{key}", hint=f"leave `{key}` out, or write `zero: 3`")
        )
    if asked.over_ranks and dp % asked.passes:
        message = f"{asked.passes} passes on ranks of their own do not divide dp {dp}"
        raise InputError(Problem(message, path=f"{PATH}.over_ranks", hint=f"write a dp that {asked.passes} divides"))


def on_a_rank(job: Job) -> int:
    """Passes of a microbatch that one rank runs."""
    assert job.zeroth is not None
    return 1 if job.zeroth.over_ranks else job.zeroth.passes


def _sweep(job: Job, parameters: float, name: str, times: int) -> Kernel:
    """A direction made from its seed and added to parameters, so many times."""
    moved = 2 * job.element * parameters
    return Kernel(name, Stream(moved, moved, kernels=2), times=times)


def repeated(job: Job, parameters: float, steps: Iterable[Step]) -> list[Step]:
    """The passes of a microbatch through a layer with so many parameters; as they are where there are gradients."""
    once = list(steps)
    if job.zeroth is None or not parameters:
        return once * (1 if job.zeroth is None else on_a_rank(job))
    many = on_a_rank(job)
    found: list[Step] = []
    for _ in range(many):
        found += [_sweep(job, parameters, "perturbation", 1), *once]
    later = directions(job) if job.offload is not None else 0
    return [*found, _sweep(job, parameters, "perturbation back", 1), *(_update(job, parameters, later))]


def directions(job: Job) -> int:
    """Random directions of a step."""
    return 1 if job.zeroth is None or job.zeroth.directions == "step" else job.global_batch


def _update(job: Job, parameters: float, times: int) -> list[Step]:
    return [_sweep(job, parameters, "update", times)] if times else []


def exchange_and_update(job: Job, stage: int) -> Iterator[Step]:
    """The end of a step: projected gradients of all samples to all ranks, and the parameters that did not move with a
    pass; those that pass through the device are updated there."""
    assert job.zeroth is not None
    if job.dp > 1:
        size = float(job.global_batch * job.zeroth.scalar_bytes)
        yield Collective("projected gradients", "all_gather", size, DP.name)
    if job.offload is None:
        owned = sum(
            memory.parameters(job, chunk, copies) / (copies.shard if job.per_pass else 1)
            for copies in job.replicas
            for chunk in memory.chunks_of_stage(job, stage)
        )
        yield from _update(job, owned, directions(job))
