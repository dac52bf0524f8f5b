"""The player: runs a tape on a clock, one interpreter per lane.

Time is integer picoseconds. An operation costs one entry of SimPy's queue, its end, at which its own lane goes on and
then all lanes that wait for it; nothing else is created per operation. Events of one instant are processed in the
order in which they were scheduled. What an operation lasts is its `duration`, or what the sharing of resources makes
of its activity (see `fluid`). Several tapes may run on one clock: those that use the same resources share them, the
others do not notice each other. See docs/decisions/0001-integer-time.md and docs/decisions/0012-one-clock.md.
"""

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from functools import partial
from heapq import heappush
from itertools import pairwise

import numpy as np
from simpy.events import NORMAL, URGENT

from simulator.engine import deadlock
from simulator.engine.clock import Clock
from simulator.engine.event import Appointment, Event
from simulator.engine.running import Running
from simulator.engine.score import SEVERAL, SPECIAL, Score, score
from simulator.engine.tape import NEVER, Tape, Timeline


class _Lane(Appointment):
    """The interpreter of one lane: SimPy's process without its care for failed events, of which there are none."""

    __slots__ = ("done", "generator", "op", "player")

    def __init__(self, player: "Player", first: int, stop: int) -> None:
        """Begin in this instant, before what is due in it."""
        clock = player.clock
        self.player, self.done = player, player.done
        self.generator = player._interpret(self, first, stop)
        self.call = self._ended
        self.op = -1
        """The operation that it runs, where it has the appointment itself."""
        heappush(clock.queue, (clock.now, URGENT, next(clock.number), Appointment(self.resume)))

    def resume(self, _: object) -> None:
        """Go on until the lane has to wait, or to its end."""
        try:
            while (event := next(self.generator)) is not None:
                if event.callbacks is not None:
                    event.callbacks.append(self.resume)
                    return
        except StopIteration:
            clock = self.player.clock
            heappush(clock.queue, (clock.now, NORMAL, next(clock.number), Appointment(self.player._lane_ended)))

    def _ended(self, _: object) -> None:
        """Its operation is over: go on, and then those that have come to wait for it."""
        done, op = self.done, self.op
        event = done[op]
        if event is None:
            self.resume(None)
            return
        done[op] = None
        self.resume(None)
        for call in event.callbacks:
            call(event)


class Player:
    """One run of a tape on a clock."""

    def __init__(
        self,
        clock: Clock,
        tape: Tape | Score,
        start: int | None = None,
        resources: Sequence[int] | None = None,
        *,
        name: str = "",
        label: Callable[[int], Hashable] | None = None,
        on_end: "Callable[[Player], None] | None" = None,
    ) -> None:
        """Play from tick `start`, now if it is left out.

        `resources[i]` is the clock's number of the tape's resource i; left out, new ones are added. `name` is for
        messages and, unless `label` gives another one to an operation, for the record of loads. `on_end` is called
        when all operations have ended; it may start another player. ValueError says what of this cannot be.
        """
        self.score = tape if isinstance(tape, Score) else score(tape)
        tape = self.score.tape
        self.clock = clock
        self.start = clock.now if start is None else start
        """The tick at which it starts."""
        if self.start < clock.now:
            raise ValueError(f"a player cannot start at tick {self.start}: it is {clock.now} already")
        if clock.fluid.speeds.solver is None and np.any(tape.activity >= 0):
            raise ValueError("the tape names activities on shared resources: the clock needs a solver")
        if resources is not None and len(resources) != len(tape.capacity):
            raise ValueError(f"the tape has {len(tape.capacity)} resources, the player was given {len(resources)}")
        self.resources = [clock.add(units) for units in tape.capacity] if resources is None else list(resources)
        """The clock's numbers of the tape's resources."""
        self.name, self.label, self.on_end = name, label, on_end
        activities = [activity.on(self.resources) for activity in self.score.rendezvous.activities]
        self.phases = [clock.fluid.speeds.phases(activity) for activity in activities]
        rendezvous = self.score.rendezvous.size
        size = len(tape) + len(rendezvous)
        self.end: list[int] = [NEVER] * size
        """When each slot ends; known from its start on unless it runs an activity."""
        self.done: list[Event | None] = [None] * size
        """The event of each slot that runs or is waited for."""
        self.absent: list[int] = rendezvous.tolist()
        """Members of each rendezvous that are not ready yet."""
        self.begin: dict[int, int] = {}
        """When each special slot started."""
        self.working: dict[int, Running] = {}
        """What each slot that runs an activity runs."""
        self.extra = 0
        """Events of operations that last no time; they have one only if they are waited for."""
        self.lanes = 0
        """Lanes under way."""
        clock.players[self] = None
        if self.start > clock.now:
            clock.at(self.start, self._begin)
        else:
            self._begin()

    @property
    def ended(self) -> bool:
        """Whether all operations have ended."""
        return self not in self.clock.players

    def timeline(self) -> Timeline:
        """When each operation ran, in ticks since `start`; its events without those of the resources."""
        duration = np.asarray(self.score.duration, np.int64)
        end = np.asarray(self.end, np.int64)[self.score.slots]
        start = end - duration
        for op in np.flatnonzero(duration == SPECIAL).tolist():
            start[op] = self.begin[self.score.slot[op]]
        timed = int(np.count_nonzero(duration > 0)) + len(self.begin) + self.extra
        lanes = int(np.count_nonzero(np.diff(self.score.tape.lane_start)))
        return Timeline(start - self.start, end - self.start, timed + 2 * lanes + 1)

    def stuck(self, lacks: Mapping[Running, str], players: int) -> list[str]:
        """What to say of its lanes that wait for ever; `lacks` names the resource of which an activity gets nothing."""
        slots = {slot: lacks[running] for slot, running in self.working.items() if running in lacks}
        lacking = {op: slots[slot] for op, slot in enumerate(self.score.slot) if slot in slots} if slots else {}
        ended = np.asarray(self.end, np.int64)[self.score.slots] < NEVER
        shown = max(1, deadlock.SHOWN // players - 3) if players > 1 else deadlock.SHOWN
        return deadlock.stuck(self.score.tape, ended, lacking, self.name, shown)

    def _begin(self, _: object = None) -> None:
        """Start a process for each lane."""
        for first, stop in pairwise(self.score.tape.lane_start.tolist()):
            if stop > first:
                self.lanes += 1
                _Lane(self, first, stop)
        if not self.lanes:
            self.clock.at(self.clock.now, self._ended)

    def _lane_ended(self, _: object) -> None:
        """A lane came to its end."""
        self.lanes -= 1
        if not self.lanes:
            self.clock.at(self.clock.now, self._ended)

    def _ended(self, _: object) -> None:
        """All operations have ended."""
        del self.clock.players[self]
        if self.on_end is not None:
            self.on_end(self)

    def _interpret(self, lane: "_Lane", first: int, stop: int) -> Generator[Event | None, None, None]:
        """Run the operations first .. stop - 1, one lane: gives events to wait for, or None where the lane has made its
        own appointment. `now` follows the clock without asking it."""
        queue, number, now = self.clock.queue, self.clock.number, self.clock.now
        duration, wait, waits, end, done = self.score.duration, self.score.wait, self.score.waits, self.end, self.done
        for op in range(first, stop):
            other = wait[op]
            if other >= 0:
                if end[other] > now:
                    yield done[other] or self._awaited(other)
                    now = end[other]
            elif other == SEVERAL:
                for other in waits[op]:
                    if end[other] > now:
                        yield done[other] or self._awaited(other)
                        now = end[other]
            ticks = duration[op]
            if ticks > 0:
                now += ticks
                end[op] = now
                event = done[op]
                if event is None:
                    lane.op = op
                    heappush(queue, (now, NORMAL, next(number), lane))
                    yield None
                else:
                    heappush(queue, (now, NORMAL, next(number), event))
                    yield event
                    done[op] = None
            elif ticks == 0:
                end[op] = now
                event = done[op]
                if event is not None:
                    event.after(0)
                    self.extra += 1
            else:
                slot = self.score.slot[op]
                yield self._special(op, slot, now)
                now = end[slot]

    def _awaited(self, slot: int) -> Event:
        """A new event for a slot that has not started yet."""
        event = self.done[slot] = Event(self.clock.env)
        return event

    def _special(self, op: int, slot: int, now: int) -> Event:
        """Join a rendezvous, start it if this lane is the last to come, or start an activity; returns its end."""
        event = self.done[slot] or self._awaited(slot)
        rendezvous = slot - len(self.score.duration)
        if rendezvous < 0:
            self.begin[slot] = now
            self._work(self.score.activity[op], op, slot, event)
            return event
        self.absent[rendezvous] -= 1
        if not self.absent[rendezvous]:
            self.begin[slot] = now
            self._meet(rendezvous, op, slot, event, now)
        return event

    def _meet(self, rendezvous: int, op: int, slot: int, event: Event, now: int) -> None:
        """All members are ready: start."""
        activity = int(self.score.rendezvous.activity[rendezvous])
        if activity >= 0:
            self._work(activity, op, slot, event)
        else:
            ticks = int(self.score.rendezvous.ticks[rendezvous])
            self.end[slot] = now + ticks
            event.after(ticks)

    def _work(self, activity: int, op: int, slot: int, event: Event) -> None:
        """Start an activity."""
        label = self.label(op) if self.label is not None else self.name
        finished = partial(self._finish, slot, event)
        self.working[slot] = self.clock.fluid.start(self.phases[activity], finished, label)

    def _finish(self, slot: int, event: Event) -> None:
        """An activity has done its work: end the slot."""
        self.working.pop(slot, None)
        self.end[slot] = self.clock.now
        event.after(0)
