"""Weights that do not stay on the devices: layers that every iteration loads again."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Bandwidth, PositiveFraction, Seconds, Spec


class StreamedWeights(Spec):
    """Layers whose weights live on hosts or drives, and pass through the devices beside the layers that compute."""

    path: Literal["host", "disk"]
    """What they are loaded over. `host`: the link between each device and its host; `disk`: the drives of the node, and
    that link where a device has one."""
    share: PositiveFraction = 1.0
    """Share of the layers of a stage that are loaded in each iteration, spread evenly over the stage; others stay."""
    window: Annotated[int, Field(ge=2, le=1024)] = 2
    """Layers that the devices have memory for at once: the one that computes, and those that are loaded ahead."""
    bandwidth: Bandwidth | None = None
    """Bytes per second that the drives of a node read, shared by all of its devices. A `disk` needs it, or `drives`."""
    drives: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """Tier of the cache (`kv_cache.tiers`, of the path `disk`) on whose drives the weights lie: both read from them, at
    the `bandwidth` of that tier. Where left out the weights have drives of their own."""
    latency: Seconds = 0.0
    """Time before the bytes of a layer move."""

    @model_validator(mode="after")
    def _has_drives(self) -> Self:
        if self.bandwidth is not None and self.drives is not None:
            raise ValueError(f"the drives of the tier `{self.drives}` have a `bandwidth`: leave this one out")
        if (self.path == "disk") != (self.bandwidth is not None or self.drives is not None):
            raise ValueError(
                "`path: disk` and the `bandwidth` of its drives, such as 3 GB/s, stand together (or `drives`, a tier)"
            )
        return self
