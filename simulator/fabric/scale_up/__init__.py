"""Fabrics inside a node, one file a kind."""

from simulator.fabric.scale_up import host, links, mesh, none, pcie, ring, switch
from simulator.fabric.scale_up.base import SCALE_UPS, NodeLinks
from simulator.specs.hardware import ScaleUp

__all__ = ["SCALE_UPS", "NodeLinks", "build_node"]

_KNOWN = (host, links, mesh, none, pcie, ring, switch)


def build_node(devices: int, spec: ScaleUp) -> NodeLinks:
    """The links of a node with that many devices."""
    return SCALE_UPS.get(spec.kind if devices > 1 else "none")(devices, spec)
