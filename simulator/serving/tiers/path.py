"""The way between a replica and a tier, as an activity on the links and disks that it goes over."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simulator import units
from simulator.engine.tape import Activity, Use


class Lane(NamedTuple):
    """A resource on a way."""

    resource: int
    """Number on the clock."""
    rate: float
    """Bytes per tick that it carries."""
    share: float = 1.0
    """Share of the bytes that go over it."""


@dataclass(frozen=True, slots=True)
class Path:
    """One direction of a way: all its lanes at once, as slow as the slowest for its share."""

    latency: int
    """Ticks before bytes move."""
    lanes: tuple[Lane, ...]

    @property
    def rate(self) -> float:
        """Bytes per tick alone."""
        return min(lane.rate / lane.share for lane in self.lanes)

    def ticks(self, size: float) -> int:
        """What so many bytes take alone."""
        return self.latency + max(1, round(size / self.rate))

    def activity(self, size: float, latency: bool = True) -> Activity:
        """The same where others may be on the lanes."""
        rate = self.rate
        uses = tuple(Use(lane.resource, min(lane.rate, rate * lane.share), 1.0) for lane in self.lanes)
        return Activity(self.latency if latency else 0, max(1, round(size / rate)), uses)


def path(latency_s: float, lanes: Sequence[Lane]) -> Path:
    """A way; lanes of one resource count once, with all of their share."""
    found: dict[int, Lane] = {}
    for lane in lanes:
        known = found.get(lane.resource)
        found[lane.resource] = lane if known is None else known._replace(share=known.share + lane.share)
    return Path(units.to_ticks(latency_s), tuple(found[key] for key in sorted(found)))
