"""How much is asked of a serving system, as one number that a study can turn: the mean rate of arrivals.

A changing rate is scaled at every moment, and the times of a trace are compressed. With conversations the rate is that
at which they begin. Random draws do not depend on the rate: twice a steady rate is the same requests in half the time.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.errors import InputError, Problem
from simulator.interop import traces
from simulator.specs.requests import Arrivals, ClosedLoop
from simulator.specs.scenario import ServingScenario

_HINT = "write `requests.arrivals.poisson`, `gamma`, `constant` or `varying`, or use a trace with times"


@dataclass(frozen=True, slots=True)
class Load:
    """A scenario whose rate of arrivals can be set."""

    scenario: ServingScenario
    rate: float
    """Mean arrivals per second that it asks for."""
    process: str
    """Key of `Arrivals`, or `trace`."""

    @property
    def unit(self) -> str:
        """What arrives."""
        return "requests" if self.scenario.requests.sessions is None else "conversations"

    def at(self, rate: float) -> ServingScenario:
        """The scenario with this many arrivals per second."""
        requests, factor = self.scenario.requests, rate / self.rate
        if self.process == "trace":
            return _changed(self.scenario, speed=requests.speed * factor)
        given: Any = getattr(requests.arrivals, self.process)
        if self.process == "gamma":
            given = given.model_copy(update={"rate": rate})
        elif self.process == "varying":
            given = tuple(step.model_copy(update={"rate": step.rate * factor}) for step in given)
        else:
            given = rate
        return _changed(self.scenario, arrivals=Arrivals.model_construct(**{self.process: given}))

    def alone(self) -> ServingScenario:
        """The same requests one after the other, none while another is in the system."""
        return _changed(self.scenario, arrivals=Arrivals(closed_loop=ClosedLoop(clients=1)))


def load(scenario: ServingScenario) -> Load:
    """The load of a scenario; InputError where its arrivals have no rate."""
    arrivals = scenario.requests.arrivals
    if arrivals.poisson is not None:
        return Load(scenario, arrivals.poisson, "poisson")
    if arrivals.constant is not None:
        return Load(scenario, arrivals.constant, "constant")
    if arrivals.gamma is not None:
        return Load(scenario, arrivals.gamma.rate, "gamma")
    if arrivals.varying is not None:
        arriving = sum(step.duration * step.rate for step in arrivals.varying)
        return Load(scenario, arriving / sum(step.duration for step in arrivals.varying), "varying")
    if arrivals.closed_loop is not None:
        message = "users who wait for their answers have no rate of arrivals that could be varied"
        raise InputError(Problem(message, path="requests.arrivals.closed_loop", hint=_HINT))
    if scenario.requests.trace is not None and arrivals.at_once is None:
        return Load(scenario, _recorded(scenario), "trace")
    raise InputError(Problem("requests that come all at once have no rate", path="requests.arrivals", hint=_HINT))


def _recorded(scenario: ServingScenario) -> float:
    """Requests per second of a trace, as far as it is used, at the scenario's speed."""
    requests = scenario.requests
    trace = traces.read(str(requests.trace))
    times = np.zeros(1) if trace.arrival_s is None else trace.arrival_s[: requests.count]
    if len(times) < 2 or not times[-1] > times[0]:
        raise InputError(Problem("the trace has no times that could be scaled", path="requests.trace", hint=_HINT))
    return float((len(times) - 1) / (times[-1] - times[0]) * requests.speed)


def _changed(scenario: ServingScenario, **requests: Any) -> ServingScenario:
    return scenario.model_copy(update={"requests": scenario.requests.model_copy(update=requests)})
