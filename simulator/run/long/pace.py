"""How long a step takes when something is slow, or on fewer nodes: the step simulated again on such a machine.

A slow device is a straggler and a slow link has less bandwidth, by the same means as `training.noise`. What is slow
is simulated where it strikes first; later ones of the same kind count as that one, and of several the slowest decides.
With fewer replicas the whole batch is spread over those that are left, each with the microbatches of the fullest.
"""

from collections.abc import Callable
from math import ceil

from simulator.axes import DP
from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.results.long_run import TICKS_PER_SECOND
from simulator.run.long.kept import Kept
from simulator.run.long.life import Slow
from simulator.run.long.waits import Waits
from simulator.specs.noise import SlowLinks, Stragglers
from simulator.specs.scenario import Scenario

Simulate = Callable[[Scenario], float]
"""A scenario to the seconds of its step."""


class StepTimes:
    """Ticks of steps by replicas and by what is slow; each is simulated once."""

    def __init__(
        self,
        scenario: Scenario,
        step_s: float,
        replicas: int,
        fabric: Fabric,
        again: Simulate,
        waits: Waits,
        kept: Kept | None = None,
    ) -> None:
        """`step_s` is the step of the whole machine, from which to the next it takes what it `waits` for as well."""
        self._scenario, self._replicas, self._fabric, self._again = scenario, replicas, fabric, again
        self._waits, self._kept = waits, kept
        self._layouts = {replicas: ticks(waits.period(step_s, scenario.cluster.nodes))}
        self._slow: dict[tuple[str, float], float] = {}
        self.simulated = 0
        """Steps that were simulated besides the first."""

    def __call__(self, replicas: int, slow: tuple[Slow, ...]) -> int:
        """Ticks of a step."""
        plain = self._layout(replicas)
        if not slow:
            return plain
        return max(plain, ceil(plain * max(self._factor(one) for one in slow)))

    def _layout(self, replicas: int) -> int:
        if replicas not in self._layouts:
            self._layouts[replicas] = ticks(
                self._time(f"step {replicas}", fewer(self._scenario, replicas, self._replicas))
            )
        return self._layouts[replicas]

    def _factor(self, slow: Slow) -> float:
        """How many times as long a step takes."""
        key = (slow.of, slow.left)
        if key not in self._slow:
            step_s = self._time(f"step {key}", slowed(self._scenario, slow, self._fabric))
            self._slow[key] = ticks(step_s) / self._layouts[self._replicas]
        return self._slow[key]

    def _time(self, key: str, scenario: Scenario) -> float:
        def simulated() -> float:
            self.simulated += 1
            return self._again(scenario)

        step_s = simulated() if self._kept is None else self._kept.seconds(key, simulated)
        return self._waits.period(step_s, scenario.cluster.nodes)


def ticks(seconds: float) -> int:
    """Of a step, one at least."""
    return max(round(seconds * TICKS_PER_SECOND), 1)


def slowed(scenario: Scenario, slow: Slow, fabric: Fabric) -> Scenario:
    """The scenario with something slow; what its own noise says of devices or links gives way."""
    noise: dict[str, Stragglers | SlowLinks]
    if slow.of == "device":
        noise = {"stragglers": Stragglers(devices=(slow.unit,), slowdown=1 / slow.left)}
    else:
        noise = {"slow_links": SlowLinks(links=(fabric.links[slow.unit],), factor=slow.left)}
    training = scenario.training
    changed = training.model_copy(update={"noise": training.noise.model_copy(update=noise)})
    return scenario.model_copy(update={"training": changed})


def fewer(scenario: Scenario, replicas: int, of: int) -> Scenario:
    """The scenario on as many nodes as so many of its replicas take, the batch spread over them."""
    cluster, training = scenario.cluster, scenario.training
    devices, each = cluster.devices // of * replicas, cluster.node.devices
    if devices % each:
        message = f"{replicas} replicas take {devices:,} devices, which are no whole nodes of {each}"
        hint = "leave out `elastic`, or choose a layout whose replicas are whole nodes or share one evenly"
        raise InputError(Problem(message, path="training.run.recovery.elastic", hint=hint))
    passes = ceil(training.global_batch / (replicas * training.micro_batch))
    layout = training.parallel.model_copy(update={DP.name: replicas})
    changed = {"parallel": layout, "global_batch": replicas * training.micro_batch * passes}
    return scenario.model_copy(
        update={
            "cluster": cluster.model_copy(update={"nodes": devices // each}),
            "training": training.model_copy(update=changed),
        }
    )
