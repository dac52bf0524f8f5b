"""A dragonfly: groups that are left through all their global links together, as adaptive routing uses them evenly."""

from typing import ClassVar

from simulator.fabric.scale_out.base import DIRECT, NETWORKS
from simulator.fabric.scale_out.trunks import Trunk, Trunks
from simulator.specs.hardware import Cluster


@NETWORKS.add("dragonfly")
class Dragonfly(Trunks):
    """Trunks of one level; a flow passes two switches in a group, four across groups."""

    __slots__ = ()
    top: ClassVar[str] = DIRECT

    @classmethod
    def levels(cls, cluster: Cluster, injected: float, cards: int) -> tuple[tuple[Trunk, ...], float]:
        """The group, and the latency of its switches."""
        network = cluster.network
        assert network.group_nodes is not None and network.global_bandwidth is not None  # the spec demands both
        passage = network.latency.value if network.latency else 0.0
        group = Trunk("group", network.group_nodes, 1, network.global_bandwidth.value, passage, passage)
        return (group,), 2 * passage
