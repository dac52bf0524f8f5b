"""A network of switches and cables, each with its number: cards in, shortest ways through, cards out.

A transfer is one flow, or `routing.connections` flows; each takes one way (see `ways`). Sprayed and
adaptive ones are split into as many parts as there are equal ways, up to 64, so that the parts are even. What is left
out: the order of packets, queues, and time in which a switch notices that a cable is gone.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import gcd
from typing import Self

import numpy as np

from simulator.errors import InputError, Problem
from simulator.fabric.alike import mixed
from simulator.fabric.scale_out.base import Block, Floats, Ints, Point, ScaleOut
from simulator.fabric.scale_out.cards import Cards
from simulator.fabric.wired.nonminimal import OPTIONS, both_kinds, by_load, over_third
from simulator.fabric.wired.planning import MOST_FLOWS, MOST_WAYS, laid
from simulator.fabric.wired.ways import FAR, Flows, Ways
from simulator.fabric.wired.wiring import Cables, Wiring, left_of
from simulator.specs.hardware import Cluster
from simulator.specs.network import Routing, Wired
from simulator.specs.network.routing import MOST_CONNECTIONS

_MOST_PARTS = 2_000_000
"""Parts of all transfers of a phase; more transfers than that are split into fewer."""


@dataclass(frozen=True, slots=True, eq=False)
class WiredNetwork(ScaleOut):
    """Links: cards up, cards down, then the cables block after block."""

    cards_in: Cards
    edge: Ints
    """Switch that each port is plugged into; (ports,)."""
    points: tuple[Point, ...]
    """Names of the switches, such as `("leaf", group, rail)`."""
    cables: Cables
    left: Floats
    """Share of each cable that is left; (cables,)."""
    passage: Floats
    """Seconds through the switch of each port; (ports,)."""
    routing: Routing
    ways: Ways
    via: Ints
    """Switches over which Valiant's and UGAL's routing may lead; none where there is no such routing."""
    group: Ints
    """Of each switch; such ways lead over a third one; (switches,)."""
    pxn: bool
    """Whether transfers leave nodes from the device on the destination's card number."""
    plane: Ints
    """Of each port; those of different ones are not joined; (ports,)."""
    seat: Ints
    """Place of each port in the order of its switch; (ports,)."""
    _parts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def made(
        cls,
        cluster: Cluster,
        wiring: Wiring,
        cards: Cards,
        edge: Ints,
        via: Ints | None = None,
        group: Ints | None = None,
        plane: Ints | None = None,
    ) -> Self:
        """The network of switches and cables that were put together; InputError where it is in parts."""
        keys = cluster.network.more
        assert isinstance(keys, Wired)
        if keys.routing.policy in ("valiant", "ugal") and via is None:
            message = f"networks of kind `{cluster.network.kind}` have no way over a third group"
            raise InputError(Problem(message, path="cluster.network.routing.policy", hint="write `ecmp` or `spray`"))
        cables, count = wiring.cables(), len(wiring.points)
        left = left_of(cables, keys.degraded)
        ways = Ways(cables, cables.capacity * left, count, keys.routing.policy, keys.routing.seed)
        seat = np.empty(len(edge), np.int64)
        seat[np.argsort(edge, kind="stable")] = np.arange(len(edge))
        third = (np.zeros(0, np.int64), np.zeros(count, np.int64))
        made = cls(
            cards,
            edge,
            tuple(wiring.points),
            cables,
            left,
            wiring.passage(edge),
            keys.routing,
            ways,
            third[0] if via is None else via,
            third[1] if group is None else group,
            keys.pxn,
            np.zeros_like(edge) if plane is None else plane,
            seat,
        )
        made._check_joined()
        return made

    def _check_joined(self) -> None:
        for plane in np.unique(self.plane):
            edges = np.unique(self.edge[self.plane == plane])
            first, away = edges[:1], edges[self.ways.lengths(edges[:1])[0][edges] >= FAR]
            if not len(away):
                continue
            here, there = (self.label(int(switch)) for switch in (first[0], away[0]))
            message = f"the network is in parts: no way leads from `{there}` to `{here}`"
            raise InputError(Problem(message, path="cluster.network", hint="join them by a cable"))

    @property
    def blocks(self) -> list[Block]:
        """(kind, links, capacity, latency) of each block of links in the order of their numbers."""
        cards = self.cards_in
        found: list[Block] = [
            ("NIC up", cards.count, cards.capacity, cards.wire + self.passage),
            ("NIC down", cards.count, cards.capacity, cards.wire),
        ]
        first = 0
        # A cable that is gone keeps a trifle, since no way leads over it and shares of nothing are none.
        rate = self.cables.capacity * np.maximum(self.left, 1e-9)
        for name, count in self.cables.blocks:
            here = slice(first, first + count)
            found.append((name, count, rate[here], self.cables.latency[here]))
            first += count
        return found

    def reach(self) -> int:
        """As many as there are ways, where which one a flow takes hangs on others."""
        if self.routing.policy == "ugal":
            return 2 * OPTIONS * self.parts(1)
        return self._known("ways", self._most_ways) if self.routing.policy == "planned" else self.parts(1)

    def parts(self, transfers: int) -> int:
        """Flows that each of so many transfers is split into."""
        wanted = self.routing.connections
        if self.routing.policy in ("spray", "adaptive"):
            return max(1, min(self._known("ways", self._most_ways), _MOST_PARTS // max(transfers, 1)))
        return self._known("even", self._even) if wanted == "even" else wanted

    def _known(self, what: str, count: Callable[[], int]) -> int:
        if what not in self._parts:
            self._parts[what] = count()
        return self._parts[what]

    def _edges(self) -> tuple[Ints, Ints]:
        """Pairs of the first switch with cards and each of the others."""
        edges = np.unique(self.edge[self.plane == self.plane[0]])
        return np.repeat(edges[:1], len(edges) - 1), edges[1:]

    def _most_ways(self) -> int:
        return min(self._known("all", self._all_ways), MOST_CONNECTIONS)

    def _all_ways(self) -> int:
        here, there = self._edges()
        return int(self.ways.choices(here, there).max(initial=1))

    def _even(self) -> int:
        """Parts of a flow by which the flows of a full switch divide evenly by its ways up."""
        here, there = self._edges()
        up = int(self.ways.choices(here, there).max(initial=1))
        flows = int(np.bincount(self.edge).max())
        return min(up // gcd(up, flows), MOST_CONNECTIONS)

    def paths(self, src: Ints, dst: Ints, first: int = 0) -> Ints:
        """Links, counted from `first`, of flows between ranks, padded with -1; shape (longest way, flows)."""
        return self.parted(src, dst, np.zeros(len(src), np.int64), 1, first)

    def parted(self, src: Ints, dst: Ints, part: Ints, parts: int, first: int = 0) -> Ints:
        """The same of parts of flows, of which each has so many."""
        (_, _, port), (_, _, to_port) = self.cards_in.place(src), self.cards_in.place(dst)
        option = None
        if self.routing.policy == "ugal" and parts > self.parts(1):  # every way that a part may take
            part, option = np.divmod(part, 2 * OPTIONS)
            parts = self.parts(1)
        with np.errstate(over="ignore"):
            ends = mixed((port.astype(np.uint64) << np.uint64(32)) + to_port.astype(np.uint64))
            key = mixed(ends + part.astype(np.uint64))
        flows = Flows(key, self.seat[to_port] * parts + part)
        here, goal = self.edge[port], self.edge[to_port]
        if self.routing.policy == "valiant":
            inner = over_third(self.ways, self.via, self.group, (here, goal), flows)
        elif self.routing.policy == "ugal" and (option is not None or len(src) <= MOST_FLOWS):
            inner = self._by_load(here, goal, flows, option)
        elif self.routing.policy == "planned" and 1 < len(src) <= MOST_FLOWS:
            inner = self._beside_each_other(here, goal, flows)
        else:
            inner = self.ways.walk(here, goal, flows)
        cards = self.cards_in.count
        inner = np.where(inner >= 0, inner + first + 2 * cards, -1)
        return np.concatenate([port[None] + first, inner, to_port[None] + first + cards])

    def _beside_each_other(self, here: Ints, goal: Ints, flows: Flows) -> Ints:
        """Ways of flows by a plan of all of them."""
        many = min(self._known("ways", self._most_ways), MOST_WAYS)
        turn = np.arange(many)
        # All ways where they are few; else those of hashed numbers, and the flow's own first.
        other = turn if self._known("all", self._all_ways) <= MOST_WAYS else _hashed(turn)
        number = (flows.number[:, None] + other).ravel()
        ends = np.repeat(here, many), np.repeat(goal, many)
        every = self.ways.walk(*ends, Flows(np.repeat(flows.key, many), number))
        options = every.reshape(len(every), -1, many).transpose(1, 2, 0)
        picked = options[np.arange(len(here)), laid(options, self.ways.rate)]
        found: Ints = picked.T
        return found

    def _by_load(self, here: Ints, goal: Ints, flows: Flows, option: Ints | None) -> Ints:
        """Short ways or such over a third group, by load; or the ways of these numbers, whatever their load."""
        options = both_kinds(self.ways, self.via, self.group, (here, goal), flows)
        if option is None:
            return by_load(options, self.ways)
        numbered: Ints = options[np.arange(len(options)), option].T
        return numbered

    def reduced(self, rank: Ints, tree: Ints, first: int = 0) -> tuple[Ints, Ints]:
        """Card, then cables to the switch that is nearest to the farthest of the tree; trees take such in turn."""
        port = self.cards_in.place(rank)[2]
        here, root = self.edge[port], np.empty(len(rank), np.int64)
        for number, one in enumerate(np.unique(tree)):
            mine = tree == one
            far = self.ways.lengths(np.unique(here[mine])).max(axis=0)
            nearest = np.flatnonzero(far == far.min())
            root[mine] = nearest[number % len(nearest)]
        # All flows choose alike, so that ways to a root form a tree.
        same = Flows(np.zeros(len(rank), np.uint64), np.zeros(len(rank), np.int64))
        cards = self.cards_in.count
        ways = [self.ways.walk(here, root, same), self.ways.walk(root, here, same)]
        up, down = (np.where(way >= 0, way + first + 2 * cards, -1) for way in ways)
        return np.concatenate([port[None] + first, up]), np.concatenate([port[None] + first + cards, down])

    def tiers(self, src: Ints, dst: Ints) -> Ints:
        """2 where flows meet in one switch, and one more for every two cables between theirs."""
        (_, _, port), (_, _, to_port) = self.cards_in.place(src), self.cards_in.place(dst)
        goals, place = np.unique(self.edge[to_port], return_inverse=True)
        length = self.ways.lengths(goals)[place, self.edge[port]]
        far: Ints = 2 + (length.astype(np.int64) + 1) // 2
        return far

    def cards(self, rank: Ints) -> int:
        """Ports that ranks of a node share."""
        return len(set(self.cards_in.place(rank)[1].tolist()))

    def proxies(self, src: Ints, dst: Ints) -> Ints:
        """Devices on the card number of the destinations, where transfers go to these first."""
        return self.cards_in.device_on(src, self.cards_in.place(dst)[1]) if self.pxn else src

    def label(self, switch: int) -> str:
        """Name of a switch, such as `leaf 3.0`."""
        name, *numbers = self.points[switch]
        return f"{name} {'.'.join(map(str, numbers))}"

    def ends(self, link: int) -> str:
        """From where to where a link leads, such as `leaf 0.0 > spine 0.3`."""
        cards = self.cards_in.count
        if link < 2 * cards:
            node, number = (int(each[link % cards]) for each in self.cards_in.homes())
            ends = [f"NIC {number} of node {node}", self.label(int(self.edge[link % cards]))]
            return " > ".join(ends if link < cards else ends[::-1])
        cable = link - 2 * cards
        return f"{self.label(int(self.cables.start[cable]))} > {self.label(int(self.cables.stop[cable]))}"

    def edges(self) -> Iterator[tuple[Point, Point, int | None]]:
        """(from, to, link or None where the way is free) of everything."""
        node, number, _ = self.cards_in.place(np.arange(self.cards_in.numbering.all_devices))
        for rank, at in enumerate(zip(node.tolist(), number.tolist(), strict=True)):
            yield ("device", rank), ("NIC", *at), None
            yield ("NIC", *at), ("device", rank), None
        cards = self.cards_in.count
        homes = zip(*(each.tolist() for each in self.cards_in.homes()), strict=True)
        for link, (at, switch) in enumerate(zip(homes, self.edge.tolist(), strict=True)):
            yield ("NIC", *at), self.points[switch], link
            yield self.points[switch], ("NIC", *at), cards + link
        ends = zip(self.cables.start.tolist(), self.cables.stop.tolist(), self.left.tolist(), strict=True)
        for cable, (start, stop, left) in enumerate(ends):
            if left:
                yield self.points[start], self.points[stop], 2 * cards + cable


def _hashed(turn: Ints) -> Ints:
    """Numbers far apart, 0 for the first."""
    bits = mixed(turn.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return np.where(turn == 0, 0, (bits >> np.uint64(33)).astype(np.int64))
