"""Find every figure of the chosen papers, on several processes, and say what each system comes to."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import isfinite
from pathlib import Path

import simulator
from simulator.errors import InputError, Problem, nearest
from simulator.results.documents.papers import (
    GIVEN,
    HOLDS,
    NO_SCENARIO,
    REPRODUCED,
    FittedIterations,
    FittedTable,
    LeftOut,
    PaperEntry,
    PapersDocument,
    PapersTotals,
    PublishedFigure,
    SystemEntry,
)
from simulator.study.executors import each
from simulator.study.papers import kept
from simulator.study.papers.claims import Bench, Claim, Figure, Fits, Papers, changed, known_claims
from simulator.study.papers.systems import PublishedSystem, known_systems
from simulator.study.papers.verdict import best, error, verdict

FAIR = 0.25
"""Relative error up to which a figure is counted as fair."""
ShowsProgress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Found:
    """A paper's figures, and what is new among them."""

    entry: PaperEntry
    new: dict[str, float]


@dataclass(slots=True)
class _Known:
    """A bench that looks into figures found before."""

    bench: Bench
    known: Mapping[str, float]
    new: dict[str, float] = field(default_factory=dict)

    def value(self, figure: Figure) -> float:
        """The number of a figure, found once."""
        name = kept.key(figure)
        if name not in self.known and name not in self.new:
            self.new[name] = self.bench.value(figure)
        return self.new[name] if name in self.new else self.known[name]


def reproduce(
    names: Iterable[str] = (),
    jobs: int = 1,
    cache: str | Path | None = None,
    progress: ShowsProgress | None = None,
) -> PapersDocument:
    """All papers, or those that are named by their key or by a system of theirs.

    `cache` is the file of figures found before; it is written after each paper, so that nothing is lost where the work
    is interrupted. Raises InputError for an unknown name.
    """
    papers, systems = known_claims(), known_systems()
    wanted = tuple(names)
    chosen = choose(wanted, papers, systems)
    known = kept.read(cache)
    most = sorted(chosen, key=lambda name: -sum(claim.paper == name for claim in papers.claims))
    entries: dict[str, PaperEntry] = {}
    if progress:
        progress(0, len(most))
    for number, found in enumerate(each(partial(paper, known=known), most, jobs), start=1):
        entries[found.entry.name] = found.entry
        if found.new:
            known = {**known, **found.new}
            kept.keep(cache, known)
        if progress:
            progress(number, len(most))
    ordered = tuple(entries[name] for name in papers.titles if name in entries)
    shown = {
        name: one for name, one in systems.items() if not wanted or name in wanted or set(one.papers) & set(chosen)
    }
    return document(ordered, shown)


def choose(names: Sequence[str], papers: Papers, systems: Mapping[str, PublishedSystem]) -> list[str]:
    """Keys of papers; InputError for a name that is neither a paper nor a system."""
    if not names:
        return list(papers.titles)
    chosen: dict[str, None] = {}
    for name in names:
        if name not in papers.titles and name not in systems:
            raise InputError(Problem(f"no published system is called `{name[:60]}`", hint=_hint(name, papers, systems)))
        of_system = systems[name].papers if name in systems else ()
        chosen |= dict.fromkeys(one for one in (name, *of_system) if one in papers.titles)
    return list(chosen)


def _hint(name: str, papers: Papers, systems: Mapping[str, PublishedSystem]) -> str:
    close = nearest(name, [*papers.titles, *systems])
    return close or "without a name, the command runs and lists all"


def paper(name: str, known: Mapping[str, float]) -> Found:
    """Find the figures of one paper."""
    papers = known_claims()
    bench = _Known(Bench(papers.fits), known)
    figures = tuple(figure(claim, bench.value) for claim in papers.claims if claim.paper == name)
    entry = PaperEntry(
        name,
        papers.titles[name],
        "serving" if name in papers.serving else "training",
        figures,
        tuple(LeftOut(one.claim, one.why) for one in papers.absent if one.paper == name),
        tuple(_fitted(fits, bench.bench) for fits in papers.fits if fits.paper == name),
    )
    return Found(entry, bench.new)


def figure(claim: Claim, value: Callable[[Figure], float]) -> PublishedFigure:
    """A claim with ours; `value` finds the number of a figure."""
    ours = value(claim.figure)
    off = error(claim, ours)
    checks = {one.what: value(changed(claim.figure, one.changes)) for one in claim.checks}
    return PublishedFigure(
        claim.paper,
        claim.claim,
        claim.source,
        claim.published,
        claim.bound,
        claim.unit,
        ours if isfinite(ours) else None,
        off if off is not None and isfinite(off) else None,
        verdict(claim, ours),
        "; ".join(filter(None, (claim.by_construction, claim.assumed and f"Assumed: {claim.assumed}", claim.reason))),
        {what: found if isfinite(found) else None for what, found in checks.items()},
    )


def _fitted(fits: Fits, bench: Bench) -> FittedTable:
    models = (
        FittedIterations(
            bench.named(fit.of), fit.engine, fit.tp, {k: tuple(v) for k, v in bench.fitted(fits, fit).items()}
        )
        for fit in fits.models
    )
    return FittedTable(fits.source, fits.prompts, fits.decodes, fits.contexts, tuple(models))


def document(entries: Sequence[PaperEntry], systems: Mapping[str, PublishedSystem]) -> PapersDocument:
    """Figures and systems with the totals."""
    listed = tuple(_system(name, one, entries) for name, one in systems.items())
    return PapersDocument(simulator.__version__, totals(entries, listed), listed, tuple(entries))


def _system(name: str, system: PublishedSystem, entries: Sequence[PaperEntry]) -> SystemEntry:
    papers = tuple(entry.name for entry in entries if entry.name in system.papers)
    found = best(one.verdict for entry in entries if entry.name in papers for one in entry.figures)
    why = system.why if found in (GIVEN, NO_SCENARIO) else ""
    return SystemEntry(name, system.title, system.half, system.mechanism, found, papers, system.same_as, why)


def totals(entries: Sequence[PaperEntry], systems: Sequence[SystemEntry]) -> PapersTotals:
    """How many systems and figures come to what; a source counts once."""
    figures = [one for entry in entries for one in entry.figures]
    fair = sum(one.verdict in (REPRODUCED, HOLDS) or _fair(one) for one in figures if one.verdict != GIVEN)
    once = list(_once(systems))
    mechanisms = dict.fromkeys(one.mechanism for one in once)
    by_mechanism = {name: Counter(one.verdict for one in once if one.mechanism == name) for name in mechanisms}
    return PapersTotals(
        dict(Counter(one.verdict for one in once)),
        dict(Counter(one.verdict for one in figures)),
        fair,
        {name: dict(found) for name, found in by_mechanism.items()},
    )


def _fair(figure: PublishedFigure) -> bool:
    return figure.error is not None and abs(figure.error) <= FAIR


def _once(systems: Sequence[SystemEntry]) -> Iterator[SystemEntry]:
    """Systems of different sources."""
    present = {one.name for one in systems}
    return (one for one in systems if one.same_as is None or one.same_as not in present)
