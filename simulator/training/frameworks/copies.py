"""What a device copies around collectives: units of sharded parameters, and rows that tensor parallelism moves.

FSDP joins the gradients of a unit's tensors, casts them and divides them (torch/distributed/fsdp/_runtime_utils.py,
_flat_param.py); FSDP2 copies between a unit's tensors and the buffers of its collectives
(torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py). PyTorch's functional collectives work on the first
dimension: what comes out of a gather along the second, and what goes into a scatter along it, is cut into chunks that
`cat` joins anew (torch/distributed/_functional_collectives.py, `all_gather_tensor` and `reduce_scatter_tensor`).

Left out: PyTorch of the end of 2025 and later returns a view of what was gathered where the first dimension is 1.
"""

from collections.abc import Iterator

from simulator.axes import TP
from simulator.cost.work import Stream
from simulator.model.backward import GATHER, SCATTER
from simulator.training.job import Job
from simulator.training.step import Collective, Kernel, Single, Step


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


def in_rank_order(job: Job, run: Collective) -> Iterator[Single]:
    """A collective with the copy of rows that comes before or after it, by `rank_order` of the stack."""
    copied = job.stack.rank_order and run.axis == TP.name
    copy = Kernel(f"order {run.name}", Stream(run.size, run.size))
    if copied and run.operation == SCATTER:
        yield copy
    yield run
    if copied and run.operation == GATHER:
        yield copy
