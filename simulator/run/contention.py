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

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
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
from simulator.program.content import OWN, Call
from simulator.results.result import LinkLoad
from simulator.run.links import Recorded, scarce_kinds
from simulator.training.chains import ChainClasses
from simulator.training.communication import Priced
from simulator.training.passes.program import Program

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

INTERVALS = 512
"""Of the load of a link that are kept."""


class Ran(NamedTuple):
    """A program that ran, with what its links carried."""

    timeline: Timeline
    links: tuple[LinkLoad, ...]
    contended: bool
    """Whether operations met on links."""


def settled(
    program: Program,
    classes: ChainClasses,
    fabric: Fabric,
    run: Callable[[Tape], Timeline],
    loads: Callable[[Timeline, Recorded | None], tuple[LinkLoad, ...]],
    progress: Progress | None,
) -> Ran:
    """Run a program until no link is asked for more than it has.

    `run` runs a tape with nothing shared but devices; `loads` tells what links carried over a timeline.
    """
    timeline, shared, kinds = run(program.tape), None, set[str]()
    while True:
        links = loads(timeline, shared)
        more = scarce_kinds(links) - kinds
        if not more:
            return Ran(timeline, links, shared is not None)
        kinds |= more
        contended = Contended(program, classes, fabric, kinds)
        if not len(contended.links):
            return Ran(timeline, links, shared is not None)
        timeline, shared = contended.run(progress)


@dataclass(slots=True)
class Contended:
    """A program whose operations share links of some kinds."""

    program: Program
    classes: ChainClasses
    fabric: Fabric
    kinds: Collection[str]
    links: Ints = field(init=False)
    """Those on which it is looked; shape (m,)."""
    _place: Ints = field(init=False)
    """Of each link of the fabric among these, -1 for none."""
    _entries: dict[object, tuple[Ints, Ints, Floats]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """Find the links."""
        shared, stops = np.zeros(len(self.fabric.capacity), np.bool_), [*self.fabric.block_start[1:], None]
        for name, first, stop in zip(self.fabric.kinds, self.fabric.block_start, stops, strict=True):
            shared[first:stop] = name in self.kinds
        used = np.zeros_like(shared)
        for _, _, calls in self._operations():
            for priced, _, row in calls:
                used[_links_of(priced, row)] = True
        self.links = np.flatnonzero(shared & used)
        self._place = np.full(len(shared), -1, np.int64)
        self._place[self.links] = np.arange(len(self.links))

        self._merge()

    def _merge(self) -> None:
        """Keep one of the links on which all operations ask for the same."""
        asked = [self._asked(device, calls) for _, device, calls in self._operations()]
        if asked and len(self.links):
            columns = np.concatenate([*(np.stack(pair) for pair in asked), self.fabric.capacity[self.links][None]])
            _, kept = np.unique(np.round(columns, 3), axis=1, return_index=True)
            self.links = self.links[np.sort(kept)]
            self._place = np.full(len(self._place), -1, np.int64)
            self._place[self.links] = np.arange(len(self.links))
            self._entries.clear()

    def run(self, progress: Progress | None) -> tuple[Timeline, Recorded]:
        """Run it on shared links."""
        tape, kind = self.tape(), self.program.columns.kind
        clock = Clock(solver=max_min)
        player = Player(clock, tape, label=lambda operation: d.KINDS[kind[operation]])
        resources = tuple(player.resources[-len(self.links) :])
        load = clock.record(resources, most=INTERVALS)
        clock.run(progress)
        timeline = player.timeline()
        return replace(timeline, events=timeline.events + clock.fluid.events), Recorded(self.links, load, resources)

    def tape(self) -> Tape:
        """The tape on which operations that use the links are activities on them."""
        tape, columns = self.program.tape, self.program.columns
        activities, found = list(tape.activities), tape.activity.copy()
        for content, device, calls in self._operations():
            uses = self._uses(device, calls, len(tape.capacity))
            same = np.flatnonzero((columns.content == content) & (self.program.device(slice(None)) == device))
            if not uses or not len(same):
                continue
            ticks, moving = self.program.contents[content].ticks, self._moving(calls)
            for before in np.unique(tape.activity[same]).tolist():
                own = tape.activities[before].uses if before >= 0 else ()
                rates = tuple(Use(link, min(amount / moving, limit), flows) for link, amount, flows, limit in uses)
                activities.append(_parts(ticks, moving, own, rates))
                found[same[tape.activity[same] == before]] = len(activities) - 1
        capacity = np.concatenate([tape.capacity, self.fabric.capacity[self.links] / units.TICKS_PER_SECOND])
        return replace(tape, activity=found, activities=tuple(activities), capacity=capacity)

    # ---- what operations send ------------------------------------------------------------------------------------

    def _operations(self) -> Iterator[tuple[int, int, list[tuple[Priced, Call, int]]]]:
        """(content, device, calls) of operations that communicate and nothing else, each with its first group."""
        columns, width = self.program.columns, self.classes.ranks.shape[1]
        code = columns.content * (self.program.tape.lane_start.shape[0] + 1) + self.program.device(slice(None))
        alike = np.unique(code[columns.content >= 0])
        for content, device in zip(*(np.divmod(alike, self.program.tape.lane_start.shape[0] + 1)), strict=True):
            lump = self.program.contents[int(content)]
            if lump.communicates:
                chain_, rank = divmod(int(device), width)
                first = int(self.classes.members[chain_][0])
                yield int(content), int(device), [self._call(call, first, rank) for call in lump.whole.calls]

    def _call(self, call: Call, chain_: int, rank: int) -> tuple[Priced, Call, int]:
        priced = self.classes.priced[call.comm]
        return priced, call, int(priced.rows[chain_, rank if call.place == OWN else call.place])

    def _moving(self, calls: list[tuple[Priced, Call, int]]) -> int:
        """Ticks in which the calls of an operation move bytes."""
        return max(sum(call.runs * int(priced.cost.moving[row]) for priced, call, row in calls), 1)

    def _uses(
        self, device: int, calls: list[tuple[Priced, Call, int]], first: int
    ) -> list[tuple[int, float, float, float]]:
        """(resource, amount, flows, most per tick) of an operation of all chains of its class."""
        amount, flows = self._asked(device, calls)
        limit = self.fabric.capacity[self.links] / units.TICKS_PER_SECOND
        found = np.flatnonzero(amount).tolist()
        return [(first + i, float(amount[i]), float(flows[i]), float(limit[i])) for i in found]

    def _asked(self, device: int, calls: list[tuple[Priced, Call, int]]) -> tuple[Floats, Floats]:
        """(amount, flows) of an operation of all chains of its class on each link; (m,) each."""
        chain_, rank = divmod(device, self.classes.ranks.shape[1])
        amount, flows = np.zeros((2, len(self.links)))
        for priced, call, _ in calls:
            rows = priced.rows[self.classes.members[chain_], rank if call.place == OWN else call.place]
            share = np.bincount(rows, minlength=len(priced.cost.ticks)) / priced.members
            group, link, taken = self._taken(priced)
            amount += call.runs * np.bincount(link, taken * share[group], len(self.links))
            flows += np.bincount(link, share[group], len(self.links))
        return amount, flows

    def _taken(self, priced: Priced) -> tuple[Ints, Ints, Floats]:
        """(group, link, what it takes of it in bytes) of all transfers of a collective over the links."""
        if priced.comm not in self._entries:
            found = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
            for choice in priced.cost.plan.choices:
                each = np.where(np.arange(len(self._place)) < self.fabric.first_outer, *choice.rate.per_byte)
                for demand in choice.demands:
                    size = np.tile(demand.phase.size * demand.phase.repeat * priced.cost.plan.size_bytes, demand.groups)
                    group = np.repeat(choice.rows, len(demand.phase.size))
                    for links in demand.paths:
                        mine = np.flatnonzero((links >= 0) & (self._place[links] >= 0))
                        found.append((group[mine], self._place[links[mine]], size[mine] * each[links[mine]]))
            self._entries[priced.comm] = tuple(np.concatenate(column) for column in zip(*found, strict=True))  # type: ignore[assignment]
        return self._entries[priced.comm]


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
