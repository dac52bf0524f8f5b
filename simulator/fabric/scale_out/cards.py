"""Where the network cards of nodes are: how devices share them, and their numbers."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError
from simulator.fabric.nodes import locate
from simulator.specs.hardware import Cluster
from simulator.specs.text.numbering import Numbering

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def place(numbering: Numbering, cards_of: Numbering, rank: Ints) -> tuple[Ints, Ints, Ints]:
    """(node, port of the node, port of all) of ranks."""
    kind, node, device = locate(numbering, rank)
    per_node = numbering.per_node
    if cards_of.kinds == 1:
        card = device * cards_of.per_node[0] // per_node[0]
        return node, card, node * cards_of.per_node[0] + card
    ports = np.array(cards_of.per_node)[kind]
    card = device * ports // np.array(per_node)[kind]
    behind = node - np.array(cards_of.first_node)[kind]
    return node, card, np.array(cards_of.first_device)[kind] + behind * ports + card


@dataclass(frozen=True, slots=True, eq=False)
class Cards:
    """Ports of all nodes; cards that one device has for itself alone count as one port."""

    numbering: Numbering
    """Of nodes and devices."""
    ports: Numbering
    """Of nodes and ports."""
    capacity: Floats
    """Bytes per second and direction; (ports,)."""
    wire: Floats
    """Seconds from device memory to the first switch, and as many from the last one; (ports,)."""

    @classmethod
    def of(cls, cluster: Cluster) -> Self:
        """Those of a cluster; InputError where its nodes have none."""
        ports: list[int] = []
        capacity, wire = [], []
        for part in cluster.partitions:
            nics = part.node.nics
            if nics is None:
                raise InputError(f"a cluster on a network of kind `{cluster.network.kind}` needs nodes with `nics`")
            ports.append(min(nics.count, part.node.devices))
            owned = np.diff(np.arange(ports[-1] + 1) * nics.count // ports[-1])
            capacity.append(np.tile(owned * nics.bandwidth.value, part.nodes))
            wire.append(np.full(part.nodes * ports[-1], nics.latency.value / 2 if nics.latency else 0.0))
        numbering = cluster.numbering
        return cls(numbering, Numbering(numbering.nodes, tuple(ports)), np.concatenate(capacity), np.concatenate(wire))

    @property
    def count(self) -> int:
        """How many ports there are."""
        return self.ports.all_devices

    def place(self, rank: Ints) -> tuple[Ints, Ints, Ints]:
        """(node, port of the node, port of all) of ranks."""
        return place(self.numbering, self.ports, rank)

    def device_on(self, rank: Ints, card: Ints) -> Ints:
        """Ranks themselves where they are on cards of these numbers, else the first of their nodes that is."""
        kind, _, device = locate(self.numbering, rank)
        here = self.place(rank)[1]
        ports, devices = np.array(self.ports.per_node)[kind], np.array(self.numbering.per_node)[kind]
        found: Ints = np.where(here == card % ports, rank, rank - device + -(-(card % ports) * devices // ports))
        return found

    def homes(self) -> tuple[Ints, Ints]:
        """(node, port of the node) of all ports."""
        _, node, number = locate(self.ports, np.arange(self.count))
        return node, number
