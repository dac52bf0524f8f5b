"""Collective algorithms, one module each: from (operation, layout of the group) to phases.

An algorithm returns None for an operation or layout that it cannot do. To add one, write a module here, register a
function under its name in `ALGORITHMS` and import the module below.
"""

from simulator.collectives.algorithms import (
    direct,
    halving_doubling,
    hierarchical,
    in_switch,
    pairwise,
    ring,
    torus,
    tree,
)
from simulator.collectives.algorithms.base import ALGORITHMS, Algorithm

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "direct",
    "halving_doubling",
    "hierarchical",
    "in_switch",
    "pairwise",
    "ring",
    "torus",
    "tree",
]
