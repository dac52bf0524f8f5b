"""Tiers of caches on machines: their memories, and the ways to them over host links, disks and network cards.

A replica has the host links of its devices for itself. Replicas share the disks of a node, a store's bandwidth, and
network cards: those are links of the fabric where there is one, on which moved caches travel too. Left out: PCIe
switches that devices share, and collectives on the same cards, which do not slow loads down.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from simulator.engine.agenda import Agenda
from simulator.engine.tape import Activity, Use
from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.results.serving.cache_tiers import CacheTierUse
from simulator.serving.costs.beside.streaming import HOST_LINK, loaded
from simulator.serving.costs.beside.streaming import rate as loading_rate
from simulator.serving.replica.caches.chunk_loads import ChunkLoads
from simulator.serving.replica.caches.loads import KvLoads, LoadRules, Tier
from simulator.serving.replica.replica import Replica
from simulator.serving.replica.weight_loads import WeightLoads
from simulator.serving.tiers.eviction import EVICTIONS
from simulator.serving.tiers.path import Lane, Path, path
from simulator.serving.tiers.store import TierStore, empty
from simulator.specs.hardware import Node
from simulator.specs.serving import KvCache
from simulator.specs.tiers.cache_tiers import CacheTier
from simulator.units import TICKS_PER_SECOND, to_ticks

if TYPE_CHECKING:
    from simulator.serving.fleet.system import System


def host_link(system: "System") -> float:
    """Bytes per second between all devices of a replica and their hosts, one direction."""
    link = system.node.accelerator.host_link
    return (HOST_LINK if link is None else link.value) * system.cost.devices


@dataclass(slots=True)
class Tiers:
    """What the tiers of a scenario are made of, put on the clock as it is needed."""

    agenda: Agenda
    fabric: Fabric
    _resources: dict[Hashable, Lane] = field(default_factory=dict)
    _shared: dict[str, TierStore] = field(default_factory=dict)
    stores: list[tuple[CacheTier, TierStore, float, int]] = field(default_factory=list)
    """(what was asked for, the memory, bytes and tokens of one of its identities) of all, shared ones once."""

    def attach(self, replica: Replica, system: "System", number: int, cache: KvCache, layers: int) -> None:
        """Give the replica, which keeps prefixes or chunks and is the pool's of this number, its tiers that hold a
        block."""
        own, kept, chunks = replica.blocks, replica.blocks.cache, replica.blocks.chunks
        tokens = chunks.tokens if chunks is not None else 0 if kept is None else kept.blocks * own.size
        made = []
        stores = [self._store(spec, tokens * own.memory.token_bytes, tokens) for spec in cache.tiers]
        holding = [(spec, store) for spec, store in zip(cache.tiers, stores, strict=True) if store.capacity]
        for place, (spec, store) in enumerate(holding):
            read, write, demote = (self._way(spec, replica, system, number, way) for way in ("read", "write", "demote"))
            made.append(
                Tier(store, read, write, demote, spec.way == "host" and place < len(holding) - 1, spec.outlives)
            )
        if not made:
            return
        rules = LoadRules(cache.loads.when == "faster", cache.loads.least, layers if cache.loads.layered else 1)
        if chunks is not None:
            replica.loads = ChunkLoads(replica, chunks, made, rules)
            chunks.computed, chunks.dropped = replica.loads.computed, replica.loads.dropped
        elif kept is not None:
            replica.loads = KvLoads(replica, made, rules)
            own.computed, kept.dropped = replica.loads.computed, replica.loads.dropped

    def host_path(self, replica: Replica, system: "System", latency: float, storage: float | None = None) -> Path:
        """From the host of a replica to its devices, over what loads from tiers use too; with `storage`, from a disk of
        so many bytes per second, which the replica has for itself."""
        lanes = [self._lane(("host", replica.number, True), host_link(system))]
        if storage is not None:
            lanes.append(self._lane(("storage", replica.number), storage))
        return path(latency, lanes)

    def carry_weights(self, replica: Replica, system: "System", number: int) -> None:
        """Let the weights that the replica, the pool's of this number, loads in every iteration share its host link,
        and the drives of a tier, with what else moves there."""
        spec, cost = system.weights, system.cost.stages[0]
        assert spec is not None
        node, devices = system.node, system.devices(number)
        each = loading_rate(spec, node) / TICKS_PER_SECOND
        uses = []
        if node.accelerator.kind != "cpu":
            host = self._lane(("host", replica.number, True), host_link(system))
            uses.append(Use(host.resource, min(each * len(devices), host.rate), 1.0))
        if spec.path == "disk":
            assert spec.bandwidth is not None
            for here, count in _nodes(system, devices):
                disk = self._lane((spec.drives, system.cluster.name, here, True), spec.bandwidth)
                uses.append(Use(disk.resource, min(each * count, disk.rate), 1.0))
        latency = to_ticks(loaded(spec, cost.attention.layers.layers) * spec.latency)
        load = Activity(latency, cost.stream_ticks - latency, tuple(uses))
        replica.weight_loads = WeightLoads(replica.batches[0], load, self.host_path(replica, system, 0.0))
        replica.fast_forwards = False  # each iteration meets what moves beside it

    def used(self) -> tuple[CacheTierUse, ...]:
        """What each tier held and moved, by name, in the order in which they were written."""
        names = dict.fromkeys(spec.name for spec, *_ in self.stores)
        return tuple(_used([one for one in self.stores if one[0].name == name]) for name in names)

    def _store(self, spec: CacheTier, size: float, tokens: int) -> TierStore:
        """The memory of a tier, one for all where it is shared."""
        if spec.shared and spec.name in self._shared:
            return self._shared[spec.name]
        store = empty(spec.name, int(spec.capacity / size), spec.write == "back", spec.eviction)
        if spec.shared:
            self._shared[spec.name] = store
        self.stores.append((spec, store, size, tokens))
        return store

    def _way(self, spec: CacheTier, replica: Replica, system: "System", number: int, kind: str) -> Path:
        """One direction between a replica and a tier."""
        reads, devices = kind == "read", system.devices(number)
        bandwidth = spec.bandwidth if reads else spec.write_bandwidth or spec.bandwidth
        lanes = []
        if spec.way != "network" and kind != "demote":
            lanes.append(self._lane(("host", replica.number, reads), host_link(system)))
        if spec.way == "network":
            lanes += self._cards(system, devices, reads)
        if bandwidth is not None and spec.way == "disk":
            for node, count in _nodes(system, devices):
                disk = self._lane((spec.name, system.cluster.name, node, reads), bandwidth)
                lanes.append(disk._replace(share=count / len(devices)))
        elif bandwidth is not None:
            of = () if spec.way == "network" else (replica.number,)
            lanes.append(self._lane((spec.name, *of, reads), bandwidth))
        return path(spec.latency, lanes or [self._lane(("host", replica.number, reads), host_link(system))])

    def _lane(self, key: Hashable, bandwidth: float) -> Lane:
        """A resource of its own, made once."""
        if key not in self._resources:
            rate = bandwidth / TICKS_PER_SECOND
            self._resources[key] = Lane(self.agenda.add(rate, f"cache tiers {len(self._resources)}"), rate)
        return self._resources[key]

    def _cards(self, system: "System", devices: Sequence[int], reads: bool) -> list[Lane]:
        """Network cards of the devices: links of the fabric, or of a node that stands alone."""
        share = 1 / len(devices)
        lanes = [self._card(device, reads) for device in devices] if self._joined(system) else []
        if lanes and all(lane is not None for lane in lanes):
            return [lane._replace(share=share) for lane in lanes if lane is not None]
        nics = system.node.nics
        assert nics is not None
        found = []
        for device in devices:
            key = ("cards", system.cluster.name, system.cluster.numbering.node_of(device), reads)
            found.append(self._lane(key, nics.count * nics.bandwidth.value)._replace(share=share))
        return found

    def _joined(self, system: "System") -> bool:
        """Whether the fabric is that of the pool's cluster, and joins several nodes."""
        numbering = system.cluster.numbering
        return numbering.all_nodes > 1 and numbering.all_devices == self.fabric.devices

    def _card(self, device: int, reads: bool) -> Lane | None:
        """The link between a device's card and the network; None where the fabric has none."""
        numbering = self.fabric.numbering
        here = numbering.devices_of(numbering.node_of(device))
        other = here.stop if here.stop < self.fabric.devices else here.start - 1
        ends = ([other], [device]) if reads else ([device], [other])
        wanted = "NIC down" if reads else "NIC up"
        links = [link for link in self.fabric.paths(*ends).T.ravel().tolist() if link >= 0]
        for link in links:
            if self.fabric.kinds[self.fabric.block_of(link)] == wanted:
                return Lane(link, float(self.fabric.capacity[link]) / TICKS_PER_SECOND)
        return None


def _nodes(system: "System", devices: Sequence[int]) -> list[tuple[int, int]]:
    """(node, devices on it) of a replica."""
    nodes, counts = np.unique([system.cluster.numbering.node_of(device) for device in devices], return_counts=True)
    return list(zip(nodes.tolist(), counts.tolist(), strict=True))


def _used(stores: Sequence[tuple[CacheTier, TierStore, float, int]]) -> CacheTierUse:
    """The memories of one tier together."""
    spec = stores[0][0]
    return CacheTierUse(
        name=spec.name,
        path=str(spec.way),
        memories=len(stores),
        capacity=float(spec.capacity * len(stores)),
        most=float(sum(store.most * size for _, store, size, _ in stores)),
        hit_tokens=sum(store.hits * tokens for _, store, _, tokens in stores),
        asked_tokens=sum(store.asked * tokens for _, store, _, tokens in stores),
        dropped_tokens=sum(store.dropped * tokens for _, store, _, tokens in stores),
        read=float(sum(store.read_bytes for _, store, _, _ in stores)),
        written=float(sum(store.written_bytes for _, store, _, _ in stores)),
        prompt_tokens=sum(store.looked_up for _, store, _, _ in stores),
    )


def check(cache: KvCache, caching: str, path: str, node: Node, replicas: int, devices: int) -> None:
    """InputError, at `path`, for tiers that a pool of so many replicas of so many devices cannot have on its nodes."""
    if cache.tiers and caching == "none" and cache.chunks is None:
        message = "tiers keep what prompts share, and this stack or model keeps no prefixes"
        raise InputError(Problem(message, path=f"{path}.tiers", hint="write `prefix_caching: block` beside them"))
    for i, tier in enumerate(cache.tiers):
        EVICTIONS.get(tier.eviction, f"{path}.tiers.{i}.eviction")
        _check_way(tier, node, f"{path}.tiers.{i}")
        if tier.way == "host" and node.host_memory is not None:
            here = min(node.devices / devices, replicas)
            if here * tier.capacity > node.host_memory.value:
                message = (
                    f"the tier `{tier.name}` takes {_gigabytes(here * tier.capacity)} of a host of {node.name}, which"
                    f" has {_gigabytes(node.host_memory.value)}; each replica has one of its own"
                )
                hint = "lower it, or set `cluster.node.host_memory`"
                raise InputError(Problem(message, path=f"{path}.tiers.{i}.capacity", hint=hint))


def _check_way(tier: CacheTier, node: Node, path: str) -> None:
    """InputError for a tier that a node has no way to."""
    if tier.way == "network" and node.nics is None:
        message = f"the tier `{tier.name}` is reached over a network, and {node.name} has no network cards"
        raise InputError(Problem(message, path=path, hint="write `path: host` or `disk`, or add `cluster.node.nics`"))
    if tier.way != "network" and node.accelerator.kind == "cpu":
        message = f"the tier `{tier.name}` lies behind a host link, and the devices of {node.name} are the host"
        raise InputError(Problem(message, path=path, hint="write `path: network`, or raise the cache's `memory_share`"))


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:,.0f} GB"
