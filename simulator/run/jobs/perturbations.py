"""What changes on a site while jobs run. Adding a kind is one file: a class that is registered in PERTURBATIONS.

A perturbation says what it takes at most of which links, so that all that is sent over them runs on the site's clock.
While it is on it lowers their bandwidth or sends over them; what it took it gives back when it is over, at the latest
when all jobs have done what counts.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping

from simulator import units
from simulator.engine.tape import NEVER, Activity, Use
from simulator.engine.wires import SLACK, User, Wires
from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.run.site import Site
from simulator.specs.jobs import PERTURBATION_KEYS, SHORTEST_FLAP, Flapping, Perturbation
from simulator.specs.kinds import Builders


class Disturbance(ABC):
    """A perturbation on a site."""

    def __init__(self, site: Site, spec: Perturbation, path: str) -> None:
        """What the scenario says at `path`; InputError for links that are not there."""
        self.site, self.spec, self.path = site, spec, path
        self.links = links_of(site, spec.links, f"{path}.links")
        """Those that the scenario names."""
        self.on = False
        """Whether it began and is not over."""
        self._over = False
        self._wires = Wires()
        self._taken: dict[int, float] = defaultdict(float)

    @property
    @abstractmethod
    def takes(self) -> Mapping[int, float]:
        """The most that it ever takes of each link, in bytes per second."""

    @abstractmethod
    def begin(self) -> None:
        """It begins now."""

    # ---- for kinds of perturbations: what they may do while they are on -------------------------------------------

    def whole(self, link: int) -> float:
        """Bytes per second of an undisturbed link."""
        return float(self.site.fabric.capacity[link])

    def leave(self, link: int, share: float) -> None:
        """Leave a share of a link's bandwidth from now on, 1 for all of it; what several leave multiplies.

        Once it is over, all of it.
        """
        share = share if self.on else 1.0
        before = 1 - self.site.left(self, link)
        self._take(link, (1 - share - before) * self.whole(link))
        if share < 1 and not before:
            self._wires.enter()
        self.site.leave(self, link, share)
        if share == 1 and before:
            self._wires.leave()

    def send(self, link: int, size: float, rate: float, done: Callable[[], None]) -> None:
        """Send so many bytes over a link, at most at a rate per second, as one flow that shares it with all others.

        `done` is called when they have arrived; once it is over nothing is sent.
        """
        if not self.on:
            return
        self._take(link, rate)
        self._wires.enter()

        def sent() -> None:
            self._take(link, -rate)
            self._wires.leave()
            done()

        use = Use(link, rate / units.TICKS_PER_SECOND, 1.0)
        self.site.clock.start(Activity(0, units.to_ticks(size / rate), (use,)), sent, (self.spec.kind, "traffic"))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call later, unless it is over by then."""
        self._at(self.site.clock.now + units.to_ticks(seconds), lambda: call() if self.on else None)

    # ---- its time --------------------------------------------------------------------------------------------------

    def schedule(self) -> User:
        """Put it on the site's clock, as a user of links."""
        start = units.to_ticks(self.spec.start)
        self._at(start, self._begin)
        if self.spec.lasts is not None:
            self._at(start + units.to_ticks(self.spec.lasts), self.end)
        takes = {link: rate / units.TICKS_PER_SECOND for link, rate in self.takes.items()}
        return User(takes.keys(), lambda: takes, lambda: self._wires)

    def end(self) -> None:
        """It is over: links are whole again, and what it would do later it does no more."""
        self.on, self._over = False, True
        for link in self.takes:
            self.leave(link, 1.0)

    def _begin(self) -> None:
        if not self._over:
            self.on = True
            self.begin()

    def _at(self, tick: int, call: Callable[[], None]) -> None:
        if tick < NEVER:
            self.site.clock.at(tick, lambda _: call())

    def _take(self, link: int, rate: float) -> None:
        """Take so much more of a link; ValueError where that is more than it said."""
        self._taken[link] += rate
        most = self.takes.get(link, 0.0)
        if self._taken[link] > most + SLACK * self.whole(link):
            name = self.site.fabric.links[link]
            taken, said = (units.format(rate, "bandwidth") for rate in (self._taken[link], most))
            raise ValueError(f"perturbation `{self.spec.kind}` takes {taken} of {name}, and said {said} at most")


PERTURBATIONS: Builders[Callable[[Site, Perturbation, str], Disturbance]] = Builders(PERTURBATION_KEYS)
"""(site, what the scenario says, path of it) to a perturbation, by `kind`."""


@PERTURBATIONS.add("slow-links")
class SlowLinks(Disturbance):
    """Links that have only a share of their bandwidth meanwhile."""

    @property
    def takes(self) -> Mapping[int, float]:
        """What is not left of them."""
        return {link: (1 - self._factor) * self.whole(link) for link in self.links}

    @property
    def _factor(self) -> float:
        return 1.0 if self.spec.factor is None else self.spec.factor

    def begin(self) -> None:
        """Less of each."""
        for link in self.links:
            self.leave(link, self._factor)


@PERTURBATIONS.add("flapping-links", Flapping)
class FlappingLinks(Disturbance):
    """Links that are down for part of each period, all together, or each of the names by times of its own."""

    @property
    def takes(self) -> Mapping[int, float]:
        """All of them but what is left while they are down."""
        return {link: (1 - self._left) * self.whole(link) for link in self.links}

    @property
    def _left(self) -> float:
        return self.spec.factor or 0.0

    @property
    def _keys(self) -> Flapping:
        assert isinstance(self.spec.more, Flapping)  # the spec demands it
        return self.spec.more

    def begin(self) -> None:
        """All go down."""
        if self._keys.times == "regular":
            self._go(self.links, True, float)
            return
        free = set(self.links)
        for place, name in enumerate(self.spec.links):
            own = tuple(link for link in links_of(self.site, (name,), f"{self.path}.links.{place}") if link in free)
            free.difference_update(own)
            if own:  # all may belong to names before it
                self._go(own, True, self._drawn(name))

    def _drawn(self, name: str) -> Callable[[float], float]:
        """Exponential times of their mean, but for the shortest, from a stream of the name's own."""
        stream = self.site.stream(f"{self.path} {name}")
        return lambda mean: max(float(stream.exponential(mean)), SHORTEST_FLAP)

    def _go(self, links: tuple[int, ...], down: bool, lasts: Callable[[float], float]) -> None:
        """Some links go down or come back, and change again after a time that follows from its mean."""
        for link in links:
            self.leave(link, self._left if down else 1.0)
        self.after(lasts(self._keys.down if down else self._keys.up), lambda: self._go(links, not down, lasts))


def disturb(site: Site, spec: Perturbation, path: str) -> Disturbance:
    """The perturbation that a scenario describes."""
    return PERTURBATIONS.get(spec.kind, f"{path}.kind")(site, spec, path)


def links_of(site: Site, names: tuple[str, ...], path: str) -> tuple[int, ...]:
    """Links by name, in order; InputError for one that is not there."""
    named = [_find(site.fabric, name, f"{path}.{i}") for i, name in enumerate(names)]
    return tuple(sorted({link for links in named for link in links}))


def _find(fabric: Fabric, name: str, path: str) -> tuple[int, ...]:
    found = fabric.find(name)
    if not found:
        last = [fabric.links[stop - 1] for stop in (*fabric.block_start[1:], len(fabric.capacity)) if stop]
        hint = f"the last of each kind: {', '.join(f'`{one}`' for one in last)}"
        raise InputError(Problem(f"the cluster has no link `{name}`", path=path, hint=hint))
    return found
