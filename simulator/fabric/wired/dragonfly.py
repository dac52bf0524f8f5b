"""Dragonflies switch by switch: groups joined all to all by single cables, as many for each pair as there are ports.

In a `dragonfly-links` the switches of a group are joined all to all (Kim, Dally, Scott and Abts, ISCA 2008); in a
`dragonfly-plus` a group is a leaf-spine network whose spines have the cables to other groups (Shpiner et al. 2017). The
cables of a group go to the next groups in turn, port after port. Minimal ways lead over one cable between groups.
"""

from typing import Self

import numpy as np

from simulator.errors import InputError, Problem
from simulator.fabric.scale_out.base import NETWORKS, Ints
from simulator.fabric.scale_out.cards import Cards
from simulator.fabric.wired.network import WiredNetwork
from simulator.fabric.wired.wiring import Wiring
from simulator.specs.hardware import Cluster
from simulator.specs.network import DragonflyLinks, DragonflyPlus

_GLOBAL = 4
"""Length of a cable between groups, so that no way over two is as short as one with a hop before and after it."""


@NETWORKS.add("dragonfly-links", DragonflyLinks)
class DragonflyNetwork(WiredNetwork):
    """Switches of a group joined all to all."""

    __slots__ = ()

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """The groups of a cluster; InputError where their cables do not reach all others."""
        keys, cards, wiring = cluster.network.more, Cards.of(cluster), Wiring()
        assert isinstance(keys, DragonflyLinks)
        assert cluster.network.bandwidth is not None  # the spec demands it
        rate, size = cluster.network.bandwidth.value, keys.group_switches
        groups = -(-cluster.nodes // (size * keys.switch_nodes))
        passage = cluster.network.latency.value if cluster.network.latency else 0.0
        names = [("switch", group, number) for group in range(groups) for number in range(size)]
        switches = wiring.switches(names, passage).reshape(groups, size)
        low, high = np.triu_indices(size, 1)
        wiring.join("local", switches[:, low].ravel(), switches[:, high].ravel(), rate)
        _between(wiring, switches, keys.global_links, rate)
        node, _ = cards.homes()
        edge = switches.ravel()[node // keys.switch_nodes]
        return cls.made(cluster, wiring, cards, edge, switches.ravel(), np.repeat(np.arange(groups), size))


@NETWORKS.add("dragonfly-plus", DragonflyPlus)
class DragonflyPlusNetwork(WiredNetwork):
    """Groups of leaves and spines."""

    __slots__ = ()

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """The groups of a cluster; InputError where their cables do not reach all others."""
        keys, cards, wiring = cluster.network.more, Cards.of(cluster), Wiring()
        assert isinstance(keys, DragonflyPlus)
        assert cluster.network.bandwidth is not None  # the spec demands it
        rate = cluster.network.bandwidth.value
        groups = -(-cluster.nodes // (keys.leaves * keys.leaf_nodes))
        passage = cluster.network.latency.value if cluster.network.latency else 0.0
        parts = []
        for name, size in (("leaf", keys.leaves), ("spine", keys.spines)):
            names = [(name, group, number) for group in range(groups) for number in range(size)]
            parts.append(wiring.switches(names, passage).reshape(groups, size))
        leaves, spines = parts
        whole = (groups, keys.leaves, keys.spines)
        low, high = np.broadcast_to(leaves[:, :, None], whole), np.broadcast_to(spines[:, None], whole)
        wiring.join("leaf", low.ravel(), high.ravel(), rate)
        _between(wiring, spines, keys.global_links, rate)
        node, _ = cards.homes()
        of_group = np.concatenate([np.repeat(np.arange(groups), size) for size in (keys.leaves, keys.spines)])
        return cls.made(cluster, wiring, cards, leaves.ravel()[node // keys.leaf_nodes], leaves.ravel(), of_group)


def _between(wiring: Wiring, switches: Ints, ports: int, rate: float) -> None:
    """Cables of groups of switches (groups, size) to all other groups, as many for each pair as ports allow."""
    groups, size = switches.shape
    if groups == 1:
        return
    each = size * ports // (groups - 1)
    if not each:
        message = f"{groups} groups, and {size} switches with {ports} cables to other groups reach {size * ports}"
        hint = f"write more `global_links`, or at most {size * ports + 1} groups"
        raise InputError(Problem(message, path="cluster.network.global_links", hint=hint))
    low, high = np.triu_indices(groups, 1)
    turn = np.arange(each)

    def end(here: Ints, there: Ints) -> Ints:
        port = ((there - here - 1) % groups)[:, None] * each + turn
        found: Ints = switches[here[:, None], port // ports].ravel()
        return found

    wiring.join("global", end(low, high), end(high, low), rate, cost=_GLOBAL)
