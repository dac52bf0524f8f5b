"""What a device copies of a unit of sharded parameters around each of its passes, beside collectives.

FSDP joins the gradients of a unit's tensors, casts them and divides them (torch/distributed/fsdp/_runtime_utils.py,
_flat_param.py); FSDP2 copies between a unit's tensors and the buffers of its collectives
(torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py).
"""

from collections.abc import Iterator

from simulator.cost.work import Stream
from simulator.training.job import Job
from simulator.training.step import Kernel, Step


def unit_copies(job: Job, parameters: float, gradients: bool = False) -> Iterator[Step]:
    """What a device copies of a unit of sharded parameters around each of its passes, by `unit_copies` of the stack."""
    kind, element, reduced = job.stack.unit_copies, job.element, job.reduce_bytes
    if kind == "none" or not job.per_pass or job.dense.shard == 1:
        return
    if kind == "tensors":
        yield Kernel("copy parameters out", Stream(parameters * element, parameters * element))
        if gradients:
            yield Kernel("copy gradients in", Stream(parameters * element, parameters * reduced))
    elif gradients:
        cast = 0.0 if reduced == element else 1.0
        read, written = element + cast * element + reduced, element + cast * reduced + reduced
        yield Kernel("flatten gradients", Stream(parameters * read, parameters * written, kernels=2 + round(cast)))
