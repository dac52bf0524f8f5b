"""What optimizers share: the parameters that a rank updates, and their registry."""

from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple

from simulator.axes import TP
from simulator.registry import Registry
from simulator.specs.training import Optimizer
from simulator.training.job import Job, Replicas
from simulator.training.step import Step

FORMATS = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0}
"""Bytes of an element of what is kept of earlier gradients."""


class Matrices(NamedTuple):
    """Matrices of one shape on one rank."""

    inputs: int
    outputs: int
    number: int
    cut: str = ""
    """Side that an axis cuts: `column` the outputs, `row` the inputs, empty for none."""
    ways: int = 1
    """Ranks that it is cut over."""
    axis: str = TP.name
    """Name of that axis."""

    @property
    def elements(self) -> int:
        """Elements of all of them."""
        return self.inputs * self.outputs * self.number


class Share(NamedTuple):
    """Trained parameters that the same ranks copy."""

    copies: Replicas
    shards: int
    """Ranks over which states and updates are spread; 1 where each updates everything."""
    elements: float
    """Parameters on a rank before they are spread."""
    matrices: tuple[Matrices, ...] = ()
    """Those of them that are matrices of layers, where the rule asks for them."""


class UpdateRule:
    """An optimizer; the methods are pure."""

    options: ClassVar[frozenset[str]] = frozenset({"moments", "in_backward", "layerwise"})
    """Keys of `training.optimizer` that it reads besides its name."""
    by_matrix: ClassVar[bool] = False
    """Whether it needs the shapes of matrices."""

    def check(self, options: Optimizer, zero: int, per_pass: bool) -> None:
        """InputError for what it cannot do: options, the ZeRO stage, and whether that gathers around every pass."""

    def states(self, job: Job, share: Share) -> float:
        """Bytes that the fullest rank keeps from step to step, the stack's own copies of parameters included."""
        raise NotImplementedError

    def steps(self, job: Job, shares: Sequence[Share]) -> Iterator[Step]:
        """Kernels and collectives of the update on the slowest rank, its gradients being reduced."""
        raise NotImplementedError


OPTIMIZERS: Registry[UpdateRule] = Registry("optimizer")
