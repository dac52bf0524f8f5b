"""A full mesh, or one in each of several dimensions: switches that differ in one coordinate are joined directly.

With one dimension every switch has a cable to every other; with two this is UB-Mesh's rack (arXiv:2503.20377) or a
flattened butterfly (Kim, Dally and Abts, ISCA 2007), in general a HyperX (Ahn et al., SC 2009). Shortest ways correct
one coordinate a hop.
"""

from math import prod
from typing import Self

import numpy as np

from simulator.errors import InputError, Problem
from simulator.fabric.scale_out.base import NETWORKS
from simulator.fabric.scale_out.cards import Cards
from simulator.fabric.wired.network import WiredNetwork
from simulator.fabric.wired.wiring import Wiring
from simulator.specs.hardware import Cluster
from simulator.specs.network import FullMesh


@NETWORKS.add("full-mesh", FullMesh)
class MeshNetwork(WiredNetwork):
    """Switches on a grid, counted along the last dimension first."""

    __slots__ = ()

    @classmethod
    def build(cls, cluster: Cluster) -> Self:
        """The mesh of a cluster; InputError where its shape does not hold the nodes."""
        network, keys, cards, wiring = cluster.network, cluster.network.more, Cards.of(cluster), Wiring()
        assert isinstance(keys, FullMesh)
        assert network.bandwidth is not None  # the spec demands it
        holds = prod(network.shape) * keys.switch_nodes
        if holds < cluster.nodes:
            shape = " x ".join(map(str, network.shape))
            message = f"{cluster.nodes:,} nodes on a mesh of {shape} switches of {keys.switch_nodes}: {holds:,} at most"
            raise InputError(Problem(message, path="cluster.network.shape", hint="write a larger `shape`"))
        passage = network.latency.value if network.latency else 0.0
        places = np.stack(np.unravel_index(np.arange(prod(network.shape)), network.shape), axis=-1)
        switches = wiring.switches([("switch", *place) for place in places.tolist()], passage)
        grid = switches.reshape(network.shape)
        for dimension, size in enumerate(network.shape):
            low, high = np.triu_indices(size, 1)
            lines = np.moveaxis(grid, dimension, -1)
            wiring.join(f"mesh {dimension}", lines[..., low].ravel(), lines[..., high].ravel(), network.bandwidth.value)
        node, _ = cards.homes()
        return cls.made(cluster, wiring, cards, switches[node // keys.switch_nodes], switches, switches)
