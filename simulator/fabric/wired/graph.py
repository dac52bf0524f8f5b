"""Any network, as a list of cables between named switches."""

from typing import Self

import numpy as np

from simulator.errors import InputError, Problem
from simulator.fabric.scale_out.base import NETWORKS
from simulator.fabric.scale_out.cards import Cards
from simulator.fabric.wired.network import WiredNetwork
from simulator.fabric.wired.wiring import Wiring
from simulator.specs.hardware import Cluster
from simulator.specs.network import Graph


@NETWORKS.add("graph", Graph)
class GraphNetwork(WiredNetwork):
    """Switches in the order in which hosts and cables name them."""

    __slots__ = ()

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """The graph of a cluster; InputError where hosts and nodes differ in number or a cable ends nowhere."""
        network, keys, cards, wiring = cluster.network, cluster.network.more, Cards.of(cluster), Wiring()
        assert isinstance(keys, Graph)
        hosted = sum(host.nodes for host in keys.hosts)
        if hosted < cluster.nodes:
            message = f"{cluster.nodes:,} nodes, and `hosts` places {hosted:,}"
            raise InputError(Problem(message, path="cluster.network.hosts", hint=f"place {cluster.nodes:,} nodes"))
        named = [name for host in keys.hosts for name in host.switches]
        named += [name for cable in keys.cables for name in cable.between]
        names = list(dict.fromkeys(named))
        passage = network.latency.value if network.latency else 0.0
        numbers = dict(zip(names, wiring.switches([("switch", name) for name in names], passage).tolist(), strict=True))
        for place, cable in enumerate(keys.cables):
            low, high = (numbers[name] for name in cable.between)
            if low == high:
                message = f"a cable from `{cable.between[0]}` to itself"
                raise InputError(Problem(message, path=f"cluster.network.cables[{place}].between"))
            ends = np.full((2, cable.count), [[low], [high]])
            wiring.join("cable", ends[0], ends[1], cable.bandwidth, cable.latency)
        starts = np.repeat(np.arange(len(keys.hosts)), [host.nodes for host in keys.hosts])
        switches = [[numbers[name] for name in host.switches] for host in keys.hosts]
        node, number = cards.homes()
        homes = zip(starts[node].tolist(), number.tolist(), strict=True)
        edge = np.array([switches[host][card % len(switches[host])] for host, card in homes], np.int64)
        return cls.made(cluster, wiring, cards, edge)
