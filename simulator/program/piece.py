"""A piece of a pass: a small program on the lanes of a device, which is run as one instruction or part by part.

Kernels stand on the compute lane, and so do collectives that block it; a collective that runs beside kernels stands on
the lane of its axis, the host's launches and the copies of offloaded tensors on lanes of their own. Such a collective
takes a share of the device's multiprocessors and of its memory's bandwidth while it runs; kernels work with what is
left of what bounds them.

A piece may be inlined as one instruction when nothing outside it can touch what it uses. It then lasts what its parts
last when they run on lanes, to the tick: `Piece.schedule` follows the same rules as the engine, for many paces of the
device at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.program.content import Content

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Beside = tuple[Ints, Ints, "Takes"]
"""When a collective runs, (k,) each, and what it takes."""

COMPUTE, HOST, COPY = "compute", "host", "copy"
"""Lanes of a device inside a pass; those of axes have the name of the axis."""


class Takes(NamedTuple):
    """Shares of a device that a collective takes while it runs."""

    multiprocessors: float = 0.0
    memory: float = 0.0
    """Of what passes over memory reach of its bandwidth."""


FREE = Takes()
"""What engines of their own move without memory to speak of."""


class Part(NamedTuple):
    """An operation of a piece."""

    lane: str
    content: Content
    after: tuple[int, ...] = ()
    """Earlier parts of the piece, on other lanes, that must have ended."""
    takes: Takes = FREE
    """What a collective beside kernels takes while it runs."""


@dataclass(frozen=True)
class Piece:
    """Parts in an order in which each comes after what it waits for, and kernels after what may run beside them.

    The first part and the last stand on the compute lane; the others begin after the first and end before the last.
    """

    parts: tuple[Part, ...]

    def __post_init__(self) -> None:
        """Remember the hash: pieces are counted and looked up often."""
        object.__setattr__(self, "_hash", hash(self.parts))

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]  # set above

    def __add__(self, other: "Piece") -> "Piece":
        """One after the other; what is empty adds nothing."""
        if other.is_empty or self.is_empty:
            return self if other.is_empty else other
        shift = len(self.parts)
        moved = (part._replace(after=tuple(i + shift for i in part.after)) for part in other.parts)
        return Piece((*self.parts, *moved))

    def schedule(self, paces: Floats) -> tuple[list[Ints], list[Ints]]:
        """(starts, ends) of the parts when kernels take `paces` (k,) as long; each entry has shape (k,)."""
        starts: list[Ints] = []
        ends: list[Ints] = []
        free: dict[str, Ints] = {}
        beside: list[Beside] = []
        for part in self.parts:
            start = free.get(part.lane, np.zeros(len(paces), np.int64))
            for earlier in part.after:
                start = np.maximum(start, ends[earlier])
            ticks = part.content.ticks_at(paces)
            if part.content.kernels:  # which run in order: what has ended by now is beside none of the later ones
                beside = [one for one in beside if (one[1] > start).any()]
            end = (
                _worked(start, part.content.bound(ticks), beside) if part.content.kernels and beside else start + ticks
            )
            if any(part.takes):
                beside.append((start, end, part.takes))
            starts.append(start)
            ends.append(end)
            free[part.lane] = end
        return starts, ends

    def lasts(self, paces: Floats) -> Ints:
        """Ticks of the whole piece when kernels take `paces` (k,) as long; shape (k,)."""
        if len(self.parts) == 1:
            return self.parts[0].content.ticks_at(paces)
        return self.schedule(paces)[1][-1]

    @cached_property
    def content(self) -> Content:
        """What the piece is made of when it runs as one instruction: what of its parts the compute lane waits for."""
        if len(self.parts) == 1:
            return self.parts[0].content
        starts, ends = ([int(times[0]) for times in every] for every in self.schedule(np.ones(1)))
        found, free = Content(), 0
        for part, start, end in zip(self.parts, starts, ends, strict=True):
            if part.lane == COMPUTE:
                if start > free:
                    found += _beside(self.parts[max(part.after, key=ends.__getitem__)].content, 0, start - free)
                found += replace(part.content, stall=end - start - part.content.total)
                free = end
            else:
                found += _beside(part.content, 1, 0)
        return found

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in it."""
        return self.parts == EMPTY

    @property
    def ticks(self) -> int:
        """Ticks of the whole piece."""
        return self.content.total

    def again(self) -> "Piece":
        """The same work, counted as recomputation."""
        return Piece(tuple(part._replace(content=part.content.again()) for part in self.parts))

    def at(self, pace: float) -> "Piece":
        """The same on a device whose kernels take `pace` as long."""
        return Piece(tuple(part._replace(content=part.content.at(pace)) for part in self.parts))


EMPTY = (Part(COMPUTE, Content()),)
"""Parts of a piece of nothing."""


class InParts(NamedTuple):
    """One of several equal parts of a work, which travel beside each other's kernels."""

    needs: tuple[Part, ...]
    """What has to arrive, one after the other on other lanes, beside the parts before it."""
    works: tuple[Content, ...]
    sends: tuple[Part, ...]
    """What it gives, beside `later` and the parts after it."""
    later: tuple[Content, ...] = ()


class PieceBuilder:
    """Appends to the compute lane of a piece, and to other lanes beside it."""

    def __init__(self, beside: Iterable[Part] = ()) -> None:
        """`beside` are parts on other lanes that run beside the whole piece."""
        self.parts: list[Part] = []
        self.last = -1
        """The last part on the compute lane."""
        self.waits: tuple[int, ...] = ()
        """Parts on other lanes that the next one on the compute lane waits for."""
        self.whole = self.begin(tuple(beside))

    def begin(self, beside: tuple[Part, ...]) -> tuple[int, ...]:
        """Start parts on other lanes where the compute lane is now; returns their places."""
        if not beside:
            return ()
        start = self._settled()
        first = len(self.parts)
        self.parts += [part._replace(after=(start,)) for part in beside]
        return tuple(range(first, len(self.parts)))

    def _settled(self) -> int:
        """Place of the last part on the compute lane, after which nothing is waited for."""
        if self.last < 0 or self.waits:
            self._append(Part(COMPUTE, Content(), self.waits))
        return self.last

    def _append(self, part: Part) -> None:
        """Append to the compute lane."""
        self.parts.append(part)
        self.last, self.waits = len(self.parts) - 1, ()

    def run(self, content: Content, beside: Iterable[Part] = ()) -> None:
        """Go on with `content`, and `beside` it parts on other lanes; what comes next waits for all of it."""
        others = self.begin(tuple(beside))
        if others or not self._joins(content):
            self._append(Part(COMPUTE, content, self.waits))
        else:
            self.parts[-1] = self.parts[-1]._replace(content=self.parts[-1].content + content)
        self.waits = others

    def begin_parts(self, part: InParts, parts: int) -> list[tuple[int, ...]]:
        """Begin with what so many parts need, beside what comes next; returns what each waits for."""
        start = self._settled()
        return [self._chain(part.needs, start) for _ in range(parts)]

    def run_parts(self, part: InParts, arrived: Iterable[tuple[int, ...]]) -> tuple[int, ...]:
        """Work on parts that have arrived and send what they give, beside what comes next; returns what to wait for."""
        sent: tuple[int, ...] = ()
        for needed in arrived:
            self.wait(needed)
            for content in part.works:
                self.run(content)
            sent = self._chain(part.sends, self._settled())
            for content in part.later:
                self.run(content)
        return sent

    def wait(self, places: tuple[int, ...]) -> None:
        """What comes next waits for parts on other lanes."""
        self.waits = (*self.waits, *places)

    def _chain(self, parts: Sequence[Part], after: int) -> tuple[int, ...]:
        """Parts on other lanes, one after the other; returns the place of the last, if there is any."""
        for part in parts:
            self.parts.append(part._replace(after=(after,)))
            after = len(self.parts) - 1
        return (after,) if parts else ()

    def _joins(self, content: Content) -> bool:
        """Whether kernels go on without a seam."""
        open_part = bool(self.parts) and self.last == len(self.parts) - 1 and not self.waits
        return open_part and bool(content.kernels) and bool(self.parts[-1].content.kernels)

    def build(self) -> Piece:
        """The piece, which ends when all that runs beside it has ended."""
        if self.whole or self.waits or not self.parts:
            self._append(Part(COMPUTE, Content(), self.whole + self.waits))
        return Piece(tuple(self.parts))


def single(content: Content) -> Piece:
    """A piece of one part."""
    return Piece((Part(COMPUTE, content),))


def series(pieces: Sequence[Piece]) -> Piece:
    """Pieces one after the other."""
    return sum(pieces[1:], pieces[0]) if pieces else single(Content())


def _beside(content: Content, runs: int, waited: int) -> Content:
    """What ran on another lane, so often, and the ticks that the compute lane waited for it."""
    if not content.calls:
        return Content(offload=waited) if content.offload else Content(host=waited)
    (call,) = content.calls
    return Content(calls=(call._replace(runs=runs, exposed=waited),))


def _worked(start: Ints, bound: list[Ints], beside: list[Beside]) -> Ints:
    """When kernels end that start at `start` and work beside others that take their shares: (k,) each.

    They are `bound` for so many ticks by fixed costs, by the multiprocessors and by the memory, one after the other.
    """
    now = start + bound[0]
    for resource, ticks in enumerate(bound[1:]):
        now = _on(resource, now, ticks, beside)
    return now


def _on(resource: int, start: Ints, ticks: Ints, beside: list[Beside]) -> Ints:
    """When work of `ticks` on one of the resources of `Takes` ends.

    Counts as the engine does (`engine.running`): work that is left is booked whenever the speed changes, and an end
    between two ticks is the later one at a half.
    """
    since, left, end = start, ticks.astype(np.float64), np.full(len(start), -1, np.int64)
    speed = _speed(resource, start, beside)
    moments = np.sort(
        np.maximum(np.stack([time for first, last, _ in beside for time in (first, last)]), start), axis=0
    )
    for moment in moments:
        done = since + np.floor(left / speed + 0.5).astype(np.int64)
        end = np.where((end < 0) & (done <= moment), done, end)
        other = _speed(resource, moment, beside)
        left = np.where(other != speed, left - speed * (moment - since), left)
        since, speed = np.where(other != speed, moment, since), other
    done = since + np.maximum(np.floor(left + 0.5), 0).astype(np.int64)
    return np.where(end < 0, done, end)


def _speed(resource: int, now: Ints, beside: list[Beside]) -> Floats:
    taken = np.zeros(len(now))
    for first, last, takes in beside:
        taken = taken + takes[resource] * ((first <= now) & (now < last))
    return 1.0 - taken
