"""Which dimensions of a slice of a torus close to rings."""

from typing import Annotated

from pydantic import Field

from simulator.specs.base import Count, Spec


class Slices(Spec):
    """A pod of blocks: slices of whole blocks close, pieces of one do not."""

    block: Annotated[tuple[Count, ...], Field(min_length=1)]
    """Devices along each dimension of a block."""
    apart: bool = False
    """Whether each dimension closes by itself where it is whole blocks long (TPU v5e, v6e: along 16 of 16 x 16); else
    all close where all are (cubes whose faces optical switches join: TPU v4 and v5p)."""

    def closed(self, shape: tuple[int, ...]) -> tuple[bool, ...]:
        """Whether each dimension of a slice closes."""
        whole = tuple(size % block == 0 for size, block in zip(shape, self.block, strict=True))
        return whole if self.apart else (all(whole),) * len(whole)
