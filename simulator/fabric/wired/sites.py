"""Sites over a wide area: delays of every pair, what a connection gets, and what all of them get together.

A connection between nodes of two sites has a rate of its own (a cloud's cap, or its window over the round trip: Mathis,
Semke, Mahdavi and Ott 1997 for what losses make of it, which is left out), whatever else is on its way; transfers of
several `connections` get as many times that rate. Inside a site nodes meet in one switch that does not block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np

from simulator.errors import InputError, Problem, nearest
from simulator.fabric.scale_out.base import NETWORKS, UNLIMITED, Block, Floats, Ints
from simulator.fabric.scale_out.cards import Cards
from simulator.fabric.wired.network import WiredNetwork
from simulator.fabric.wired.wiring import Wiring
from simulator.specs.hardware import Cluster
from simulator.specs.network import Sites, WideLink

_MOST_NODES = 512
"""Each pair of nodes of different sites has a link of its own for the rate of its connections."""


@NETWORKS.add("sites", Sites)
@dataclass(frozen=True, slots=True, eq=False)
class SitesNetwork(WiredNetwork):
    """Links: cards, what sites have between them, then one for each ordered pair of nodes."""

    home: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Site of each node; (nodes,)."""
    flow: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """Bytes per second of a connection between nodes of two sites, infinite where nothing limits it; (sites, sites)."""

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """The sites of a cluster; InputError where they do not hold its nodes or a link names none of them."""
        keys, cards, wiring = cluster.network.more, Cards.of(cluster), Wiring()
        assert isinstance(keys, Sites)
        names = [site.name for site in keys.sites]
        home = np.repeat(np.arange(len(names)), [site.nodes for site in keys.sites])[: cluster.nodes]
        if len(home) < cluster.nodes or cluster.nodes > _MOST_NODES:
            message = f"{cluster.nodes:,} nodes at sites for {len(home):,}; up to {_MOST_NODES} are modelled"
            raise InputError(Problem(message, path="cluster.network.sites", hint=f"place {cluster.nodes:,} nodes"))
        passage = cluster.network.latency.value if cluster.network.latency else 0.0
        switches = wiring.switches([("site", name) for name in names], passage)
        node, _ = cards.homes()
        out = np.bincount(home[node], cards.capacity, len(names))
        flow = np.full((len(names), len(names)), np.inf)
        for place, link in enumerate(keys.links):
            low, high = (_number(name, names, place) for name in link.between)
            most = link.bandwidth if link.bandwidth is not None else min(out[low], out[high]) or np.inf
            wiring.join("wide", switches[low], switches[high], min(most, UNLIMITED), link.delay)
            flow[low, high] = flow[high, low] = _connection(link, keys)
        return replace(cls.made(cluster, wiring, cards, switches[home[node]]), home=home, flow=flow)

    @property
    def blocks(self) -> list[Block]:
        """Those of all such networks, and the rates of connections."""
        rate = self.between_nodes().ravel()
        rate = np.where(np.isinf(rate), UNLIMITED, rate)  # what nothing limits is no link of any way
        return [*WiredNetwork.blocks.fget(self), ("connection", len(rate), rate, np.zeros(len(rate)))]  # type: ignore[attr-defined]

    def between_nodes(self) -> Floats:
        """What a connection between nodes of two sites gets, times as many as a transfer has."""
        return self.flow[self.home[:, None], self.home] * self.parts(1)

    def parted(self, src: Ints, dst: Ints, part: Ints, parts: int, first: int = 0) -> Ints:
        """As of all such networks, and the rate of the connection where it has one."""
        found = WiredNetwork.parted(self, src, dst, part, parts, first)
        (node, _, _), (to_node, _, _) = self.cards_in.place(src), self.cards_in.place(dst)
        own = first + 2 * self.cards_in.count + len(self.cables.start) + node * len(self.home) + to_node
        limited = np.isfinite(self.flow[self.home[node], self.home[to_node]])
        return np.concatenate([found, np.where(limited, own, -1)[None]])

    def ends(self, link: int) -> str:
        """As of all such networks; connections by their nodes."""
        pair = link - 2 * self.cards_in.count - len(self.cables.start)
        if pair < 0:
            return WiredNetwork.ends(self, link)
        return "connection of node {} > node {}".format(*divmod(pair, len(self.home)))


def _number(name: str, names: Sequence[str], place: int) -> int:
    if name not in names:
        path = f"cluster.network.links[{place}].between"
        raise InputError(Problem(f"there is no site `{name}`", path=path, hint=nearest(name, names)))
    return names.index(name)


def _connection(link: WideLink, keys: Sites) -> float:
    """Bytes per second of one connection."""
    cap = link.flow_bandwidth if link.flow_bandwidth is not None else np.inf
    return min(cap, keys.window.value / (2 * link.delay)) if keys.window and link.delay else cap
