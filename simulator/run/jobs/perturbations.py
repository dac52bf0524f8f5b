"""What changes on a site while jobs run. Adding a kind is one file: a function that is registered in PERTURBATIONS.

It is given the site and what the scenario says. It says which links it takes how much of at most, so that whoever sends
over them runs on the site's clock, and gets an object whose `begin` and `end` are called at their time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from simulator import units
from simulator.engine.wires import User, Wires
from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.run.site import Site
from simulator.specs.kinds import Builders
from simulator.specs.perturbations import PERTURBATION_KEYS, Perturbation


class Disturbs(Protocol):
    """A perturbation on a site."""

    @property
    def takes(self) -> Mapping[int, float]:
        """The most that it takes of each link, in bytes per tick."""

    def begin(self) -> None:
        """It begins now."""

    def end(self) -> None:
        """It ends now."""


Maker = Callable[[Site, Perturbation, str], Disturbs]
PERTURBATIONS: Builders[Maker] = Builders(PERTURBATION_KEYS)
"""(site, what the scenario says, path of it) to a perturbation, by `kind`."""


@dataclass(slots=True)
class SlowLinks:
    """Links that have only a share of their bandwidth meanwhile."""

    site: Site
    links: tuple[int, ...]
    factor: float

    @property
    def takes(self) -> Mapping[int, float]:
        """What is not left of them."""
        return {link: (1 - self.factor) * self._whole(link) for link in self.links}

    def _whole(self, link: int) -> float:
        return float(self.site.fabric.capacity[link]) / units.TICKS_PER_SECOND

    def begin(self) -> None:
        """Less of each."""
        for link in self.links:
            self.site.clock.change(link, self.factor * self._whole(link))

    def end(self) -> None:
        """All of each again."""
        for link in self.links:
            self.site.clock.change(link, self._whole(link))


@PERTURBATIONS.add("slow-links")
def slow_links(site: Site, spec: Perturbation, path: str) -> SlowLinks:
    """The links by name; InputError for one that is not there."""
    named = [_find(site.fabric, name, f"{path}.links.{i}") for i, name in enumerate(spec.links)]
    links = np.unique(np.concatenate(named)).tolist()
    return SlowLinks(site, tuple(links), spec.factor if spec.factor is not None else 1.0)


def _find(fabric: Fabric, name: str, path: str) -> tuple[int, ...]:
    found = fabric.find(name)
    if not found:
        last = [fabric.links[stop - 1] for stop in (*fabric.block_start[1:], len(fabric.capacity)) if stop]
        hint = f"the last of each kind: {', '.join(f'`{one}`' for one in last)}"
        raise InputError(Problem(f"the cluster has no link `{name}`", path=path, hint=hint))
    return found


def disturb(site: Site, spec: Perturbation, path: str) -> User:
    """Put a perturbation on a site, as a user of the links that it takes something of."""
    made = PERTURBATIONS.get(spec.kind, f"{path}.kind")(site, spec, path)
    takes, wires = made.takes, Wires()

    def begin(_: object) -> None:
        wires.enter()
        made.begin()

    def end(_: object) -> None:
        made.end()
        wires.leave()

    start = units.to_ticks(spec.start)
    site.clock.at(start, begin)
    if spec.lasts is not None:
        site.clock.at(start + units.to_ticks(spec.lasts), end)
    return User(takes.keys(), lambda: takes, lambda: wires)
