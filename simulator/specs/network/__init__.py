"""Networks whose every switch and cable is described: what files say of each kind, and how flows choose their way."""

from simulator.specs.network.keys import (
    KINDS,
    Cable,
    DragonflyLinks,
    DragonflyPlus,
    FatTree,
    FullMesh,
    Graph,
    Host,
    LeafSpine,
    Multislice,
    Pairs,
    RailOnly,
    Site,
    Sites,
    WideLink,
    Wired,
)
from simulator.specs.network.reduction import REDUCING, SwitchReduction
from simulator.specs.network.routing import Degraded, Routing
from simulator.specs.network.slices import Slices

__all__ = [
    "KINDS",
    "REDUCING",
    "Cable",
    "Degraded",
    "DragonflyLinks",
    "DragonflyPlus",
    "FatTree",
    "FullMesh",
    "Graph",
    "Host",
    "LeafSpine",
    "Multislice",
    "Pairs",
    "RailOnly",
    "Routing",
    "Site",
    "Sites",
    "Slices",
    "SwitchReduction",
    "WideLink",
    "Wired",
]
