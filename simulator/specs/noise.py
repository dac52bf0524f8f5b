"""What makes steps and devices differ: jitter, stragglers, slow links; nothing of it unless a scenario says so."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from simulator.specs.base import Count, Percentage, Remaining, Spec


class Stragglers(Spec):
    """Devices that compute more slowly than the others for the whole run."""

    count: Count | None = None
    """How many, drawn with the scenario's seed."""
    devices: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Or which, by device index: node x devices of a node + place in the node, from 0."""
    slowdown: float = Field(ge=1, le=1000, allow_inf_nan=False)
    """How many times as long each of their kernels takes."""

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        _choose(self.count is not None, bool(self.devices), "devices")
        return self


class SlowLinks(Spec):
    """Network cards or links that have only a share of their bandwidth for the whole run."""

    count: Count | None = None
    """How many, drawn with the scenario's seed among network cards, or among links where the cluster has no cards."""
    links: tuple[str, ...] = ()
    """Or which, by name: `NIC 17` (both directions), `NIC up 17`, `leaf down 0`, `node 3: 2 > switch`, `torus 0+ 5`."""
    factor: Remaining
    """Share of the bandwidth that is left, `0.1` or `10 %`."""

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        _choose(self.count is not None, bool(self.links), "links")
        return self


class Noise(Spec):
    """What makes steps and devices differ; everything is off where it is left out."""

    jitter: Percentage = 0.0
    """Spread of a device's kernel times from step to step: standard deviation over mean of a log-normal factor with
    mean 1, drawn for each device and step."""
    stragglers: Stragglers | None = None
    """Devices that are slow for the whole run."""
    slow_links: SlowLinks | None = None
    """Network cards or links that are slow for the whole run."""


def _choose(drawn: bool, named: bool, name: str) -> None:
    """Either a number to draw or names."""
    if drawn == named:
        raise ValueError(f"write either `count` or `{name}`" + (", not both" if drawn else ""))
