"""Numbers of nodes and devices in a cluster: kind of nodes after kind, counted through.

Devices of a node have consecutive numbers, in the order of the nodes. Of equal nodes, device d is on node d // devices.
"""

from dataclasses import dataclass, field
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Numbering:
    """How nodes and devices of some kinds of nodes are numbered."""

    nodes: tuple[int, ...]
    """Nodes of each kind."""
    per_node: tuple[int, ...]
    """Devices in a node of each kind."""
    first_node: tuple[int, ...] = field(init=False)
    """Of each kind, and the number of all nodes; (kinds + 1,)."""
    first_device: tuple[int, ...] = field(init=False)
    """Of each kind, and the number of all devices; (kinds + 1,)."""

    def __post_init__(self) -> None:
        devices = (nodes * each for nodes, each in zip(self.nodes, self.per_node, strict=True))
        object.__setattr__(self, "first_node", tuple(accumulate(self.nodes, initial=0)))
        object.__setattr__(self, "first_device", tuple(accumulate(devices, initial=0)))

    @property
    def kinds(self) -> int:
        """Kinds of nodes."""
        return len(self.nodes)

    @property
    def all_nodes(self) -> int:
        """Nodes of all kinds."""
        return self.first_node[-1]

    @property
    def all_devices(self) -> int:
        """Devices of all nodes."""
        return self.first_device[-1]

    def kind_of(self, device: int) -> int:
        """The kind of the node of a device."""
        return 0 if self.kinds == 1 else next(kind for kind, stop in enumerate(self.first_device[1:]) if device < stop)

    def node_of(self, device: int) -> int:
        """The node of a device."""
        if self.kinds == 1:
            return device // self.per_node[0]
        kind = self.kind_of(device)
        return self.first_node[kind] + (device - self.first_device[kind]) // self.per_node[kind]

    def devices_of(self, node: int) -> range:
        """The devices of a node."""
        kind = next(kind for kind, stop in enumerate(self.first_node[1:]) if node < stop)
        first = self.first_device[kind] + (node - self.first_node[kind]) * self.per_node[kind]
        return range(first, first + self.per_node[kind])

    def of_kind(self, kind: int) -> range:
        """The devices of all nodes of a kind."""
        return range(self.first_device[kind], self.first_device[kind + 1])
