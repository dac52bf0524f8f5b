"""Local steps: workers that train apart and meet rarely (local SGD, DiLoCo, CO2)."""

from typing import ClassVar, Literal

from pydantic import Field

from simulator.specs.base import Count, Seconds, Spec

OuterFormat = Literal["fp32", "bf16", "fp16", "fp8", "int8", "fp4"]


class LocalSteps(Spec):
    """Data-parallel workers that take steps of their own and sum what these changed after some of them."""

    aliases: ClassVar[dict[str, str]] = {"sync_every": "inner", "tau": "overlap"}
    bare: ClassVar[str] = "inner"

    inner: Count
    """Steps of each worker between two synchronisations of a parameter (H)."""
    workers: Count | None = None
    """Groups of data-parallel replicas, neighbours in `dp`, that meet; where left out the sites of the network, or
    every replica by itself."""
    fragments: Count = 1
    """Parts of the layers that are synchronised at different steps, evenly spread over `inner` (Streaming DiLoCo)."""
    overlap: int = Field(default=0, ge=0, le=1_000_000)
    """Steps after which the result is applied, beside which it travels; 0: the next forward pass of its layers waits.
    As many as `inner` is CO2's."""
    outer_format: OuterFormat = "fp32"
    """Number format of what is exchanged; it is summed in 32 bits."""
    step_time: Seconds | None = None
    """Length of a worker's own step, where it is given; simulated where left out."""
