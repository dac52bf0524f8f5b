"""Adafactor (arXiv:1804.04235) without a first moment: of a matrix it keeps sums over rows and over columns only.

An m x n matrix has m + n numbers of 4 bytes, vectors and the tables at both ends of the model one a parameter. Two
passes over the gradients: one for the sums, one for the update. Left out: the clipping of the update by its norm (a
third pass), the sums over tensor-parallel ranks of cut matrices (m + n numbers).
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar

from simulator.cost.work import Stream
from simulator.errors import InputError, Problem
from simulator.specs.training import Optimizer
from simulator.training.job import Job
from simulator.training.optimizers.base import FORMATS, OPTIMIZERS, Share, UpdateRule
from simulator.training.step import Kernel, Step


class Adafactor(UpdateRule):
    """Second moments as the product of a row and a column."""

    by_matrix: ClassVar[bool] = True

    def check(self, options: Optimizer, zero: int, per_pass: bool) -> None:
        """Refuse shards, in which rows and columns are cut."""
        if zero:
            message = f"adafactor sums over rows and columns, which ZeRO-{zero} cuts; it keeps next to nothing to shard"
            raise InputError(Problem(message, path="training.optimizer", hint="write `parallel.zero: 0`, or `adam`"))

    def states(self, job: Job, share: Share) -> float:
        """Sums, and the stack's copy of the parameters."""
        return self._kept(job, share) + share.elements * job.master

    def _kept(self, job: Job, share: Share) -> float:
        size = FORMATS.get(job.optimizer.moments or "", 4.0)
        sums = sum(one.number * (one.inputs + one.outputs) for one in share.matrices)
        apart = share.elements - sum(one.elements for one in share.matrices)
        return size * (sums + apart)

    def steps(self, job: Job, shares: Sequence[Share]) -> Iterator[Step]:
        """Gradients read for the sums; gradients, sums and weights for the update."""
        parameters, kept = sum(share.elements for share in shares), sum(self._kept(job, share) for share in shares)
        yield Kernel("sums of squares", Stream(parameters * job.gradient_bytes + kept, kept, kernels=4))
        read = parameters * (job.gradient_bytes + (job.master or job.stored)) + kept
        yield Kernel("update", Stream(read, parameters * (job.master + job.stored), kernels=4))


OPTIMIZERS.add("adafactor")(Adafactor())
