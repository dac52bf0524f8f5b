"""Networks between nodes, one file a kind."""

from simulator.fabric.scale_out import dragonfly, multislice, none, pairs, torus, tree
from simulator.fabric.scale_out.base import NETWORKS, ScaleOut
from simulator.fabric.wired import clos, graph, mesh, sites
from simulator.fabric.wired import dragonfly as dragonfly_links

__all__ = ["NETWORKS", "ScaleOut"]

_KNOWN = (clos, dragonfly, dragonfly_links, graph, mesh, multislice, none, pairs, sites, torus, tree)
