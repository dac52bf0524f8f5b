"""What a plan of a training is to reach: the time of a step in days and money, and their limits."""

from dataclasses import dataclass
from math import inf
from typing import Literal

from simulator.results.prices import missing_price
from simulator.specs.scenario import Scenario

DAY_S = 86_400.0
By = Literal["time", "cost"]


@dataclass(frozen=True, slots=True)
class Goal:
    """What is asked."""

    by: By = "time"
    """What the best layout has least of."""
    tokens: float | None = None
    """Of the whole training; of one step where None."""
    days: float | None = None
    """At most."""
    budget: float | None = None
    """US dollars at most."""

    def steps(self, scenario: Scenario) -> float:
        """Steps of the training."""
        if self.tokens is None:
            return 1.0
        return self.tokens / (scenario.training.global_batch * scenario.training.sequence_length)

    def seconds(self, scenario: Scenario, step_s: float) -> float:
        """Of the training."""
        return step_s * self.steps(scenario)

    def cost(self, scenario: Scenario, step_s: float) -> float | None:
        """US dollars of the devices' time; None where their price is not known."""
        price = scenario.cluster.node.accelerator.price
        if price is None:
            return None
        return self.seconds(scenario, step_s) * price.value * scenario.cluster.devices

    def unpriced(self, scenario: Scenario) -> str:
        """Why nothing on these devices can answer what is asked in money; empty where their price is known, or none
        asks for it."""
        accelerator = scenario.cluster.node.accelerator
        if accelerator.price is not None or (self.by != "cost" and self.budget is None):
            return ""
        return missing_price([accelerator.name])

    def value(self, scenario: Scenario, step_s: float) -> float:
        """What the search minimises: seconds, or dollars; infinite where these are not known. Rises with the step."""
        if self.by == "time":
            return self.seconds(scenario, step_s)
        cost = self.cost(scenario, step_s)
        return inf if cost is None else cost

    def missed(self, scenario: Scenario, step_s: float) -> str:
        """The limit that a step time is too long for, `days` or `budget`; empty where it is within all."""
        if self.days is not None and self.seconds(scenario, step_s) > self.days * DAY_S:
            return "days"
        cost = self.cost(scenario, step_s)
        if self.budget is not None and (cost is None or cost > self.budget):
            return "budget"
        return ""
