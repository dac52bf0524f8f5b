"""The fabric of a cluster: every link with its capacity and latency, and the way between any two devices.

Ranks count the devices of node 0, of node 1, ..., also where nodes are of several kinds. Links are numbered by formula
(those of node 0, of node 1, ..., then cards, then trunks or torus links) and named on demand, so that
131,072 devices are built in milliseconds. Traffic between devices of one node stays in the node if it joins them; all
other traffic goes through the card of each device, or through the torus. Capacities are those of the hardware; what a
library makes of them is a collective profile's business.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.errors import InputError, Problem
from simulator.fabric.nodes import EqualNodes, locate
from simulator.fabric.scale_out import NETWORKS, ScaleOut
from simulator.fabric.scale_up import build_node
from simulator.specs.hardware import Cluster
from simulator.specs.network import SwitchReduction
from simulator.specs.text.numbering import Numbering

if TYPE_CHECKING:
    import networkx

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


SWITCH = -1
"""Stands for the switch of a node in place of a rank: what it reduces or copies goes only up to it or down from it."""
NETWORK = -2
"""Stands for the switches between nodes that reduce or copy; NETWORK - r for those of tree r of a group."""


class LinkNames(Sequence[str]):
    """Names of links by number, made when asked for."""

    def __init__(self, fabric: "Fabric") -> None:
        """Names of the links of a fabric."""
        self._fabric = fabric

    def __len__(self) -> int:
        return len(self._fabric.capacity)

    def __getitem__(self, link: int) -> str:  # type: ignore[override]
        """Such as `node 3: 2 > switch`, `NIC up 17` or `leaf down 4`; IndexError where there is no such link."""
        if not 0 <= link < len(self):
            raise IndexError(link)
        fabric = self._fabric
        if link < fabric.first_outer:
            kind = next(kind for kind in fabric.nodes if link < kind.stop_link)
            node, local = divmod(link - kind.first_link, len(kind.links.ends))
            start, stop = kind.links.ends[local]
            return f"node {kind.first + node}: {start} > {stop}"
        block = fabric.block_of(link)
        return f"{fabric.kinds[block]} {link - fabric.block_start[block]}"


@dataclass(frozen=True, slots=True, eq=False)
class Fabric:
    """Links of a cluster and the ways over them; made by `build`."""

    numbering: Numbering
    """Of nodes and devices."""
    nodes: tuple[EqualNodes, ...]
    """By kind, in the order of their numbers."""
    network: ScaleOut
    """What joins the nodes."""
    kinds: tuple[str, ...]
    """What the links of each block are, such as `scale-up`, `NIC up`, `leaf down`."""
    block_start: tuple[int, ...]
    """First link of each block."""
    capacity: Floats
    """Bytes per second of each link, one direction; (links,)."""
    latency: Floats
    """Seconds of each link; (links,)."""
    rated: Floats = field(default_factory=lambda: np.zeros(0))
    """`capacity` as the hardware promises it, which is what a library plans with; `capacity` itself where left out."""
    reduction: SwitchReduction | None = None
    """How switches between nodes add up; None where they do not."""
    links: LinkNames = field(init=False)
    """Names of the links."""
    known: "WeakValueDictionary[tuple[object, ...], Any]" = field(init=False, default_factory=WeakValueDictionary)
    """Ways that were found, as long as anything holds them; whose they are is the finder's business."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "links", LinkNames(self))
        if not len(self.rated):
            object.__setattr__(self, "rated", self.capacity)

    @property
    def devices(self) -> int:
        """Devices of the cluster."""
        return self.numbering.all_devices

    @property
    def first_outer(self) -> int:
        """Links from this one on belong to the scale-out network, those before to nodes."""
        return self.nodes[-1].stop_link

    def slowed(self, links: Sequence[int], factor: float) -> "Fabric":
        """The fabric with some links at a share `factor` of their capacity, of which no library knows."""
        capacity = self.capacity.copy()
        capacity[np.unique(np.asarray(links, np.int64))] *= factor
        return replace(self, capacity=capacity)

    def find(self, name: str) -> tuple[int, ...]:
        """The links of a name: one, or both directions where it has none (`NIC 17`); none if there is no such link."""
        if name.startswith("node "):
            number, _, way = name.removeprefix("node ").partition(": ")
            if not number.isdecimal() or int(number) >= self.numbering.all_nodes:
                return ()
            here = next(nodes for nodes in self.nodes if int(number) < nodes.first + nodes.nodes)
            ways = [f"{start} > {stop}" for start, stop in here.links.ends]
            first = here.first_link + (int(number) - here.first) * len(ways)
            return (first + ways.index(way),) if way in ways else ()
        kind, _, number = name.rpartition(" ")
        wanted = {kind, f"{kind} up", f"{kind} down"}
        starts = [*self.block_start, len(self.capacity)]
        blocks = zip(self.kinds[1:], starts[1:], starts[2:], strict=False)
        if not number.isdecimal():
            return ()
        return tuple(a + int(number) for found, a, b in blocks if found in wanted and a + int(number) < b)

    def described(self, link: int) -> str:
        """The name of a link, and its two ends where the network has them: `leaf up 3 (leaf 1 > spine 0)`."""
        ends = self.network.ends(link - self.first_outer) if link >= self.first_outer else ""
        return f"{self.links[link]} ({ends})" if ends else self.links[link]

    def block_of(self, link: int) -> int:
        """The block that a link belongs to."""
        return int(np.searchsorted(self.block_start, link, side="right")) - 1

    def parts(self, transfers: int) -> int:
        """Flows that the network splits each of so many transfers at a time into."""
        return self.network.parts(transfers)

    def between(self, src: ArrayLike, dst: ArrayLike) -> frozenset[int]:
        """All links on the ways of all parts of transfers between ranks."""
        src, dst = np.atleast_1d(np.asarray(src, np.int64)), np.atleast_1d(np.asarray(dst, np.int64))
        many = self.network.reach()
        paths = self.paths(np.repeat(src, many), np.repeat(dst, many), many)
        return frozenset(paths[paths >= 0].tolist())

    def paths(self, src: ArrayLike, dst: ArrayLike, parts: int = 1) -> Ints:
        """Links of each flow in the order of the way, padded with -1; shape (longest way, flows).

        `src` and `dst` are ranks, shape (flows,), or SWITCH where the node's scale-up fabric is one; each flow stands
        there `parts` times in a row where it is split. A flow from a device to itself has no links. InputError where
        no way exists.
        """
        src, dst = np.atleast_1d(np.asarray(src, np.int64)), np.atleast_1d(np.asarray(dst, np.int64))
        if (src == SWITCH).any() or (dst == SWITCH).any():
            return self._through_switch(src, dst, parts)
        kind, node, device = locate(self.numbering, src)
        _, to_node, to_device = locate(self.numbering, dst)
        joined = (
            np.array([nodes.links.joined for nodes in self.nodes])[kind] if kind.ndim else self.nodes[0].links.joined
        )
        inside = (node == to_node) & joined | (src == dst)
        if inside.all():
            return self._inner(kind, node, device, to_device)
        if not inside.any():
            return self._leaving(src, dst, parts)
        outside = ~inside
        outer = self._leaving(src[outside], dst[outside], parts)
        inner = self._inner(kind[inside] if kind.ndim else kind, node[inside], device[inside], to_device[inside])
        matrix = np.full((max(len(outer), len(inner)), len(src)), -1, np.int64)
        matrix[: len(outer), outside] = outer
        matrix[: len(inner), inside] = inner
        return matrix

    def _leaving(self, src: Ints, dst: Ints, parts: int) -> Ints:
        """Ways out of nodes, over another device of the node where the network asks for it."""
        proxy = self.network.proxies(src, dst)
        if proxy is src or (proxy == src).all():
            return self.outer(src, dst, parts)
        kind, node, device = locate(self.numbering, src)
        inner = self._inner(kind, node, device, locate(self.numbering, proxy)[2])
        return np.concatenate([inner, self.outer(proxy, dst, parts)])

    def outer(self, src: Ints, dst: Ints, parts: int = 1) -> Ints:
        """`paths` through the cards, also of ranks of one node."""
        if parts == 1:
            return self.network.paths(src, dst, self.first_outer)
        part = np.arange(len(src)) % parts
        return self.network.parted(src, dst, part, parts, self.first_outer)

    def _through_switch(self, src: Ints, dst: Ints, parts: int) -> Ints:
        """Ways of flows some of which end or begin in the node's switch."""
        half = np.flatnonzero((src == SWITCH) | (dst == SWITCH))
        whole = np.flatnonzero((src != SWITCH) & (dst != SWITCH))
        ways = self.paths(src[whole], dst[whole], parts)
        matrix = np.full((len(ways), len(src)), -1, np.int64)
        matrix[:, whole] = ways
        down = src[half] == SWITCH
        kind, node, device = locate(self.numbering, np.where(down, dst[half], src[half]))
        for number, nodes in enumerate(self.nodes):
            here = np.flatnonzero(np.broadcast_to(kind == number, half.shape))
            if len(here) and not nodes.links.switched:
                raise InputError(
                    f"a scale-up fabric of kind `{nodes.scale_up}` has no switch that could reduce or copy"
                )
            matrix[0, half[here]] = nodes.base(node[here]) + device[here] + down[here] * nodes.per_node
        return matrix

    def reduced(self, rank: Ints, tree: Ints, down: bool) -> tuple[Ints, Floats]:
        """(links, seconds of wire) of what ranks send up trees of switches that add it up, or have from there.

        `tree` (flows,) numbers the trees. A link between switches carries the sum of a tree once: it stands on the way
        of the first of the ranks below it. The wire is that of the whole way, up and down, with the adding up at each
        switch. Links have shape (longest way, flows).
        """
        assert self.reduction is not None  # algorithms ask first
        up, back = self.network.reduced(rank, tree, self.first_outer)
        adding = (up >= 0).sum(axis=0) * self.reduction.latency.value
        wire = self.path_latency(up) + self.path_latency(back) + adding
        links = back if down else up
        for row in links[1:]:
            used = np.flatnonzero(row >= 0)
            _, first = np.unique(np.stack([tree[used], row[used]]), axis=1, return_index=True)
            once = used[first]
            row[np.setdiff1d(used, once)] = -1
        return links, wire

    def _inner(self, kind: Ints, node: Ints, device: Ints, to_device: Ints) -> Ints:
        """Ways inside nodes."""
        if not kind.ndim:
            return self.nodes[0].ways(node, device, to_device)
        parts = [np.flatnonzero(kind == number) for number in range(len(self.nodes))]
        ways = [
            nodes.ways(node[here], device[here], to_device[here]) if len(here) else np.zeros((0, 0), np.int64)
            for nodes, here in zip(self.nodes, parts, strict=True)
        ]
        matrix = np.full((max(1, *map(len, ways)), len(node)), -1, np.int64)
        for here, way in zip(parts, ways, strict=True):
            matrix[: len(way), here] = way
        return matrix

    def routes(self, src: ArrayLike, dst: ArrayLike) -> tuple[Ints, Ints]:
        """(flow, link) of every link that flows between ranks use; links of one flow stand in the order of the way."""
        paths = self.paths(src, dst)
        flow, hop = np.nonzero(paths.T >= 0)
        return flow, paths[hop, flow]

    def route(self, src: int, dst: int) -> tuple[int, ...]:
        """Links from a rank to another in the order of the way."""
        return tuple(self.routes([src], [dst])[1].tolist())

    def path_latency(self, paths: Ints) -> Floats:
        """Seconds of the wire of ways as `paths` gives them, software excluded; shape (flows,)."""
        seconds: Floats = np.append(self.latency, 0.0)[paths].sum(axis=0)
        return seconds

    def tiers(self, src: ArrayLike, dst: ArrayLike) -> Ints:
        """How far apart ranks are: 0 the same device, 1 the same node, 2 the same lowest switch, 3 one level up and so
        on.

        In a torus all devices of different nodes are 1 + their distance apart. Shape (flows,).
        """
        src, dst = np.atleast_1d(np.asarray(src, np.int64)), np.atleast_1d(np.asarray(dst, np.int64))
        near = np.where(src == dst, 0, 1)
        same = locate(self.numbering, src)[1] == locate(self.numbering, dst)[1]
        return np.where(same, near, self.network.tiers(src, dst))

    def tier(self, src: int, dst: int) -> int:
        """How far apart two ranks are, as `tiers` counts."""
        return int(self.tiers([src], [dst])[0])

    def graph(self) -> "networkx.DiGraph":
        """The fabric as a directed graph, for drawing and for checks; meant for small ones.

        Nodes are tuples such as `("device", rank)` or `("leaf", group, rail)`. Edges carry `link` (None where the way
        is free), `capacity` in bytes/s, `latency` in s and `weight` (1 for a link, 0 for a free way).
        """
        from simulator.fabric.graph import draw

        return draw(self)


def build(cluster: Cluster) -> Fabric:
    """The fabric of a cluster; InputError where its parts do not fit (a torus of another size, nodes without cards)."""
    builder = NETWORKS.get(cluster.network.kind, "cluster.network.kind")
    if cluster.more_nodes and not builder.joins_kinds:
        message = f"a network of kind `{cluster.network.kind}` joins equal nodes only"
        hint = "leave `more_nodes` out, or write a network of kind `tree`"
        raise InputError(Problem(message, path="cluster.more_nodes", hint=hint))
    network, nodes = builder.build(cluster), _nodes(cluster)
    blocks = network.blocks
    sizes = [nodes[-1].stop_link, *(count for _, count, _, _ in blocks)]
    capacity, latency = np.empty(sum(sizes)), np.empty(sum(sizes))
    for kind in nodes:
        for whole, each in ((capacity, kind.links.capacity), (latency, kind.links.latency)):
            whole[kind.first_link : kind.stop_link].reshape(kind.nodes, -1)[:] = each
    starts = [0, *np.cumsum(sizes)[:-1].tolist()]
    for start, (_, count, block_capacity, block_latency) in zip(starts[1:], blocks, strict=True):
        capacity[start : start + count], latency[start : start + count] = block_capacity, block_latency
    return Fabric(
        numbering=cluster.numbering,
        nodes=nodes,
        network=network,
        kinds=("scale-up", *(name for name, *_ in blocks)),
        block_start=tuple(starts),
        capacity=capacity,
        latency=latency,
        rated=network.promised(capacity),
        reduction=cluster.network.switch_reduction,
    )


def _nodes(cluster: Cluster) -> tuple[EqualNodes, ...]:
    """The nodes of a cluster by kind."""
    found: list[EqualNodes] = []
    for part in cluster.partitions:
        first, first_link = (found[-1].first + found[-1].nodes, found[-1].stop_link) if found else (0, 0)
        node = part.node
        links = build_node(node.devices, node.scale_up)
        found.append(EqualNodes(links, node.scale_up.kind, first, part.nodes, node.devices, first_link))
    return tuple(found)
