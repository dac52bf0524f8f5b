"""Collective algorithms, one module each: from (operation, layout of the group) to phases.

An algorithm returns None for an operation or layout that it cannot do. To add one, write a module here, register a
function under its name in `ALGORITHMS` and import the module below. Exchanges of tokens with experts are registered in
`EXCHANGES` and know the routing too.
"""

from simulator.collectives.algorithms import (
    bruck,
    direct,
    halving_doubling,
    hierarchical,
    in_network,
    in_switch,
    levels,
    low_latency,
    multislice,
    node_multicast,
    pairwise,
    pat,
    per_copy,
    recursive_doubling,
    ring,
    star,
    torus,
    tree,
    two_level,
)
from simulator.collectives.algorithms.base import ALGORITHMS, EXCHANGES, Algorithm, Exchange

__all__ = [
    "ALGORITHMS",
    "EXCHANGES",
    "Algorithm",
    "Exchange",
    "bruck",
    "direct",
    "halving_doubling",
    "hierarchical",
    "in_network",
    "in_switch",
    "levels",
    "low_latency",
    "multislice",
    "node_multicast",
    "pairwise",
    "pat",
    "per_copy",
    "recursive_doubling",
    "ring",
    "star",
    "torus",
    "tree",
    "two_level",
]
