"""What simulations say of structures that share a side with theirs: no proof, so it only decides what is likely.

Time between tokens is made by the decode workers and their load, whatever brings them prompts; the time to the first
token by the prefill workers and theirs. So one simulation speaks for all structures with the same decode workers at the
same load, a decode worker is no faster at a higher load, and what is late on one side at a load stays late at a higher
one. A layout that fell short of its guess at the last rate is taken to do so at the next.
"""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from simulator.study.frontier.options import Mesh
from simulator.study.frontier.run import Outcome
from simulator.study.frontier.table import Table

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_SAME = 1e-9
"""Relative difference of loads that rounding makes."""


class Seen:
    """What is known of decode and prefill workers at their loads, in requests per second of each."""

    def __init__(self, table: Table, share: float) -> None:
        """`share`: of requests that must keep to an objective."""
        self.table, self.share = table, share
        self.reached: dict[tuple[int, bool], list[tuple[float, float]]] = defaultdict(list)
        """(load, tokens per second and user) of decode workers, by option and whether others read their prompts."""
        self.slow = np.full(len(table.options), np.inf)
        """Load from which on decode workers take too long for a token, by option."""
        self.late = np.full(len(table.options), np.inf)
        """Load from which on prefill workers take too long for a prompt, by option."""
        self.apart = table.prefill >= 0
        self.short: dict[tuple[Mesh, bool], tuple[float, float]] = {}
        """(rate, tokens per second and user as a share of the guess) of layouts, the best one of the last rate."""

    def note(self, row: int, rate: float, outcome: Outcome, per_user: float, guess: float) -> None:
        """Keep what a simulation of a row came to; `guess`: what was expected of it, 0 where it should miss."""
        decode, prefill = int(self.table.decode[row]), int(self.table.prefill[row])
        missed = {name for name, _, met, _ in outcome.objectives if met < self.share}
        load = self._decodes(rate)[row]
        apart = bool(self.apart[row])
        if outcome.meets:
            self.reached[decode, apart].append((load, per_user))
            if guess > 0:
                key = self.table.options[decode].worker.mesh, apart
                before, share = self.short.get(key, (rate, 0.0))
                self.short[key] = rate, max(per_user / guess, share if before == rate else 0.0)
        if not apart:
            return
        if "tpot" in missed:
            self.slow[decode] = min(self.slow[decode], load)
        elif "ttft" in missed and guess > 0:  # or decode workers without room held up the prompts
            self.late[prefill] = min(self.late[prefill], self._prefills(rate)[row])

    def corrected(self, guess: Floats) -> Floats:
        """Guesses of rows, those of layouts that fell short before by the same share less."""
        found = guess.copy()
        for (mesh, apart), (_, share) in self.short.items():
            mine = [number for number, one in enumerate(self.table.options) if one.worker.mesh == mesh]
            found[np.isin(self.table.decode, mine) & (self.apart == apart)] *= min(share, 1.0)
        return found

    def hopeful(self, rate: float) -> Bools:
        """Whether neither side of each row was too late at its load or a lower one."""
        ok = self._decodes(rate) < self.slow[self.table.decode] * (1.0 - _SAME)
        prompts = self._prefills(rate) < self.late[self.table.prefill] * (1.0 - _SAME)
        return np.asarray(~self.apart | (ok & prompts))

    def at_most(self, rate: float) -> Floats:
        """Tokens per second and user that decode workers of each row reached at its load or a lower one."""
        found, loads = np.full(len(self.table), np.inf), self._decodes(rate)
        for (option, apart), seen in self.reached.items():
            rows = np.flatnonzero((self.table.decode == option) & (self.apart == apart))
            for load, per_user in seen:
                mine = rows[loads[rows] >= load * (1.0 - _SAME)]
                found[mine] = np.minimum(found[mine], per_user)
        return found

    def sides(self, rows: NDArray[np.int64]) -> list[tuple[int, int, int]]:
        """What tells the decode sides of rows apart: workers, how many of them; those that do both stand alone."""
        own = self.table
        both = np.where(self.apart[rows], -1, rows)
        return list(
            zip(own.decode[rows].tolist(), (own.decodes * own.copies)[rows].tolist(), both.tolist(), strict=True)
        )

    def _decodes(self, rate: float) -> Floats:
        return np.asarray(rate / (self.table.copies * self.table.decodes), dtype=np.float64)

    def _prefills(self, rate: float) -> Floats:
        return np.asarray(rate / (self.table.copies * np.maximum(self.table.prefills, 1)), dtype=np.float64)
