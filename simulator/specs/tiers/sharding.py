"""How what ZeRO-3 shards travels: in fewer bits, and over fewer ranks."""

from typing import Literal, Self

from pydantic import model_validator

from simulator.specs.base import Count, Spec


class Sharding(Spec):
    """ZeRO++ (arXiv:2306.10209), of parameters and gradients that are gathered and reduced around every pass."""

    gather_format: Literal["fp16", "bf16", "fp8", "int8"] | None = None
    """Number format in which parameters are gathered (qwZ); that of the passes where left out."""
    reduce_format: Literal["fp32", "fp16", "bf16", "fp8", "int8", "int4"] | None = None
    """Number format in which gradients travel to their shards (qgZ); `reduce_precision` where left out."""
    secondary: Count | None = None
    """Neighbouring ranks, most often those of a node, that keep a second set of shards in 16 bits, from which backward
    passes gather (hpZ); none where left out."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self == type(self).model_construct():
            raise ValueError("say one of `gather_format`, `reduce_format` and `secondary`")
        return self
