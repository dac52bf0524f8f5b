"""What files about runs say: figures to compare with, and what trains. What serves is in `simulator.specs.serves`."""

from typing import Literal

from pydantic import ValidationInfo, field_validator

from simulator import units
from simulator.metrics import METRICS
from simulator.specs.base import Spec
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

    @field_validator("value")
    @classmethod
    def _of_its_metric(cls, value: str | float, known: ValidationInfo) -> str | float:
        """ValueError without the unit that a known metric needs, or with another; other metrics pass."""
        if (metric := known.data.get("metric")) in METRICS:
            units.parse(value, METRICS[metric].dimension)
        return value


class Trains(Spec):
    """What a run that trains says of its software and its work."""

    stack: Stack
    """The software that trains it."""
    training: Training
    """The job, or `requests` and `serving` in its place for a scenario that serves."""
    fold: Literal["auto", "exact", "tiers", "none"] = "auto"
    """How equal ranks are merged: exactly (small jobs by default), by network tier (large ones), not at all."""
