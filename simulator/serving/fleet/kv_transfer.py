"""Caches on their way from prefill to decode replicas, as flows on the cluster's fabric.

A finished prompt waits, in the memory of its prefill replica, until a decode replica has room for it, first come first
served; the replica with the fewest requests pulls it. All devices of the one send to all devices of the other at once,
each its share of the bytes; flows that meet on a link share it. With `transfer: layer` the flow starts when the first
layer of the prompt's last iteration is done and the cache is complete one layer's transfer after the last.

When a replica fails, what it sends and what is sent to it stops; what lies in the memory of its other end is given
back, or waits there for another replica. A router may be told to leave decode replicas out to which no way leads.

Left out: keys and values of earlier pieces of a prompt that could have left before its last iteration.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from simulator import collectives, units
from simulator.engine.agenda import Agenda, Running
from simulator.engine.tape import Activity, Use
from simulator.engine.wires import Wires
from simulator.fabric import Fabric
from simulator.fabric.pairs import Pairs
from simulator.serving.fleet.detours import detour, together
from simulator.serving.fleet.router import Choice, Router
from simulator.serving.replica.ledger import Ledger, cached_tokens
from simulator.serving.replica.replica import Replica
from simulator.specs.libraries.collectives import CollectiveProfile

PROBE = 1e9
"""Bytes of the transfer that the route between two replicas is measured with."""


@dataclass(frozen=True, slots=True)
class Route:
    """Between the devices of two replicas."""

    latency: int
    """Ticks before bytes move."""
    work: float
    """Ticks that a byte takes alone."""
    uses: tuple[Use, ...]
    """Bytes per tick that each link is asked for; each pair of devices is a flow on its links."""


@dataclass(slots=True, eq=False)
class _Move:
    """A cache on its way; -1 for what has not happened yet."""

    source: Replica
    target: Replica
    start: int
    """When it leaves."""
    read: int = -1
    """When the prompt is done."""
    tail: int = 0
    """Ticks that the last layer takes, where it leaves before its prompt is done."""
    arrived: int = -1
    """When what was there to send is here."""
    running: Running | None = None
    """The flow, while it is on links."""
    route: Route | None = None
    """Its way."""
    wires: Wires | None = None


@dataclass(slots=True)
class KvTransfer:
    """Transfers between pools."""

    agenda: Agenda
    ledger: Ledger
    fabric: Fabric
    profile: CollectiveProfile
    devices: dict[int, tuple[int, ...]]
    """Devices of each replica."""
    token_bytes: float
    """Keys and values of a token, all layers."""
    layers: int
    by_layer: bool
    """Whether layers leave as they are done."""
    decoders: Sequence[Replica] = ()
    """Replicas that take caches now."""
    every: Sequence[Replica] = ()
    """All that ever do, where they come, go and fail."""
    left: Callable[[Replica], None] | None = None
    """Called with a replica that a cache has left."""
    router: Router | None = None
    """Which of them takes a cache; None: the least busy, equals in turn."""
    choice: Choice | None = None
    """What that router knows besides."""
    switches: bool = False
    """Whether replicas change their roles, so that caches may move between any two."""
    job: str = ""
    """Its name on the record of loads."""
    state_bytes: float = 0.0
    """States of a sequence, all layers."""
    first_by_decode: bool = False
    """Whether the client gets the first token when the cache is on the decode side, not when the prompt is done."""
    queue: deque[tuple[int, Replica]] = field(default_factory=deque)
    """Finished prompts that no decode replica had room for."""
    fresh: list[tuple[int, Replica]] = field(default_factory=list)
    """Prompts that were finished in this instant."""
    called: bool = False
    """Whether room is looked for at the end of this instant."""
    rows: list[tuple[int, int, int, float]] = field(default_factory=list)
    """(request, start, end, bytes) of what has moved."""
    ways: list[tuple[int, int]] = field(default_factory=list)
    """Replicas from and to which each moved."""
    turn: int = 0
    """The first decode replica that is looked at among equally busy ones."""
    _routes: dict[tuple[int, int], Route] = field(default_factory=dict)
    _alike: dict[Hashable, Route] = field(default_factory=dict)
    """Routes between single devices by the kinds of what lies between them, links numbered along the way."""
    down: Mapping[int, object] = field(default_factory=dict)
    """Links that caches leave out; none where they wait for repairs."""
    _detours: dict[tuple[int, int, frozenset[int]], Route] = field(default_factory=dict)
    wires: dict[tuple[int, int], Wires] = field(default_factory=dict)
    """Links between two replicas that others use too."""
    moving: dict[int, _Move] = field(default_factory=dict)
    """Requests whose cache is on its way, or for which room is taken."""
    resumed: dict[int, int] = field(default_factory=dict)
    """When requests that began again after their first token got the last one."""
    _pairs: Pairs = field(init=False)

    def __post_init__(self) -> None:
        self._pairs = Pairs(self.fabric)

    def early(self, request: int, source: Replica, begin: int, end: int) -> None:
        """The last iteration of a prompt runs from `begin`, now, to `end`: let its layers leave one by one.

        Asked when all that begins now has begun.
        """
        target = None if self.queue else self._target(request, source, begun=True)
        if target is None:
            return
        start = begin + (end - begin) // self.layers
        route = self._route(source, target)
        tail = round(route.work * self._bytes(request) / self.layers) + route.latency
        move = self.moving[request] = _Move(source, target, start, tail=tail)

        def arrived() -> None:
            move.arrived = self.agenda.now
            self._complete(request, move)

        self.agenda.at(start, lambda _: self._send(request, move, arrived))

    def hand_over(self, request: int, source: Replica) -> None:
        """A prompt is done: its cache leaves, now or when there is room, unless it is on its way."""
        if self.ledger.done[request] > 1:
            self.resumed[request] = self.agenda.now
        if (move := self.moving.get(request)) is None:
            self.fresh.append((request, source))
            self.room()
        else:
            move.read = self.agenda.now
            self._complete(request, move)

    def _complete(self, request: int, move: _Move) -> None:
        """What left early is here, or its prompt is done: with both, the last layer follows."""
        if move.arrived >= 0 and move.read >= 0:
            here = max(move.arrived, move.read + move.tail)
            self.agenda.at(here, lambda _: self._done(request, move))

    def room(self) -> None:
        """Decode replicas may have room: look when all that ends in this instant has ended."""
        if not self.called and (self.queue or self.fresh):
            self.called = True
            self.agenda.at(self.agenda.now, self._pull)

    def _pull(self, _: object) -> None:
        """Start what decode replicas have room for."""
        self.called = False
        self.queue.extend(sorted(self.fresh, key=lambda entry: entry[0]))
        self.fresh.clear()
        now = self.agenda.now
        while self.queue:
            request, source = self.queue[0]
            target = self._target(request, source)
            if target is None:
                return
            self.queue.popleft()
            move = self.moving[request] = _Move(source, target, now, read=now)
            self._send(request, move, partial(self._done, request, move))

    def _send(self, request: int, move: _Move, arrived: Callable[[], None]) -> None:
        """Start the flow of a cache, unless it was taken back meanwhile."""
        if self.moving.get(request) is not move:
            return
        move.route = self._route(move.source, move.target)
        move.wires = self.wires.get((move.source.number, move.target.number))
        if move.wires is not None:
            move.wires.enter()

        def here() -> None:
            move.running = None
            if move.wires is not None:
                move.wires.leave()
            arrived()

        work = max(1, round(move.route.work * self._bytes(request)))
        activity = Activity(move.route.latency, work, move.route.uses)
        move.running = self.agenda.start(activity, here, (self.job, "kv transfer"))

    def _target(self, request: int, source: Replica, begun: bool = False) -> Replica | None:
        """The least busy decode replica that takes a request, which has then taken it; equals take turns."""
        for i in self._free_by_load() if self.router is None else self._routed(request):
            if (not self.down or self._leads(source, self.decoders[i])) and self.decoders[i].accept(request, begun):
                self.turn = (i + 1) % len(self.decoders)
                return self.decoders[i]
        return None

    def reader(self, request: int) -> Replica | None:
        """The decode replica that reads a prompt itself; None where none is there."""
        if not self.decoders:
            return None
        order = self._by_load() if self.router is None else self._routed(request)
        places = list(order)
        place = next((i for i in places if self.decoders[i].could_run(request)), places[0])
        self.turn = (place + 1) % len(self.decoders)
        return self.decoders[place]

    def _routed(self, request: int) -> Iterator[int]:
        """Decode replicas in the order in which the router would choose them, those that are full left out."""
        assert self.router is not None and self.choice is not None
        self.choice.now = self.agenda.now
        left = list(range(len(self.decoders)))
        while left:
            yield left.pop(self.router([self.decoders[i] for i in left], request, self.choice))

    def _free_by_load(self) -> Iterator[int]:
        """Decode replicas with a slot, in the order of `_by_load`; which these are is asked where the first one does
        not take the request."""
        decoders = self.decoders
        if not decoders:
            return
        turn, first = self._turns()
        if decoders[first].has_slot():
            yield first
        free = [i for i in self._from(turn) if i != first and decoders[i].has_slot()]
        yield from sorted(free, key=lambda i: decoders[i].queue.outstanding)

    def _by_load(self) -> Iterator[int]:
        """Decode replicas, the least busy first, of equals that whose turn it is; sorted where that one is full."""
        turn, first = self._turns()
        yield first
        yield from sorted((i for i in self._from(turn) if i != first), key=lambda i: self.decoders[i].queue.outstanding)

    def _from(self, turn: int) -> tuple[int, ...]:
        """Decode replicas from that whose turn it is."""
        return (*range(turn, len(self.decoders)), *range(turn))

    def _turns(self) -> tuple[int, int]:
        """The decode replica whose turn it is, and the least busy one, the first of equals from there."""
        busy = [replica.queue.outstanding for replica in self.decoders]
        turn, least = self.turn % len(busy), min(busy)
        try:
            first = busy.index(least, turn)
        except ValueError:
            first = busy.index(least)
        return turn, first

    def _done(self, request: int, move: _Move) -> None:
        """A cache is here, unless it was taken back on its way."""
        if self.moving.get(request) is not move:
            return
        del self.moving[request]
        source, target = move.source, move.target
        self.rows.append((request, move.start, self.agenda.now, self._bytes(request)))
        self.ways.append((source.number, target.number))
        self._give_back(request, source)
        since = self.resumed.pop(request, None)
        if since is not None:
            target.queue.paused[request] = since
        elif self.first_by_decode:
            self.ledger.first_token[request] = self.agenda.now
            target.queue.handed.add(request)
        target.arrived(request)

    def _give_back(self, request: int, source: Replica) -> None:
        """The memory of a prompt at its source is free."""
        source.let_go(request)
        if self.left is not None:
            self.left(source)

    # A replica fails ------------------------------------------------------------------------------------------------

    def take_back(self, replica: Replica, again: bool) -> tuple[list[int], list[int]]:
        """A replica is about to lose its memory: (requests whose cache is lost, those whose cache waits at its source).

        The latter wait for another decode replica where they are sent `again`; else their cache is given up too.
        """
        lost = [request for request, source in (*self.queue, *self.fresh) if source is replica]
        self.queue = deque(entry for entry in self.queue if entry[1] is not replica)
        self.fresh = [entry for entry in self.fresh if entry[1] is not replica]
        kept: list[int] = []
        for request, move in list(self.moving.items()):
            if replica in (move.source, move.target):
                self._stop(request, move)
                if move.read >= 0:
                    (lost if move.source is replica else kept).append(request)
                    if move.source is not replica and again:
                        self.fresh.append((request, move.source))
                    elif move.source is not replica:
                        self._give_back(request, move.source)
        for request in lost:
            replica.blocks.release(request, self.ledger.prompt[request])
        self.room()
        return lost, kept

    def last_token(self, request: int) -> int:
        """When a request whose prompt is done got its last token, which it forgets."""
        return self.resumed.pop(request, self.ledger.first_token[request])

    def give_up(self, request: int) -> None:
        """A cache that waits at its source is not sent any more."""
        entry = next(entry for entry in self.fresh if entry[0] == request)
        self.fresh.remove(entry)
        self.resumed.pop(request, None)
        self._give_back(*entry)

    def _stop(self, request: int, move: _Move) -> None:
        """A cache goes on no further, and its target has the room back that was taken for it."""
        del self.moving[request]
        if move.running is not None:
            self.agenda.stop(move.running)
            if move.wires is not None:
                move.wires.leave()
        move.target.abandon(request)
        if self.left is not None:
            self.left(move.target)

    @property
    def waiting(self) -> int:
        """Requests that are in no replica's count, as their prompt is done and no decode replica has room for them,
        less those that two count as their cache leaves before their prompt is done."""
        twice = sum(move.read < 0 for move in self.moving.values())
        return len(self.queue) + len(self.fresh) - twice

    def _bytes(self, request: int) -> float:
        return cached_tokens(self.ledger, request) * self.token_bytes + self.state_bytes

    # Links fail -----------------------------------------------------------------------------------------------------

    def turned(self) -> None:
        """A link failed or works again: what is on a way that is down begins again on another."""
        for request, move in list(self.moving.items()):
            if move.running is not None and move.route is not None and self._down(move.route):
                self._stop(request, move)
                if move.read >= 0:
                    self.fresh.append((request, move.source))
        self.room()

    def _down(self, route: Route) -> bool:
        return any(use.resource in self.down for use in route.uses)

    def _leads(self, source: Replica, target: Replica) -> bool:
        """Whether a way without links that are down leads from a replica to another; always where caches wait for
        repairs."""
        return not self.down or not self._down(self._route(source, target))

    def _route(self, source: Replica, target: Replica) -> Route:
        """The way of caches; where a link of it is down another one, if there is one."""
        key = source.number, target.number
        if key not in self._routes:
            self._routes[key] = self._measured(self.devices[key[0]], self.devices[key[1]])
        route = self._routes[key]
        if not self.down or not self._down(route):
            return route
        around = (*key, frozenset(self.down))
        if around not in self._detours:
            self._detours[around] = self._detour(*key) or route
        return self._detours[around]

    def _detour(self, source: int, target: int) -> Route | None:
        """The way over other devices; None where there is none."""
        found = detour(pairs_of(self.devices[source], self.devices[target]), self.fabric, self.down)
        if found is None:
            return None
        parts = [self._planned(pairs) for pairs in found if pairs]
        uses = together([(part.work, part.uses) for part in parts])
        return Route(sum(part.latency for part in parts), max(part.work for part in parts), uses)

    def _measured(self, sources: tuple[int, ...], targets: tuple[int, ...]) -> Route:
        """The route of equal shares from every source device to the target devices that hold the same part. One device
        to one other is like any two with as good links between them."""
        pairs = pairs_of(sources, targets)
        if len(pairs) > 1:
            return self._planned(pairs)
        links, kind = self._pairs.way(*pairs[0])
        if kind not in self._alike:
            route = self._planned(pairs)
            if {use.resource for use in route.uses} != set(links):  # a library that goes ways of its own
                return route
            self._alike[kind] = _renamed(route, {link: place for place, link in enumerate(links)})
        return _renamed(self._alike[kind], dict(enumerate(links)))

    def _planned(self, pairs: Sequence[tuple[int, int]]) -> Route:
        """The route of pairs of devices with equal shares."""
        cost = collectives.cost_of("send", pairs, PROBE / len(pairs), self.fabric, self.profile)
        moving = max(int(cost.moving.max()), 1)
        latency = int((cost.ticks - cost.moving).max())
        capacity = self.fabric.capacity / units.TICKS_PER_SECOND
        alone = float((cost.load / capacity).max())
        flows = cost.plan.flows()
        uses = tuple(
            Use(link, min(float(capacity[link]), float(cost.load[link]) / alone), float(flows[link]))
            for link in cost.load.nonzero()[0].tolist()
        )
        return Route(latency, moving / PROBE, uses)


def _renamed(route: Route, names: Mapping[int, int]) -> Route:
    """The same over links of other numbers."""
    uses = (use._replace(resource=names[use.resource]) for use in route.uses)
    return replace(route, uses=tuple(sorted(uses, key=lambda use: use.resource)))


def pairs_of(sources: Sequence[int], targets: Sequence[int]) -> list[tuple[int, int]]:
    """(source, target) devices of a cache that moves, each pair with an equal share of its bytes."""
    count = max(len(sources), len(targets))
    return [(sources[i * len(sources) // count], targets[i * len(targets) // count]) for i in range(count)]
