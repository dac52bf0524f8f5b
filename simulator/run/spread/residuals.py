"""The residuals of published runs, as they are shipped, and the spreads of unseen runs that follow from them.

`workloads/measurements/residuals.json` has, by quantity (`results.spread`), rows that differ in nothing but devices in
one entry; benchmarks/validation.py writes it. Where a stack is fitted on rows, their residuals are those of the fit
that has not seen their source. A row says nothing of another row of its own source. Rows that were found after all
fits are marked: they decide how wide the interval of a run is that nobody here has seen, as are those of users.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from simulator.results.spread import Spread
from simulator.run.extent import Extent
from simulator.run.ground import Conditions
from simulator.run.spread.conformal import FEWEST, Ints, Widening, calibrated, quantiles, widened
from simulator.run.spread.near import Alike, Like, alike, apart, differing, distances
from simulator.specs import data_root

PATH = data_root() / "workloads" / "measurements" / "residuals.json"
"""Where they lie."""


class Residuals:
    """The residuals of one quantity of one kind of runs."""

    def __init__(self, rows: Sequence[Alike], widening: Widening | None, of_unseen: Widening | None = None) -> None:
        """Rows that differ in nothing but devices in one entry; without a widening there are no spreads.

        `of_unseen` is the widening of runs that nobody had seen before, that of all others where too few are known.
        """
        self.rows, self.widening, self.of_unseen = tuple(rows), widening, of_unseen
        self.residuals = np.concatenate([r.residuals for r in rows]) if rows else np.zeros(0)
        names = {name: i for i, name in enumerate(sorted({r.source for r in rows}))}
        self.sources: Ints = np.repeat([names[r.source] for r in rows], [len(r.residuals) for r in rows])
        self.unseen = np.repeat([r.like.unseen for r in rows], [len(r.residuals) for r in rows])
        self._names = names

    def spread(self, own: Like, but: str = "") -> Spread | None:
        """The spread of a run, from rows of all sources but one; None where too few speak for it."""
        here = self.sources != self._names.get(but, -1)
        own, by = self.placed(own)
        if by is None or here.sum() < FEWEST:
            return None
        far, sources, unlike = distances(own, self.rows)[here], self.sources[here], (self.unseen != own.unseen)[here]
        low, high = widened(quantiles(self.residuals[here], far, sources, by.reach, unlike), by)
        near = alike(own, [r for r in self.rows if r.source != but])
        nearest = "" if near else self._nearest(own, but)
        return Spread(float(np.exp(low)), float(np.exp(high)), near, len(set(sources.tolist())), nearest)

    def placed(self, own: Like) -> tuple[Like, Widening | None]:
        """A run and the widening of runs like it; where too few were found afterwards, all count as known."""
        if own.unseen and self.of_unseen is not None:
            return own, self.of_unseen
        return own._replace(unseen=False), self.widening

    def knows(self, source: str) -> bool:
        """Whether this project was made with rows of a source before it."""
        return any(r.source == source and not r.like.unseen for r in self.rows)

    def _nearest(self, own: Like, but: str) -> str:
        """In what the nearest rows differ."""
        other = min((r for r in self.rows if r.source != but), key=lambda r: apart(own, r.like))
        return " and ".join(differing(own, other.like)[:2]) or "far fewer or more devices"

    def calibrated(self) -> "Residuals":
        """The same with the widenings that its left-out sources ask for, known and found ones apart."""
        at = np.repeat(np.arange(len(self.rows)), [len(r.residuals) for r in self.rows])
        doublings = np.concatenate([r.doublings for r in self.rows])

        def from_row(i: int) -> Any:
            one = self.rows[at[i]].like
            return distances(one._replace(extent=one.extent._replace(devices=2.0 ** doublings[i])), self.rows)

        alike = np.unique(np.stack([at, doublings]), axis=1, return_inverse=True)[1].ravel()
        kinds = (False, True)
        by = (calibrated(self.residuals, self.sources, from_row, alike, self.unseen, asked) for asked in kinds)
        return Residuals(self.rows, *by)


@lru_cache(4096)
def spreads(own: Like, but: str = "") -> Mapping[str, Spread]:
    """What is known of the figures of a run, by quantity, from rows of all sources but one."""
    found = {about: known.spread(own, but) for (kind, about), known in shipped().items() if kind == own.conditions.kind}
    return {about: spread for about, spread in found.items() if spread is not None}


def spread_of(own: Like, about: str, but: str = "") -> Spread | None:
    """The spread of one figure of a run, from rows of all sources but one."""
    known = shipped().get((own.conditions.kind, about))
    return known.spread(own, but) if known else None


def spread_of_row(own: Like, about: str, source: str) -> Spread | None:
    """The spread of one figure of a published row, from rows of all sources but its own."""
    known = shipped().get((own.conditions.kind, about))
    return known.spread(own._replace(unseen=not known.knows(source)), source) if known else None


@cache
def shipped() -> Mapping[tuple[str, str], Residuals]:
    """The shipped residuals by kind of run and quantity."""
    return read(json.loads(PATH.read_text(encoding="utf-8")))


def read(document: Mapping[str, Any]) -> dict[tuple[str, str], Residuals]:
    """Residuals from their written form."""
    rows: dict[tuple[str, str], list[Alike]] = {}
    for entry in document["rows"]:
        known = Conditions(*(entry[name] for name in Conditions._fields))
        doublings, residuals = np.array(entry["residuals"], float).T
        seen = Like(
            known,
            Extent(0, tuple(entry["features"])),
            entry["vendor"],
            entry["year"],
            entry.get("found", False),
            entry.get("load", ""),
        )
        rows.setdefault((known.kind, entry["about"]), []).append(Alike(seen, entry["source"], doublings, residuals))
    return {key: Residuals(some, *_widenings(document["widening"], *key)) for key, some in rows.items()}


def _widenings(known: Mapping[str, Any], kind: str, about: str) -> Iterable[Widening | None]:
    """The widenings of a quantity: of runs like those that were known, and of unseen ones."""
    for key in (f"{kind}/{about}", f"{kind}/{about}/unseen"):
        yield Widening(**known[key]) if key in known else None


def written(outcomes: Iterable[tuple[Like, str, str, float]]) -> list[dict[str, Any]]:
    """Entries of (what a row is, its source, quantity, measured over simulated), as they are shipped.

    Those of rows that were found after all fits say so with `found`.
    """
    together: dict[tuple[Any, ...], list[list[float]]] = {}
    for own, source, about, ratio in outcomes:
        features = tuple(sorted(own.extent.features))
        key = (about, source, own.vendor, own.year, features, own.conditions, own.load, own.unseen)
        pair = [round(float(np.log2(max(own.extent.devices, 1))), 2), round(float(np.log(ratio)), 4)]
        together.setdefault(key, []).append(pair)
    return [
        {"about": about, "source": source, "vendor": vendor, "year": year, "features": list(features)}
        | known._asdict()
        | ({"load": load} if load else {})
        | ({"found": True} if found else {})
        | {"residuals": sorted(pairs)}
        for (about, source, vendor, year, features, known, load, found), pairs in sorted(together.items())
    ]
