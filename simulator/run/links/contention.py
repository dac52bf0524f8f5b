"""Traffic of one step that meets on links: what together asks a link for more than it has shares it.

Durations of collectives and sends are closed forms, in which siblings (the groups that run the same collective at the
same time) share links with each other and no others do. After a run with these, links are checked. Where one of a
kind was asked for more than it has, operations that use links of that kind become activities on them, the program runs
again, and so on until no link is asked for too much: then the closed forms that are left are what a run with every link
would give.

Links are looked at where the first chain of each class sends; on them count the bytes of all chains of all classes.
An activity moves its bytes evenly over the time in which the closed form has them move. Left out: collectives inside
passes that run as one instruction, which share links with nothing.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.engine.clock import Progress
from simulator.engine.executor import execute, execute_recorded
from simulator.engine.tape import Activity, Tape, Timeline, Use, chain
from simulator.fabric import Fabric
from simulator.fabric.alike import Bits, first_alike, marks, numbers
from simulator.fabric.sharing import max_min
from simulator.program import codes as d
from simulator.results.result import LinkLoad
from simulator.run.links.carried import Recorded, scarce_kinds
from simulator.run.links.senders import OnLinks, Sender, Senders, Short
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
    recording: bool = True,
) -> Ran:
    """Run a program until no link is asked for more than it has.

    `run` runs a tape with nothing shared but devices; `loads` tells what links carried over a timeline; links of
    `kinds` are shared from the beginning. Without `recording` loads of shared links have no peak and no course.
    """
    traffic, shared = Traffic(program, classes, fabric), None
    if len(met := traffic.shared(kinds)):
        timeline, shared = _on_links(traffic, met, progress, recording)
    else:
        timeline = run(program.tape)
    while True:
        links = loads(timeline, shared)
        more = (scarce_kinds(links) | traffic.scarce(timeline, kinds)) - kinds
        if not more or not len(met := traffic.shared(kinds | more)):
            return Ran(timeline, links, kinds)
        kinds |= more
        timeline, shared = _on_links(traffic, met, progress, recording)


def on_links(program: Program, classes: ChainClasses, fabric: Fabric, kinds: frozenset[str]) -> Program:
    """A program whose operations share links of some kinds with each other."""
    traffic = Traffic(program, classes, fabric)
    met = traffic.shared(kinds)
    return replace(program, tape=traffic.tape(met)) if len(met) else program


def _on_links(traffic: "Traffic", links: Ints, progress: Progress | None, recording: bool) -> tuple[Timeline, Recorded]:
    """Run a program whose operations share links."""
    tape = traffic.tape(links)
    resources = tuple(range(len(tape.capacity) - len(links), len(tape.capacity)))
    if not recording:
        return execute(tape, max_min, progress), Recorded(links, None, resources, {})
    timeline, load = execute_recorded(tape, max_min, progress, resources, traffic.names, INTERVALS)
    return timeline, Recorded(links, load, resources, traffic.net(links))


class Traffic:
    """What the operations of a program send, and the program on links that they share."""

    def __init__(self, program: Program, classes: ChainClasses, fabric: Fabric) -> None:
        """Of a program."""
        self.program, self.classes, self.fabric = program, classes, fabric
        self.senders = Senders(program, classes, fabric)

    def chains_apart(self, kinds: Collection[str]) -> Ints | None:
        """Keys that keep chains apart whose links of some kinds are loaded differently; None where they are apart."""
        blocks = [links for name, links in self._blocks() if name in kinds]
        links = np.concatenate([np.zeros(0, np.int64), *blocks])
        return self.classes.split(self.apart(links, marks(self._rows(links), len(links))))

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
        looked = np.zeros(len(self.fabric.capacity), np.bool_)
        looked[self.of_kinds(kinds)] = True
        blocks = [links for name, links in self._blocks() if name in kinds and looked[links].any()]
        if not blocks:
            return 0.0
        sent = np.split(self._in_a_step(np.concatenate(blocks)), np.cumsum([len(links) for links in blocks])[:-1])
        fuller = (float(all_.max() / all_[looked[links]].max()) - 1 for links, all_ in zip(blocks, sent, strict=True))
        return max(0.0, *fuller)

    def _in_a_step(self, links: Ints) -> Floats:
        """What all that can share links takes of them in a step; (links,)."""
        whole, on = self.senders.whole, self.senders.on(links)
        return sum((len(sender.operations) * on.taken(sender) for sender in whole), np.zeros(len(links)))

    def label(self, operation: int) -> str:
        """The name of an operation on the record of loads."""
        return self.names[operation]

    @cached_property
    def names(self) -> list[str]:
        """The names of all operations there."""
        return [d.KINDS[kind] for kind in self.program.columns.kind.tolist()]

    def of_kinds(self, kinds: Collection[str]) -> Ints:
        """Links of some kinds that the first chain of each class uses."""
        return self.used[self._of_kinds(kinds)]

    def _of_kinds(self, kinds: Collection[str]) -> NDArray[np.bool_]:
        """Which of the used links are of some kinds."""
        found = np.zeros(len(self.used), np.bool_)
        for name, links in self._blocks() if kinds else ():
            if name in kinds and len(links):
                found |= (self.used >= links[0]) & (self.used <= links[-1])
        return found

    @cached_property
    def used(self) -> Ints:
        """Links that the first chain of each class uses, in operations that send and do nothing else."""
        used = np.zeros(len(self.fabric.capacity), np.bool_)
        for sender in self.senders.whole:
            for priced, _, row in sender.calls:
                for links in _ways_of(priced, row):
                    used[links] = True
        return np.flatnonzero(used)

    def merged(self, links: Ints) -> Ints:
        """Of links on which all operations ask for the same only one."""
        if not len(links) or not self.senders.all:
            return links
        return links[first_alike(marks(self._rows(links), len(links)))]

    def _rows(self, links: Ints) -> Iterator[Floats]:
        """What tells links apart without other senders."""
        yield self.fabric.capacity[links]
        yield from self.rows(links)

    def rows(self, links: Ints) -> Iterator[Floats]:
        """What each sender asks of links, amount and flows in turn; (links,) each."""
        on = self.senders.on(links)
        for sender in self.senders.whole:
            yield from on.asked(sender)

    def apart(self, links: Ints, alike: Bits) -> Ints:
        """Numbers of chains, equal where all that they run goes over links, of some, on which all load alike, and their
        flows there carry alike.

        `alike` (links,) are the marks of those.
        """
        kind = np.full(len(self.fabric.capacity), -1, np.int64)
        kind[links] = numbers(alike)
        found = [_kinds_of_groups(priced, kind)[priced.rows] for priced in self.classes.priced.values()]
        joined = np.concatenate([*found, self._uneven(links)[:, None]], axis=1)
        keys: Ints = np.unique(joined, axis=0, return_inverse=True)[1].reshape(-1)
        return keys

    def _uneven(self, links: Ints) -> Ints:
        """Numbers of chains, different in classes of which chains share some links unevenly."""
        width, on = self.classes.ranks.shape[1], self.senders.on(links)
        keys = np.zeros(len(self.classes.ranks), np.int64)
        for sender in self.senders.whole if len(links) else ():
            members = self.classes.members[sender.device // width]
            if not keys[members[-1]] and on.uneven(sender):
                keys[members] = np.arange(len(members))
        return keys

    def net(self, links: Ints) -> dict[str, Floats]:
        """What of each unit that links carry for operations of a name are bytes, the rest is protocol; (links,)."""
        kind, on = self.program.columns.kind, self.senders.on(links)
        both: dict[str, Floats] = {}
        for sender in self.senders.whole if len(links) else ():
            amounts = np.stack([on.bytes(sender), on.taken(sender)])
            for code, count in zip(*np.unique(kind[sender.operations], return_counts=True), strict=True):
                name = d.KINDS[code]
                both[name] = both.get(name, np.zeros((2, len(links)))) + count * amounts
        return {name: sent / np.where(taken > 0, taken, 1.0) for name, (sent, taken) in both.items()}

    def scarce(self, timeline: Timeline, kinds: Collection[str]) -> frozenset[str]:
        """Kinds of links, others than `kinds`, of which one is asked for more than it has at a moment."""
        links = self.used[~self._of_kinds(kinds)]
        limit = (1 + SLACK) * self.fabric.capacity[links] / units.TICKS_PER_SECOND
        senders, found = self.senders.whole, set[str]()
        for i, asked in _in_excess(senders, self.senders.on(links), limit):
            if _at_once(asked) > limit[i] and self._peak(timeline, asked) > limit[i]:
                found.add(self.fabric.kinds[self.fabric.block_of(int(links[i]))])
        return frozenset(found)

    def _peak(self, timeline: Timeline, asked: Sequence[tuple[Sender, float]]) -> float:
        """The most bytes per tick that operations of some senders ask of a link at a moment."""
        times, changes = [np.zeros(0, np.int64)], [np.zeros(0)]
        for sender, amount in asked:
            start, end = timeline.start[sender.operations], timeline.end[sender.operations]
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
        found: dict[int, Floats] = {}
        on = self.senders.on(links)
        for sender in self.senders.all:
            if sender.whole == whole:
                rate = on.taken(sender) / sender.moving
                for number in sender.lanes:
                    found[number] = np.maximum(found[number], rate) if number in found else rate
        return found

    def tape(self, links: Ints) -> Tape:
        """The tape on which operations that use some links are activities on them; they are its last resources."""
        tape = self.program.tape
        activities, found = list(tape.activities), tape.activity.copy()
        limit = self.fabric.capacity[links] / units.TICKS_PER_SECOND
        on = self.senders.on(links)
        for sender in self.senders.whole:
            amount, flows = on.asked(sender)
            # What rounding leaves of a call may be too little to move for a tick: it shares with none.
            used, same = np.flatnonzero((amount > 0) & (flows > 0)), sender.operations
            if not len(used):
                continue
            rates = np.minimum(amount / sender.moving, limit)
            uses = tuple(Use(len(tape.capacity) + i, float(rates[i]), float(flows[i])) for i in used.tolist())
            for before in sorted(set(tape.activity[same].tolist())):
                own = tape.activities[before].uses if before >= 0 else ()
                activities.append(_parts(self.program.contents[sender.content].ticks, sender.moving, own, uses))
                found[same[tape.activity[same] == before]] = len(activities) - 1
        return replace(
            tape, activity=found, activities=tuple(activities), capacity=np.concatenate([tape.capacity, limit])
        )


def _in_excess(
    senders: Sequence[Sender], on: OnLinks, limit: Floats
) -> Iterator[tuple[int, list[tuple[Sender, float]]]]:
    """Links of which all senders at once would ask for more than `limit` (links,), with what each asks.

    Of links that are asked alike only the first, but for rare ones: they are compared by a sum with uneven weights.
    """
    at_once, keys = np.zeros((2, len(limit)))
    for number, link, amount in on.transfers(senders):
        np.add.at(at_once, link, amount * (len(senders[number].lanes) / senders[number].moving))
        np.add.at(keys, link, amount * (1 + np.sqrt(number + 2) % 1))
    over = np.flatnonzero(at_once > limit)
    if not len(over):
        return
    links = np.sort(over[np.unique(np.round((keys + limit)[over], 3), return_index=True)[1]])
    looked = np.zeros(len(limit), np.bool_)
    looked[links] = True
    sent = [(number, *_on_these(looked, link, amount)) for number, link, amount in on.transfers(senders)]
    sender = np.repeat([number for number, _, _ in sent], [len(link) for _, link, _ in sent])
    link, amounts = (np.concatenate(column) for column in list(zip(*sent, strict=True))[1:])
    rows = np.argsort(link, kind="stable")
    sender, link, amounts = sender[rows], link[rows].astype(np.int64), amounts[rows]
    first = np.flatnonzero(np.diff(link * len(senders) + sender, prepend=-1))
    amounts, sender = np.add.reduceat(amounts, first), sender[first]
    stops = np.searchsorted(link[first], links, side="right").tolist()
    for each, begin, stop in zip(links.tolist(), [0, *stops], stops, strict=False):
        yield each, [(senders[i], units) for i, units in zip(sender[begin:stop], amounts[begin:stop], strict=True)]


def _on_these(looked: NDArray[np.bool_], link: Short, amount: Floats) -> tuple[Short, Floats]:
    """Of what is sent, what goes over links that are looked at, (links,)."""
    chosen = looked[link]
    return link[chosen], amount[chosen]


def _at_once(asked: Iterable[tuple[Sender, float]]) -> float:
    """The most bytes per tick that senders ask of a link, given what each asks in all: each lane runs one of them."""
    lanes: dict[int, float] = {}
    for sender, amount in asked:
        for lane in sender.lanes:
            lanes[lane] = max(lanes.get(lane, 0.0), amount / sender.moving)
    return sum(lanes.values())


def _kinds_of_groups(priced: Priced, kind: Ints) -> Ints:
    """Numbers of the groups of a collective, equal where they use links of the same kinds, (links,) with -1 for those
    that do not count; the last number is that of no group."""
    known: dict[frozenset[int], int] = {frozenset(): 0}
    found = np.zeros(len(priced.cost.ticks) + 1, np.int64)
    for choice in priced.cost.plan.choices:
        on: dict[int, set[int]] = {row: set() for row in choice.rows.tolist()}
        for demand in choice.demands:
            for hop in demand.ways.hops:
                seen = np.flatnonzero(kind[hop.link] >= 0)
                group = choice.rows[hop.flows(seen) // len(demand.phase.size)]
                for row, number in set(zip(group.tolist(), kind[hop.link[seen]].tolist(), strict=True)):
                    on[row].add(number)
        for row, kinds in on.items():
            found[row] = known.setdefault(frozenset(kinds), len(known))
    return found


def _ways_of(priced: Priced, row: int) -> Iterator[NDArray[np.integer]]:
    """Links of the ways of a group of a collective."""
    for choice in priced.cost.plan.choices:
        group = int(np.searchsorted(choice.rows, row))
        if group < len(choice.rows) and choice.rows[group] == row:
            for demand in choice.demands:
                yield from demand.ways.of_group(group)


def _parts(ticks: int, moving: int, own: tuple[Use, ...], rates: tuple[Use, ...]) -> Activity:
    """Launch and hops, then bytes on links; all along what the operation takes of its device."""
    if not own:
        return Activity(ticks - moving, moving, rates)
    return chain([Activity(0, ticks - moving, own), Activity(0, moving, own + rates)])
