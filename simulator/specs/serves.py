"""What a run that serves says, and the scenario that is one; apart, so that what only trains does not load it."""

from typing import ClassVar, Literal

from pydantic import Field

from simulator.specs.base import Spec
from simulator.specs.requests import Requests, Slo
from simulator.specs.scenario import BESIDE_JOBS, Common
from simulator.specs.serving import Serving, ServingStack

_TRAINS = "only a scenario that trains has it, with `training:` in place of `serving:` and `requests:`"


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


class ServingScenario(Serves, Common):
    """One simulated serving run."""

    elsewhere: ClassVar[dict[str, str]] = {"fold": _TRAINS, "perturbations": BESIDE_JOBS}
