"""Names of the operations of big tapes, made only when a message needs them."""

from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from simulator.program.actions import Kind


class Labels(Sequence[str]):
    """`2F0` and its like for the columns kind, stage and microbatch, each of shape (n,)."""

    __slots__ = ("kind", "microbatch", "stage")

    def __init__(self, kind: NDArray[np.int8], stage: NDArray[np.int32], microbatch: NDArray[np.int32]) -> None:
        """Keep the columns."""
        self.kind, self.stage, self.microbatch = kind, stage, microbatch

    def __len__(self) -> int:
        return len(self.kind)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> "Labels": ...
    def __getitem__(self, index: int | slice) -> "str | Labels":
        """`2F0` and its like."""
        if isinstance(index, slice):
            return Labels(self.kind[index], self.stage[index], self.microbatch[index])
        number = int(self.microbatch[index])
        return f"{self.stage[index]}{Kind(int(self.kind[index])).name}{number if number >= 0 else ''}"
