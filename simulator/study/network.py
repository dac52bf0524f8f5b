"""A cluster's network counted: switches, links, how far and how wide, what it costs, and what a collective loads."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from simulator import collectives, fabric
from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.fabric.outline import Outline, bisection, longest_way, outline
from simulator.fabric.scale_out.base import DIRECT, UNLIMITED
from simulator.results.documents.network import Bill, HotLink, NetworkDocument
from simulator.run.links.drawn import joins, points
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.network import Wired
from simulator.specs.network.parts import NetworkParts
from simulator.specs.resolve import load_spec

Floats = NDArray[np.float64]

MOST_POINTS = 4000
"""Points up to which a network is drawn."""
_HOTTEST = 10
_NO_SWITCH = ("node", "device", DIRECT)


@dataclass(frozen=True, slots=True)
class AskedNetwork:
    """What to count."""

    cluster: str
    nodes: int | None = None
    """Of the cluster; None: as its profile says."""
    parts: str | None = None
    """Name of the parts that it is bought of; None: no bill."""
    way: tuple[int, int] | None = None
    """Ranks whose way to name."""
    operation: str | None = None
    """Collective of all devices whose load to show."""
    size_bytes: float = 0.0
    algorithm: str = "auto"


def count(asked: AskedNetwork) -> NetworkDocument:
    """The network of a cluster; InputError where it cannot be built."""
    cluster = load_spec(Cluster, asked.cluster)
    if asked.nodes is not None:
        cluster = cluster.model_copy(update={"nodes": asked.nodes})
    machine = fabric.build(cluster)
    drawn, load = outline(machine), np.zeros(len(machine.capacity))
    name = ""
    if asked.operation is not None:
        profile = load_spec(CollectiveProfile, cluster.collectives)
        every = [range(machine.devices)]
        name = collectives.operation_of(asked.operation)
        load = collectives.cost_of(name, every, asked.size_bytes, machine, profile, asked.algorithm).load
    longest, seconds = longest_way(machine)
    busy = load / machine.capacity
    keys, injected = cluster.network.more, _injected(machine)
    counted = {kind: some for kind, some in _limited(machine, drawn) if _is_shown(kind, machine) and len(some)}
    return NetworkDocument(
        cluster=cluster.name,
        kind=cluster.network.kind,
        nodes=machine.numbering.all_nodes,
        devices=machine.devices,
        policy=keys.routing.policy if isinstance(keys, Wired) else "spread evenly",
        switches={kind: len(some) for kind, some in drawn.kinds().items() if kind not in _NO_SWITCH},
        links={kind: len(some) for kind, some in counted.items()},
        rates={kind: float(some.min()) for kind, some in counted.items()},
        fastest={kind: float(some.max()) for kind, some in counted.items()},
        longest_way=longest,
        longest_way_s=seconds,
        injection=injected,
        bisection=_width(machine, drawn, injected),
        oversubscription=_oversubscription(machine, drawn),
        bill=_bill(machine, drawn, load_spec(NetworkParts, asked.parts)) if asked.parts else None,
        ways=_ways(machine, asked.way) if asked.way else {},
        collective=name,
        hot=_hottest(machine, load),
        points=points(machine, drawn) if len(drawn.points) <= MOST_POINTS else (),
        joins=joins(drawn, busy / (busy.max(initial=0.0) or 1.0)) if len(drawn.points) <= MOST_POINTS else (),
    )


def _is_shown(kind: str, machine: Fabric) -> bool:
    """Whether links of a kind are counted: those between nodes; of one node its own and its cards."""
    if machine.numbering.all_nodes == 1 and "NIC up" in machine.kinds:
        return kind in ("scale-up", "NIC up", "NIC down")
    return kind != "scale-up" or machine.first_outer == len(machine.capacity)


def _blocks(machine: Fabric) -> list[tuple[str, int, int]]:
    """(kind, first link, the one behind the last)."""
    stops = [*machine.block_start[1:], len(machine.capacity)]
    return [each for each in zip(machine.kinds, machine.block_start, stops, strict=True) if each[2] > each[1]]


def _limited(machine: Fabric, drawn: Outline) -> Iterator[tuple[str, Floats]]:
    """(kind, bytes per second of each of its links) but of those that no way uses: trunks that lead nowhere, and limits
    of pairs that have none."""
    for kind, first, stop in _blocks(machine):
        used = [link for link in range(first, stop) if link not in drawn.unused] if drawn.unused else slice(first, stop)
        rates = machine.capacity[used]
        yield kind, rates[rates < UNLIMITED]


def _total(machine: Fabric, kind: str) -> float:
    return float(sum(machine.capacity[first:stop].sum() for name, first, stop in _blocks(machine) if name == kind))


def _width(machine: Fabric, drawn: Outline, injected: float) -> float | None:
    """Bytes per second between halves of the nodes; no more than the cards of one half send."""
    width, nodes = bisection(machine, drawn), machine.numbering.all_nodes
    return width if width is None or not injected else min(width, injected * (nodes // 2) / nodes)


def _injected(machine: Fabric) -> float:
    if (cards := _total(machine, "NIC up")) or machine.first_outer == len(machine.capacity):
        return cards
    return float(machine.capacity[machine.first_outer :].sum())


def _oversubscription(machine: Fabric, drawn: Outline) -> dict[str, float]:
    """What comes from below over what goes up, level by level; of cables between equals what cards send over them."""
    kinds, found = drawn.kinds(), dict[str, float]()
    below = _total(machine, "NIC up")
    for kind, _, _ in _blocks(machine):
        name = kind.removesuffix(" up")
        if not below or name == kind or name == "NIC":
            continue
        if name in kinds:
            if len(kinds[name]) > 1:
                found[name] = below / _total(machine, kind)
                below = _total(machine, kind)
        elif name == "global":
            found[name] = _total(machine, "NIC up") / (_total(machine, kind) + _total(machine, f"{name} down"))
    return found


def _bill(machine: Fabric, drawn: Outline, parts: NetworkParts) -> Bill:
    """Boxes by what all links of each switch carry; a transceiver at each end of each link, by its rate.

    Links of groups that are joined directly end at another group, whose own links they are there.
    """
    box, optics = parts.switch.ports * parts.switch.port.value, parts.optics.bandwidth.value
    kinds, out, ends = drawn.kinds(), np.zeros(len(drawn.points)), 0
    nodes = {*kinds.get("node", ()), *kinds.get("device", ())}
    for join in drawn.joins:
        out[join.start] += join.capacity
        if not (join.start in nodes and join.stop in nodes) and drawn.points[join.start][0] != DIRECT:
            each = join.capacity / max(len(join.links), 1)
            ends += len(join.links) * ceil(each / optics - 1e-9)
    if len(nodes) == len(drawn.points):
        raise InputError(Problem("a network through devices has no switches to buy", hint="leave `--parts` out"))
    boxes = {
        kind: sum(ceil(out[number] / box - 1e-9) for number in some)
        for kind, some in kinds.items()
        if kind not in _NO_SWITCH
    }
    boxes = {kind: some for kind, some in boxes.items() if some}
    cards = sum(last - first for kind, first, last in _blocks(machine) if kind == "NIC up")
    switches = sum(boxes.values())
    power = switches * parts.switch.power.value + ends * parts.optics.power.value + cards * parts.card.power.value
    cost = switches * parts.switch.price.value + ends * parts.optics.price.value + cards * parts.card.price.value
    return Bill(parts.name, boxes, ends, cards, power, cost)


def _ways(machine: Fabric, ends: tuple[int, int]) -> dict[str, tuple[str, ...]]:
    """Links by name from one rank to another, for each part of a flow."""
    for rank in ends:
        if rank >= machine.devices:
            message = f"there is no rank {rank:,}: the cluster has {machine.devices:,} devices"
            raise InputError(Problem(message, hint=f"write ranks from 0 to {machine.devices - 1:,}"))
    parts = machine.parts(1)
    paths = machine.paths([ends[0]] * parts, [ends[1]] * parts, parts)
    named: dict[str, tuple[str, ...]] = {}
    for part, way in enumerate(paths.T.tolist()):
        named[f"flow {part}" if parts > 1 else "flow"] = tuple(machine.described(link) for link in way if link >= 0)
    return named


def _ends(machine: Fabric, link: int) -> str:
    return machine.network.ends(link - machine.first_outer) if link >= machine.first_outer else ""


def _hottest(machine: Fabric, load: Floats) -> tuple[HotLink, ...]:
    busy = load / machine.capacity
    order = np.argsort(-busy, kind="stable")[:_HOTTEST]
    return tuple(
        HotLink(machine.links[link], _ends(machine, link), float(load[link]), float(busy[link]))
        for link in order.tolist()
        if load[link] > 0
    )
