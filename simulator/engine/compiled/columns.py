"""The arrays of a run, from the score of a tape."""

from collections.abc import Sequence

import numpy as np

from simulator.engine.compiled import layout as at
from simulator.engine.compiled.layout import Floats, Ints, State
from simulator.engine.running import Needs, Phase
from simulator.engine.score import NONE, SEVERAL, Score
from simulator.engine.speeds import Speeds

SLACK = 1e-9
"""Relative excess over a capacity that is rounding, not contention: that of the fluid."""
KEPT = 1 << 18
"""Numbers of components that are known, if there are few lanes."""
ROWS = 1 << 14
"""Numbers that are written down before Python takes them, at least."""


def state(score: Score, speeds: Speeds, labels: Sequence[int], recorded: Sequence[int]) -> tuple[State, list[Needs]]:
    """A run before it begins, and what its phases use; `labels` of operations, `recorded` resources."""
    phases = [speeds.phases(activity) for activity in score.rendezvous.activities]
    needs = sorted(speeds.needs.values(), key=lambda own: own.number)
    whole, real = _of_tape(score, labels), dict[int, Floats]()
    _of_activities(phases, needs, whole, real)
    lanes, kinds = len(score.tape.lane_start) - 1, max(labels, default=0) + 1
    width = int(np.diff(whole[at.ENTRY_START]).max(initial=0))
    _of_resources(score, recorded, whole, real)
    whole |= {name: _full(lanes * width, -1) for name in (at.BEFORE, at.BEHIND, at.ENTRY_OF)}
    whole |= {name: _full(lanes, 0) for name in UNDER_WAY}
    real |= {at.R_SPEED: np.zeros(lanes), at.R_LEFT: np.zeros(lanes)}
    room = len(recorded) * (3 + min(kinds, lanes)) if recorded else 0
    w = _full(at.SCALARS, 0)
    w[[at.MARK, at.FRESH, at.RECORDS]] = 1, 1, len(recorded) > 0
    w[at.WIDTH], w[at.ROOM], w[at.OPERATIONS], w[at.ALL_LANES] = width, room, len(score.duration), lanes
    w[at.MOST_DIRTY], w[at.MOST_KEPT] = 4 * lanes + 64, max(KEPT, 8 * lanes)
    w[at.MOST_ROWS] = max(ROWS, 4 * room) if recorded else 1
    whole |= {at.DIRTY: _full(w[at.MOST_DIRTY], 0), at.DIRTY_MADE: _full(w[at.MOST_DIRTY], 0)}
    whole |= {at.PLACES: _full(at.TABLE, -1), at.KEYS: _full(w[at.MOST_KEPT], 0)}
    whole |= {at.CARRIED: _full(kinds, 0), at.ROWS: _full(w[at.MOST_ROWS], 0)}
    real |= {at.SPEEDS: np.zeros(w[at.MOST_KEPT]), at.BY_LABEL: np.zeros(kinds), at.AMOUNTS: np.zeros(w[at.MOST_ROWS])}
    numbers = np.concatenate([w, *whole.values()])
    for columns, first in ((whole, at.SCALARS), (real, 0)):
        for name, column in columns.items():
            numbers[name], first = first, first + len(column)
    heap, timers = _full(at.ENTRY * (16 * lanes + 1024), 0), _full(2 * (16 * lanes + 1024), 0)
    return State(numbers, np.concatenate([*real.values()]), heap, timers), needs


UNDER_WAY = (
    *(at.R_END, at.R_SINCE, at.R_WHOLE, at.R_EXACT, at.R_NEXT, at.R_LAST, at.R_NEEDS, at.R_TIMER, at.R_SLOT),
    *(at.R_LABEL, at.R_MADE, at.R_DIRTY, at.R_FOUND, at.R_SEEN, at.MEMBERS, at.LEFT),
)
"""Columns by lane that begin with 0."""


def _of_tape(score: Score, labels: Sequence[int]) -> dict[int, Ints]:
    """Columns by operation, slot, rendezvous and lane."""
    tape, rendezvous = score.tape, score.rendezvous
    slots, lanes = len(tape) + len(rendezvous.size), len(tape.lane_start) - 1
    found: dict[int, Sequence[int] | Ints] = {
        at.DURATION: score.duration,
        at.SLOT_OF: score.slot,
        at.ACTIVITY: score.activity,
        at.LABEL: labels,
    }
    found[at.WAIT], found[at.SEVERAL_START], found[at.SEVERAL] = _waits(score)
    found |= {at.END: _full(slots, at.NEVER), at.BEGIN: _full(slots, -1), at.AWAITED: _full(slots, 0)}
    found |= {at.FIRST_WAITING: _full(slots, -1), at.LAST_WAITING: _full(slots, -1)}
    found |= {at.ABSENT: rendezvous.size, at.MEETING: rendezvous.activity, at.LASTS: rendezvous.ticks}
    found |= {at.OP: tape.lane_start[:-1], at.STOP: tape.lane_start[1:]}
    found |= {at.OVER: _full(lanes, 0), at.FOLLOWING: _full(lanes, -1)}
    return {name: np.array(column, np.int64) for name, column in found.items()}


def _of_activities(
    phases: Sequence[Sequence[Phase]], needs: Sequence[Needs], whole: dict[int, Ints], real: dict[int, Floats]
) -> None:
    """Columns by activity, phase, and what phases use."""
    whole |= dict(zip((at.PHASE_START, at.LATENCY, at.WORK, at.NEEDS), _phases(phases), strict=True))
    whole[at.USE_START], whole[at.USE_RESOURCE], real[at.USE_RATE] = _uses(needs)
    entries = _entries(needs)
    whole[at.ENTRY_START], whole[at.ENTRY_RESOURCE], real[at.ENTRY_RATE] = entries[:3]
    real[at.ENTRY_KEPT], whole[at.ENTRY_RESERVED] = entries[3:]
    whole[at.SINGLE] = np.array([own.single for own in needs], np.int64)
    whole[at.RESERVED] = np.array([bool(own.reserved) for own in needs], np.int64)


def _of_resources(score: Score, recorded: Sequence[int], whole: dict[int, Ints], real: dict[int, Floats]) -> None:
    """Columns by resource."""
    capacity = np.array(score.tape.capacity, np.float64)
    marks = _full(len(capacity), 0)
    marks[list(recorded)] = 1
    whole |= {at.FIRST_USER: _full(len(capacity), -1), at.LAST_USER: _full(len(capacity), -1), at.RECORDED: marks}
    whole |= {name: _full(len(capacity), 0) for name in (at.TOUCHED_AT, at.SCARCE, at.VISITED, at.TOUCHED)}
    real |= {at.CAPACITY: capacity, at.MOST: capacity * (1 + SLACK), at.ASKED: np.zeros(len(capacity))}


def column(s: State, name: int, size: int) -> Ints:
    """The first numbers of a column of whole numbers."""
    own: Ints = s.w[s.w[name] :][:size]
    return own


def longer(s: State, name: str) -> State:
    """The same with twice the room for what is due, or for what timers end."""
    old: Ints = getattr(s, name)
    new = np.zeros(2 * len(old), np.int64)
    new[: len(old) // (2 if name == "timers" else 1)] = old[: len(old) // (2 if name == "timers" else 1)]
    return s._replace(heap=new) if name == "heap" else s._replace(timers=new)


def _full(size: int, value: int) -> Ints:
    return np.full(size, value, np.int64)


def _starts(counts: Sequence[int]) -> Ints:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(np.array(counts, np.int64))]).astype(np.int64)


def _waits(score: Score) -> tuple[Ints, Ints, Ints]:
    """What operations wait for."""
    rows = {op: row for row, op in enumerate(score.waits)}
    wait = [-2 - rows[op] if slot == SEVERAL else slot for op, slot in enumerate(score.wait)]
    assert NONE == -1
    several = [slot for own in score.waits.values() for slot in own]
    return np.array(wait, np.int64), _starts([len(own) for own in score.waits.values()]), np.array(several, np.int64)


def _phases(activities: Sequence[Sequence[Phase]]) -> tuple[Ints, Ints, Ints, Ints]:
    """Where the phases of each activity begin; latency, work and needs of each."""
    flat = [phase for phases in activities for phase in phases]
    return (
        _starts([len(phases) for phases in activities]),
        np.array([phase.latency for phase in flat], np.int64),
        np.array([phase.work for phase in flat], np.int64),
        np.array([phase.needs.number for phase in flat], np.int64),
    )


def _uses(needs: Sequence[Needs]) -> tuple[Ints, Ints, Floats]:
    """Where the uses of each begin; resource and rate of each use."""
    flat = [use for own in needs for use in own.uses]
    return (
        _starts([len(own.uses) for own in needs]),
        np.array([use.resource for use in flat], np.int64),
        np.array([use.rate for use in flat], np.float64),
    )


def _entries(needs: Sequence[Needs]) -> tuple[Ints, Ints, Floats, Floats, Ints]:
    """The same with each resource once: its rates added up, what of it is reserved, and whether anything is."""
    starts, resources, rates, kept, reserved = list[int](), list[int](), list[float](), list[float](), list[bool]()
    for own in needs:
        asked: dict[int, float] = {}
        for resource, rate, _ in own.uses:
            asked[resource] = asked[resource] + rate if resource in asked else rate
        starts.append(len(asked))
        resources += asked
        rates += asked.values()
        kept += [own.reserved.get(resource, 0.0) for resource in asked]
        reserved += [resource in own.reserved for resource in asked]
    return (
        _starts(starts),
        np.array(resources, np.int64),
        np.array(rates, np.float64),
        np.array(kept, np.float64),
        np.array(reserved, np.int64),
    )
