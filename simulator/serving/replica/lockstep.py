"""Replicas that share experts: every layer exchanges tokens between them, so their iterations begin and end together.

Before each exchange all wait for the one with the most work of its own (attention, dense layers, host); then all work
on the rows of all. So an iteration of the group lasts

    max over replicas of own time + time of experts and exchanges for the sum of their rows

(where each row is sent to its experts only, an exchange ends with the last row of the replica that has most).

A replica with nothing to do passes a dummy batch (vLLM's data parallelism, SGLang's attention data parallelism), whose
row, if there is one, is not counted. Engines that pad give all batches, dummy ones too, the rows of the largest, or of
the graph that it replays: vLLM in every iteration where it captures graphs at all, SGLang in those that replay one;
others run what is there. A replica that gets a request meanwhile begins with the next iteration of the group.

A replica that only decodes, and in which nothing can change for a while, stays for that many iterations of the group,
its own work longer by the same ticks each time: a row of arrays, without an event of its own until its stay ends.
"""

from array import array
from struct import Struct
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.engine.agenda import Agenda

if TYPE_CHECKING:
    from simulator.engine.agenda import Appointment
    from simulator.serving.replica.batch import Batch
    from simulator.serving.replica.replica import Replica
    from simulator.serving.replica.wires import GroupWires

Ints = NDArray[np.int64]

COLUMNS = 8
"""Numbers of an iteration of a group: begin, end, ticks as planned, ticks of the longest own work, rows of all, those
of them that give a token, ticks of sending rows to their experts, ticks that overlap saves."""
END = 1
"""Place of the end among them."""
ABSENT = -1
"""Ticks of own work of a member that does not work on the next iteration."""
LEAST_AHEAD = 128
"""Iterations of which `_more` is kept, at least."""
_packed = Struct(f"{COLUMNS}q").pack


class _Gate:
    """Which iterations of a group let prompts join."""

    __slots__ = ("number", "open", "since", "waited")

    def __init__(self) -> None:
        """None has been asked about."""
        self.number = -1
        """The last iteration that was asked about."""
        self.open = False
        """Whether prompts may join it."""
        self.since = 0
        """Iteration from which `balance_iterations` are counted: at each multiple of them prompts may join."""
        self.waited = 0
        """Iterations that prompts of all members have waited for more."""


class Lockstep:
    """A group of replicas."""

    def __init__(self, agenda: Agenda, members: "list[Replica]", padded: float = 0.0) -> None:
        """Nothing runs; the members know of the group from now on.

        Up to `padded` rows of the largest member, all pass as many as that one.
        """
        self.agenda, self.members, self.padded = agenda, members, padded
        self.number = -1
        """The present iteration, or the last one."""
        self.log = array("q")
        """`COLUMNS` numbers an iteration."""
        self.rows = 0, 0
        """Rows of all, and those of them that give a token."""
        self.end = 0
        """When the present iteration ends, as far as is known."""
        self.wires: GroupWires | None = None
        """Links that the group shares with others; None where no other user of them could get in the way."""
        self.late: list[Batch] | None = None
        """Batches that wait for the end of an iteration which shares its links; None where its end is known."""
        self._settling = False
        """Whether an iteration begins in this instant."""
        self._gate = _Gate()
        """Which iterations let prompts join, where the policy asks."""
        self._tick: Appointment | None = None
        """The end of the iteration, where some stay for the next."""
        self._ending: list[Batch] = []
        """Batches whose stay ends with the present iteration."""
        self._seats = {member: seat for seat, member in enumerate(members)}
        self._stages = [member.stages for member in members]
        count = len(members)
        self._here = [False] * count
        """Whether each member works on the next iteration, or on the present one."""
        self._present = 0
        """How many do."""
        self._whole = [False] * count
        """Whether iterations of each are written down when the stay is over."""
        self._own, self._growth = np.full(count, ABSENT, np.int64), np.zeros(count, np.int64)
        """Ticks of own work in the iteration that begins next, and by how many each is longer than the one before."""
        self._first, self._rows, self._sampled, self._least = ([0] * count for _ in range(4))
        """Ticks of own work in the first iteration of a stay; rows, and those of them that give a token; ticks that the
        host of each works on an iteration beside the device."""
        self._same: tuple[tuple[int, int], int, int, int] | None = None
        """What `_joint` has found; None where a member has come or gone since."""
        self._saves = members[0].stages.costs[0].overlap is not None
        """Whether iterations are shorter than their operations one by one."""
        self._sums = [0, 0]
        """Rows of all, and those of them that give a token, as they are now."""
        self._more: Ints | None = None
        """Ticks by which own work is longer beside its growth, by member and iteration (modulo the length); None where
        none ever is."""
        self._since, self._until = [0] * count, [0] * count
        """First and last iteration of a stay."""
        self._due: dict[int, list[int]] = {}
        """Members whose stay ends with an iteration to come, unless their `_until` says another."""
        for member in members:
            member.group = self
            member.stays, member.fast_forwards = member.fast_forwards, False

    def enter(self, batch: "Batch", own: int, rows: int, sampled: int, least: int) -> None:
        """A batch begins iterations of so many rows, of which `sampled` give a token: as many as its stretch counts,
        the first with so many ticks of work of its own, beside which its host works `least`."""
        self._settle_soon()
        seat, count = self._seats[batch.replica], batch.stretch.count
        self._present += not self._here[seat]
        self._here[seat], self._whole[seat] = True, count > 1
        self._own[seat] = self._first[seat] = own
        self._growth[seat] = batch.stretch.growth
        self._work_on(seat, rows, sampled)
        self._least[seat] = least
        if self._more is not None:
            self._more[seat] = 0
        if batch.stretch.more is not None:
            self._bend(seat, batch.stretch.more[:count])
        self._since[seat], last = self.number + 1, self.number + count
        self._end_with(seat, last)

    def _work_on(self, seat: int, rows: int, sampled: int) -> None:
        """A member has so many rows now, of which `sampled` give a token."""
        self._sums[0] += rows - self._rows[seat]
        self._sums[1] += sampled - self._sampled[seat]
        self._rows[seat], self._sampled[seat], self._same = rows, sampled, None

    def _bend(self, seat: int, more: Ints) -> None:
        """Own work in the next iterations is longer by these ticks."""
        count, first = len(more), self.number + 1
        if self._more is None or self._more.shape[1] < count:
            wider = np.zeros((len(self.members), max(count, LEAST_AHEAD)), np.int64)
            if self._more is not None:
                next_ones = np.arange(first, first + self._more.shape[1])
                wider[:, next_ones % wider.shape[1]] = self._more[:, next_ones % self._more.shape[1]]
            self._more = wider
        own = self._more[seat]
        start = first % len(own)
        there = min(count, len(own) - start)  # of those that go round, the rest begins again
        own[start : start + there] = more[:there]
        own[: count - there] = more[there:]

    def _end_with(self, seat: int, number: int) -> None:
        """The stay of a member ends with the iteration of that number."""
        self._until[seat] = number
        due = self._due.get(number)
        if due is None:
            self._due[number] = [seat]
        else:
            due.append(seat)

    def admits(self, every: int, wait: int) -> bool:
        """Whether prompts may join the iteration that begins in this instant: where a member has no sequences that
        decode; where each has a prompt and a slot, after `wait` such iterations; else in one of `every`. That another
        member began without decodes is not noticed while none has prompts."""
        number, gate = self.number + 1, self._gate
        if gate.number == number:
            return gate.open
        gate.number = number
        ready = all(member.queue.waiting and member.free_slots() > 0 for member in self.members)
        if not all(member.batches[0].decodes.n for member in self.members):
            gate.open = True
        elif ready:
            gate.open = gate.waited >= wait
            gate.waited = 0 if gate.open else gate.waited + 1
            gate.since = number
            return gate.open
        else:
            gate.open = number - gate.since >= every and (number - gate.since) % every == 0
        gate.since = number if gate.open else gate.since
        return gate.open

    def _settle_soon(self) -> None:
        if not self._settling:
            self._settling = True
            self.agenda.end_of_instant(self._settle)

    def _shared(self, most: int) -> int:
        """Rows that the experts of the group work on, where the largest member has `most`."""
        if most > self.padded:
            return self._sums[0]
        return len(self.members) * self._stages[0].costs[0].captured(most)

    def _settle(self, _: object) -> None:
        """All that begin have: iterations follow each other until the stay of a member ends or something is due."""
        self._settling = False
        if not self._present:  # all were lost in this instant
            return
        agenda = self.agenda
        while self._follows():
            agenda.skip_to(self.end)
        if len(self._ending) < self._present:
            self._tick = agenda.at(self.end, self._over)
        if self.wires is not None:
            self.wires.enter()

    def _follows(self) -> bool:
        """Begin an iteration: the longest decides, and the rows of all are worked on together. Whether the next one
        follows it without an appointment, as all stay and nothing else is due before it, nor shares its links."""
        number = self.number = self.number + 1
        own = self._own if self._more is None else self._own + self._more[:, number % self._more.shape[1]]
        slowest = int(own.argmax())
        longest = int(own[slowest])
        shared, joint, sent, least = self._same or self._joint()
        span = longest + joint
        if self._saves:
            work = self.members[slowest].batches[0].work
            saved = self._stages[0].costs[0].saved(self._rows[slowest], work.attention, shared[0], work.reading)
            span -= saved
        else:
            saved = 0
        if least > span:  # what they wait for their hosts counts as waiting for each other
            longest, span = longest + least - span, least
        now, due = self.agenda.now, self._due.pop(number, None)
        end = self.end = now + span
        self.log.frombytes(_packed(now, end, span, longest, *shared, sent, saved))
        self._ending = []
        if due is not None:
            until = self._until
            for seat in sorted({seat for seat in due if until[seat] == number and self._here[seat]}):
                batch = self.members[seat].batches[0]
                self._ending.append(batch)
                if not self._whole[seat]:
                    batch.stretch.first, batch.stretch.growth = span, 0
                    batch.replica.record.meet(shared, longest - int(own[seat]), sent)
                    batch.replica.record.saved += saved
                batch.schedule_end(end)
        self._own += self._growth
        if self._ending:
            return False
        queue = self.agenda.queue
        return (not queue or queue[0][0] > end) and (self.wires is None or not self.wires.contended())

    def _joint(self) -> tuple[tuple[int, int], int, int, int]:
        """What does not change while all stay: (rows that experts work on, those of all that give a token), ticks of
        what all do together, those of sending rows among them, and the least ticks of an iteration."""
        most, cost = max(self._rows), self._stages[0].costs[0]
        shared = self.rows = self._shared(most), self._sums[1]
        sent = cost.exchanged(most, shared[0])
        self._same = shared, cost.together(*shared) + sent, sent, max(self._least)
        return self._same

    def _over(self, appointment: object) -> None:
        """An iteration is over, and some stay for the next."""
        if appointment is not self._tick:
            return
        self._tick = None
        if self.agenda.alone() and not self._settling:  # nothing else begins in this instant
            self._settle(None)
        else:
            self._settle_soon()

    # Stays ------------------------------------------------------------------------------------------------------------

    def _ended(self) -> bool:
        """Whether the iteration of this number is over."""
        return self.late is None and self.agenda.now >= self.end

    def done(self, batch: "Batch") -> int:
        """Iterations of its stay that are over."""
        since = self._since[self._seats[batch.replica]]
        return max(self.number - since + self._ended(), 0)

    def begun(self) -> int:
        """When the present iteration began."""
        return self.log[self.number * COLUMNS]

    def before(self, batch: "Batch") -> int:
        """Iterations of its stay before the present one, which may end in this instant."""
        return max(self.number - self._since[self._seats[batch.replica]], 0)

    def boundary(self, batch: "Batch", begun: bool = False) -> int:
        """Iterations of a stay up to the present one, up to the one that begins in this instant where all that begins
        in it has `begun`; up to one that has just ended."""
        since = self._since[self._seats[batch.replica]]
        return max(self.number + (self._ended() and begun), since) - since + 1

    def cut(self, batch: "Batch", count: int) -> None:
        """End a stay after so many iterations, where it would be longer."""
        seat = self._seats[batch.replica]
        last = self._since[seat] + count - 1
        if not self._whole[seat] or last >= self._until[seat]:
            return
        self._end_with(seat, last)
        batch.shorten_stay(count)
        if last == self.number:
            self._ending.append(batch)
            if self.late is None:
                batch.appointment = self.agenda.at(max(self.end, self.agenda.now), batch.ended)

    def leave(self, batch: "Batch") -> Ints | None:
        """A stay is over: the iterations of it that are not written down yet, each (own work, `COLUMNS` numbers); None
        where all are."""
        seat, growth = self._seats[batch.replica], int(self._growth[self._seats[batch.replica]])
        self._present -= self._here[seat]
        self._here[seat] = False
        self._own[seat], self._growth[seat], self._least[seat] = ABSENT, 0, 0
        self._work_on(seat, 0, 0)
        if batch.stretch.more is not None and self._more is not None:
            self._more[seat] = 0
        if not self._whole[seat]:
            return None
        self._whole[seat] = False
        if batch.replica.record.silent:
            return None
        first, count = self._since[seat], batch.stretch.count
        stay = np.empty((count, 1 + COLUMNS), np.int64)
        stay[:, 1:] = np.frombuffer(self.log[first * COLUMNS : (first + count) * COLUMNS], np.int64).reshape(
            -1, COLUMNS
        )
        stay[:, 0] = self._first[seat] + growth * np.arange(count)
        if batch.stretch.more is not None:
            stay[:, 0] += batch.stretch.more[:count]
        return stay

    def stop(self) -> None:
        """All members have lost what they had: the present iteration is not finished."""
        if self._present:
            return
        now = self.agenda.now
        self._tick, self._ending, self.late = None, [], None
        if self.number >= 0 and self.end > now:
            self.log[self.number * COLUMNS + END] = now
        self.end = min(self.end, now)
        if self.wires is not None:
            self.wires.drop()

    # Links that others use --------------------------------------------------------------------------------------------

    def waits(self, batch: "Batch") -> bool:
        """Whether a batch that would begin waits for the end of an iteration that shares its links."""
        if self.late is None:
            return False
        self.late.append(batch)
        return True

    def hold(self) -> None:
        """The end of the iteration is not known any longer."""
        self.late = []
        self._tick = None
        for batch in self._ending:
            batch.appointment = None

    def release(self) -> None:
        """It ends now."""
        now, late = self.agenda.now, self.late or ()
        self.late, self.end = None, now
        self.log[self.number * COLUMNS + END] = now
        for batch in self._ending:
            if self._whole[self._seats[batch.replica]]:
                batch.appointment = self.agenda.at(now, batch.ended)
            else:
                batch.end_now()
        for batch in late:
            batch.appointment = self.agenda.at(now, batch.begin)
        if len(self._ending) < self._present:
            self._tick = self.agenda.at(now, self._over)
