"""How a model is cut over the devices of its axes, and which of its options are on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from simulator.axes import EP, ETP, TP, Axis

GATHERED, SENT, SORTED = "gathered", "sent", "sorted"
"""Every device takes the rows of all; each row is sent to the devices of its experts (an all-to-all), with passes that
copy and sort rows around it; the same by kernels of engines, which do so as they work."""


class Routing(NamedTuple):
    """How evenly a router spreads rows over experts."""

    sent: float = 1.0
    """Copies of rows that are sent, of those that the router chose; padding counts."""
    busiest: float = 1.0
    """Rows for the experts of the busiest device, over the mean of what was chosen."""
    copies: int = 0
    """Experts of other devices of which a device has copies."""
    travels: float = 1.0
    """Of the rows that would leave their device without copies, those that do."""


EVEN = Routing()


@dataclass(frozen=True, slots=True)
class Cut:
    """Sizes of the axes that cut tensors or rows; an axis that is not there has one device."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    """Devices by name of the axis."""
    scattered: bool = False
    """Whether norms, dropouts and residuals work on rows that tensor parallelism cuts (sequence parallelism)."""
    dropout: bool = False
    causal: bool = True
    encoded: float = 1.0
    """Rows of an encoder's output for each row that attends to them."""
    dispatch: str = GATHERED
    """How rows come to the experts that other devices hold."""
    routing: Routing = EVEN
    """How evenly rows are spread over experts."""
    merged: float | None = None
    """Rows that a device gets for each that it sends out, where copies for experts of one device travel as one; None
    where every copy travels."""
    group: int | None = None
    """Rows that products with one mask bring to experts and back; None where rows are copied."""
    norms_apart: bool = False
    """Whether norms of queries and keys head by head are kernels of their own."""
    fused: bool = False
    """Whether one kernel does all that lies between the products of experts."""
    gathers_each: bool = False
    """Whether every matrix of attention and of a dense MLP gathers its own input, and keeps it, where rows are cut."""
    whole_logits: bool = False
    """Whether every tensor-parallel device gathers all logits and computes the loss on them."""

    def over(self, axis: Axis) -> int:
        """Devices along an axis."""
        return self.sizes.get(axis.name, 1)

    def share(self, count: int, axis: Axis = TP) -> int:
        """Of so many indivisible things, those of the fullest device; one is copied where there are fewer than
        devices."""
        return -(-count // self.over(axis))

    @property
    def rows(self) -> Axis | None:
        """The axis that cuts the rows between products."""
        return TP if self.scattered and self.over(TP) > 1 else None

    @property
    def sharers(self) -> int:
        """Groups of devices, each with rows of its own, over which experts lie."""
        return self.over(EP)

    @property
    def experts_cut(self) -> int:
        """Devices that cut each expert between them: those of tensor parallelism unless said otherwise."""
        return self.sizes.get(ETP.name, self.over(TP))

    @property
    def experts_spread(self) -> int:
        """Devices over which experts are spread, of those that all have the rows."""
        return self.sharers * self.over(TP) // self.experts_cut
