"""What every file about runs says: figures to compare with, and what trains or serves."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from simulator import units
from simulator.metrics import METRICS
from simulator.specs.base import Spec
from simulator.specs.requests import Requests, Slo
from simulator.specs.serving import Serving, ServingStack
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


class Serves(Spec):
    """What a run that serves says of its software and its work."""

    stack: ServingStack
    """The software that serves it."""
    serving: Serving = Serving.model_construct()
    """The system."""
    requests: Requests
    """What is asked of it."""
    slo: Slo | None = None
    """What is promised."""
    leap: bool = True
    """Whether decode iterations in which nothing can change are summed in one go; results are equal without."""
    records: Literal["all", "sample", "none"] = Field(default="all", exclude_if=lambda records: records == "all")
    """What is kept of requests and iterations: all; 10,000 requests drawn from all with equal chances by the seed, and
    the first iterations (`sample`); or only figures (`none`). Without all, percentiles are off by 0.2 % at most, and a
    run takes much less memory."""
