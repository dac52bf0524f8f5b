"""Where devices are, and the scale-up links of equal nodes, numbered node after node."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.fabric.scale_up import NodeLinks
from simulator.specs.text.numbering import Numbering

Ints = NDArray[np.int64]


def locate(numbering: Numbering, device: Ints) -> tuple[Ints, Ints, Ints]:
    """(kind of node, node, place in the node) of devices; the kind has no dimension where there is only one."""
    if numbering.kinds == 1:
        node, place = np.divmod(device, numbering.per_node[0])
        return np.zeros((), np.int64), node, place
    kind = np.searchsorted(numbering.first_device[1:-1], device, side="right").astype(np.int64)
    node, place = np.divmod(device - np.array(numbering.first_device)[kind], np.array(numbering.per_node)[kind])
    return kind, node + np.array(numbering.first_node)[kind], place


@dataclass(frozen=True, slots=True, eq=False)
class EqualNodes:
    """Nodes with consecutive numbers that are all alike."""

    links: NodeLinks
    """Of one node."""
    scale_up: str
    """Kind of their scale-up fabric (`ScaleUp.kind`)."""
    first: int
    """The first node."""
    nodes: int
    """How many they are."""
    per_node: int
    """Devices of each."""
    first_link: int
    """Of the first node."""

    @property
    def stop_link(self) -> int:
        """The first link behind theirs."""
        return self.first_link + self.nodes * len(self.links.ends)

    def base(self, node: Ints) -> Ints:
        """The first link of nodes."""
        found: Ints = self.first_link + (node - self.first) * len(self.links.ends)
        return found

    def ways(self, node: Ints, device: Ints, to_device: Ints) -> Ints:
        """Links of flows between places in nodes in the order of the way, then -1; (longest way, flows)."""
        local = self.links.ways(device, to_device)
        found: Ints = np.where(local >= 0, local + self.base(node), -1)
        return found
