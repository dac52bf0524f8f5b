"""Networks between nodes, one file a kind."""

from simulator.fabric.scale_out import dragonfly, none, torus, tree
from simulator.fabric.scale_out.base import NETWORKS, ScaleOut

__all__ = ["NETWORKS", "ScaleOut"]

_KNOWN = (dragonfly, none, torus, tree)
