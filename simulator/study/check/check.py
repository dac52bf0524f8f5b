"""A run held against its baseline: which figures moved, and through which operations.

The simulator is deterministic, so that what is the same is the same to nine digits and any other answer has a cause.
Figures are compared relative to their baseline, parts (operations, links, memory by kind) relative to the whole that
they are parts of: a part that is small may double without moving anything. A gain counts as moved, as a loss does: a
baseline that is too slow would hide the next loss.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import isclose

from simulator import units
from simulator.errors import InputError, Problem
from simulator.metrics import METRICS
from simulator.results.documents.check import MovedFigure, MovedPart
from simulator.results.metrics import metric
from simulator.results.result import Result
from simulator.run.kinds import KINDS
from simulator.run.parts import axis_of
from simulator.study.check.baseline import Baseline

SAME = 1e-9
"""Relative difference that is none: platforms round differently in the last bits."""
WIDEST = 10.0
_MEMORY = "peak_memory_bytes"
_EXAMPLE = "write `1%` for all figures or `mfu=1%` for one"


@dataclass(frozen=True, slots=True)
class Tolerances:
    """How far figures may move, as shares of their baselines."""

    default: float = SAME
    """For those that are not named."""
    named: dict[str, float] = field(default_factory=dict)
    """By name of the metric."""

    def of(self, name: str) -> float:
        """The tolerance of a metric."""
        return self.named.get(name, self.default)


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run held against its baseline."""

    moved: tuple[MovedFigure, ...]
    """Figures, the headline first, then in the order of `METRICS`; of serving, whose latencies move apart, before them
    the one that moved most beyond its tolerance where that is more than twice as much as the first of them did."""
    causes: tuple[MovedPart, ...]
    """Parts of the time that moved, the largest first, then those of the memory; none where all is within tolerance."""
    fitted: bool
    fits: bool
    """Whether it fitted into memory, and does now."""
    edited: tuple[str, ...]
    """Settings of the resolved scenario that are not what they were, as `serving.router round-robin to random`, and
    sections where the settings are unknown."""

    @property
    def same(self) -> bool:
        """Whether nothing moved; an edited scenario with the same answers is the same."""
        return not self.moved and not self.causes and self.fitted == self.fits


def parse_tolerances(texts: Iterable[str]) -> Tolerances:
    """Read `1%` or `mfu=1%`; InputError naming every one that is wrong or about an unknown metric."""
    named: dict[str, float] = {}
    problems: list[Problem] = []
    for text in texts:
        name, _, value = text.rpartition("=")
        name, where = name.strip(), f"--tolerance {text[:80]}"
        try:
            if "=" in text:
                metric(name)
            share = units.parse(value, "fraction")
        except InputError as error:
            problems += [Problem(one.message, file=where, hint=one.hint) for one in error.problems]
            continue
        except ValueError as error:
            problems.append(Problem(str(error), file=where, hint=_EXAMPLE))
            continue
        if not 0 <= share <= WIDEST:
            problems.append(Problem("is out of range, from 0 to 1000 %", file=where, hint=_EXAMPLE))
        elif share >= 1 and "%" not in value:
            problems.append(Problem(f"would be {share:.0%}", file=where, hint=f"write `{value.strip()}%`"))
        elif name in named:
            problems.append(Problem("is the second one for the same figures", file=where, hint="keep one"))
        named[name] = share
    if problems:
        raise InputError(*problems)
    return Tolerances(named.pop("", SAME), named)


def check(before: Baseline, after: Baseline, tolerances: Tolerances, links: Mapping[str, str]) -> Verdict:
    """Hold a run against its baseline; `links` names the slowest link of each communication, see `slowest_links`."""
    headline = KINDS[after.kind].whole  # its tolerance is that of the parts
    order = dict.fromkeys([headline, *METRICS, *before.metrics, *after.metrics])
    figures = [_figure(name, before.metrics.get(name), after.metrics.get(name)) for name in order]
    differing = [one for one in figures if _differs(one.before, one.after, tolerances.of(one.metric))]
    moved = _leading(differing, tolerances) if after.kind == "serving" else tuple(differing)
    causes, memory = _causes(before, after, links), _parts("memory", before, after)
    within = (_within(causes, tolerances.of(headline)), _within(memory, tolerances.of(_MEMORY)))
    if not moved and all(within):
        causes = memory = []
    edited = tuple(_edited(before.scenario, after.scenario))
    return Verdict(moved, (*causes, *memory), before.feasible, after.feasible, edited)


def _edited(before: Mapping[str, str], after: Mapping[str, str]) -> Iterable[str]:
    """Sections that differ, in place of them the settings that do where both sides know them."""
    differing = [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)]
    for section in (key for key in differing if "." not in key):
        known = [any(key.startswith(f"{section}.") for key in side) for side in (before, after)]
        inside = [key for key in differing if key.startswith(f"{section}.")] if all(known) else []
        yield from [f"{key} {before.get(key, 'open')} to {after.get(key, 'open')}" for key in inside] or [section]


def slowest_links(result: Result) -> dict[str, str]:
    """For each operation that communicates the kind of link that its bytes keep busy for longest."""
    busiest: dict[str, tuple[float, str]] = {}
    for load in result.links:
        for operation, size in load.by_operation.items():
            busiest[operation] = max(busiest.get(operation, (0.0, "")), (size / load.capacity, load.name))
    found = {operation: name for operation, (_, name) in busiest.items()}
    passes = max((busiest[name] for name in ("forward", "backward") if name in busiest), default=None)
    exposed = [name for name in result.critical_path.by_operation if name.endswith(" tp")]
    return found | (dict.fromkeys(exposed, passes[1]) if passes else {})


def _differs(before: float | None, after: float | None, tolerance: float) -> bool:
    if before is None or after is None:
        return before is not after
    return not isclose(before, after, rel_tol=0.0, abs_tol=max(tolerance, SAME) * abs(before))


def _leading(moved: list[MovedFigure], tolerances: Tolerances) -> tuple[MovedFigure, ...]:
    """The figures, led by the one that moved most where the first of them moved less than half as much."""

    def beyond(one: MovedFigure) -> float:
        return abs(one.change) - tolerances.of(one.metric) if one.change is not None else 0.0

    most = max(moved, key=beyond, default=None)
    if most is None or beyond(most) <= 2 * beyond(moved[0]):
        return tuple(moved)
    return (most, *(one for one in moved if one is not most))


def _within(causes: Iterable[MovedPart], tolerance: float) -> bool:
    """Whether no part moved by more than a share of its whole."""
    return all(abs(one.share) <= tolerance for one in causes)


def _causes(before: Baseline, after: Baseline, links: Mapping[str, str]) -> list[MovedPart]:
    """The parts of the time that moved.

    Those that communicate are ordered by all of their time: passes beside which they run are slower as a consequence.
    """
    if after.kind != before.kind:
        return []
    broken_down = _parts("breakdown", before, after)
    if after.kind != "training":
        return _parts("operations", before, after) + broken_down
    step = _whole(before, "breakdown")
    waited, over, busy = (_parts(name, before, after, step) for name in ("critical_path", "links", "operations"))
    found = [_over(one, over, links) for one in waited]
    known = {one.name for one in waited}
    hidden = [_over(one, [], links, hidden=True) for one in busy if one.name not in known]
    weight = {one.name: abs(one.share) for one in busy}
    ordered = sorted(found + hidden, key=lambda one: -max(abs(one.share), weight.get(one.name, 0.0)))
    return ordered or over or broken_down


def _over(one: MovedPart, moved: list[MovedPart], links: Mapping[str, str], hidden: bool = False) -> MovedPart:
    """A part of a step with its axis, and the link over which it goes."""
    axis = axis_of(one.name)
    if axis is None:
        return one
    only = [link.name for link in moved]
    link = only[0] if len(only) == 1 else links.get(one.name)
    return replace(one, axis=axis, link=link, hidden=hidden)


def _parts(table: str, before: Baseline, after: Baseline, whole: float | None = None) -> list[MovedPart]:
    """Entries of a table that moved, the largest first."""
    old, new = before.parts.get(table, {}), after.parts.get(table, {})
    whole = whole or _whole(before, table) or _whole(after, table)
    found = [
        _part(table, name, old.get(name, 0.0), new.get(name, 0.0), whole)
        for name in dict.fromkeys([*old, *new])
        if whole
    ]
    return sorted((one for one in found if abs(one.share) > SAME), key=lambda one: -abs(one.share))


def _figure(name: str, before: float | None, after: float | None) -> MovedFigure:
    change = after / before - 1 if before and after is not None else None
    return MovedFigure(metric=name, before=before, after=after, change=change)


def _part(table: str, name: str, before: float, after: float, whole: float) -> MovedPart:
    """A part of a whole before; on which axis and link it goes is not known yet."""
    share, change = (after - before) / whole, after / before - 1 if before else None
    return MovedPart(
        table=table,
        name=name,
        axis=None,
        link=None,
        before=before,
        after=after,
        share=share,
        hidden=False,
        change=change,
    )


def _whole(baseline: Baseline, table: str) -> float:
    return sum(baseline.parts.get(table, {}).values())
