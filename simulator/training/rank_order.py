"""Copies around tensor-parallel collectives whose buffers lie rank by rank, while tensors have sequences second.

PyTorch's functional collectives work on the first dimension: what comes out of a gather along the second, and what goes
into a scatter along it, is cut into chunks that `cat` joins anew (pytorch/pytorch
torch/distributed/_functional_collectives.py, `all_gather_tensor` and `reduce_scatter_tensor`). Left out: PyTorch of the
end of 2025 and later returns a view of what was gathered where the first dimension is 1.
"""

from collections.abc import Iterator

from simulator.axes import TP
from simulator.cost.work import Stream
from simulator.model.backward import GATHER, SCATTER
from simulator.training.job import Job
from simulator.training.step import Collective, Kernel, Single


def in_rank_order(job: Job, run: Collective) -> Iterator[Single]:
    """A collective with the copy that comes before or after it."""
    copied = job.stack.rank_order and run.axis == TP.name
    copy = Kernel(f"order {run.name}", Stream(run.size, run.size))
    if copied and run.operation == SCATTER:
        yield copy
    yield run
    if copied and run.operation == GATHER:
        yield copy
