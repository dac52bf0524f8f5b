"""What a reader should know of how a network was taken: what of it has no effect, and what an ideal order hides."""

from collections.abc import Sequence

from simulator.fabric.scale_out import NETWORKS
from simulator.results.result import LinkLoad
from simulator.specs.hardware import Cluster, Level


def unused_oversubscription(cluster: Cluster) -> tuple[str, ...]:
    """Warnings where the highest level of a tree is oversubscribed and nothing leaves it."""
    return tuple(
        f"no effect: oversubscription {level.oversubscription:g} of `{level.name}`, the highest level: all "
        f"{cluster.numbering.all_nodes:,} nodes are below one, and nothing leaves it"
        for level in _oversubscribed(cluster)
        if level is cluster.network.levels[-1] and level.nodes >= cluster.numbering.all_nodes
    )


def one_profile(cluster: Cluster) -> tuple[str, ...]:
    """Assumptions where nodes of several kinds have one collective profile."""
    if not cluster.more_nodes:
        return ()
    names = " and ".join(f"`{part.name}`" for part in cluster.partitions)
    return (f"collectives and moved caches on nodes {names} have the latencies and shares of `{cluster.collectives}`",)


def ordered_rings(cluster: Cluster, links: Sequence[LinkLoad]) -> tuple[str, ...]:
    """Assumptions where traffic climbs over oversubscribed levels that an ideal order of the ranks spares."""
    carried = {load.name.removesuffix(" up").removesuffix(" down") for load in links if load.bytes}
    crossed = [level for level in _oversubscribed(cluster) if level.name in carried]
    if not crossed:
        return ()
    listed = ", ".join(f"`{level.name}` (1:{level.oversubscription:g})" for level in crossed)
    return (f"rings and trees follow the nodes in their order, so the fewest hops leave {listed}; others are slower",)


def _oversubscribed(cluster: Cluster) -> tuple[Level, ...]:
    """Levels that give less upwards than comes from below."""
    return NETWORKS.get(cluster.network.kind).oversubscribed(cluster.network)
