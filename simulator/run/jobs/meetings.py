"""Links on which several jobs sent at one time: for how long, how full they were, and what each job had of them."""

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from simulator import units
from simulator.engine.load import Span
from simulator.results.result import Meeting

if TYPE_CHECKING:
    from simulator.run.jobs.simulate import Together

FULL = 1 - 1e-6
"""Share of a capacity from which a link is full; the rest is rounding."""
MOST = 8192
"""Intervals of a link whose rates are kept; of more the means over equal stretches, at least half as many."""

Rates = list[tuple[int, dict[str, float]]]
"""(tick, units per tick of each job from then on)."""


@dataclass(slots=True, eq=False)
class Tally:
    """What a link carried, counted before short intervals are merged."""

    together: int = 0
    """Ticks in which several jobs sent."""
    full: int = 0
    """Ticks of these in which it carried all that it has."""
    sent: dict[str, float] = field(default_factory=dict)
    """What each job sent."""
    at_once: dict[str, float] = field(default_factory=dict)
    """What of it each sent while others did."""

    rates: Rates = field(default_factory=list)
    """What each job sent over time; shorter than the record of operations, for a job may run many."""
    stop: int = 0
    """When the last interval ended."""
    width: int = 0
    """Ticks of the stretches over which rates are means; 0 where they are not."""

    def add(self, span: Span) -> None:
        """Count an interval; they come in order and without gaps."""
        by, ticks = _by_job(span), span.stop - span.start
        if not self.rates or self.rates[-1][1] != by:
            self.rates.append((span.start, by))
        self.stop = span.stop
        if len(self.rates) > MOST:
            self.even()
        several = sum(rate > 0 for rate in by.values()) > 1
        for name, rate in by.items():
            self.sent[name] = self.sent.get(name, 0.0) + rate * ticks
            if several:
                self.at_once[name] = self.at_once.get(name, 0.0) + rate * ticks
        self.together += ticks if several else 0
        self.full += ticks if several and span.load >= FULL * span.capacity else 0

    def even(self) -> None:
        """Means over equal stretches in place of the rates."""
        first = self.rates[0][0]
        self.width = -(-(self.stop - first) // (MOST // 2))
        times = np.array([*(tick for tick, _ in self.rates), self.stop], np.int64)
        edges = np.arange(first, self.stop + self.width, self.width)
        edges[-1] = self.stop
        names = list(dict.fromkeys(name for _, by in self.rates for name in by))
        means = {}
        for name in names:
            sent = np.append(0.0, np.cumsum([by.get(name, 0.0) for _, by in self.rates] * np.diff(times)))
            means[name] = (np.diff(np.interp(edges, times, sent)) / np.diff(edges)).tolist()
        self.rates = [
            (tick, {name: means[name][i] for name in names if means[name][i] > 0})
            for i, tick in enumerate(edges[:-1].tolist())
        ]


def meetings_of(together: "Together") -> tuple[Meeting, ...]:
    """Links on which several jobs sent at one time; of those on which the same jobs fared alike one."""
    fabric, found = together.site.fabric, dict[tuple[object, ...], Meeting]()
    for link in sorted(together.tally):
        stands = together.alike.get(link, link)
        tally, kind = together.tally.get(stands, Tally()), fabric.kinds[fabric.block_of(link)]
        if not tally.together:
            continue
        sent = {job.name: tally.sent[job.name] for job in together.jobs if job.name in tally.sent}
        key = kind, float(fabric.capacity[link]), tally.together, tally.full, *sent.items()
        if key in found:
            found[key] = replace(found[key], links=found[key].links + 1)
            continue
        if tally.width:
            tally.even()
        found[key] = Meeting(
            link=fabric.links[link],
            kind=kind,
            links=1,
            capacity=float(fabric.capacity[link]),
            bytes=sent,
            at_once={name: tally.at_once.get(name, 0.0) for name in sent},
            together_s=units.to_seconds(tally.together),
            full_s=units.to_seconds(tally.full),
            rates=(*((tick, _per_second(by)) for tick, by in tally.rates), (tally.stop, {})),
        )
    return tuple(sorted(found.values(), key=lambda meeting: (-meeting.full_s, -meeting.together_s)))


def _by_job(span: Span) -> dict[str, float]:
    """Bytes per tick of each job."""
    found: dict[str, float] = {}
    for label, rate in span.by.items():
        name = str(label[0]) if isinstance(label, tuple) else str(label)
        found[name] = found.get(name, 0.0) + rate
    return found


def _per_second(by: dict[str, float]) -> dict[str, float]:
    return {name: rate * units.TICKS_PER_SECOND for name, rate in by.items()}
