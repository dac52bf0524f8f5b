"""Masks of which kernels skip whole blocks."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from simulator.specs.base import Count, PositiveFraction, Spec


class BlockMask(Spec):
    """Attention to some blocks of keys only, as block-sparse kernels skip the others: either a share of all blocks, or
    the nearest ones and some that all tokens see."""

    aliases: ClassVar[dict[str, str]] = {
        "num_local_blocks": "local_blocks",
        "num_sliding_window_blocks": "local_blocks",
        "num_global_blocks": "global_blocks",
    }

    block: Count = 128
    """Tokens of a side of a block."""
    density: PositiveFraction | None = None
    """Share of the blocks under the causal mask that are worked on, wherever they lie."""
    local_blocks: Count | None = None
    """Blocks that the tokens of a block see up to their own, it included."""
    global_blocks: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """With `local_blocks`, blocks at the start of the sequence that all tokens see besides."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        if (self.density is None) == (self.local_blocks is None):
            raise ValueError("a block mask says `density` or `local_blocks`, one of the two")
        if self.global_blocks and self.local_blocks is None:
            raise ValueError("`global_blocks` goes with `local_blocks`")
        return self

    def share(self, length: int) -> float:
        """Blocks of a causal sequence that are worked on, over those under the mask."""
        if self.local_blocks is None:
            return self.density or 1.0
        count, seen = -(-length // self.block), self.local_blocks + self.global_blocks
        most = min(seen, count)
        return (most * (most + 1) / 2 + (count - most) * most) / (count * (count + 1) / 2)
