"""Folded Clos networks: leaf-spine and fat trees of any number of levels, with or without rails.

A switch of level l has `uplinks[l]` cables up, each to a switch of its own: a group of the next level has as many times
more switches. Choosing a cable at each level on the way up fixes the whole way: down it leads over the same switches of
the other group (Leiserson 1985; Al-Fares et al., SIGCOMM 2008).
"""

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Self, TypeVar

import numpy as np

from simulator.errors import InputError, Problem
from simulator.fabric.scale_out.base import NETWORKS
from simulator.fabric.scale_out.cards import Cards
from simulator.fabric.wired.network import WiredNetwork
from simulator.fabric.wired.wiring import Point, Wiring
from simulator.specs.hardware import Cluster, Level, Network
from simulator.specs.network import FatTree, LeafSpine, RailOnly

Made = TypeVar("Made", bound=WiredNetwork)


@NETWORKS.add("fat-tree", FatTree)
class FatTreeNetwork(WiredNetwork):
    """Levels from the leaves up, and the cores that join the highest."""

    __slots__ = ()

    @classmethod
    def oversubscribed(cls, network: Network) -> tuple[Level, ...]:
        """Levels that give less upwards than comes from below."""
        return tuple(level for level in network.levels if level.oversubscription > 1)

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """The tree of a cluster; InputError where levels do not nest."""
        network, keys = cluster.network, cluster.network.more
        assert isinstance(keys, FatTree)
        levels = network.levels
        if len(keys.uplinks) != len(levels):
            message = f"{len(levels)} levels, and `uplinks` for {len(keys.uplinks)}"
            raise InputError(Problem(message, path="cluster.network.uplinks", hint="write one number for each level"))
        for low, high in pairwise(levels):
            if high.nodes % low.nodes:
                message = f"groups of {high.nodes} nodes are no whole number of groups of {low.nodes}"
                raise InputError(Problem(message, path="cluster.network.levels"))
        return _built(cls, cluster, levels, keys.uplinks, "core")


@NETWORKS.add("leaf-spine", LeafSpine)
class LeafSpineNetwork(WiredNetwork):
    """One level of leaves, and the spines."""

    __slots__ = ()

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """The leaves and spines of a cluster."""
        network, keys = cluster.network, cluster.network.more
        assert isinstance(keys, LeafSpine)
        leaf = Level.model_construct(
            name="leaf", nodes=keys.leaf_nodes, oversubscription=keys.oversubscription, latency=network.latency
        )
        return _built(cls, cluster, (leaf,), (keys.spines,), "spine")


@NETWORKS.add("rail-only", RailOnly)
class RailOnlyNetwork(WiredNetwork):
    """A plane for each card number (rail-only: arXiv:2307.12169; multi-plane fat tree: arXiv:2505.09343)."""

    __slots__ = ()

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """The planes of a cluster; InputError where nodes do not join their devices or leaves have no spines."""
        keys, cards, wiring = cluster.network.more, Cards.of(cluster), Wiring()
        assert isinstance(keys, RailOnly)
        if cluster.node.scale_up.kind == "none" and cluster.node.devices > 1:
            message = "cards of different numbers meet only inside a node, and its `scale_up` joins no devices"
            raise InputError(Problem(message, path="cluster.node.scale_up.kind", hint="write `kind: switch`"))
        leaves = -(-cluster.nodes // keys.leaf_nodes)
        if leaves > 1 and not keys.spines:
            message = f"{cluster.nodes} nodes on leaves of {keys.leaf_nodes}, and no spines to join these"
            raise InputError(Problem(message, path="cluster.network.spines", hint=f"or `leaf_nodes: {cluster.nodes}`"))
        node, number = cards.homes()
        rails, passage = cards.ports.per_node[0], cluster.network.latency.value if cluster.network.latency else 0.0
        names: list[Point] = [("leaf", group, rail) for group in range(leaves) for rail in range(rails)]
        low = wiring.switches(names, passage).reshape(leaves, rails)
        if leaves > 1:
            names = [("spine", rail, number) for rail in range(rails) for number in range(keys.spines)]
            high = wiring.switches(names, passage).reshape(rails, keys.spines)
            each = keys.leaf_nodes * cards.capacity[:rails] / (keys.oversubscription * keys.spines)
            whole = (leaves, rails, keys.spines)
            start, stop = (np.broadcast_to(part, whole).ravel() for part in (low[:, :, None], high[None]))
            wiring.join("leaf", start, stop, np.broadcast_to(each[:, None], whole).ravel())
        return cls.made(cluster, wiring, cards, low[node // keys.leaf_nodes, number], plane=number)


def _built(cls: type[Made], cluster: Cluster, levels: Sequence[Level], uplinks: Sequence[int], top: str) -> Made:
    cards, wiring, nodes = Cards.of(cluster), Wiring(), cluster.nodes
    node, number = cards.homes()
    rails = cards.ports.per_node[0] if cluster.network.rail_optimised else 1
    latency = [level.latency.value if level.latency else 0.0 for level in levels]
    latency.append(latency[-1])
    names, widths = [*(level.name for level in levels), top], [1, *np.cumprod(uplinks).tolist()]
    below = [*(level.nodes for level in levels), nodes]
    injected = float(cards.capacity[node == 0].sum())
    lower = np.zeros((0, 0), np.int64)
    for depth, name in enumerate(names):
        groups = -(-nodes // below[depth]) if depth < len(levels) else 1
        across = rails if depth == 0 else widths[depth]
        points: list[Point] = [(name, group, plane) for group in range(groups) for plane in range(across)]
        here = wiring.switches(points, latency[depth]).reshape(groups, across)
        if depth:
            # Switch c of a group below reaches c * uplinks .. of its group here; leaves of all rails the same ones.
            group = (
                np.arange(len(lower)) * below[depth - 1] // below[depth] if groups > 1 else np.zeros(len(lower), int)
            )
            first = np.zeros(rails, int) if depth == 1 else np.arange(lower.shape[1]) * uplinks[depth - 1]
            upper = here[group[:, None, None], first[:, None] + np.arange(uplinks[depth - 1])]
            each = below[depth - 1] * injected / prod(level.oversubscription for level in levels[:depth])
            share = each / (lower.shape[1] * uplinks[depth - 1])
            low = np.broadcast_to(lower[:, :, None], upper.shape)
            wiring.join(names[depth - 1], low.ravel(), upper.ravel(), share)
        else:
            edge = here[node // below[0], number % rails]
        lower = here
    return cls.made(cluster, wiring, cards, edge)
