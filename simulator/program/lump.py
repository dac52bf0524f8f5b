"""An instruction as data: the pieces that it runs one after the other."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from simulator.program.content import Content
from simulator.program.piece import Piece


@dataclass(frozen=True)
class Lump:
    """An instruction: pieces that run one after the other."""

    pieces: tuple[tuple[Piece, int], ...]
    """Different pieces, each with how often it runs."""

    @cached_property
    def whole(self) -> Content:
        """All of it as one content."""
        return sum((piece.content.times(count) for piece, count in self.pieces), Content())

    @cached_property
    def ticks(self) -> int:
        """What the instruction lasts alone."""
        return self.whole.total

    @cached_property
    def communicates(self) -> bool:
        """Whether it is communication and nothing else."""
        return bool(self.whole.calls) and not self.whole.kernels

    def lasts(self, paces: NDArray[np.float64]) -> NDArray[np.int64]:
        """Ticks when kernels take `paces` (k,) as long; shape (k,)."""
        return sum((count * piece.lasts(paces) for piece, count in self.pieces), np.zeros(len(paces), np.int64))

    def at(self, pace: float) -> "Lump":
        """The same on a device whose kernels take `pace` as long."""
        return Lump(tuple((piece.at(pace), count) for piece, count in self.pieces))


def lump(pieces: Iterable[Piece]) -> Lump:
    """The instruction that runs some pieces."""
    return Lump(tuple(Counter(pieces).items()))
