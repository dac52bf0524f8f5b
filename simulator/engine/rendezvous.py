"""Rendezvous: which operations start and end together, and what they do together.

Their numbers may be any; here they are counted from 0. A rendezvous lasts as long as the longest of its members
alone. If any of them names an activity the rendezvous runs one activity that needs what all members need.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import RESERVED, Activity, Tape, Use, chain

Ints = NDArray[np.int64]

NOTHING = Activity(0, 0, ())
"""The phase of a member that is through with its own."""


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """All rendezvous of a tape, numbered 0 .. k - 1."""

    number: Ints
    """Rendezvous of each operation, -1 for none; shape (n,)."""
    size: Ints
    """Members of each; shape (k,)."""
    ticks: Ints
    """How long each lasts when nothing is shared; shape (k,)."""
    activity: Ints
    """What each runs, as an index into `activities`, -1 for nothing shared; shape (k,)."""
    activities: tuple[Activity, ...]
    """Those of the tape, and those that members of different needs make together."""


def lone_ticks(tape: Tape) -> Ints:
    """Ticks that each operation would last alone, whatever its rendezvous; shape (n,)."""
    alone = np.array([activity.ticks for activity in tape.activities] or [0], np.int64)
    return np.where(tape.activity >= 0, alone[tape.activity], tape.duration)


def gather(tape: Tape) -> Rendezvous:
    """Number the rendezvous of a tape and find what each does."""
    members = np.flatnonzero(tape.rendezvous >= 0)
    number = np.full(len(tape), -1, np.int64)
    if not members.size:
        none = np.zeros(0, np.int64)
        return Rendezvous(number, none, none, none, tape.activities)
    known, compact = np.unique(tape.rendezvous[members], return_inverse=True)
    number[members] = compact
    size = np.bincount(compact)
    ticks = np.zeros(len(known), np.int64)
    np.maximum.at(ticks, compact, lone_ticks(tape)[members])
    activity, made = _activities(tape, members, compact, len(known))
    activities = tape.activities + made
    for rendezvous in range(len(known)) if made else ():
        if activity[rendezvous] >= len(tape.activities):
            ticks[rendezvous] = activities[activity[rendezvous]].ticks
    return Rendezvous(number, size, ticks, activity, activities)


def _activities(tape: Tape, members: Ints, compact: Ints, count: int) -> tuple[Ints, tuple[Activity, ...]]:
    """The activity of each rendezvous (count,), and the new ones that had to be made."""
    lowest, highest = np.full(count, len(tape.activities), np.int64), np.full(count, -1, np.int64)
    np.minimum.at(lowest, compact, tape.activity[members])
    np.maximum.at(highest, compact, tape.activity[members])
    mixed = np.flatnonzero(lowest != highest)
    if not mixed.size:
        return highest, ()
    made: dict[tuple[Activity, ...], int] = {}
    order = np.argsort(compact, kind="stable")
    edges = np.concatenate(([0], np.cumsum(np.bincount(compact, minlength=count))))
    for rendezvous in mixed.tolist():
        group = members[order[edges[rendezvous] : edges[rendezvous + 1]]]
        parts = tuple(_as_activity(tape, op) for op in group.tolist())
        highest[rendezvous] = made.setdefault(parts, len(tape.activities) + len(made))
    return highest, tuple(_together(parts) for parts in made)


def _as_activity(tape: Tape, operation: int) -> Activity:
    """What an operation does; a plain duration is work on nothing."""
    number = int(tape.activity[operation])
    return tape.activities[number] if number >= 0 else Activity(0, int(tape.duration[operation]), ())


def _together(parts: tuple[Activity, ...]) -> Activity:
    """One activity that needs what all parts need, phase by phase; what needs nothing lasts until the last phase."""
    needy = [part.phases for part in parts if part.then or part.uses]
    *first, last = list(zip_longest(*needy, fillvalue=NOTHING)) or [()]
    made = [_phase(phases) for phases in first]
    before = sum(phase.work for phase in made)
    idle = [part._replace(work=max(part.work - before, 0)) for part in parts if not (part.then or part.uses)]
    made.append(_phase((*last, *idle)))
    return chain(list(_evened(made, needy)) if len(made) > 1 else made)


def _evened(made: Sequence[Activity], needy: Iterable[Sequence[Activity]]) -> Iterator[Activity]:
    """The same phases; of what parts reserve all along they reserve as much at any time, as they do uncut."""
    lasts = sum(phase.work for phase in made)
    amount: dict[int, float] = {}
    for phases in needy:
        working = [phase for phase in phases if phase.work]
        reserved = [{use.resource: use.rate for use in phase.uses if use.flows == RESERVED} for phase in working]
        for resource in dict.fromkeys(resource for phase in reserved for resource in phase):
            rate, *others = {phase.get(resource, 0.0) for phase in reserved}
            own = math.nan if others else rate * sum(phase.work for phase in working)
            amount[resource] = amount.get(resource, 0.0) + own
    even = [Use(resource, taken / lasts, RESERVED) for resource, taken in amount.items() if not math.isnan(taken)]
    known = {use.resource for use in even}
    for phase in made:
        shared = [use for use in phase.uses if use.flows != RESERVED or use.resource not in known]
        yield phase._replace(uses=(*even, *shared)) if phase.work else phase


def _phase(parts: Sequence[Activity]) -> Activity:
    """The longest latency and work, the same amounts on each resource; what is reserved stays so."""
    work = max(part.work for part in parts)
    uses: dict[tuple[int, bool], Use] = {}
    for part in parts:
        for use in part.uses:
            key = use.resource, use.flows == RESERVED
            rate = use.rate * part.work / work if work else 0.0
            known = uses.get(key, Use(use.resource, 0.0, 0.0))
            uses[key] = Use(use.resource, known.rate + rate, known.flows + use.flows)
    return Activity(max(part.latency for part in parts), work, tuple(uses.values()))
