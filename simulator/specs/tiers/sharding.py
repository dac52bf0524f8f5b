"""How what ZeRO-3 shards travels: in fewer bits, and over fewer ranks."""

from typing import Literal, Self

from pydantic import model_validator

from simulator.specs.base import Count, Spec


class ShardLevels(Spec):
    """How many neighbouring ranks share each kind of state, from fast links to slow ones (arXiv:2501.04266); states of
    the optimizer are spread over the whole shard set."""

    parameters: Count
    """Neighbouring ranks that keep one set of parameters, and gather them around every pass: those of a package, or of
    a node. What the optimizer updated is gathered once a step from all ranks."""
    gradients: Count | None = None
    """Neighbouring ranks that keep one set of gradients, and reduce them after every backward pass; the sets are
    reduced once a step. The whole shard set where left out."""


class Sharding(Spec):
    """ZeRO++ (arXiv:2306.10209), of parameters and gradients that are gathered and reduced around every pass."""

    gather_format: Literal["fp16", "bf16", "fp8", "int8"] | None = None
    """Number format in which parameters are gathered (qwZ); that of the passes where left out."""
    reduce_format: Literal["fp32", "fp16", "bf16", "fp8", "int8", "int4"] | None = None
    """Number format in which gradients travel to their shards (qgZ); `reduce_precision` where left out."""
    secondary: Count | None = None
    """Neighbouring ranks, most often those of a node, that keep a second set of shards in 16 bits, from which backward
    passes gather (hpZ); none where left out."""
    levels: ShardLevels | None = None
    """Other numbers of ranks for parameters and gradients than for states of the optimizer; the shard set for all where
    left out."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self == type(self).model_construct():
            raise ValueError("say one of `gather_format`, `reduce_format`, `secondary` and `levels`")
        if self.secondary is not None and self.levels is not None:
            raise ValueError("both passes gather over `levels.parameters`: leave `secondary` out")
        return self
