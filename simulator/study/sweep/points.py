"""The points of a sweep: all combinations of the axes' values or a random choice of them, as scenarios to simulate.

A point whose scenario is refused on its own terms is a point all the same, with the reason. What could suit no point,
an unknown key or a value of the wrong type, is an error before anything is simulated.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import Any

from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.results.ground import Ground
from simulator.run.spread.grounded import grounded
from simulator.specs.resolve import Template, scenario_hash
from simulator.specs.text.overrides import parse
from simulator.specs.text.yaml_text import plain
from simulator.study import fingerprint
from simulator.study.sweep.conditions import Condition, value_at
from simulator.study.sweep.evaluate import SEPARATORS
from simulator.study.variants import Axis

MOST = 50_000
"""Points of one sweep."""
MOST_DRAWN = 10**15
"""Combinations from which a random choice may be drawn."""
_SHUFFLED = 1_000_000  # combinations up to which a random order of all of them is made
_DRAWS = 100  # combinations looked at for each point that is wanted, where conditions leave few of them


@dataclass(frozen=True, slots=True)
class Point:
    """One combination."""

    number: int
    """Its place among all combinations, the last axis changing fastest; from 0."""
    overrides: tuple[str, ...]
    values: tuple[Any, ...]
    """The value on each axis as plain data."""
    name: str = ""
    """Name of its scenario; empty, as the next three, where it is refused."""
    scenario: str = ""
    """Hash of its scenario."""
    key: str = ""
    """Key of its outcome: points with one key have one outcome."""
    document: str = ""
    """Plain data from which the scenario can be made again, as JSON: short, for there may be many points."""
    reason: str = ""
    """Why it is refused."""
    ground: Ground = field(default_factory=Ground)
    """What it stands on."""


def points(
    template: Template, axes: Sequence[Axis], conditions: Sequence[Condition], random: int | None, seed: int
) -> list[Point]:
    """The points that meet the conditions on the scenario, in the order of their numbers.

    With `random` so many of them, drawn without repetition. Raises InputError where there are too many or none, for a
    key that is not known and for a value that its key does not take.
    """
    size = prod(len(axis.values) for axis in axes)
    if random is None and size > MOST:
        hint = f"list at most {MOST:,}, or draw some of them (`random`, `--random N`)"
        raise InputError(Problem(f"{size:,} points are too many", hint=hint))
    if size > MOST_DRAWN:
        raise InputError(Problem(f"{size:,} combinations are too many to draw from", hint="list fewer values"))
    _check_values(template, axes)
    wanted = size if random is None else min(random, size)
    found: list[Point] = []
    for number in _order(size, random, wanted, seed):
        point = _point(template, axes, conditions, number)
        if point is not None:
            found.append(point)
            if len(found) == wanted:
                break
    if not found:
        hint = "loosen them" if conditions else "list values of a key"
        message = f"none of {size:,} points meets the conditions: nothing to simulate"
        raise InputError(Problem("; ".join([message, *_ranges(axes, conditions)]), hint=hint))
    return sorted(found, key=lambda point: point.number)


def _ranges(axes: Sequence[Axis], conditions: Sequence[Condition]) -> Iterator[str]:
    """What the keys of conditions on axes were."""
    listed = {axis.key.removeprefix("+"): axis.values for axis in axes}
    for condition in conditions:
        if condition.of == "axis":
            values = listed[condition.key]
            yield f"`{condition.text}`: it was {', '.join(values[:8])}{' ...' if len(values) > 8 else ''}"


def _order(size: int, random: int | None, wanted: int, seed: int) -> Iterator[int]:
    """The numbers of combinations in the order in which they are taken."""
    if random is None or wanted == size:
        return iter(range(size))
    generator = stream(seed, "sweep")
    if size <= _SHUFFLED:
        return iter(generator.permutation(size).tolist())
    seen: dict[int, None] = {}
    for drawn in count():
        if len(seen) >= wanted * _DRAWS or drawn >= 2 * wanted * _DRAWS:
            break
        seen.setdefault(int(generator.integers(size)))
    return iter(seen)


def _combination(axes: Sequence[Axis], number: int) -> tuple[str, ...]:
    """The overrides of a combination by its number."""
    chosen = []
    for axis in reversed(axes):
        number, index = divmod(number, len(axis.values))
        chosen.append(axis.overrides[index])
    return tuple(reversed(chosen))


def _point(template: Template, axes: Sequence[Axis], conditions: Sequence[Condition], number: int) -> Point | None:
    """A point, or None where a condition on an axis or on the scenario leaves it out."""
    overrides = _combination(axes, number)
    values = tuple(plain(parse(text).value) for text in overrides)
    by_key = {axis.key.removeprefix("+"): value for axis, value in zip(axes, values, strict=True)}
    if not all(condition.holds(by_key[condition.key]) for condition in conditions if condition.of == "axis"):
        return None
    try:
        scenario, document = template.changed(overrides).filled()
    except InputError as error:
        return Point(number, overrides, values, reason=" ".join(str(error).split()))
    later = [condition for condition in conditions if condition.of == "scenario"]
    if not all(condition.holds(value_at(scenario, condition.key)) for condition in later):
        return None
    text = json.dumps(document, separators=SEPARATORS)
    known = (scenario_hash(scenario), fingerprint.key(scenario), text)
    return Point(number, overrides, values, scenario.name, *known, ground=grounded(scenario))


def _check_values(template: Template, axes: Sequence[Axis]) -> None:
    """Refuse keys that are not known and values that their keys never take, whatever the other axes say."""
    problems: list[Problem] = []
    for axis in axes:
        key = ".".join(parse(axis.overrides[0]).keys)
        for override in axis.overrides:
            try:
                template.changed([override]).filled()
            except InputError as error:
                own = [problem for problem in error.problems if _is_own(problem, key)]
                problems += own
    if problems:
        raise InputError(*dict.fromkeys(problems))


def _is_own(problem: Problem, key: str) -> bool:
    """Whether a problem is one of an override itself: of its key, or of what it puts there."""
    of_override = (problem.file or "").startswith("override ")
    return of_override and (problem.path == key or problem.path.startswith(f"{key}.") or _is_prefix(problem, key))


def _is_prefix(problem: Problem, key: str) -> bool:
    """An unknown key on the way stands at the part of the path up to it."""
    return key.startswith(f"{problem.path}.") and problem.message.startswith(("unknown key", "holds no keys"))
