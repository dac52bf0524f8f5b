"""Optimizers that update every parameter by its own gradient, so that states may be cut anywhere.

One pass over gradient, states and weights; kernels are those of a fused multi-tensor implementation. Adam and AdamW
keep two moments (arXiv:1412.6980), Lion and SGD with momentum one, SGD none. In 8 bits each moment has an fp32 scale
for every 256 elements (bitsandbytes, arXiv:2110.02861).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from simulator.cost.work import Stream
from simulator.training.job import Job
from simulator.training.optimizers.base import FORMATS, OPTIMIZERS, Share, UpdateRule
from simulator.training.step import Kernel, Step

BLOCKWISE = 1.0 + 4.0 / 256
"""Bytes of an element of 8 bits with its share of a scale."""


@dataclass(frozen=True)
class Elementwise(UpdateRule):
    """A rule without regard to a parameter's neighbours."""

    moments: int
    """Numbers that it keeps of each parameter."""
    usual: float = 4.0
    """Bytes of each where no format is given."""

    def kept(self, job: Job) -> float:
        """Bytes of states of a parameter, without the stack's copy of it."""
        return self.moments * FORMATS.get(job.optimizer.moments or "", self.usual)

    def states(self, job: Job, share: Share) -> float:
        """Moments and the stack's copy, cut evenly."""
        return share.elements * (self.kept(job) + job.master) / share.shards

    def steps(self, job: Job, shares: Sequence[Share]) -> Iterator[Step]:
        """States and weights read and written."""
        yield self.pass_over(job, sum(share.elements / share.shards for share in shares))

    def moved(self, job: Job) -> float:
        """Bytes that an update reads and writes of a parameter."""
        read = job.gradient_bytes + self.kept(job) + (job.master or job.stored)
        return read + self.kept(job) + job.master + job.stored

    def pass_over(self, job: Job, parameters: float) -> Kernel:
        """The kernels on so many parameters."""
        kept = self.kept(job)
        if job.stack.foreach_optimizer and self.moments == 2:
            return self._one_by_one(job, parameters)
        read = job.gradient_bytes + kept + (job.master or job.stored)
        written = kept + job.master + job.stored
        return Kernel("update", Stream(parameters * read, parameters * written, kernels=4))

    def _one_by_one(self, job: Job, parameters: float) -> Kernel:
        """Gradients scaled to their norm, then the operations of Adam, each over all tensors.

        Decay of the weights, both moments, the root of the second, its correction, epsilon and the update, as in
        `_multi_tensor_adam` (pytorch/pytorch, torch/optim/adam.py; torch/nn/utils/clip_grad.py).
        """
        weight, gradient, moment = job.master or job.stored, job.gradient_bytes, self.kept(job) / self.moments
        read = 2 * weight + 3 * gradient + 8 * moment
        written = 2 * weight + gradient + 6 * moment + (job.stored if job.master else 0.0)
        return Kernel("update", Stream(parameters * read, parameters * written, kernels=4 * len(OPERATIONS)))


OPERATIONS = (
    "scale",
    "decay",
    "first moment",
    "second moment",
    "its square",
    "root",
    "correction",
    "epsilon",
    "update",
)
"""Operations of Adam over all tensors, one launch for some dozens of them."""
ADAM = Elementwise(2)
OPTIMIZERS.add("adam")(ADAM)
OPTIMIZERS.add("adamw")(ADAM)
OPTIMIZERS.add("adam-8bit")(Elementwise(2, BLOCKWISE))
OPTIMIZERS.add("lion")(Elementwise(1))
OPTIMIZERS.add("sgd")(Elementwise(0))
OPTIMIZERS.add("sgd-momentum")(Elementwise(1))
