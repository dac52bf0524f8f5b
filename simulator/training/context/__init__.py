"""Attention over sequences that are cut over devices (context parallelism), a scheme a file, each with its entries in
one registry.

A scheme is how the ranks of a group come to see all keys: which tokens lie where, what travels beside which block of
attention, and what is in flight. `SCHEMES.add("name")(Scheme(...))` makes it a value of `training.parallel.cp_kind`.
"""

from simulator.training.context import balanced, both_ways, gather, halo, ring, scores, ulysses, usp
from simulator.training.context.base import SCHEMES, Scheme, Sharing, check, check_documents, check_windows
from simulator.training.context.usp import TWO_LEVELS

__all__ = [
    "SCHEMES",
    "TWO_LEVELS",
    "Scheme",
    "Sharing",
    "balanced",
    "both_ways",
    "check",
    "check_documents",
    "check_windows",
    "gather",
    "halo",
    "ring",
    "scores",
    "ulysses",
    "usp",
]
