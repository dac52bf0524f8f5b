"""What goes on once a step between shards of several sizes: sets of gradients meet, updated parameters come back.

Left out: overlap with the passes of the next step.
"""

from collections.abc import Iterator

from simulator.axes import DP
from simulator.training import memory
from simulator.training.job import Job, Replicas
from simulator.training.step import EXPERTS, Collective
from simulator.training.tiers.levels import HOLDERS, SETS, levels_of


def sets_reduced(job: Job, stage: int) -> Iterator[Collective]:
    """The sums of the sets of gradients that a rank of a stage keeps, before its update."""
    for copies, elements in _owned(job, stage):
        gradients = levels_of(job, copies).gradients
        if gradients < copies.shard:
            size = elements * job.wire_bytes / gradients
            yield Collective("sets of gradients", "reduce_scatter", size, DP.name, among=_among(SETS, copies))


def parameters_returned(job: Job, stage: int) -> Iterator[Collective]:
    """The gathers of what other ranks updated of the parameters that a rank of a stage keeps."""
    for copies, elements in _owned(job, stage):
        parameters = levels_of(job, copies).parameters
        if parameters < copies.shard:
            size = elements * job.gathered_bytes / parameters
            yield Collective("updated parameters", "all_gather", size, DP.name, among=_among(HOLDERS, copies))


def _among(name: str, copies: Replicas) -> str:
    return name + EXPERTS * copies.experts


def _owned(job: Job, stage: int) -> Iterator[tuple[Replicas, float]]:
    """Parameters of a rank of the stage that are trained, by the ranks that copy them; none without levels."""
    if job.sharding is None or job.sharding.levels is None:
        return
    chunks = memory.chunks_of_stage(job, stage)
    for copies in job.replicas:
        yield copies, sum(memory.parameters(job, chunk, copies, trained=True) for chunk in chunks)
