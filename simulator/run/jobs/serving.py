"""A serving job on a site."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from simulator import units
from simulator.engine.wires import User
from simulator.results.result import Result
from simulator.run.serve import ServingRun, run_serving, senders, serving
from simulator.run.service import gather
from simulator.run.site import Site
from simulator.serving.fleet.system import System, resolve
from simulator.specs.jobs import ServingJob
from simulator.specs.scenario import ServingScenario


@dataclass(slots=True, eq=False)
class Server:
    """A job that serves, beside others."""

    name: str
    spec: ServingJob
    scenario: ServingScenario
    """The job alone on the cluster."""
    devices: tuple[int, ...]
    site: Site
    own: Result = field(init=False)
    """What it does alone."""
    users: list[User] = field(init=False, default_factory=list)
    """Its replicas and ways of caches."""
    run: ServingRun = field(init=False)
    _systems: tuple[System, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Run it alone."""
        self._systems = resolve(self.scenario, self.devices)
        self.own = gather(run_serving(self.scenario, systems=self._systems))

    def mount(self, measured: Callable[[], None]) -> None:
        """Put it on the site; `measured` is called when all requests are done."""
        begin = units.to_ticks(self.spec.start)
        self.run = serving(self.site, self.scenario, self._systems, start=begin, finished=measured)
        if not self.run.replicas:
            self.site.clock.at(begin, lambda _: measured())
        self.users = senders(self.run, self.name).get("", ([], None))[0]

    @property
    def meets(self) -> bool:
        """Whether it can meet other users of links."""
        return any(user.met for user in self.users)

    @property
    def alone(self) -> dict[str, float]:
        """Its figures alone."""
        return self.own.metrics

    @property
    def shown_from(self) -> int:
        """The tick at which what its Result shows began: times of requests are those of the site."""
        return 0

    def result(self) -> Result:
        """What it did beside the others."""
        return gather(replace(self.run, events=self.site.clock.events))
