"""What the operations of a program send over links, by senders that are alike.

A sender is all operations of one content on one device. On links count the bytes of all chains of its class. A group
of a collective puts on a link what the chains of the sender are of its members.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.fabric import Fabric
from simulator.program.content import OWN, Call, Comm
from simulator.training.chains import ChainClasses
from simulator.training.communication import Priced
from simulator.training.passes.program import Program

Ints = NDArray[np.int64]
Short = NDArray[np.int32]
Floats = NDArray[np.float64]

ROUNDING = 1e-6
"""Relative difference of two rates that are the same: durations are whole ticks, and a call takes a million of them."""


@dataclass(frozen=True, slots=True, eq=False)
class Sender:
    """Operations that send alike: those of one content on one device."""

    content: int
    device: int
    operations: Ints
    """In order."""
    lanes: tuple[int, ...]
    """Of the operations."""
    calls: tuple[tuple[Priced, Call, int], ...]
    """Each with its first group."""
    whole: bool
    """Whether they do nothing else, so that they can share links."""
    moving: int
    """Ticks in which they move bytes."""


class Senders:
    """All senders, and what each asks of links."""

    def __init__(self, program: Program, classes: ChainClasses, fabric: Fabric) -> None:
        """Of a program."""
        self.program, self.classes, self.fabric = program, classes, fabric

    @cached_property
    def all(self) -> list[Sender]:
        """All senders."""
        return list(self._found())

    @cached_property
    def whole(self) -> list[Sender]:
        """Those whose operations send and do nothing else."""
        return [sender for sender in self.all if sender.whole]

    def on(self, links: Ints) -> "OnLinks":
        """What they ask of some links."""
        return OnLinks(self.classes, self.fabric, links)

    def _found(self) -> Iterator[Sender]:
        width, columns = self.classes.ranks.shape[1], self.program.columns
        for content, device, apart, operations in self._alike():
            chain_, rank = divmod(device, width)
            first = int(self.classes.members[chain_][0])
            lump = self.program.contents[content]
            calls = tuple(self._call(call, first, rank) for call in lump.whole.calls)
            if calls:
                moving = max(sum(_lasts(*call) for call in calls), 1)
                lanes = tuple(sorted(set(columns.lane[operations].tolist())))
                yield Sender(content, device, operations, lanes, calls, lump.communicates and not apart, moving)

    def _alike(self) -> Iterator[tuple[int, int, bool, Ints]]:
        """(content, device, whether apart) and operations, in order."""
        columns = self.program.columns
        devices = len(self.program.lanes) // len(self.program.names)
        code = (columns.content * devices + self.program.device(slice(None))) * 2 + (columns.apart > 0)
        order = np.argsort(code, kind="stable")
        order = order[np.searchsorted(code[order], 0) :]
        for part in np.split(order, 1 + np.flatnonzero(np.diff(code[order]))) if len(order) else []:
            key = int(code[part[0]])
            yield key // 2 // devices, key // 2 % devices, bool(key % 2), part

    def _call(self, call: Call, chain_: int, rank: int) -> tuple[Priced, Call, int]:
        priced = self.classes.priced[call.comm]
        return priced, call, int(priced.rows[chain_, rank if call.place == OWN else call.place])


class OnLinks:
    """What senders, each of all chains of its class, ask of some links."""

    def __init__(self, classes: ChainClasses, fabric: Fabric, links: Ints) -> None:
        """Of `links` of a fabric, shape (links,)."""
        self.classes, self.links = classes, links
        self._outer = (links >= fabric.first_outer).astype(np.int8)
        self._place = np.full(len(fabric.capacity), -1, np.int32)
        self._place[links] = np.arange(len(links), dtype=np.int32)
        self._known: dict[Comm, _Table] = {}

    def asked(self, sender: Sender) -> tuple[Floats, Floats]:
        """(amount, flows) of each link, protocols included; (links,) each.

        Flows of one of several calls count for the part of the time that it moves bytes.
        """
        amount, flows = np.zeros((2, len(self.links)))
        for (priced, call, row), table, mine, part in self._sent(sender):
            link = table.link[mine]
            amount += call.runs * np.bincount(link, table.taken(mine) * part, len(amount))
            flows += _lasts(priced, call, row) / sender.moving * np.bincount(link, part, len(amount))
        return amount, flows

    def taken(self, sender: Sender) -> Floats:
        """The amount of `asked`; (links,)."""
        amount = np.zeros(len(self.links))
        for (_, call, _), table, mine, part in self._sent(sender):
            amount += call.runs * np.bincount(table.link[mine], table.taken(mine) * part, len(amount))
        return amount

    def bytes(self, sender: Sender) -> Floats:
        """Bytes over each link; (links,)."""
        found = np.zeros(len(self.links))
        for (_, call, _), table, mine, part in self._sent(sender):
            found += call.runs * np.bincount(table.link[mine], table.size[mine] * part, len(found))
        return found

    def transfers(self, senders: Sequence[Sender]) -> Iterator[tuple[int, Short, Floats]]:
        """What some of them send, call by call: which of them, over which of the links, and what it takes of those."""
        for number, sender in enumerate(senders):
            for (_, call, _), table, mine, part in self._sent(sender, ordered=False):
                yield number, table.link[mine], call.runs * table.taken(mine) * part

    def uneven(self, sender: Sender) -> bool:
        """Whether a flow of one chain of the sender carries more over a link than one of another chain: of such chains
        each would share the link in its own way."""
        chain_, rank = divmod(sender.device, self.classes.ranks.shape[1])
        members = self.classes.members[chain_]
        if len(members) == 1:
            return False
        keys, both = [], []
        for priced, call, row in sender.calls:
            table = self._table_of(priced)
            mine, transfers = table.of(priced.rows[members, rank if call.place == OWN else call.place])
            keys.append(np.repeat(np.arange(len(members)), transfers) * len(self.links) + table.link[mine])
            lasts = _lasts(priced, call, row) / sender.moving
            both.append(np.stack([call.runs * table.taken(mine), np.full(len(mine), lasts)]) / priced.members)
        known, number = np.unique(np.concatenate(keys), return_inverse=True)
        amount, flows = (np.bincount(number, each, len(known)) for each in np.concatenate(both, axis=1))
        used = flows > 0
        link, rate = known[used] % len(self.links), amount[used] / flows[used]
        most, least = np.zeros(len(self.links)), np.full(len(self.links), np.inf)
        np.maximum.at(most, link, rate)
        np.minimum.at(least, link, rate)
        return bool(np.any(most > least * (1 + ROUNDING)))

    def _table_of(self, priced: Priced) -> "_Table":
        """The transfers of a collective, made once."""
        if priced.comm not in self._known:
            self._known[priced.comm] = self._table(priced)
        return self._known[priced.comm]

    def _sent(
        self, sender: Sender, ordered: bool = True
    ) -> Iterator[tuple[tuple[Priced, Call, int], "_Table", Ints, Floats]]:
        """Each call of a sender, with the transfers that it makes, and what of each counts; `ordered` as in the table,
        so that sums are rounded alike beside any other senders."""
        chain_, rank = divmod(sender.device, self.classes.ranks.shape[1])
        members = self.classes.members[chain_]
        for entry in sender.calls:
            priced, call, _ = entry
            groups, count = _counted(priced.rows[members, rank if call.place == OWN else call.place])
            table = self._table_of(priced)
            mine, transfers = table.of(groups)
            part = np.repeat(count / priced.members, transfers)
            if ordered:
                order = np.argsort(mine)
                mine, part = mine[order], part[order]
            yield entry, table, mine, part

    def _table(self, priced: Priced) -> "_Table":
        """Transfers of a collective, way by way."""
        found = [(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0), np.zeros(0, np.int8))]
        taken = list[Floats]()
        for choice in priced.cost.plan.choices:
            own = np.int8(2 * len(taken))
            taken.append(np.array(choice.rate.per_byte))
            for demand in choice.demands:
                sizes = demand.phase.size * demand.phase.repeat * priced.cost.plan.size_bytes
                for hop in demand.ways.hops:
                    link = self._place[hop.link]
                    mine = np.flatnonzero(link >= 0)
                    link, (group, transfer) = link[mine], np.divmod(hop.flows(mine), len(sizes))
                    found.append((choice.rows[group].astype(np.int32), link, sizes[transfer], own + self._outer[link]))
        group, link, size, rate = (np.concatenate(column) for column in zip(*found, strict=True))
        start = np.append(0, np.cumsum(np.bincount(group, minlength=len(priced.cost.ticks))))
        order = np.argsort(group, kind="stable").astype(np.int32)
        return _Table(link, size, rate, np.concatenate([np.zeros(0), *taken]), order, start)


class _Table(NamedTuple):
    """Transfers of all groups of a collective over some links; (n,) each but for the last two."""

    link: Short
    """Which of the links."""
    size: Floats
    """Bytes."""
    rate: NDArray[np.int8]
    """Which of `per_byte` it has."""
    per_byte: Floats
    """What a byte takes of links inside nodes and between them, of one way of sending after the other."""
    order: Short
    """The transfers by group."""
    start: Ints
    """Where each group begins in that order; (groups + 1,)."""

    def taken(self, mine: Ints) -> Floats:
        """What some of the transfers take of their links."""
        found: Floats = self.size[mine] * self.per_byte[self.rate[mine]]
        return found

    def of(self, groups: Ints) -> tuple[Ints, Ints]:
        """The transfers of some groups, and how many each has."""
        first, count = self.start[groups], self.start[groups + 1] - self.start[groups]
        skipped = np.repeat(first - np.cumsum(count) + count, count)
        return self.order[skipped + np.arange(len(skipped))].astype(np.int64), count


def _counted(rows: Ints) -> tuple[Ints, Ints]:
    """Different numbers, rising, and how often each is there."""
    if (rows[1:] > rows[:-1]).all():
        return rows, np.ones(len(rows), np.int64)
    return np.unique(rows, return_counts=True)


def _lasts(priced: Priced, call: Call, row: int) -> int:
    """Ticks in which a group moves the bytes of a call."""
    return call.runs * int(priced.cost.moving[row])
