"""Traffic of one step that meets on links: what together asks a link for more than it has shares it.

Durations of collectives and sends are closed forms, in which siblings (the groups that run the same collective at the
same time) share links with each other and nobody else does. After a run with these, links are checked. Where one of a
kind was asked for more than it has, operations that use links of that kind become activities on them, the program runs
again, and so on until no link is asked for too much: then the closed forms that are left are what a run with every link
would give.

Links are looked at where the first chain of each class sends; on them count the bytes of all chains of all classes.
An activity moves its bytes evenly over the time in which the closed form has them move. Left out: collectives inside
passes that run as one instruction, which share links with nobody.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.engine.clock import Clock, Progress
from simulator.engine.player import Player
from simulator.engine.tape import Activity, Tape, Timeline, Use, chain
from simulator.fabric import Fabric
from simulator.fabric.sharing import max_min
from simulator.program import codes as d
from simulator.program.content import OWN, Call, Comm
from simulator.results.result import LinkLoad
from simulator.run.links import Recorded, scarce_kinds
from simulator.training.chains import ChainClasses
from simulator.training.communication import Priced
from simulator.training.passes.program import Program

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

SLACK = 0.02
"""Excess over a capacity that changes no answer."""
INTERVALS = 512
"""Of the load of a link that are kept."""


class Ran(NamedTuple):
    """A program that ran, with what its links carried."""

    timeline: Timeline
    links: tuple[LinkLoad, ...]
    kinds: frozenset[str]
    """Kinds of links on which operations met."""


def settled(
    program: Program,
    classes: ChainClasses,
    fabric: Fabric,
    run: Callable[[Tape], Timeline],
    loads: Callable[[Timeline, Recorded | None], tuple[LinkLoad, ...]],
    progress: Progress | None,
    kinds: frozenset[str] = frozenset(),
) -> Ran:
    """Run a program until no link is asked for more than it has.

    `run` runs a tape with nothing shared but devices; `loads` tells what links carried over a timeline; links of
    `kinds` are shared from the beginning.
    """
    traffic, shared = Traffic(program, classes, fabric), None
    if len(met := traffic.shared(kinds)):
        timeline, shared = _on_links(traffic, met, progress)
    else:
        timeline = run(program.tape)
    while True:
        links = loads(timeline, shared)
        more = (scarce_kinds(links) | traffic.scarce(timeline, kinds)) - kinds
        if not more or not len(met := traffic.shared(kinds | more)):
            return Ran(timeline, links, kinds)
        kinds |= more
        timeline, shared = _on_links(traffic, met, progress)


def on_links(program: Program, classes: ChainClasses, fabric: Fabric, kinds: frozenset[str]) -> Program:
    """A program whose operations share links of some kinds with each other."""
    traffic = Traffic(program, classes, fabric)
    met = traffic.shared(kinds)
    return replace(program, tape=traffic.tape(met)) if len(met) else program


def _on_links(traffic: "Traffic", links: Ints, progress: Progress | None) -> tuple[Timeline, Recorded]:
    """Run a program whose operations share links."""
    clock = Clock(solver=max_min)
    player = Player(clock, traffic.tape(links), label=traffic.label)
    resources = tuple(player.resources[-len(links) :])
    load = clock.record(resources, most=INTERVALS)
    clock.run(progress)
    timeline = player.timeline()
    return replace(timeline, events=timeline.events + clock.fluid.events), Recorded(
        links, load, resources, traffic.net(links)
    )


@dataclass(frozen=True, slots=True)
class Sender:
    """Operations that send alike: those of one content on one device."""

    content: int
    device: int
    apart: int
    """As the column of the program."""
    calls: tuple[tuple[Priced, Call, int], ...]
    """Each with its first group."""
    whole: bool
    """Whether they do nothing else, so that they can share links."""

    @property
    def moving(self) -> int:
        """Ticks in which they move bytes."""
        return max(sum(_lasts(*call) for call in self.calls), 1)


class Traffic:
    """What the operations of a program send, and the program on links that they share."""

    def __init__(self, program: Program, classes: ChainClasses, fabric: Fabric) -> None:
        """Of a program."""
        self.program, self.classes, self.fabric = program, classes, fabric
        self._demands: dict[tuple[Comm, bytes], tuple[Ints, Ints, Floats, Floats]] = {}

    @cached_property
    def senders(self) -> list[Sender]:
        """Everybody who sends."""
        return list(self._senders())

    def chains_apart(self, kinds: Collection[str]) -> Ints | None:
        """Keys that keep chains apart whose links of some kinds are loaded differently; None where they are apart."""
        blocks = [links for name, links in self._blocks() if name in kinds]
        links = np.concatenate([np.zeros(0, np.int64), *blocks])
        keys = self.apart(links, np.vstack([self.fabric.capacity[links], self.columns(links)]))
        return self.classes.split(keys)

    def _blocks(self) -> Iterator[tuple[str, Ints]]:
        """Links by kind."""
        stops = [*self.fabric.block_start[1:], len(self.fabric.capacity)]
        for name, first, stop in zip(self.fabric.kinds, self.fabric.block_start, stops, strict=True):
            yield name, np.arange(first, stop)

    def shared(self, kinds: Collection[str]) -> Ints:
        """Links of some kinds to share, of those that are asked alike one; shape (m,)."""
        return self.merged(self.of_kinds(kinds)) if kinds else np.zeros(0, np.int64)

    def shortfall(self, kinds: Collection[str]) -> float:
        """By how much the fullest link of a kind is fuller than the fullest that is looked at; a fraction."""
        found, looked = 0.0, self.of_kinds(kinds)
        for name, links in self._blocks():
            seen = np.isin(links, looked)
            if name in kinds and seen.any():
                sent = self._in_a_step(links)
                found = max(found, float(sent.max() / sent[seen].max()) - 1)
        return found

    def _in_a_step(self, links: Ints) -> Floats:
        """What all that can share links takes of them in a step; (links,)."""
        whole = (sender for sender in self.senders if sender.whole)
        return sum(
            (len(self._operations(sender)) * self._asked(sender, links)[0] for sender in whole), np.zeros(len(links))
        )

    def label(self, operation: int) -> str:
        """The name of an operation on the record of loads."""
        return d.KINDS[self.program.columns.kind[operation]]

    def of_kinds(self, kinds: Collection[str]) -> Ints:
        """Links of some kinds that the first chain of each class uses."""
        shared = [links for name, links in self._blocks() if name in kinds]
        return np.intersect1d(self.used, np.concatenate([np.zeros(0, np.int64), *shared]))

    @cached_property
    def used(self) -> Ints:
        """Links that the first chain of each class uses, in operations that send and do nothing else."""
        found = [_links_of(priced, row) for sender in self.senders if sender.whole for priced, _, row in sender.calls]
        return np.unique(np.concatenate([np.zeros(0, np.int64), *found]))

    def merged(self, links: Ints) -> Ints:
        """Of links on which all operations ask for the same only one."""
        if not len(links) or not self.senders:
            return links
        return links[distinct(np.vstack([self.columns(links), self.fabric.capacity[links]]))]

    def columns(self, links: Ints) -> Floats:
        """What each sender asks of links: (amount, flows), shape (2 x senders, links)."""
        found = [np.stack(self._asked(sender, links)) for sender in self.senders if sender.whole]
        return np.concatenate([np.zeros((0, len(links))), *found])

    def apart(self, links: Ints, columns: Floats) -> Ints:
        """Numbers of chains, equal where all that they run goes over links, of some, on which all load alike.

        `columns` (k, links) says who loads them how.
        """
        kind = np.full(len(self.fabric.capacity), -1, np.int64)
        kind[links] = np.unique(np.round(columns, 3), axis=1, return_inverse=True)[1].reshape(-1)
        found = [_kinds_of_groups(priced, kind)[priced.rows] for priced in self.classes.priced.values()]
        joined = np.concatenate([*found, np.zeros((len(self.classes.ranks), 1), np.int64)], axis=1)
        keys: Ints = np.unique(joined, axis=0, return_inverse=True)[1].reshape(-1)
        return keys

    def net(self, links: Ints) -> dict[str, Floats]:
        """What of each unit that links carry for operations of a name are bytes, the rest is protocol; (links,)."""
        kind = self.program.columns.kind
        both: dict[str, Floats] = {}
        for sender in self.senders if len(links) else ():
            for code, count in zip(*np.unique(kind[self._operations(sender)], return_counts=True), strict=True):
                if sender.whole:
                    amounts = np.stack([self._sent(sender, links), self._asked(sender, links)[0]])
                    name = d.KINDS[code]
                    both[name] = both.get(name, np.zeros((2, len(links)))) + count * amounts
        return {name: sent / np.where(taken > 0, taken, 1.0) for name, (sent, taken) in both.items()}

    def scarce(self, timeline: Timeline, kinds: Collection[str]) -> frozenset[str]:
        """Kinds of links, others than `kinds`, of which one is asked for more than it has at a moment."""
        links = np.setdiff1d(self.used, self.of_kinds(kinds))
        senders = [sender for sender in self.senders if sender.whole]
        if not len(links) or not senders:
            return frozenset()
        amounts = np.stack([self._asked(sender, links)[0] for sender in senders])
        limit = (1 + SLACK) * self.fabric.capacity[links] / units.TICKS_PER_SECOND
        most = sum(self._by_lane(senders, amounts).values(), np.zeros(len(links)))
        found = set[str]()
        for i in _first_alike(np.vstack([amounts, limit]), np.flatnonzero(most > limit)):
            asked = [(sender, float(amounts[row, i])) for row, sender in enumerate(senders) if amounts[row, i]]
            if self._peak(timeline, asked) > limit[i]:
                found.add(self.fabric.kinds[self.fabric.block_of(int(links[i]))])
        return frozenset(found)

    def _peak(self, timeline: Timeline, asked: Sequence[tuple[Sender, float]]) -> float:
        """The most bytes per tick that operations of some senders ask of a link at a moment."""
        times, changes = [np.zeros(0, np.int64)], [np.zeros(0)]
        for sender, amount in asked:
            operations = self._operations(sender)
            start, end = timeline.start[operations], timeline.end[operations]
            still = self.program.contents[sender.content].ticks - sender.moving
            begin = np.minimum(start + still, end - 1)
            rate = amount / (end - begin)
            times += [begin, end]
            changes += [rate, -rate]
        time, change = np.concatenate(times), np.concatenate(changes)
        return float(np.cumsum(change[np.lexsort((change, time))]).max(initial=0.0))

    def most(self) -> tuple[Floats, Floats]:
        """The most bytes per tick that operations ask of each link at once, each lane running one, and what of it
        those inside passes ask that run as one instruction, which cannot share links: shape (links,) each."""
        links = np.arange(len(self.fabric.capacity))
        able, inside = (self._of_lanes(links, whole) for whole in (True, False))
        none = np.zeros(len(links))
        both = [np.maximum(able.get(n, none), inside.get(n, none)) for n in able.keys() | inside.keys()]
        return sum(both, none), sum(inside.values(), none)

    def _of_lanes(self, links: Ints, whole: bool) -> dict[int, Floats]:
        """The most that operations of each lane ask of links: those that can share them, or those that cannot."""
        senders = [sender for sender in self.senders if sender.whole == whole]
        return self._by_lane(senders, (self._asked(sender, links)[0] for sender in senders))

    def _by_lane(self, senders: Iterable[Sender], amounts: Iterable[Floats]) -> dict[int, Floats]:
        """The most that senders of each lane ask per tick, of what each asks in all."""
        found: dict[int, Floats] = {}
        for sender, amount in zip(senders, amounts, strict=True):
            rate = amount / sender.moving
            for number in self._lanes(sender):
                found[number] = np.maximum(found[number], rate) if number in found else rate
        return found

    def tape(self, links: Ints) -> Tape:
        """The tape on which operations that use some links are activities on them; they are its last resources."""
        tape = self.program.tape
        activities, found = list(tape.activities), tape.activity.copy()
        limit = self.fabric.capacity[links] / units.TICKS_PER_SECOND
        for sender in self.senders:
            amount, flows = self._asked(sender, links)
            used = np.flatnonzero(amount)
            same = self._operations(sender)
            if not len(used) or not sender.whole:
                continue
            rates = np.minimum(amount / sender.moving, limit)
            uses = tuple(Use(len(tape.capacity) + i, float(rates[i]), float(flows[i])) for i in used.tolist())
            for before in np.unique(tape.activity[same]).tolist():
                own = tape.activities[before].uses if before >= 0 else ()
                activities.append(_parts(self.program.contents[sender.content].ticks, sender.moving, own, uses))
                found[same[tape.activity[same] == before]] = len(activities) - 1
        return replace(
            tape, activity=found, activities=tuple(activities), capacity=np.concatenate([tape.capacity, limit])
        )

    # ---- what operations send ------------------------------------------------------------------------------------

    def _senders(self) -> Iterator[Sender]:
        """Everybody who sends, by content and device."""
        width = self.classes.ranks.shape[1]
        for content, device, apart in self._alike:
            lump = self.program.contents[content]
            chain_, rank = divmod(device, width)
            first = int(self.classes.members[chain_][0])
            calls = tuple(self._call(call, first, rank) for call in lump.whole.calls)
            if calls:
                yield Sender(content, device, apart, calls, lump.communicates and not apart)

    def _call(self, call: Call, chain_: int, rank: int) -> tuple[Priced, Call, int]:
        priced = self.classes.priced[call.comm]
        return priced, call, int(priced.rows[chain_, rank if call.place == OWN else call.place])

    @cached_property
    def _alike(self) -> dict[tuple[int, int, int], Ints]:
        """Operations by (content, device, apart), in order."""
        columns = self.program.columns
        devices = len(self.program.lanes) // len(self.program.names)
        code = (columns.content * devices + self.program.device(slice(None))) * 2 + (columns.apart > 0)
        order = np.argsort(code, kind="stable")
        order = order[np.searchsorted(code[order], 0) :]
        parts = np.split(order, 1 + np.flatnonzero(np.diff(code[order]))) if len(order) else []
        keys = [int(code[part[0]]) for part in parts]
        return {(key // 2 // devices, key // 2 % devices, key % 2): part for key, part in zip(keys, parts, strict=True)}

    def _operations(self, sender: Sender) -> Ints:
        """The operations of a sender."""
        return self._alike[sender.content, sender.device, sender.apart]

    def _lanes(self, sender: Sender) -> list[int]:
        """Lanes of the operations of a sender."""
        lanes: list[int] = np.unique(self.program.columns.lane[self._operations(sender)]).tolist()
        return lanes

    def _asked(self, sender: Sender, links: Ints) -> tuple[Floats, Floats]:
        """(amount, flows) that a sender of all chains of its class asks of each link; (links,) each.

        Flows of one of several calls count for the part of the time that it moves bytes.
        """
        amount, flows = np.zeros((2, len(links)))
        for priced, call, row in sender.calls:
            share = self._share(sender, priced, call)
            group, link, _, taken = self._taken(priced, links)
            mine = np.flatnonzero(share[group])
            part, link = share[group[mine]], link[mine]
            amount += call.runs * np.bincount(link, taken[mine] * part, len(links))
            flows += _lasts(priced, call, row) / sender.moving * np.bincount(link, part, len(links))
        return amount, flows

    def _share(self, sender: Sender, priced: Priced, call: Call) -> Floats:
        """The part of each group of a collective that the chains of a sender's class are; (groups,)."""
        chain_, rank = divmod(sender.device, self.classes.ranks.shape[1])
        rows = priced.rows[self.classes.members[chain_], rank if call.place == OWN else call.place]
        share: Floats = np.bincount(rows, minlength=len(priced.cost.ticks)) / priced.members
        return share

    def _sent(self, sender: Sender, links: Ints) -> Floats:
        """Bytes that a sender of all chains of its class sends over each link, without its protocols; (links,)."""
        found = np.zeros(len(links))
        for priced, call, _ in sender.calls:
            share = self._share(sender, priced, call)
            group, link, size, _ = self._taken(priced, links)
            found += call.runs * np.bincount(link, size * share[group], len(links))
        return found

    def _taken(self, priced: Priced, links: Ints) -> tuple[Ints, Ints, Floats, Floats]:
        """(group, which of some links, bytes, what they take of it) of all transfers of a collective over them."""
        key = priced.comm, links.tobytes()
        if key not in self._demands:
            place = np.full(len(self.fabric.capacity), -1, np.int64)
            place[links] = np.arange(len(links))
            found = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), np.zeros(0))]
            for choice in priced.cost.plan.choices:
                each = np.where(np.arange(len(place)) < self.fabric.first_outer, *choice.rate.per_byte)
                for demand in choice.demands:
                    size = np.tile(demand.phase.size * demand.phase.repeat * priced.cost.plan.size_bytes, demand.groups)
                    group = np.repeat(choice.rows, len(demand.phase.size))
                    for way in demand.paths:
                        mine = np.flatnonzero((way >= 0) & (place[way] >= 0))
                        found.append((group[mine], place[way[mine]], size[mine], size[mine] * each[way[mine]]))
            self._demands[key] = tuple(np.concatenate(column) for column in zip(*found, strict=True))  # type: ignore[assignment]
        return self._demands[key]


def _first_alike(columns: Floats, among: Ints) -> list[int]:
    """Of equal columns among some only the first, but for rare ones; compared by a sum with uneven weights."""
    weights = 1 + np.sqrt(np.arange(2, len(columns) + 2)) % 1
    keys = np.round(weights @ columns[:, among], 3)
    return among[np.unique(keys, return_index=True)[1]].tolist()  # type: ignore[no-any-return]


def distinct(columns: Floats) -> Ints:
    """The first of equal columns, in order; rounding apart."""
    return np.sort(np.unique(np.round(columns, 3), axis=1, return_index=True)[1])


def _lasts(priced: Priced, call: Call, row: int) -> int:
    """Ticks in which a group moves the bytes of a call."""
    return call.runs * int(priced.cost.moving[row])


def _kinds_of_groups(priced: Priced, kind: Ints) -> Ints:
    """Numbers of the groups of a collective, equal where they use links of the same kinds, (links,) with -1 for those
    that do not count; the last number is that of no group."""
    known: dict[frozenset[int], int] = {frozenset(): 0}
    found = np.zeros(len(priced.cost.ticks) + 1, np.int64)
    for choice in priced.cost.plan.choices:
        on: dict[int, set[int]] = {row: set() for row in choice.rows.tolist()}
        for demand in choice.demands:
            group = np.repeat(choice.rows, len(demand.phase.size))
            for way in demand.paths:
                seen = np.flatnonzero((way >= 0) & (kind[way] >= 0))
                for row, number in np.unique(np.stack([group[seen], kind[way[seen]]]), axis=1).T.tolist():
                    on[row].add(number)
        for row, kinds in on.items():
            found[row] = known.setdefault(frozenset(kinds), len(known))
    return found


def _links_of(priced: Priced, row: int) -> Ints:
    """Links that a group of a collective uses."""
    found = [np.zeros(0, np.int64)]
    for choice in priced.cost.plan.choices:
        for group in np.flatnonzero(choice.rows == row).tolist():
            for demand in choice.demands:
                links = demand.paths.reshape(len(demand.paths), demand.groups, -1)[:, group].ravel()
                found.append(links[links >= 0])
    return np.unique(np.concatenate(found))


def _parts(ticks: int, moving: int, own: tuple[Use, ...], rates: tuple[Use, ...]) -> Activity:
    """Launch and hops, then bytes on links; all along what the operation takes of its device."""
    if not own:
        return Activity(ticks - moving, moving, rates)
    return chain([Activity(0, ticks - moving, own), Activity(0, moving, own + rates)])
