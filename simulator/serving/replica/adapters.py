"""Adapters in the memory of a replica: which the devices hold, which are on their way, which requests wait for one.

A request is shown to the policy once its adapter is on the devices, and holds it there until the request is done. An
adapter that is missing is loaded from the host beside iterations, in place of the one that no request holds and whose
last use is longest ago; hosts load from storage what they do not hold, least recently used first out too. Where devices
have no room, its requests wait, first come first served among such adapters, while requests of adapters that are there
pass them (as vLLM's scheduler lets them). Adapters lie in slots of their own, or in blocks of the cache. There no more
are loaded than sequences could run, and if all blocks are taken by adapters of requests that wait, all but the first of
these wait again for theirs.

A cache that comes from a prefill replica is taken when there is room for its adapter too, which is loaded meanwhile;
its request decodes when both are here. The prefill replica has let go of the adapter when the prompt was done.

See docs/models/adapters.md.
"""

from array import array
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from simulator.engine.agenda import Running
from simulator.serving.costs.beside.adapters import Beside
from simulator.serving.tiers.path import Path
from simulator.serving.workload.adapters import BASE

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch
    from simulator.serving.replica.replica import Replica


@dataclass(frozen=True, slots=True)
class AdapterRules:
    """What adapters take, and where they come from."""

    of: Sequence[int]
    """Adapter of each request."""
    ranks: Sequence[int]
    """Rank of adapter a: that of a modulo their number."""
    size: Sequence[float]
    """Bytes of one of each of these ranks on all devices of the replica."""
    blocks: Sequence[int]
    """Blocks of the cache that it takes."""
    slots: int | None
    """Adapters for which memory is set aside; None: they lie in blocks."""
    products: tuple[Beside, ...]
    """What they cost on each stage."""
    load: Path
    """From the host."""
    host_slots: int | None = None
    """Adapters that the host holds; None: all."""
    fetch: Path | None = None
    """From storage over the host, where the host does not hold all."""


@dataclass(slots=True)
class AdapterCounts:
    """What happened."""

    requests: int = 0
    """Requests with an adapter."""
    hits: int = 0
    """Those whose adapter was there."""
    loads: int = 0
    """Adapters that were loaded."""
    fetched: int = 0
    """Those of them that came from storage."""
    evicted: int = 0
    read_bytes: float = 0.0
    most: int = 0
    """Adapters that the devices held at most, those on their way among them."""
    waits: "array[int]" = field(default_factory=lambda: array("q"))
    """Ticks for which each request that found no adapter waited for it."""


class AdapterSlots:
    """The adapters of a replica."""

    __slots__ = (
        "_aside",
        "_coming",
        "_host",
        "_idle",
        "_loading",
        "_moved",
        "_since",
        "_users",
        "counts",
        "idle_blocks",
        "replica",
        "rules",
    )

    def __init__(self, replica: "Replica", rules: AdapterRules) -> None:
        """None is loaded."""
        self.replica, self.rules = replica, rules
        self.counts = AdapterCounts()
        self._users: dict[int, int] = {}
        """Requests that hold each adapter of the devices that some hold."""
        self._idle: OrderedDict[int, None] = OrderedDict()
        """Adapters of the devices that no request holds, the least recently used first."""
        self._coming: dict[int, list[int]] = {}
        """Adapters on their way, and the requests that wait for them."""
        self._aside: OrderedDict[int, list[int]] = OrderedDict()
        """Adapters for which there is no room, in the order of their first requests, and these."""
        self._loading: dict[int, Running] = {}
        """Bytes on their way, by adapter."""
        self._moved: dict[int, bool] = {}
        """Requests from elsewhere that wait for their adapter, and whether their cache is here."""
        self._since: dict[int, int] = {}
        """When each request that waits for an adapter began to."""
        self._host: OrderedDict[int, None] = OrderedDict()
        """Adapters that the host holds, the least recently used first, where it does not hold all."""
        self.idle_blocks = 0
        """Blocks of adapters that give way where the cache needs them."""

    def _blocks(self, adapter: int) -> int:
        return 0 if self.rules.slots is not None else self.rules.blocks[adapter % len(self.rules.blocks)]

    def blocks_of(self, request: int) -> int:
        """Blocks that the adapter of a request takes."""
        adapter = self.rules.of[request]
        return 0 if adapter == BASE else self._blocks(adapter)

    @property
    def held(self) -> int:
        """Adapters of the devices, those on their way among them."""
        return len(self._users) + len(self._idle) + len(self._coming)

    # Requests come and go -------------------------------------------------------------------------------------------

    def come(self, request: int) -> bool:
        """A request joins the queue; whether the policy may see it now."""
        adapter = self.rules.of[request]
        if adapter == BASE:
            return True
        self.counts.requests += 1
        if adapter in self._users or adapter in self._idle:
            self.counts.hits += 1
            self._hold(adapter, 1)
            return True
        self._wait(request, adapter)
        return False

    def _wait(self, request: int, adapter: int) -> None:
        self._since.setdefault(request, self.replica.agenda.now)
        if adapter in self._coming:
            self._coming[adapter].append(request)
            return
        known = adapter in self._aside
        self._aside.setdefault(adapter, []).append(request)
        if not known:
            self._start(adapter)

    # Requests whose cache comes from elsewhere ----------------------------------------------------------------------

    def room_for(self, request: int) -> int | None:
        """Blocks that the adapter of a request takes if its cache comes now; None where there is no room for it."""
        adapter = self.rules.of[request]
        if adapter == BASE or adapter in self._users or adapter in self._idle or adapter in self._coming:
            return 0
        if adapter in self._aside:
            return None
        if self.rules.slots is not None:
            return 0 if self.held < self.rules.slots or self._idle else None
        return self._blocks(adapter)

    def accept(self, request: int) -> None:
        """The cache of a request comes; its adapter is held, or loaded."""
        self._moved[request] = False
        if self.come(request):
            del self._moved[request]

    def arrived(self, request: int) -> bool:
        """The cache of a request is here; whether its adapter is too."""
        if request in self._moved:
            self._moved[request] = True
            return False
        return True

    def abandon(self, request: int) -> None:
        """The cache of a request does not come."""
        adapter = self.rules.of[request]
        if adapter == BASE:
            return
        if self._moved.pop(request, None) is None:
            self.finished(request)
            return
        del self._since[request]
        (self._coming if adapter in self._coming else self._aside)[adapter].remove(request)
        if not self._aside.get(adapter, True):
            del self._aside[adapter]

    def forget(self) -> list[int]:
        """All adapters are lost, those of the host too; requests that waited for one."""
        blocks = sum(map(self._blocks, (*self._users, *self._idle, *self._coming)))
        self.replica.blocks.give_back(blocks)
        for running in self._loading.values():
            self.replica.agenda.stop(running)
        lost = [one for table in (self._coming, self._aside) for waiting in table.values() for one in waiting]
        for table in (self._users, self._idle, self._coming, self._aside, self._host, self._loading, self._since):
            table.clear()
        self.idle_blocks = 0
        for request in self._moved:  # their caches are here
            self.replica.blocks.release(request, 0)
            self.replica.queue.paused.setdefault(request, self.replica.ledger.first_token[request])
        self._moved.clear()
        return lost

    def finished(self, request: int) -> None:
        """A request is done."""
        adapter = self.rules.of[request]
        if adapter != BASE:
            self._release(adapter)
        self._next()

    def _hold(self, adapter: int, requests: int) -> None:
        if adapter in self._idle:
            del self._idle[adapter]
            self.idle_blocks -= self._blocks(adapter)
        self._users[adapter] = self._users.get(adapter, 0) + requests

    def _release(self, adapter: int) -> None:
        self._users[adapter] -= 1
        if not self._users[adapter]:
            del self._users[adapter]
            self._idle[adapter] = None
            self.idle_blocks += self._blocks(adapter)

    # Loading --------------------------------------------------------------------------------------------------------

    def _start(self, adapter: int) -> bool:
        """Load an adapter that requests wait for, if there is room now; one that is still there needs none."""
        if adapter in self._idle or adapter in self._users:
            self._give(adapter, self._aside.pop(adapter))
            return True
        if not self._room(adapter):
            return False
        self.replica.blocks.take(self._blocks(adapter))
        self._coming[adapter] = self._aside.pop(adapter)
        counts = self.counts
        counts.loads += 1
        counts.most = max(counts.most, self.held)
        size = self.rules.size[adapter % len(self.rules.size)]
        counts.read_bytes += size
        way = self.rules.load if self._on_host(adapter) else self.rules.fetch
        assert way is not None
        label = (self.replica.name, "adapters")
        self._loading[adapter] = self.replica.agenda.start(way.activity(size), partial(self._arrived, adapter), label)
        return True

    def _room(self, adapter: int) -> bool:
        """Whether the devices have room for one more, made by dropping one that no request holds where need be."""
        rules, replica = self.rules, self.replica
        if rules.slots is not None:
            if self.held >= rules.slots:
                if not self._idle:
                    return False
                self._drop()
            return True
        for batch in replica.batches:
            batch.cut()  # a stretch has taken blocks ahead of time
        limit = replica.policy.rules.max_sequences * len(replica.batches)
        own, first = replica.blocks, self._aside[adapter][0]
        if first in self._moved:
            return self._blocks(adapter) <= own.available()
        if len(replica.queue.waiting) + sum(map(len, self._coming.values())) >= limit:
            return False
        return self._blocks(adapter) + own.whole(first) + own.watermark <= own.available()

    def _drop(self) -> int:
        """The adapter gives way whose last use is longest ago; its blocks."""
        adapter, _ = self._idle.popitem(last=False)
        self.counts.evicted += 1
        blocks = self._blocks(adapter)
        self.idle_blocks -= blocks
        return blocks

    def evict(self, blocks: int) -> int:
        """Drop adapters until so many blocks are free, or none is left that could be; blocks that came free."""
        freed = 0
        while freed < blocks and self._idle:
            freed += self._drop()
        return freed

    def _on_host(self, adapter: int) -> bool:
        """Whether the host holds an adapter, which it does from now on."""
        if self.rules.host_slots is None:
            return True
        known = adapter in self._host
        self._host[adapter] = None
        self._host.move_to_end(adapter)
        if len(self._host) > self.rules.host_slots:
            self._host.popitem(last=False)
        self.counts.fetched += not known
        return known

    def _arrived(self, adapter: int) -> None:
        """An adapter is here."""
        del self._loading[adapter]
        self._give(adapter, self._coming.pop(adapter))
        self._next()

    def _give(self, adapter: int, requests: Sequence[int]) -> None:
        """Requests have their adapter and wait as others do."""
        replica = self.replica
        if not requests:  # what it was loaded for does not come any more
            self._idle[adapter] = None
            self.idle_blocks += self._blocks(adapter)
            return
        self._hold(adapter, len(requests))
        for request in requests:
            self.counts.waits.append(replica.agenda.now - self._since.pop(request))
            here = self._moved.pop(request, None)
            if here is None:
                replica.queue.set_back(request)
            elif here:
                replica.queue.ready.append(request)
        replica.wake()

    def freed(self) -> None:
        """Blocks are free that may be room for an adapter which requests wait for."""
        self._next()

    def _next(self) -> None:
        """Load what requests wait for, as far as there is room."""
        while self._aside and self._start(next(iter(self._aside))):
            pass

    def shed(self, batch: "Batch", keep: int) -> bool:
        """Memory is short: adapters that only waiting requests hold may give way, those of the first `keep` requests
        apart; whether there were any."""
        if self.rules.slots is not None:
            return False
        waiting = [(one, self.rules.of[one]) for one in self.replica.policy.order(batch.view)]
        asked = Counter(adapter for _, adapter in waiting)
        kept = {adapter for _, adapter in waiting[:keep]}
        shed = {a for a, count in asked.items() if a != BASE and a not in kept and self._users[a] == count}
        for request, adapter in waiting:
            if adapter in shed:
                self.replica.queue.set_aside(request)
                self._release(adapter)
                self._since[request] = self.replica.agenda.now
                self._aside.setdefault(adapter, []).append(request)
        return bool(shed)

    # What they cost -------------------------------------------------------------------------------------------------

    def ticks(self, batch: "Batch", decodes: bool, stage: int = 0) -> int:
        """Ticks of the kernels of adapters on a stage for the iteration that begins."""
        rows, adapters, ranks = self._mix(batch, decodes)
        return self.rules.products[stage].ticks(rows, adapters, ranks)

    def _mix(self, batch: "Batch", decodes: bool) -> tuple[int, int, int]:
        """(rows with adapters, different ones among them, the sum of their ranks) of an iteration."""
        of, ranks = self.rules.of, self.rules.ranks
        found: set[int] = set()
        rows = 0
        if decodes:
            asked = [of[request] for request in (*batch.decodes.members, *batch.decodes.over)]
            found.update(asked)
            rows = self.replica.stages.costs[0].verified(len(asked) - asked.count(BASE))
        for request, chunk in batch.work.chunks:
            if of[request] != BASE:
                found.add(of[request])
                rows += chunk
        found.discard(BASE)
        return rows, len(found), sum(ranks[adapter % len(ranks)] for adapter in found)
