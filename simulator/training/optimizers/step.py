"""The end of a step on one rank: the norm of its gradients, the rule of its optimizer, the casts of new weights."""

from collections.abc import Iterator

from simulator.cost.work import Stream
from simulator.training import memory
from simulator.training.job import Job
from simulator.training.optimizers.base import OPTIMIZERS
from simulator.training.optimizers.elementwise import Elementwise
from simulator.training.optimizers.levels import parameters_returned, sets_reduced
from simulator.training.recipes import Recipe
from simulator.training.step import Kernel, Step
from simulator.training.zeroth_order import exchange_and_update


def optimizer_step(job: Job, stage: int) -> Iterator[Step]:
    """Kernels and collectives of a rank of the stage, after its gradients are reduced."""
    if job.zeroth is not None:
        yield from exchange_and_update(job, stage)
        return
    yield from sets_reduced(job, stage)
    if not job.optimizer.in_backward:
        yield Kernel("gradient norm", Stream(memory.updated(job, stage) * job.gradient_bytes, 0.0))
    if not by_layer(job):
        left = 1.0 - job.host_share
        shares = [share._replace(elements=left * share.elements) for share in memory.shares(job, stage)]
        if left:
            yield from OPTIMIZERS.get(job.optimizer.name).steps(
                job, shares if left < 1.0 else memory.shares(job, stage)
            )
    matrices = memory.recast(job, stage)
    if job.recipe is not None and matrices:
        yield from _cast_weights(job, job.recipe, matrices)
    yield from parameters_returned(job, stage)


def subgroup(job: Job, stage: int) -> Iterator[Step]:
    """The update of one subgroup of parameters whose states came to the device for it."""
    part = None if job.offload is None else job.offload.optimizer
    rule = OPTIMIZERS.get(job.optimizer.name)
    if part is not None and part.update != "cpu" and isinstance(rule, Elementwise):
        elements = memory.updated(job, stage) * part.share
        yield rule.pass_over(job, elements / max(-(-int(elements) // part.subgroup), 1))


def by_layer(job: Job) -> bool:
    """Whether layers are updated one by one."""
    return job.optimizer.in_backward or job.optimizer.layerwise


def updates(job: Job, chunk: memory.Chunk) -> Iterator[Iterator[Step]]:
    """The update of each piece of a chunk where they are updated one by one, last layer first."""
    if by_layer(job):
        rule = OPTIMIZERS.get(job.optimizer.name)
        yield from (rule.steps(job, memory.shares_of(job, [piece])) for piece in reversed(memory.pieces_of(chunk)))


def _cast_weights(job: Job, recipe: Recipe, matrices: float) -> Iterator[Step]:
    """Casts of weights, once a step; where they are gathered around every pass one order a pass. Weights that come in
    the format are only brought into the other order, for the backward pass."""
    other = job.weight_orders - 1.0
    if job.quantized_parameters:
        times, read, written = job.microbatches if job.per_pass else 1, other, other
    elif job.per_pass:
        times, read, written = 2 * job.microbatches, float(job.element), 1.0
    else:
        times, read, written = 1, float(job.element), 1.0 + other
    if read:
        size = times * matrices
        yield Kernel("cast weights", Stream(size * read, size * written * recipe.weight, kernels=times))
