"""Whether a schedule can be carried out: every pass once, in a sound order, transfers in pairs, no deadlock.

Checks are made on columns; one that fails hides those that build on it. Messages name the rank and, where the
schedule came from a CSV file, the file and the line of that rank.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from simulator.engine.tape import Ints, Tape
from simulator.errors import DeadlockError, InputError, Problem
from simulator.program.actions import COMMUNICATION, VOCABULARY, Action, Kind
from simulator.program.labels import Labels
from simulator.program.lowering import lower, waits
from simulator.program.maxplus import sweep
from simulator.program.schedule import Schedule, from_actions

MAX_PROBLEMS = 20
"""Most problems that are reported at once."""
SHOWN = 5
"""Instructions that one problem names."""


def validate(schedule: Schedule | Sequence[Sequence[Action]], file: str | None = None) -> Schedule:
    """Check a schedule and return its columns.

    InputError names what is missing, doubled, out of order or unmatched; DeadlockError which rank waits for which.
    `file` is the CSV file that it came from, for messages.
    """
    columns = schedule if isinstance(schedule, Schedule) else from_actions(schedule)
    checks = _Checks(columns, file)
    for check in (checks.places, checks.passes, checks.vocabulary, checks.order, checks.slices, checks.transfers):
        problems = list(check())
        if problems:
            raise InputError(*problems[:MAX_PROBLEMS])
    try:
        dry_run(columns)
    except DeadlockError as error:
        first, *others = error.problems
        raise DeadlockError(replace(first, file=file), *others) from None
    return columns


class _Checks:
    """The checks on one schedule, in the order in which they build on each other."""

    def __init__(self, columns: Schedule, file: str | None) -> None:
        """Give every (stage, microbatch) a number, its key."""
        self.schedule = columns
        self.file = file
        self.rank = columns.rank
        self.width = columns.microbatches
        self.key = columns.stage.astype(np.int64) * max(self.width, 1) + columns.microbatch
        self.names = Labels(columns.kind, columns.stage_of_model, columns.microbatch)

    def problem(self, message: str, row: int | None = None, hint: str = "") -> Problem:
        """A problem with an instruction, or with all of them."""
        if row is None:
            return Problem(message, self.file, hint=hint)
        rank = int(self.rank[row])
        return Problem(f"rank {rank}: {message}", self.file, rank + 1 if self.file else None, hint=hint)

    def rows(self, *kinds: Kind) -> Ints:
        """The instructions of some kinds."""
        return np.flatnonzero(np.isin(self.schedule.kind, kinds))

    def places(self) -> Iterator[Problem]:
        """Stages and microbatches are numbered without gaps, and every stage lives on one rank."""
        for what, numbers in (("stage", self.schedule.stage), ("microbatch", self.schedule.microbatch)):
            used = np.unique(numbers[numbers >= 0])
            if len(used) and len(used) <= used[-1]:
                gap = int(np.flatnonzero(used != np.arange(len(used)))[0])
                yield self.problem(f"{what} {gap} is missing, though there is {what} {used[-1]}")
        order = np.lexsort((self.rank, self.schedule.stage))
        stage, rank = self.schedule.stage[order], self.rank[order]
        moved = (stage[1:] == stage[:-1]) & (rank[1:] != rank[:-1])
        for i in np.flatnonzero(moved)[:MAX_PROBLEMS].tolist():
            name = self.names[int(order[i + 1])]
            yield self.problem(f"{name} belongs to stage {stage[i]}, which rank {rank[i]} runs too", int(order[i + 1]))

    def passes(self) -> Iterator[Problem]:
        """Each stage that a microbatch goes through has F once and either B once or I and W once each, none more."""
        for kind in Kind:
            yield from self._doubled(kind)
        forward = self.rows(Kind.F)
        stages, wanted = self.schedule.depth, self._wanted()
        if forward.size * 2 < wanted:  # too few to list what is missing, which could be much
            sizes = f"{stages} stages x {self.width} microbatches need {wanted}"
            yield self.problem(f"there are {forward.size} forward passes, but {sizes}")
            return
        everything = self._everything(forward)
        yield from self._lacking(everything, self.key[forward], Kind.F)
        for key in np.setdiff1d(self.key[forward], everything)[:SHOWN].tolist():
            yield self.problem(f"{self._name(key, Kind.F)} is not on the path of its microbatch")
        if not self.schedule.backward:
            for row in self.rows(Kind.B, Kind.I, Kind.W)[:SHOWN].tolist():
                yield self.problem(f"{self.names[row]} in a schedule of forward passes alone", row)
            return
        split = self.key[self.rows(Kind.I, Kind.W)]
        whole = self.key[self.rows(Kind.B)]
        for key in np.intersect1d(whole, split)[:SHOWN].tolist():
            yield self.problem(f"{self._name(key, Kind.B)} stands beside its halves I or W")
        yield from self._lacking(np.setdiff1d(everything, split), whole, Kind.B)
        for kind in (Kind.I, Kind.W):
            yield from self._lacking(np.unique(split), self.key[self.rows(kind)], kind)

    def vocabulary(self) -> Iterator[Problem]:
        """Where ranks hold parts of the vocabulary each runs S and T of every microbatch once, all in one order."""
        scores, own = self.rows(Kind.S), self.rows(*VOCABULARY)
        if not own.size:
            return
        held = np.unique(np.stack([self.rank[own], self.schedule.stage[own]]), axis=1)
        if held.shape[1] != self.schedule.ranks or self.schedule.copies > 1:
            hint = "write S and T of one stage of every rank, with one copy of the model"
            yield self.problem("every rank holds one part of the vocabulary", hint=hint)
            return
        wanted = np.sort((held[1].astype(np.int64)[:, None] * self.width + np.arange(self.width)).ravel())
        for kind in VOCABULARY:
            yield from self._lacking(wanted, self.key[self.rows(kind)], kind)
        if len(scores) == len(wanted):
            order = self.schedule.microbatch[scores].reshape(self.schedule.ranks, -1)
            wrong = np.flatnonzero((order != order[0]).any(axis=1))
            if wrong.size:
                row = int(scores.reshape(order.shape)[wrong[0], np.argmax(order[wrong[0]] != order[0])])
                yield self.problem(f"{self.names[row]} stands out of the order of rank 0, which all sum in", row)

    def _everything(self, forward: Ints) -> Ints:
        """Keys of all stages and microbatches, each microbatch in the copy in which it is found."""
        if self.schedule.paths:
            return np.sort(np.concatenate([self._on(path, first) for first, path in enumerate(self.schedule.paths)]))
        copy, microbatch = np.zeros(self.width, np.int64), self.schedule.microbatch[forward]
        copy[microbatch] = self.schedule.stage[forward] // self.schedule.depth
        stages = copy * self.schedule.depth + np.arange(self.schedule.depth)[:, None]
        keys: Ints = (stages * self.width + np.arange(self.width)).ravel()
        return np.sort(keys)

    def _on(self, path: Sequence[int], first: int) -> Ints:
        """Keys of the microbatches that take a path, of which one is the first."""
        numbers = np.arange(first, self.width, len(self.schedule.paths))
        keys: Ints = (np.array(path)[:, None] * self.width + numbers).ravel()
        return keys

    def _wanted(self) -> int:
        """Forward passes of all microbatches."""
        if not self.schedule.paths:
            return self.schedule.depth * self.width
        return sum(len(self._on(path, first)) for first, path in enumerate(self.schedule.paths))

    def _name(self, key: int, kind: Kind) -> str:
        return f"{key // self.width % self.schedule.depth}{kind.name}{key % self.width}"

    def _doubled(self, kind: Kind) -> Iterator[Problem]:
        rows = self.rows(kind)
        rows = rows[self.schedule.microbatch[rows] >= 0]
        order = rows[np.argsort(self.key[rows], kind="stable")]
        again = order[1:][self.key[order[1:]] == self.key[order[:-1]]]
        for row in again[:SHOWN].tolist():
            yield self.problem(f"{self.names[row]} stands there twice", row)

    def _lacking(self, wanted: Ints, there: Ints, kind: Kind) -> Iterator[Problem]:
        lacking = np.setdiff1d(wanted, there)
        if lacking.size:
            names = ", ".join(self._name(key, kind) for key in lacking[:SHOWN].tolist())
            more = f" and {lacking.size - SHOWN} more" if lacking.size > SHOWN else ""
            hint = "" if kind in COMMUNICATION else "every stage needs F and B (or I and W) of every microbatch"
            hint = "every rank needs S and T of every microbatch" if kind in VOCABULARY else hint
            yield self.problem(f"lacks {names}{more}", hint=hint)

    def order(self) -> Iterator[Problem]:
        """F before B, I and W, I before W, on each rank; receives before and sends after the pass that they serve."""
        pairs = (
            (Kind.F, Kind.B),
            (Kind.F, Kind.I),
            (Kind.I, Kind.W),
            (Kind.S, Kind.T),
            (Kind.F, Kind.SEND_F),
            (Kind.B, Kind.SEND_B),
            (Kind.I, Kind.SEND_B),
            (Kind.RECV_F, Kind.F),
            (Kind.RECV_B, Kind.B),
            (Kind.RECV_B, Kind.I),
        )
        for first, second in pairs:
            earlier, later = self.rows(first), self.rows(second)
            _, i, j = np.intersect1d(self.key[earlier], self.key[later], return_indices=True)
            for wrong in np.flatnonzero(later[j] < earlier[i])[:SHOWN].tolist():
                row = int(later[j[wrong]])
                yield self.problem(f"{self.names[row]} stands before {self.names[int(earlier[i[wrong]])]}", row)

    def slices(self) -> Iterator[Problem]:
        """Slices of a microbatch forward in order, as each needs the keys of those before, and backward in reverse."""
        if (many := self.schedule.slices) == 1:
            return
        for kinds, ahead in (((Kind.F,), 1), ((Kind.B, Kind.I), -1)):
            rows = self.rows(*kinds)
            order = rows[np.lexsort((rows, self.schedule.microbatch[rows] // many, self.schedule.stage[rows]))]
            stage, number = self.schedule.stage[order], self.schedule.microbatch[order]
            same = (stage[1:] == stage[:-1]) & (number[1:] // many == number[:-1] // many)
            for i in np.flatnonzero(same & (number[1:] != number[:-1] + ahead))[:SHOWN].tolist():
                name = self.names[int(order[i + 1])]
                yield self.problem(f"{name} follows {self.names[int(order[i])]}, another slice", int(order[i + 1]))

    def transfers(self) -> Iterator[Problem]:
        """If there is communication, every hand-over between ranks has one send and one receive, and no other has."""
        if not self.rows(*COMMUNICATION).size:
            return
        home = self.schedule.rank_of_stage()
        ways = ((1, (Kind.F,), Kind.SEND_F, Kind.RECV_F), (-1, (Kind.B, Kind.I), Kind.SEND_B, Kind.RECV_B))
        for way, makers, send, receive in ways:
            rows = self.rows(*makers)
            to, within = self.schedule.stage[rows] + way, self.schedule.stage_of_model[rows] + way
            inside = (within >= 0) & (within < self.schedule.depth)
            rows = rows[inside][home[to[inside]] != self.rank[rows[inside]]]
            for kind, wanted in ((send, self.key[rows]), (receive, self.key[rows] + way * self.width)):
                yield from self._lacking(wanted, self.key[self.rows(kind)], kind)
                for key in np.setdiff1d(self.key[self.rows(kind)], wanted)[:SHOWN].tolist():
                    yield self.problem(f"{self._name(key, kind)} moves nothing between ranks")


def dry_run(schedule: Schedule) -> None:
    """Carry out a valid schedule with instructions of one tick; DeadlockError says which rank waits for which.

    Where the schedule has communication a receive waits for its send, and a send for nothing; else a pass waits for the
    pass of the neighbouring stage. Passes over the vocabulary wait for what ranks do together.
    """
    if schedule.vocabulary_sums:
        ones = np.ones((schedule.stages, len(Kind)), np.int64)
        sweep(lower(schedule, ones, np.zeros((schedule.stages, 2), np.int64)).tape)
        return
    later, earlier = waits(schedule)
    if np.isin(schedule.kind, COMMUNICATION).any():
        rank = schedule.rank
        here = rank[later] == rank[earlier]  # the receives before the others wait instead
        later, earlier = later[here], earlier[here]
        for receive, send, step in ((Kind.RECV_F, Kind.SEND_F, -1), (Kind.RECV_B, Kind.SEND_B, 1)):
            rows = np.flatnonzero(schedule.kind == receive)
            sends = schedule.find([send])[schedule.stage[rows] + step, schedule.microbatch[rows]]
            later, earlier = np.concatenate((later, rows)), np.concatenate((earlier, sends))
    order = np.argsort(later, kind="stable")
    after_start = np.concatenate(([0], np.cumsum(np.bincount(later, minlength=len(schedule)))))
    none = np.full(len(schedule), -1, np.int64)
    names = Labels(schedule.kind, schedule.stage_of_model, schedule.microbatch)
    ticks = np.ones(len(schedule), np.int64)
    lanes = tuple(f"rank {rank}" for rank in range(schedule.ranks))
    sweep(Tape(schedule.rank_start, ticks, after_start, earlier[order], none, none, lane_names=lanes, names=names))
