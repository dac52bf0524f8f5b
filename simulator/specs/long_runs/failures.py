"""How often what fails: rates by cause, as they were counted or as mean times between failures."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Count, Remaining, Seconds, Spec

Unit = Literal["device", "node", "link", "switch", "run"]
"""What fails: one of the cluster's devices, nodes, network cards (or other links) or switches, or the run itself."""


class Observed(Spec):
    """The machine on which failures were counted, and for how long."""

    devices: Count
    """Devices that the run had."""
    nodes: Count
    """Nodes that the run had."""
    days: float = Field(gt=0, le=1e6, allow_inf_nan=False)
    """Days over which was counted."""


class Cause(Spec):
    """One thing that goes wrong, at random and at a constant rate."""

    name: str
    """What it is, in two or three words."""
    of: Unit
    """What fails: each `device`, `node`, `link` or `switch` by itself, or the `run` as a whole, however large it is. A
    device or a node that fails takes its node out of the run, and so does a network card."""
    mtbf: Seconds | None = Field(default=None, gt=0)
    """Mean time between failures of one of them; with `of: run` of the whole run."""
    count: float | None = Field(default=None, gt=0, le=1e12)
    """Or how often it was seen on the machine of `observed`; only of devices, nodes and runs."""
    links: str | None = None
    """Which kind of links, as `clustersim network` calls them (`NIC up`, `leaf up`); network cards where left out."""
    left: Remaining | None = None
    """Share of the speed of a device, or of the bandwidth of a link, that is left: such a failure is silent, and slows
    the run down until it is detected. Others stop the run."""
    detection: Seconds | None = None
    """Until it is detected; that of `recovery` where left out."""
    planned: bool = False
    """Whether it is announced, as maintenance is: the run is saved before it stops, and nothing is lost or detected."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.mtbf is None) == (self.count is None):
            raise ValueError("write either `mtbf` or `count`" + ("" if self.mtbf is None else ", not both"))
        if self.count is not None and self.of in ("link", "switch"):
            raise ValueError(f"a `count` is of devices, nodes or runs: write the `mtbf` of one {self.of}")
        if self.links is not None and self.of != "link":
            raise ValueError(f"`links` has no effect on failures of a {self.of}: leave it out")
        if self.left is not None and self.of not in ("device", "link"):
            raise ValueError(f"`left` is of devices and links, not of a {self.of}: leave it out")
        if self.left is not None and self.planned:
            raise ValueError("what is planned is not silent: leave out `left` or `planned`")
        return self


class FailureRates(Spec):
    """Rates of failures by cause."""

    folder: ClassVar[str] = "hardware_profiles/failures"

    name: str = ""
    """Where they were counted."""
    source: str = ""
    """Where they were published."""
    observed: Observed | None = None
    """The machine on which `count` was counted."""
    causes: tuple[Cause, ...] = Field(min_length=1)
    """What fails."""
    notes: str = ""
    """What a reader should know."""

    @model_validator(mode="after")
    def _counted(self) -> Self:
        names = [cause.name for cause in self.causes]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two causes are called `{twice[0]}`: names tell them apart")
        if self.observed is None and (counted := [cause.name for cause in self.causes if cause.count is not None]):
            raise ValueError(f"`{counted[0]}` has a `count`: write `observed`, the machine on which it was counted")
        return self
