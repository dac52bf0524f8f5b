"""Caches on their way from prefill to decode replicas, as flows on the cluster's fabric.

A finished prompt waits, in the memory of its prefill replica, until a decode replica has room for it, first come first
served; the replica with the fewest requests pulls it. All devices of the one send to all devices of the other at once,
each its share of the bytes; flows that meet on a link share it. With `transfer: layer` the flow starts when the first
layer of the prompt's last iteration is done and the cache is complete one layer's transfer after the last.

Left out: keys and values of earlier pieces of a prompt that could have left before its last iteration.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from simulator import collectives, units
from simulator.engine.agenda import Agenda
from simulator.engine.tape import Activity, Use
from simulator.engine.wires import Wires
from simulator.fabric import Fabric
from simulator.serving.fleet.router import Choice, Router
from simulator.serving.replica.ledger import Ledger
from simulator.serving.replica.replica import Replica
from simulator.specs.collectives import CollectiveProfile

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


@dataclass(slots=True)
class _Early:
    """A cache that leaves before its prompt is done; -1 for what has not happened yet."""

    target: Replica
    start: int = -1
    """When it leaves."""
    tail: int = 0
    """Ticks that the last layer takes."""
    arrived: int = -1
    """When what was there to send is here."""
    read: int = -1
    """When the prompt is done."""


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
    wires: dict[tuple[int, int], Wires] = field(default_factory=dict)
    """Links between two replicas that others use too."""
    _early: "dict[int, _Early]" = field(default_factory=dict)
    """Requests whose cache is on its way before their prompt is done."""

    def early(self, request: int, source: Replica, begin: int, end: int) -> None:
        """The last iteration of a prompt runs from `begin`, now, to `end`: let its layers leave one by one.

        Asked when all that begins now has begun.
        """
        target = self._target(request, begun=True) if self.by_layer and not self.queue else None
        if target is None:
            return
        early = self._early[request] = _Early(target)
        start = early.start = begin + (end - begin) // self.layers
        route = self._route(source, target)
        early.tail = round(route.work * self._bytes(request) / self.layers) + route.latency

        def arrived() -> None:
            early.arrived = self.agenda.now
            self._complete(request, source)

        self.agenda.at(start, lambda _: self._send(request, source, target, arrived))

    def hand_over(self, request: int, source: Replica) -> None:
        """A prompt is done: its cache leaves, now or when there is room, unless it is on its way."""
        if (early := self._early.get(request)) is None:
            self.fresh.append((request, source))
            self.room()
        else:
            early.read = self.agenda.now
            self._complete(request, source)

    def _complete(self, request: int, source: Replica) -> None:
        """What left early is here, or its prompt is done: with both, the last layer follows."""
        early = self._early[request]
        if early.arrived >= 0 and early.read >= 0:
            del self._early[request]
            here = max(early.arrived, early.read + early.tail)
            self.agenda.at(here, lambda _: self._done(request, source, early.target, early.start))

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
            target = self._target(request)
            if target is None:
                return
            self.queue.popleft()

            def arrived(request: int = request, source: Replica = source, target: Replica = target) -> None:
                self._done(request, source, target, now)

            self._send(request, source, target, arrived)

    def _send(self, request: int, source: Replica, target: Replica, arrived: Callable[[], None]) -> None:
        """Start the flow of a cache."""
        wires = self.wires.get((source.number, target.number))
        if wires is not None:
            wires.enter()

        def here() -> None:
            if wires is not None:
                wires.leave()
            arrived()

        self.agenda.start(self._activity(request, source, target), here, (self.job, "kv transfer"))

    def _target(self, request: int, begun: bool = False) -> Replica | None:
        """The least busy decode replica that takes a request, which has then taken it; equals take turns."""
        count = len(self.decoders)
        for i in self._by_load() if self.router is None else self._routed(request):
            if self.decoders[i].accept(request, begun):
                self.turn = (i + 1) % count
                return self.decoders[i]
        return None

    def reader(self, request: int) -> Replica:
        """The decode replica that reads a prompt itself."""
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

    def _by_load(self) -> Iterator[int]:
        """Decode replicas, the least busy first, of equals that whose turn it is; sorted where that one is full."""
        busy = [replica.queue.outstanding for replica in self.decoders]
        least, count = min(busy), len(busy)
        first = next((i for i in range(self.turn % count, count) if busy[i] == least), None)
        first = busy.index(least) if first is None else first
        yield first
        turns = ((self.turn + i) % count for i in range(count))
        yield from sorted((i for i in turns if i != first), key=busy.__getitem__)

    def _done(self, request: int, source: Replica, target: Replica, start: int) -> None:
        self.rows.append((request, start, self.agenda.now, self._bytes(request)))
        self.ways.append((source.number, target.number))
        source.blocks.release(request, self.ledger.prompt[request])
        source.wake()
        if self.first_by_decode:
            self.ledger.first_token[request] = self.agenda.now
        target.arrived(request)

    def _bytes(self, request: int) -> float:
        return self.ledger.prompt[request] * self.token_bytes + self.state_bytes

    def _activity(self, request: int, source: Replica, target: Replica) -> Activity:
        route = self._route(source, target)
        return Activity(route.latency, max(1, round(route.work * self._bytes(request))), route.uses)

    def _route(self, source: Replica, target: Replica) -> Route:
        key = source.number, target.number
        if key not in self._routes:
            self._routes[key] = self._measured(self.devices[key[0]], self.devices[key[1]])
        return self._routes[key]

    def _measured(self, sources: tuple[int, ...], targets: tuple[int, ...]) -> Route:
        """The route of equal shares from every source device to the target devices that hold the same part. One device
        to one other is like any two with as good links between them."""
        pairs, fabric = pairs_of(sources, targets), self.fabric
        if len(pairs) > 1:
            return self._planned(pairs)
        (source, target), *_ = pairs
        way = [link for link in fabric.paths([source], [target]).T.ravel().tolist() if link >= 0]
        links = list(dict.fromkeys(way))
        kind = (
            fabric.numbering.kind_of(source),
            fabric.numbering.kind_of(target),
            tuple(map(links.index, way)),
            tuple(map(fabric.block_of, links)),
            *(tuple(column[links].tolist()) for column in (fabric.capacity, fabric.rated, fabric.latency)),
        )
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
        alone = (cost.load / capacity).max()
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
