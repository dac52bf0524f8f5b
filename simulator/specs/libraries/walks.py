"""Decodes over latents by the kernels of engines that had no better ones yet."""

from typing import Annotated

from pydantic import Field

from simulator.specs.base import Count, Figure, PositiveFraction, Seconds, Spec


class LatentWalks(Spec):
    """Decodes over latents whose walks are cut into as many parts whatever the batch, as the first kernels in Triton
    do, on GPUs alone: a part of a sequence and of some of its query heads is a block of one multiprocessor."""

    parts: Figure[Annotated[int, Field(ge=1, le=1024)]]
    """Parts that the walk over the tokens of each sequence is cut into."""
    heads: Count = 16
    """Query heads of a block, which is filled up to them."""
    start: Figure[Seconds]
    """Time of a block beside its tokens, the sum of the parts counted in."""
    rate: Figure[PositiveFraction]
    """Share that a block reaches of the 16-bit peak of a multiprocessor."""
