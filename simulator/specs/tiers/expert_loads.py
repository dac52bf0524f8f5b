"""Experts that live on hosts or drives, and are loaded when rows ask for them."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Bandwidth, Bytes, Percentage, Remaining, Seconds, Spec


class BitLevel(Spec):
    """A width of an expert's weights that rows ask for."""

    bits: Annotated[float, Field(gt=0, le=32)]
    """Bits of a weight, scales included."""
    share: Remaining
    """Share of the rows of an expert that ask for it; all sum to 1."""


class ExpertLoads(Spec):
    """Experts of mixtures that do not all stay on the devices: those that rows ask for are loaded in each iteration."""

    path: Literal["host", "disk"]
    """What they are loaded over. `host`: the link between each device and its host; `disk`: the drives of the node, and
    that link where a device has one."""
    memory: Annotated[Bytes, Field(gt=0)]
    """Device memory for experts: those that are asked for most stay in it, and two of a layer pass through."""
    bandwidth: Bandwidth | None = None
    """Bytes per second that the drives of a node read, shared by all of its devices. A `disk` needs it."""
    latency: Seconds = 0.0
    """Time before the bytes of an expert move."""
    levels: Annotated[tuple[BitLevel, ...], Field(max_length=16)] = ()
    """Widths that rows ask for, the fewest bits first; the format of the weights alone where left out."""
    nested: bool = True
    """Whether a wider level is a narrower one and more bits beside it (matryoshka quantisation), so that only what is
    missing is loaded; if not, each level is a copy of its own."""
    prefetch: Percentage = 0.0
    """Share of the bytes of a layer that are known, and begin to move, before its router has spoken."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if (self.path == "disk") != (self.bandwidth is not None):
            raise ValueError("`path: disk` and the `bandwidth` of its drives, such as 3 GB/s, stand together")
        widths = [level.bits for level in self.levels]
        if widths != sorted(set(widths)):
            raise ValueError("`levels` rise in `bits`: write the fewest first")
        if self.levels and abs(sum(level.share for level in self.levels) - 1) > 1e-9:
            raise ValueError(f"`share` of all `levels` sums to 1, not to {sum(one.share for one in self.levels):g}")
        return self
