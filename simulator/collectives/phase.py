"""What algorithms yield: phases of transfers.

A phase repeats one set of transfers. In a phase that is not pipelined one repetition starts when the one before is
over; in a pipelined one chunks stream through a chain or tree of transfers, all of which are busy together. Either way
a phase lasts repeat x (latency of its hops + time of the busiest link).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """Transfers that run together, `repeat` times in a row.

    Algorithms name members of the group by position, 0 .. n - 1, and give sizes in shares of the collective's size; in
    a `Plan` they are ranks and bytes. SWITCH stands for the switch of a node.
    """

    repeat: int
    """How often the transfers run, one set after the other."""
    src: Ints
    """Where each transfer starts; (transfers,)."""
    dst: Ints
    """Where it ends; (transfers,)."""
    size: Floats
    """Bytes of each transfer in one repetition; (transfers,)."""
    inner: float
    """Sequential hops inside nodes in one repetition; an average where hops of both kinds take turns, as in a ring."""
    outer: float
    """Sequential hops between nodes in one repetition."""
    reduce: bool = False
    """Whether the receivers add what arrives to what they have."""
    cards: bool = False
    """Whether transfers go through the cards of the devices also where these share a node."""
    parts: int = 1
    """Flows in a row that make one transfer, where the network splits it over several ways."""
    rolling: bool = False
    """Whether members have no common beat, as in a ring: one passes on what arrives while it sends what came before."""
    chained: bool = False
    """Whether pieces go once along a ring, as in a broadcast: they move as in a ring, and each hop shows once."""

    @property
    def switched(self) -> bool:
        """Whether the switch of a node adds up or copies."""
        return bool(self.src.min(initial=0) < 0 or self.dst.min(initial=0) < 0)

    @property
    def volume(self) -> float:
        """Bytes that all transfers of all repetitions move."""
        return self.repeat * float(self.size.sum())

    def split(self, parts: int) -> "Phase":
        """The phase with each transfer in so many equal parts."""
        if parts == 1:
            return self
        src, dst = np.repeat(self.src, parts), np.repeat(self.dst, parts)
        return replace(self, src=src, dst=dst, size=np.repeat(self.size / parts, parts), parts=parts)

    def bind(self, group: Ints, size_bytes: float) -> "Phase":
        """The phase of a group of ranks and a size, from positions and shares."""
        src, dst = to_ranks(group, self.src), to_ranks(group, self.dst)
        return replace(self, src=src, dst=dst, size=self.size * size_bytes)


def to_ranks(groups: Ints, positions: Ints) -> Ints:
    """Ranks of positions in groups (..., n), SWITCH kept; shape (..., positions)."""
    ranks: Ints = groups[..., positions]
    return np.where(positions < 0, positions, ranks) if positions.min(initial=0) < 0 else ranks


def phase(
    repeat: int,
    transfers: tuple[ArrayLike, ArrayLike, ArrayLike],
    inner: float,
    outer: float,
    *,
    reduce: bool = False,
    cards: bool = False,
    rolling: bool = False,
    chained: bool = False,
) -> Phase:
    """A phase from (positions, positions, shares); shares may be one number for all."""
    src, dst = np.asarray(transfers[0], np.int64), np.asarray(transfers[1], np.int64)
    size = np.broadcast_to(np.asarray(transfers[2], np.float64), src.shape)
    return Phase(repeat, src, dst, size, inner, outer, reduce, cards, rolling=rolling, chained=chained)
