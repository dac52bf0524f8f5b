"""Runs of which not all requests and iterations are kept (`records: sample` or `none`).

Replicas give their rows away as they have many, and these are added to totals. Of a sample the first rows of each
stay, and the requests that are done by the end of what all replicas have kept: a whole window of the run, in which
pages, traces and frames are exact. Every figure is of the whole run. Left out of such a run: what links carried, where
the time of requests goes beyond the window, and classes of priority beyond it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from simulator import units
from simulator.results import iterations as of
from simulator.results.result import Iterations, RequestRecords, TokenGaps
from simulator.results.service import FINISHED, concurrent
from simulator.results.totals import ReplicaTotals, Totals
from simulator.run.energy import linked, working_s
from simulator.run.served.rows import gaps_of, iterations_of, log_of, requests_of, row_parts, verified_of
from simulator.serving.fleet.system import System
from simulator.serving.replica.ledger import Ledger, column
from simulator.serving.replica.record import COLUMNS
from simulator.serving.replica.replica import Replica

if TYPE_CHECKING:
    from simulator.specs.requests import Slo

ROWS = 1 << 16
"""Rows that replicas hold together before they give them away; a sample keeps as many."""
LEAST_ROWS = 1 << 9
"""Of each replica at least."""
SAMPLED = 10_000
"""Requests of a sample at most."""
PART = 1 << 19
"""Requests that are looked at in one go."""
ENDLESS = 1 << 62


@dataclass(slots=True, eq=False)
class Condensing:
    """What takes the rows of replicas while they run."""

    ledger: Ledger
    replicas: tuple[Replica, ...]
    homes: tuple[System, ...]
    keeps: bool
    """Whether a window stays."""
    totals: Totals
    kept: dict[int, tuple[Iterations, TokenGaps]] = field(default_factory=dict)
    """The first rows of each replica."""
    whole: bool = True
    """Whether no replica has given rows away beyond these."""

    def watch(self) -> None:
        """Take rows from now on."""
        most = max(ROWS // max(len(self.replicas), 1), LEAST_ROWS)
        for number, (replica, home) in enumerate(zip(self.replicas, self.homes, strict=True)):
            device = home.node.accelerator.name
            blocks = replica.blocks.memory.blocks
            self.totals.replicas.append(ReplicaTotals(replica.name, home.cost.devices, device, replica.role, blocks))
            replica.record.most = most * COLUMNS
            replica.record.full = partial(self._take, number)

    def _take(self, number: int) -> None:
        """Add the rows that a replica has, and let it forget them."""
        replica, home, total = self.replicas[number], self.homes[number], self.totals.replicas[number]
        rows, gaps = iterations_of(replica), gaps_of((replica,))
        self.totals.add_rows(total, rows, gaps)
        parts = row_parts(replica, log_of(replica))
        for part, seconds in parts.items():
            total.parts[part] = total.parts.get(part, 0.0) + seconds
        accelerator, busy = home.node.accelerator, float(of.lengths(rows).sum()) / units.TICKS_PER_SECOND
        if accelerator.power is not None and busy:
            share, verified = linked(parts, busy), verified_of(home.cost, rows)
            total.energy_s += working_s(accelerator, home.cost, home.cost.weights_bytes, rows, share, verified)
        if self.keeps and number not in self.kept:
            self.kept[number] = rows, gaps
        else:
            self.whole = False
        replica.record.clear()

    def finish(self) -> None:
        """All is done: add the rows that are left, and all requests."""
        for number, replica in enumerate(self.replicas):
            if replica.record.log:
                self._take(number)
            self.totals.replicas[number].worked = units.to_seconds(replica.record.busy)
        for part in self.parts():
            self.totals.add_requests(part)
        arrival, finish = column(self.ledger.arrival), column(self.ledger.finish)
        done = column(self.ledger.status) == FINISHED
        self.totals.at_once = concurrent(arrival[done], finish[done])

    def parts(self) -> Iterator[RequestRecords]:
        """All requests, some at a time."""
        for first in range(0, len(self.ledger), PART):
            yield requests_of(self.ledger, np.arange(first, min(first + PART, len(self.ledger))))

    def rows(self, number: int) -> Iterations:
        """Rows of a replica that stay."""
        if number in self.kept:
            return self.kept[number][0]
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        return Iterations(none, none, none, none, none, none, none, none, none, none, none, nothing, none)

    def gaps(self) -> TokenGaps:
        """Gaps between tokens in the rows that stay."""
        kept = [gaps for _, gaps in self.kept.values()] or [TokenGaps(np.zeros(0, np.int64), np.zeros(0, np.int64))]
        return TokenGaps(*(np.concatenate([getattr(gaps, name) for gaps in kept]) for name in ("gap", "count")))

    def window(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Requests that stay, in the order of their arrival."""
        if not self.keeps:
            return np.zeros(0, np.int64)
        arrival, finish = column(self.ledger.arrival), column(self.ledger.finish)
        ends = [int(of.ends(rows).max(initial=0)) for rows, _ in self.kept.values()]
        until = ENDLESS if self.whole else min(ends, default=0)
        inside = np.flatnonzero((arrival >= 0) & (finish >= 0) & (finish <= until))
        found: np.ndarray[tuple[int], np.dtype[np.int64]] = inside[np.argsort(arrival[inside], kind="stable")][:SAMPLED]
        return found


def condensing(
    records: str,
    ledger: Ledger,
    replicas: tuple[Replica, ...],
    homes: tuple[System, ...],
    slo: "Slo | None",
) -> Condensing | None:
    """What takes the rows of replicas from now on; None where all stay."""
    if records == "all" or not replicas:
        return None
    arrival = column(ledger.arrival)
    origin = int(arrival[arrival >= 0].min(initial=ENDLESS))
    found = Condensing(ledger, replicas, homes, records == "sample", Totals(origin, slo))
    found.watch()
    return found
