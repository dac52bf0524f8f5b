"""The root of a scenario file."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, ValidationInfo, field_validator

from simulator import units
from simulator.metrics import METRICS
from simulator.specs.base import Spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
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


class Common(Spec):
    """What every scenario says."""

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
    """The network that is trained or served."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of every random choice."""
    published: tuple[Published, ...] = ()
    """Figures to compare with."""


_SERVES = "only a scenario that serves has it, with `serving:` and `requests:` in place of `training:`"
_TRAINS = "only a scenario that trains has it, with `training:` in place of `serving:` and `requests:`"


class Scenario(Common):
    """One simulated training run."""

    elsewhere: ClassVar[dict[str, str]] = dict.fromkeys(("slo", "leap"), _SERVES)

    stack: Stack
    """The software that trains it."""
    training: Training
    """The job, or `requests` and `serving` in its place for a scenario that serves."""
    fold: Literal["auto", "exact", "tiers", "none"] = "auto"
    """How equal ranks are merged: exactly (small jobs by default), by network tier (large ones), not at all."""


class ServingScenario(Common):
    """One simulated serving run."""

    elsewhere: ClassVar[dict[str, str]] = {"fold": _TRAINS}

    stack: ServingStack
    """The software that serves it."""
    serving: Serving = Serving()
    """The system."""
    requests: Requests
    """What is asked of it."""
    slo: Slo | None = None
    """What is promised."""
    leap: bool = True
    """Whether decode iterations in which nothing can change are summed in one go; results are equal without."""


AnyScenario = Scenario | ServingScenario
"""What a scenario file may be."""
