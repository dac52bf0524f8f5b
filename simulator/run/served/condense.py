"""Runs of which not all requests and iterations are kept (`records: sample` or `none`).

Replicas give their rows away as they have many, and these are added to totals; every figure is of the whole run. Of a
sample `SAMPLED` requests stay, drawn from all that came, each with the same chance and without replacement, from a
stream of the run's seed: what is estimated from them is unbiased, and their times are exact. Gaps between tokens stay
as the buckets of their sketch, which are of the whole run too. Of iterations the first rows of each replica stay, the
beginning of the run. Left out of such a run: what links carried, where the time of requests goes, and levels over time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.results.result import Iterations, RequestRecords, TokenGaps
from simulator.results.serving.service import FINISHED, MILLISECOND, concurrent
from simulator.results.serving.totals import ReplicaTotals, Totals
from simulator.run.energy import PowerLevels
from simulator.run.served.rows import PartSeconds, gaps_of, iterations_of, requests_of, row_parts, verified_of
from simulator.serving.fleet.system import System
from simulator.serving.replica.ledger import Ledger, column
from simulator.serving.replica.record import COLUMNS
from simulator.serving.replica.replica import Replica

if TYPE_CHECKING:
    from simulator.specs.requests import Slo

Ints = NDArray[np.int64]

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
    """Whether a sample stays."""
    totals: Totals
    random: np.random.Generator
    """Draws the sample."""
    kept: dict[int, Iterations] = field(default_factory=dict)
    """The first rows of each replica."""
    power: list[PowerLevels] = field(default_factory=list)
    """Of each replica."""
    seconds: PartSeconds = field(default_factory=PartSeconds)
    """Of parts of rows."""

    def watch(self) -> None:
        """Take rows from now on."""
        most = max(ROWS // max(len(self.replicas), 1), LEAST_ROWS)
        for number, (replica, home) in enumerate(zip(self.replicas, self.homes, strict=True)):
            device = home.node.accelerator.name
            blocks = replica.blocks.memory.blocks
            self.totals.replicas.append(ReplicaTotals(replica.name, home.cost.devices, device, replica.role, blocks))
            self.power.append(PowerLevels())
            replica.record.most = most * COLUMNS
            replica.record.full = partial(self._take, number)

    def _take(self, number: int) -> None:
        """Add the rows that a replica has, and let it forget them."""
        replica, home, total = self.replicas[number], self.homes[number], self.totals.replicas[number]
        rows = iterations_of(replica)
        self.totals.add_rows(total, rows, gaps_of((replica,), (rows,)))
        parts = row_parts(replica, self.seconds)
        for part, seconds in parts.items():
            total.parts[part] = total.parts.get(part, 0.0) + seconds
        accelerator = home.node.accelerator
        if accelerator.power is not None:
            verified = verified_of(home.cost, rows)
            self.power[number].add(accelerator, home.cost, home.cost.weights_bytes, rows, verified)
        if self.keeps and number not in self.kept:
            self.kept[number] = rows
        replica.record.clear()

    def finish(self) -> None:
        """All is done: add the rows that are left, and all requests."""
        for number, replica in enumerate(self.replicas):
            if replica.record.log:
                self._take(number)
            self.totals.replicas[number].worked = units.to_seconds(replica.record.busy)
        for part in self.parts():
            self.totals.add_requests(part)
        self.totals.add_pauses(np.array(self.ledger.pauses, np.int64).reshape(-1, 3)[:, 2])
        arrival, finish = column(self.ledger.arrival), column(self.ledger.finish)
        done = np.asarray(self.ledger.status) == FINISHED
        whole = bool(done.all())
        self.totals.at_once = concurrent(*((arrival, finish) if whole else (arrival[done], finish[done])))

    def parts(self) -> Iterator[RequestRecords]:
        """All requests, some at a time."""
        for first in range(0, len(self.ledger), PART):
            yield requests_of(self.ledger, range(first, min(first + PART, len(self.ledger))))

    def rows(self, number: int) -> Iterations:
        """Rows of a replica that stay."""
        if number in self.kept:
            return self.kept[number]
        none, nothing = np.zeros(0, np.int64), np.zeros(0)
        return Iterations(none, none, none, none, none, none, none, none, none, none, none, nothing, none, none)

    def gaps(self) -> TokenGaps:
        """Gaps between tokens of the whole run as the sketch has them, of a sample; none otherwise."""
        gaps, counts = self.totals.sketches["itl"].amounts()
        some = slice(None if self.keeps else 0)
        return TokenGaps(np.rint(gaps[some] * MILLISECOND).astype(np.int64), counts[some])

    def sampled(self) -> Ints:
        """Requests that stay, in the order of their arrival."""
        if not self.keeps:
            return np.zeros(0, np.int64)
        arrival = column(self.ledger.arrival)
        there = arrival >= 0
        came: Ints | int = len(arrival) if there.all() else np.flatnonzero(there)
        drawn = np.sort(self.random.choice(came, min(SAMPLED, int(there.sum())), replace=False))
        found: Ints = drawn[np.argsort(arrival[drawn], kind="stable")]
        return found


def condensing(
    records: str,
    ledger: Ledger,
    replicas: tuple[Replica, ...],
    homes: tuple[System, ...],
    slo: "Slo | None",
    random: np.random.Generator,
) -> Condensing | None:
    """What takes the rows of replicas from now on; None where all stay."""
    if records == "all" or not replicas:
        return None
    arrival = column(ledger.arrival)
    origin = int(arrival[arrival >= 0].min(initial=ENDLESS))
    found = Condensing(ledger, replicas, homes, records == "sample", Totals(origin, slo), random)
    found.watch()
    return found
