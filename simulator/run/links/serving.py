"""What the links of a fabric carried while requests were served: the busiest of each kind, what loaded it and whose.

Bytes are those of the collectives of the iterations that ran, of activations between pipeline stages and of moved
caches. At its peak a link carries what each iteration sends spread evenly over the iteration, and each moved cache over
its way, but no more than it has where links are shared: a user that could ask for more gets its bytes unevenly over
that time. Where every user has its links for itself the peak says what is asked for, which may be more than there is.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.axes import PP
from simulator.collectives import Plan
from simulator.collectives.link_range import LinkRange
from simulator.fabric import Fabric
from simulator.fabric.pairs import Pairs
from simulator.results.result import LinkLoad, Service
from simulator.results.serving.service import span
from simulator.run.served.rows import logs_of
from simulator.serving.costs.beside.drafting import verified_rows
from simulator.serving.costs.iteration import library
from simulator.serving.costs.sends import Library, knot
from simulator.serving.fleet.kv_transfer import pairs_of
from simulator.serving.placement import ReplicaPlacement
from simulator.serving.replica.record import COLUMNS
from simulator.serving.replica.replica import Replica
from simulator.specs.hardware import Cluster

if TYPE_CHECKING:
    from simulator.run.serve import ServingRun

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOVED = "kv transfer"
"""Name of the operation that moves caches."""
FEW = 64
"""Rows of a flow up to which they are looked at one by one, which takes less time than as arrays."""


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """An operation of a replica, as often as it ran."""

    name: str
    """Operation and axis."""
    operation: str
    user: int
    """The device class."""
    groups: tuple[tuple[int, ...], ...]
    """Ranks of each group that runs it at once."""
    size: Floats
    """Bytes of one run, (k,)."""
    runs: Floats
    """How often, (k,)."""
    start: Ints
    end: Ints
    """Between which ticks it ran, (k,)."""
    library: Library
    """What runs it."""

    def knots(self) -> Floats:
        """The size of the message that stands for each, (k,)."""
        if len(self.size) < FEW:
            return np.array([knot(size) for size in self.size.tolist()])
        sizes, place = np.unique(self.size, return_inverse=True)
        return np.array([knot(size) for size in sizes.tolist()])[place.reshape(-1)]


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Bytes on links that flows of one operation and about one size put there."""

    plan: Plan
    weights: Floats
    """Runs of each group."""
    flows: tuple[tuple[Flow, ...], ...]
    """Whose each group is: of several flows where replicas in step run it together."""


def serving_links(run: "ServingRun", service: Service) -> tuple[LinkLoad, ...]:
    """The busiest link of each kind that carried anything, cluster by cluster."""
    begin, end = span(service)
    seats = [(system, seat) for system in run.systems for seat in system.placements]
    clusters: list[Cluster] = []
    for system in run.systems if end > begin else ():
        clusters += [] if any(system.cluster is cluster for cluster in clusters) else [system.cluster]
    found: list[LinkLoad] = []
    for cluster in clusters:
        here = [number for number, (system, _) in enumerate(seats) if system.cluster is cluster]
        runs = library(run.scenario.stack, cluster)
        own = {id(system): replace(runs, exchange=system.cost.exchange) for system in run.systems}
        flows = [
            flow
            for number in here
            for flow in _collectives(run.replicas[number], seats[number][1], number, own[id(seats[number][0])])
        ]
        flows += _moved(run, runs) if run.kv_transfer is not None and run.kv_transfer.ways else []
        pools = dict.fromkeys(seats[number][0].name for number in here)
        where = f" of {', '.join(pools)}" if len(clusters) > 1 else ""
        found += _busiest(flows, runs, units.to_seconds(end - begin), where, run.share_links)
    return tuple(found)


def _collectives(replica: Replica, place: ReplicaPlacement, number: int, runs: Library) -> Iterator[Flow]:
    """What the iterations of a replica sent."""
    stages, tp = replica.stages.costs, len(place.own) // len(replica.stages.costs)
    if not any(cost.sends or cost.hop is not None for cost in stages):
        return
    log = np.concatenate([np.zeros((COLUMNS, 0), np.int64), *logs_of(replica)], axis=1)
    start, count, first, growth, decodes, tokens, *_, ended = log
    end = start + count * first + growth * (count * (count - 1) // 2)
    verified = verified_rows(replica.stages.costs[0].speculation, decodes)
    rows, joint = (verified + tokens, verified + ended), np.array(replica.record.shared_rows, np.int64).reshape(-1, 2).T
    for stage, cost in enumerate(stages):
        for send in cost.sends:
            group = send.group(place, stage, tp)
            size = (joint if send.in_step else rows)[int(send.sampled)].astype(np.float64) * (
                send.peers * send.row_bytes
            )
            times = count.astype(np.float64) * (send.runs / (len(place.peers) if send.among else 1))
            name = f"{send.operation} {send.axis}"
            yield Flow(name, send.operation, number, (group,), size, times, start, end, runs)
        if cost.hop is not None:
            pair = place.own[stage * tp], place.own[(stage + 1) * tp]
            size = rows[0].astype(np.float64) * cost.hop_bytes
            yield Flow(f"send {PP.name}", "send", number, (pair,), size, count.astype(np.float64), start, end, runs)


def _moved(run: "ServingRun", runs: Library) -> Iterator[Flow]:
    """Caches that moved, by where from and where to."""
    assert run.kv_transfer is not None
    rows = np.array([row[1:] for row in run.kv_transfer.rows], np.float64).reshape(-1, 3)
    ways = np.array(run.kv_transfer.ways, np.int64).reshape(-1, 2)
    found, place = np.unique(ways, axis=0, return_inverse=True)
    order = np.argsort(place.reshape(-1), kind="stable")
    stops = np.cumsum(np.bincount(place.reshape(-1), minlength=len(found)))
    for (source, target), chosen in zip(found.tolist(), np.split(order, stops[:-1]), strict=True):
        pairs = pairs_of(run.kv_transfer.devices[source], run.kv_transfer.devices[target])
        start, end, size = rows[chosen].T
        times = start.astype(np.int64), end.astype(np.int64)
        yield Flow(MOVED, "send", target, tuple(pairs), size / len(pairs), np.ones(len(size)), *times, runs)


def _busiest(flows: list[Flow], runs: Library, duration_s: float, where: str, shared: bool) -> Iterator[LinkLoad]:
    fabric, known = runs.fabric, _Carried(runs.fabric)
    loads = [(load, load.plan.carried(load.weights)) for load in _loads(flows, fabric)]
    total = np.zeros(len(fabric.capacity))
    for _, carried in loads:
        carried.add_to(total)
    stops = [*fabric.block_start[1:], len(fabric.capacity)]
    for kind, first, stop in zip(fabric.kinds, fabric.block_start, stops, strict=True):
        if not total[first:stop].any():
            continue
        link = first + int(np.argmax(total[first:stop] / fabric.capacity[first:stop]))
        users = {
            flow
            for load, carried in loads
            if carried.at(link)
            for group in load.plan.users(link).tolist()
            for flow in load.flows[group]
        }
        on_it = [_On(flow, _bytes_on(link, flow, known)) for flow in flows if flow in users]
        capacity, moved = float(fabric.capacity[link]), float(total[link])
        highest, at_peak = _peak(on_it)
        yield LinkLoad(
            name=kind + where,
            links=stop - first,
            capacity=capacity,
            bytes=moved,
            utilisation=moved / (capacity * duration_s),
            by_operation=_by_operation(on_it),
            users=tuple(sorted({flow.user for flow in users})),
            peak=min(highest, capacity) if shared else highest,
            at_peak=at_peak,
            busiest=fabric.described(link),
        )


def _loads(flows: list[Flow], fabric: Fabric) -> Iterator[Load]:
    """All flows, those of one operation, number of members and size together."""
    found: dict[tuple[str, int, bool, int, float], list[tuple[Flow, float]]] = defaultdict(list)
    for flow in flows:
        knots, sent = flow.knots(), flow.size * flow.runs
        within = len({fabric.numbering.node_of(rank) for rank in flow.groups[0]}) == 1
        for size in _distinct(knots[sent > 0]):
            share = float(sent[knots == size].sum()) / size
            found[flow.operation, len(flow.groups[0]), within, id(flow.library), size].append((flow, share))
    for (operation, *_, size), members in found.items():
        weights: dict[tuple[int, ...], float] = defaultdict(float)
        owners: dict[tuple[int, ...], list[Flow]] = defaultdict(list)
        for flow, share in members:
            for group in flow.groups:
                weights[group] += share
                owners[group].append(flow)
        plan = members[0][0].library.plan(operation, list(weights), size)
        yield Load(plan, np.array(list(weights.values())), tuple(map(tuple, owners.values())))


def _distinct(values: Floats) -> list[float]:
    """Each value once, rising."""
    found: list[float] = sorted(set(values.tolist())) if len(values) < FEW else np.unique(values).tolist()
    return found


@dataclass(frozen=True, slots=True, eq=False)
class _On:
    """What a flow puts on one link."""

    flow: Flow
    sent: Floats
    """Bytes of each row."""


class _Carried:
    """Bytes that links carry of one run of a flow's operation."""

    def __init__(self, fabric: Fabric) -> None:
        """None was asked for."""
        self._pairs = Pairs(fabric)
        self._known: dict[Hashable, LinkRange] = {}
        """By library, operation, groups and size."""
        self._alike: dict[Hashable, tuple[float, ...] | None] = {}
        """Of one device sending to one other, along the way, by what ways have in common; None where it goes ways of
        its own."""

    def on(self, link: int, flow: Flow, size: float) -> float:
        """Bytes on a link."""
        if flow.operation != "send" or len(flow.groups) > 1:
            return self._planned(flow, size).at(link)
        links, kind = self._pairs.way(*flow.groups[0])
        asked = id(flow.library), size, kind
        if asked not in self._alike:
            carried = self._planned(flow, size)
            used = (carried.values.nonzero()[0] + carried.first).tolist()
            self._alike[asked] = tuple(map(carried.at, links)) if set(used) == set(links) else None
        along = self._alike[asked]
        if along is None:
            return self._planned(flow, size).at(link)
        return along[links.index(link)] if link in links else 0.0

    def _planned(self, flow: Flow, size: float) -> LinkRange:
        """Those of all links."""
        asked = id(flow.library), flow.operation, flow.groups, size
        if asked not in self._known:
            plan = flow.library.plan(flow.operation, flow.groups, size)
            self._known[asked] = plan.carried(np.ones(len(flow.groups)))
        return self._known[asked]


def _bytes_on(link: int, flow: Flow, known: _Carried) -> Floats:
    """Bytes that each row of a flow puts on a link."""
    knots, sent = flow.knots(), np.zeros(len(flow.size))
    for size in _distinct(knots[flow.size > 0]):
        chosen = knots == size
        sent[chosen] = flow.size[chosen] * flow.runs[chosen] * (known.on(link, flow, size) / size)
    return sent


def _by_operation(on_it: list[_On]) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for one in on_it:
        found[one.flow.name] += float(one.sent.sum())
    return dict(found)


def _peak(on_it: list[_On]) -> tuple[float, tuple[str, ...]]:
    """The most bytes per second that flows put on a link at any moment, and the operations that do then."""
    start = np.concatenate([one.flow.start for one in on_it])
    end = np.maximum(np.concatenate([one.flow.end for one in on_it]), start + 1)
    rate = np.concatenate([one.sent for one in on_it]) * units.TICKS_PER_SECOND / (end - start)
    moments, place = np.unique(np.concatenate([start, end]), return_inverse=True)
    change = np.bincount(place.reshape(-1), np.concatenate([rate, -rate]), len(moments))
    highest = int(np.argmax(np.cumsum(change)))
    at = [
        bool(((one.flow.start <= moments[highest]) & (one.flow.end > moments[highest]) & (one.sent > 0)).any())
        for one in on_it
    ]
    names = dict.fromkeys(one.flow.name for one, there in zip(on_it, at, strict=True) if there)
    return float(np.cumsum(change)[highest]), tuple(names)
