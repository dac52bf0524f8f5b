"""Runs of plain fleets in one compiled function: which they are, what goes in, and what comes back.

A fleet is taken over where it is nothing but plain replicas that take requests as they come: one batch each, prompts in
pieces in order of arrival, a router that counts requests, and nobody else on the clock. Everything that anybody reads
afterwards (the ledger, what replicas wrote down, the number of events) is as if the clock had run it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.engine.clock import Clock, Progress
from simulator.results.serving.service import FINISHED
from simulator.serving.compiled import layout as at
from simulator.serving.compiled.layout import State
from simulator.serving.compiled.tables import Kinds
from simulator.serving.fleet.fleet import Fleet
from simulator.serving.fleet.router import least_outstanding, round_robin
from simulator.serving.policies.sarathi import Sarathi
from simulator.serving.policies.vllm_v1 import VllmV1
from simulator.serving.replica.ledger import Column
from simulator.serving.replica.plain import is_plain
from simulator.serving.replica.record import COLUMNS, TOO_LONG
from simulator.serving.replica.replica import Replica
from simulator.serving.workload.generate import NEVER

Ints = NDArray[np.int64]
Columns = tuple[NDArray[np.signedinteger[Any]], ...]
Advance = Callable[[State], int]

BUFFER = 1 << 14
"""Rows that are written down before Python takes them."""
MOST_PLACES = 1 << 23
"""Sequences of all replicas together above which a fleet is left to the clock."""


def taken(replicas: Sequence[Replica], clock: Clock) -> Fleet | None:
    """The fleet of these replicas where it can be taken over, before anything has happened."""
    fleet = replicas[0].owner if replicas else None
    if not isinstance(fleet, Fleet) or len(clock.queue) != 1 or clock.players:
        return None
    routed = len(replicas) == 1 or fleet.router in (round_robin, least_outstanding)
    alone = fleet.entrances == list(replicas) and all(one.number == i for i, one in enumerate(replicas))
    if not (routed and alone and fleet.waits_for(clock.queue[0][-1])):
        return None
    places = len(replicas) * max(one.policy.rules.max_sequences for one in replicas)
    handed = len(replicas) > 1 and any(one.record.full is not None for one in replicas)
    if places > MOST_PLACES or handed:
        return None
    return fleet if all(map(_simple, replicas)) else None


def _simple(replica: Replica) -> bool:
    """Whether a replica is plain, of a policy whose choice is compiled, and has done nothing yet."""
    return (
        type(replica.policy) in (VllmV1, Sarathi)
        and len(replica.batches) == 1
        and is_plain(replica.batches[0])
        and not replica.blocks.memory.swap_tokens
        and not replica.queue.outstanding
        and len(replica.idle) == 1
    )


def run(fleet: Fleet, replicas: Sequence[Replica], clock: Clock, progress: Progress | None, advance: Advance) -> None:
    """Let a fleet that is `taken` run to its end with `advance`; OverflowError past the last tick of the clock."""
    Run(fleet, replicas, clock, advance).finish(progress)


class Run:
    """A fleet in arrays."""

    def __init__(self, fleet: Fleet, replicas: Sequence[Replica], clock: Clock, advance: Advance) -> None:
        """As it stands before the first request."""
        self.fleet, self.replicas, self.clock, self.advance = fleet, replicas, clock, advance
        self.kinds = Kinds(replicas)
        self.most = max(BUFFER, 4 * self.kinds.slots + 4)
        """Rows of each buffer."""
        self.buffers = {at.LOG: at.COLUMNS, at.GAP_ROWS: 3, at.APART_ROWS: 2}
        """Numbers of a row of each."""
        self.buffers |= {at.STRETCH_ROWS: 6 + self.kinds.sizes, at.PAUSE_ROWS: 3}
        self.state = self._state()

    def _state(self) -> State:
        kinds, ledger, count = self.kinds, self.fleet.ledger, len(self.replicas)
        parts = {at.OUTSTANDING: _zeros(count), at.COUNTS: _zeros(count * kinds.sizes)}
        parts |= {at.MEMBERS: _zeros(6 * count * kinds.slots)} | {
            place: _zeros(self.most * width) for place, width in self.buffers.items()
        }
        first = at.IO + count * at.WIDTH
        io, tables = self._io(), kinds.table(first)
        place = first + len(tables)
        for name, part in parts.items():
            io[name], place = place, place + len(part)
        whole = [ledger.arrival, ledger.scheduled, ledger.first_token, ledger.finish]
        short = [ledger.prompt, ledger.output, ledger.remaining_tokens, ledger.done, ledger.preemptions]
        short += [ledger.replica, ledger.status]
        return State(
            w=np.concatenate([io, self._at(first), tables, *parts.values()]),
            heap=self._heap(),
            price=kinds.price,
            whole=(*_columns(whole, np.int64), _zeros(len(ledger))),
            short=_columns(short, np.int32),
        )

    def _io(self) -> Ints:
        kinds, fleet, count = self.kinds, self.fleet, len(self.replicas)
        io = _zeros(at.IO)
        io[at.NUMBER], io[at.STOP], io[at.FRESH] = self.clock.events, len(fleet.ledger), -1
        io[at.WAY], io[at.TURN], io[at.LEAST] = fleet.way, fleet.choice.turn, fleet.router is least_outstanding
        io[at.LEAPS], io[at.SILENT] = self.replicas[0].fast_forwards, self.replicas[0].record.silent
        io[at.MOST], io[at.HEAP], io[at.ASKED], io[at.MARK] = self.most, 1, -1, -1
        io[at.SLOTS], io[at.SIZES], io[at.REPLICAS] = kinds.slots, kinds.sizes, count
        io[at.HANDED] = -(-self.replicas[0].record.most // COLUMNS)
        io[at.ENDS : at.JOINED + 1] = np.arange(1, 6) * count * kinds.slots
        return io

    def _at(self, first: int) -> Ints:
        """Replicas, idle; the first kind is in that place."""
        found = np.zeros((len(self.replicas), at.WIDTH), np.int64)
        found[:, at.KIND] = first + np.array(self.kinds.of) * self.kinds.size
        found[:, at.FREE] = [replica.blocks.free for replica in self.replicas]
        found[:, at.IDLE], found[:, at.DUE] = 1, -1
        return found.ravel()

    def _heap(self) -> Ints:
        """The first arrival is due."""
        tick, _, number, _ = self.clock.queue[0]
        found = _zeros((4 * len(self.replicas) + 1024) * at.EVENT)
        found[: at.EVENT] = tick, number, at.ARRIVAL
        return found

    def _replica(self, number: int) -> Ints:
        """The numbers of a replica."""
        own: Ints = self.state.w[at.IO + number * at.WIDTH :][: at.WIDTH]
        return own

    def finish(self, progress: Progress | None) -> None:
        """Run, and leave everything as the clock would."""
        while (said := self.advance(self.state)) != at.DONE:
            if said == at.TOO_LONG:
                raise OverflowError(TOO_LONG)
            if said == at.FULL:
                self._flush()
                if progress is not None:
                    progress(int(self.state.w[at.NUMBER]))
            else:
                self._answer(said)
        self._flush()
        self._write_back()

    def _answer(self, said: int) -> None:
        """Find what the run needs to know before it goes on."""
        w, kinds = self.state.w, self.kinds
        number = int(w[at.ASKED])
        own, kind = self._replica(number), kinds.of[number]
        table, n = w[own[at.KIND] :], int(own[at.DECODES])
        if said == at.ASK_ROWS:
            kinds.fill_rows(kind, table, n + int(own[at.TOKENS]), n + int(own[at.ENDED]))
        elif said == at.ASK_LINE:
            own[at.LINE_OF] = n
            own[at.LINE_LIMIT : at.LINE_SLOPE + 1] = kinds.fill_lines(kind, table, n, int(own[at.CONTEXT]))
        else:
            w[at.ANSWER], w[at.ANSWERED] = kinds.costs[kind].prompts(self._pieces(number)), 1

    def _pieces(self, number: int) -> list[tuple[int, int]]:
        """(tokens, tokens before them) of the prompts that the next iteration of a replica works on."""
        (w, _, _, whole, short), own = self.state, self._replica(number)
        first = int(w[at.MEMBERS]) + number * self.kinds.slots
        found, waits = [], int(own[at.HEAD])
        for place in range(first, first + int(w[at.PIECES])):
            if place < first + own[at.PARTIAL]:
                request = int(w[w[at.PARTIALS] + place])
            else:
                request, waits = waits, int(whole[at.BEHIND][waits])
            done = int(short[at.GENERATED][request]) - int(short[at.REMAINING][request])
            found.append((int(w[w[at.WORKED] + place]), self.fleet.ledger.prompt[request] + done))
        return found

    def _rows(self, place: int, first: int, stop: int) -> Iterator[tuple[int, Ints]]:
        """(replica, its rows without its number, in their order) of part of a buffer."""
        if stop <= first:
            return
        width, w = self.buffers[place], self.state.w
        table = w[w[place] + first * width : w[place] + stop * width].reshape(-1, width)
        if len(self.replicas) > 1:
            table = table[np.argsort(table[:, 0], kind="stable")]
        cuts = [0, *(np.flatnonzero(np.diff(table[:, 0])) + 1).tolist(), len(table)]
        for begin, end in pairwise(cuts):
            yield int(table[begin, 0]), table[begin:end, 1:]

    def _flush(self) -> None:
        """Give replicas what they wrote down."""
        w = self.state.w
        marked, noted = int(w[at.MARK]), int(w[at.GAPS])
        for number, rows in self._rows(at.LOG, 0, int(w[at.ROWS])):
            self.replicas[number].record.log.frombytes(rows.tobytes())
        for number, rows in self._rows(at.APART_ROWS, 0, int(w[at.APART])):
            self.replicas[number].record.apart.frombytes(rows.tobytes())
        for number, rows in self._rows(at.STRETCH_ROWS, 0, int(w[at.STRETCHES])):
            size = self.replicas[number].blocks.size
            self.replicas[number].record.usage.extend(rows[:, :5], rows[:, 5 : 5 + size])
        self._give_gaps(0, noted if marked < 0 else marked)
        if marked >= 0:  # there is one replica, and this is when it hands its rows over
            self.replicas[0].record.hand_over()
            self._replica(0)[at.LOGGED] = 0
            self._give_gaps(marked, noted)
        if w[at.PAUSES]:
            pauses = w[w[at.PAUSE_ROWS] :][: 3 * w[at.PAUSES]].reshape(-1, 3)
            self.fleet.ledger.pauses.extend((request, since, now) for request, since, now in pauses.tolist())
        w[[at.ROWS, at.GAPS, at.APART, at.STRETCHES, at.PAUSES]] = 0
        w[at.MARK] = -1
        for replica in self.replicas:
            if replica.record.full is None:
                replica.record.pack(replica.policy.grows)
        heap = self.state.heap
        if (w[at.HEAP] + 2 * len(self.replicas) + 16) * at.EVENT > len(heap):
            self.state = self.state._replace(heap=np.concatenate([heap, np.zeros_like(heap)]))

    def _give_gaps(self, first: int, stop: int) -> None:
        for number, rows in self._rows(at.GAP_ROWS, first, stop):
            record = self.replicas[number].record
            record.gap_ticks.frombytes(rows[:, 0].tobytes())
            record.gap_counts.frombytes(rows[:, 1].tobytes())

    def _write_back(self) -> None:
        """The ledger, the replicas and the clock stand as they would."""
        w, ledger, (_, _, _, whole, short) = self.state.w, self.fleet.ledger, self.state
        whole[at.FINISH][short[at.STATUS] != FINISHED] = NEVER  # those that stood behind others
        _put(ledger.scheduled, whole[at.SCHEDULED])
        _put(ledger.first_token, whole[at.FIRST_TOKEN])
        _put(ledger.finish, whole[at.FINISH])
        _put(ledger.remaining_tokens, short[at.REMAINING])
        _put(ledger.done, short[at.GENERATED])
        _put(ledger.preemptions, short[at.PREEMPTIONS])
        _put(ledger.replica, short[at.REPLICA])
        _put(ledger.status, short[at.STATUS])
        outstanding = w[w[at.OUTSTANDING] :][: len(self.replicas)].tolist()
        for replica, left in zip(self.replicas, outstanding, strict=True):
            own = self._replica(replica.number).tolist()
            replica.blocks.free, replica.preempted = own[at.FREE], own[at.PREEMPTED]
            replica.record.busy += own[at.BUSY]
            replica.queue.outstanding = left
            if replica.counts is not None:
                replica.counts[replica.number] = left
        self.fleet.choice.turn = int(w[at.TURN])
        self.fleet.ran(sum(outstanding))
        self.clock.ran(int(w[at.NOW]), int(w[at.NUMBER]))


def _zeros(count: int) -> Ints:
    """Zeros, which take no memory before they are written."""
    return np.zeros(count, np.int64)


def _columns(given: Sequence[Column], kind: type[np.signedinteger[Any]]) -> Columns:
    """Columns of the ledger as arrays, in its own memory where that has such numbers."""
    return tuple(_array(column, kind) for column in given)


def _array(column: Column, kind: type[np.signedinteger[Any]]) -> NDArray[np.signedinteger[Any]]:
    found = np.array(column, kind) if isinstance(column, list) else np.asarray(column)
    return found if found.dtype == kind and found.flags.writeable else found.astype(kind)


def _put(column: Column, values: NDArray[np.signedinteger[Any]]) -> None:
    """Write a column of the ledger."""
    if isinstance(column, list):
        column[:] = values.tolist()
    else:
        np.asarray(column)[:] = values
