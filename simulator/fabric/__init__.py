"""Topologies, routes, and the fair sharing of links."""

from simulator.fabric.fabric import Fabric, build
from simulator.fabric.sharing import max_min

__all__ = ["Fabric", "build", "max_min"]
