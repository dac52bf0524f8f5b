"""Keys of each kind of network whose every switch and cable is described.

They stand beside those that all networks share: `levels` and `rail_optimised` for trees, `shape` for a full mesh,
`bandwidth` of a cable and direction, `latency` of a passage through a switch.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from simulator.specs.base import Bandwidth, Count, Figure, Seconds, SomeBytes, Spec
from simulator.specs.network.routing import Degraded, Routing


class Wired(Spec):
    """What all of them have."""

    routing: Routing = Routing.model_construct()
    """How flows choose their way."""
    degraded: tuple[Degraded, ...] = ()
    """Cables that carry less than they should."""
    pxn: bool = False
    """Whether a transfer between nodes goes to the device on the destination's card number first, inside its own node,
    and leaves the node from there (NCCL's PXN)."""


class FatTree(Wired):
    """A folded Clos network of any number of levels; also needs `levels`."""

    uplinks: tuple[Count, ...]
    """Cables up from one switch of each level, from the leaves on, each to a switch of its own: the next level has as
    many times more switches a group."""


class LeafSpine(Wired):
    """Leaves that are each joined to all spines."""

    leaf_nodes: Count
    """Nodes below a leaf; below a rail of leaves where `rail_optimised`."""
    spines: Count
    """Spines, each with a cable to each leaf."""
    oversubscription: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """Bandwidth that comes from below over what goes up from a leaf; below 1 where leaves have more cables up."""


class RailOnly(Wired):
    """A network for each card number, joined to no other: planes of leaves and spines, or of one switch."""

    leaf_nodes: Count
    """Nodes below a leaf."""
    spines: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Spines of a plane, each with a cable to each of its leaves; none where it is one switch."""
    oversubscription: Annotated[float, Field(gt=0, le=1000)] = 1.0
    """Bandwidth that comes from below over what goes up from a leaf."""
    pxn: bool = True
    """Always so: there is no other way between cards of different numbers."""


class DragonflyLinks(Wired):
    """Groups of switches that are joined all to all, and groups joined all to all; also needs `bandwidth`."""

    group_switches: Count
    """Switches of a group."""
    switch_nodes: Count
    """Nodes at a switch."""
    global_links: Count
    """Cables of a switch to other groups."""


class DragonflyPlus(Wired):
    """Groups that are leaf-spine networks, joined all to all by their spines; also needs `bandwidth`."""

    leaves: Count
    """Leaves of a group."""
    spines: Count
    """Spines of a group, each joined to each leaf."""
    leaf_nodes: Count
    """Nodes below a leaf."""
    global_links: Count
    """Cables of a spine to other groups."""


class FullMesh(Wired):
    """Switches on a grid, those that differ in one coordinate joined directly; also needs `shape` and `bandwidth`."""

    switch_nodes: Count = 1
    """Nodes at a switch."""


class Cable(Spec):
    """Cables between two switches."""

    between: tuple[str, str]
    """Names of the switches."""
    bandwidth: Bandwidth
    """Of one cable and direction."""
    count: Count = 1
    """Parallel ones."""
    latency: Seconds = 0.0
    """Of the cable."""


class Host(Spec):
    """Nodes in a row, and where their cards are plugged in."""

    nodes: Count = 1
    """How many."""
    switches: Annotated[tuple[str, ...], Field(min_length=1)]
    """Switch of card 0, of card 1 and so on, from the front again where there are more cards."""


class Graph(Wired):
    """Any network: a list of cables."""

    hosts: Annotated[tuple[Host, ...], Field(min_length=1)]
    """Where the nodes are, in their order."""
    cables: tuple[Cable, ...] = ()
    """What joins the switches."""


class Site(Spec):
    """Nodes in one place."""

    name: str
    """Region, building, household."""
    nodes: Count
    """How many."""


class WideLink(Spec):
    """What two sites have between them."""

    between: tuple[str, str]
    """Names of the sites."""
    delay: Seconds
    """One way."""
    flow_bandwidth: Bandwidth | None = None
    """Most that one connection between two nodes gets, per direction."""
    bandwidth: Bandwidth | None = None
    """Most that all nodes get together, per direction; what their cards give where left out."""

    @model_validator(mode="after")
    def _apart(self) -> Self:
        if self.between[0] == self.between[1]:
            raise ValueError(f"`{self.between[0]}` is linked with itself")
        return self


class Sites(Wired):
    """Places joined over a wide area; inside each, nodes meet in one switch."""

    sites: Annotated[tuple[Site, ...], Field(min_length=1)]
    """Where the nodes are, in their order."""
    links: tuple[WideLink, ...] = ()
    """Between sites."""
    window: Figure[SomeBytes] | None = None
    """Most bytes of a connection on their way: a connection gets no more than `window` / round trip."""


class Multislice(Spec):
    """Slices of a pod, each a torus as of kind `torus` (`shape`, `bandwidth` and so on are those of one slice), joined
    by the cards of their hosts over a data-centre network. There are as many as the devices fill."""

    oversubscription: Annotated[float, Field(ge=1, le=1000)] = 1.0
    """Bandwidth of the cards of a slice over what leads out of it to others."""


class Pairs(Spec):
    """Nodes of which each pair has a measured bandwidth, one way and the other."""

    matrix: str
    """File of the bandwidths: what mpiGraph prints, or a table with commas (`GB/s,n0,n1`, then a row a node)."""
    of: Literal["node", "card"] = "node"
    """Whether a figure is of all cards of a node, or of one of them, so that a pair of nodes has as many times that."""


KINDS: dict[str, type[Spec]] = {
    "fat-tree": FatTree,
    "leaf-spine": LeafSpine,
    "rail-only": RailOnly,
    "dragonfly-links": DragonflyLinks,
    "dragonfly-plus": DragonflyPlus,
    "full-mesh": FullMesh,
    "graph": Graph,
    "sites": Sites,
    "multislice": Multislice,
    "pairs": Pairs,
}
"""Keys by `Network.kind`."""
