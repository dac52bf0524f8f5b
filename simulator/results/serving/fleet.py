"""What became of a fleet: which replica was there when, what failed, which requests were turned away, how each tenant
fared."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.units import TICKS_PER_SECOND as SECOND

Ints = NDArray[np.int64]

PHASES = ("off", "provisioning", "loading", "warming up", "up", "draining", "down")
"""What a replica does, by number."""
OFF, UP, DOWN = PHASES.index("off"), PHASES.index("up"), PHASES.index("down")
DRAINING = PHASES.index("draining")
REASONS = (
    "",
    "too long for a replica",
    "the queue of the replica was full",
    "the fleet was full",
    "over the rate limit",
    "no replica was up",
    "its replica failed",
)
"""Why a request was turned away or failed, by number."""


@dataclass(frozen=True, slots=True)
class TenantRecord:
    """A tenant of the requests, and what it is promised."""

    name: str
    ttft: float | None = None
    """Objectives in seconds; None where there is none."""
    tpot: float | None = None
    e2e: float | None = None
    attainment: float = 0.9
    """Share of its requests that must meet all of them."""


@dataclass(frozen=True, slots=True)
class LinkOutage:
    """A link that was down."""

    link: str
    start: int
    """Picoseconds."""
    end: int


def _none() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class FleetRecord:
    """Columns of picoseconds and numbers."""

    replica: Ints = field(default_factory=_none)
    """Index into `Service.replicas` of each phase; shape (phases,)."""
    phase: Ints = field(default_factory=_none)
    """Index into `PHASES`."""
    start: Ints = field(default_factory=_none)
    end: Ints = field(default_factory=_none)
    failed: Ints = field(default_factory=_none)
    """Index into `Service.replicas` of each failure; shape (failures,)."""
    failed_at: Ints = field(default_factory=_none)
    repaired_at: Ints = field(default_factory=_none)
    lost: Ints = field(default_factory=_none)
    """Requests that it had."""
    tried: Ints = field(default_factory=_none)
    """How often each request was tried again; shape (requests,), as all that follow. Empty where replicas do not come,
    go or fail."""
    reason: Ints = field(default_factory=_none)
    """Why each was turned away or failed: index into `REASONS`."""
    tenant: Ints = field(default_factory=_none)
    """Index into `tenants` of each; empty where tenants are not distinguished."""
    tenants: tuple[TenantRecord, ...] = ()
    outages: tuple[LinkOutage, ...] = ()

    @property
    def changes(self) -> bool:
        """Whether it says which replica was there when."""
        return bool(len(self.replica))

    def seconds(self, phases: Sequence[int], begin: int, end: int, replicas: int) -> NDArray[np.float64]:
        """Seconds from `begin` to `end` in which each of so many replicas was in any of these phases."""
        inside = np.isin(self.phase, phases)
        spent = np.clip(np.minimum(self.end, end) - np.maximum(self.start, begin), 0, None)[inside] / SECOND
        return np.bincount(self.replica[inside], spent, replicas)[:replicas].astype(np.float64)

    def held(self, begin: int, end: int, replicas: int) -> NDArray[np.float64]:
        """Seconds in which each replica had its machine: all but those in which it was off."""
        if not self.changes:
            return np.full(replicas, (end - begin) / SECOND)
        return self.seconds([number for number in range(len(PHASES)) if number != OFF], begin, end, replicas)


def figures(record: FleetRecord, begin: int, end: int, replicas: int) -> dict[str, float]:
    """The metrics of a fleet whose replicas come, go or fail."""
    if not record.changes:
        return {}
    lasted = max((end - begin) / SECOND, 1e-12)
    held = float(record.held(begin, end, replicas).sum())
    up = float(record.seconds((UP, DRAINING), begin, end, replicas).sum())
    down = float(record.seconds((DOWN,), begin, end, replicas).sum())
    counts = over_time(record, begin, end)[1]
    outages = [outage for outage in record.outages if begin <= outage.start < end]
    return ({"link_failures": float(len(outages))} if record.outages else {}) | {
        "replica_hours": held / 3600,
        "mean_replicas": up / lasted,
        "max_replicas": float(counts.max(initial=0)),
        "min_replicas": float(counts.min()),
        "availability": up / (up + down) if up + down else float("nan"),
        "replica_failures": float(((record.failed_at >= begin) & (record.failed_at < end)).sum()),
        "retries": float(record.tried.sum()),
    }


def over_time(record: FleetRecord, begin: int, end: int, phases: Sequence[int] = (UP, DRAINING)) -> tuple[Ints, Ints]:
    """(moments, replicas in any of these phases from each moment on), the first at `begin`."""
    inside = np.isin(record.phase, phases) & (record.end > begin) & (record.start < end)
    starts, ends = np.maximum(record.start[inside], begin), record.end[inside]
    moments = np.unique(np.concatenate([[begin], starts, ends[ends < end]])).astype(np.int64)
    there = np.searchsorted(np.sort(starts), moments, side="right") - np.searchsorted(
        np.sort(ends), moments, side="right"
    )
    return moments, there.astype(np.int64)
