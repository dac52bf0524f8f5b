"""Leaf-spine networks and fat trees: trunks whose capacity is what comes from below over the oversubscription."""

from simulator.fabric.scale_out.base import NETWORKS
from simulator.fabric.scale_out.trunks import Trunk, Trunks
from simulator.specs.hardware import Cluster, Level, Network


@NETWORKS.add("tree")
class Tree(Trunks):
    """Levels of switches; only the lowest may be split into rails."""

    __slots__ = ()

    @classmethod
    def oversubscribed(cls, network: Network) -> tuple[Level, ...]:
        """Levels that give less upwards than comes from below."""
        return tuple(level for level in network.levels if level.oversubscription > 1)

    @classmethod
    def levels(cls, cluster: Cluster, injected: float, cards: int) -> tuple[tuple[Trunk, ...], float]:
        """A trunk a level, and the latency of a leaf."""
        levels = cluster.network.levels
        latency = [level.latency.value if level.latency else 0.0 for level in levels]
        trunks, per_node = [], injected
        for depth, level in enumerate(levels):
            rails = cards if cluster.network.rail_optimised and depth == 0 else 1
            per_node /= level.oversubscription
            # What joins the highest level is not described: it is taken to be as quick as that level.
            above = latency[min(depth + 1, len(levels) - 1)]
            trunks.append(Trunk(level.name, level.nodes, rails, level.nodes * per_node / rails, above, latency[depth]))
        return tuple(trunks), latency[0]
