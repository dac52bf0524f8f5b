"""The root of a scenario file."""

from typing import ClassVar, Literal

from simulator.specs.base import Spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.training import Stack, Training


class Published(Spec):
    """A figure that the authors of a system published, to compare with."""

    metric: str
    """Name of a metric of the result, for example `hardware_flops_per_device`."""
    value: str | float
    """The figure with its unit."""
    source: str
    """Where it was published."""
    note: str = ""
    """Conditions that matter for the comparison."""


class Scenario(Spec):
    """One simulated run."""

    folder: ClassVar[str] = "scenarios"

    version: Literal[1]
    """Version of this format."""
    name: str
    """What is simulated, in a line."""
    description: str = ""
    """Longer text, for readers."""
    cluster: Cluster
    """The machine."""
    model: Model
    """The network that is trained."""
    stack: Stack
    """The software that trains it."""
    training: Training
    """The job."""
    fold: Literal["auto", "exact", "tiers", "none"] = "auto"
    """How equal ranks are merged: exactly (small jobs by default), by network tier (large ones), not at all."""
    seed: int = 0
    """Seed of every random choice."""
    published: tuple[Published, ...] = ()
    """Figures to compare with."""
