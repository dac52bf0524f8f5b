"""Shards of several sizes: parameters over few neighbours, gradients over more, states of the optimizer over all.

Around passes parameters are gathered among the ranks of their level and gradients reduced among those of theirs, over
fast links; what happens between the levels once a step is in `optimizers/levels.py`. Source: arXiv:2501.04266, whose
levels are a package, a node and all nodes of Frontier.
"""

from math import gcd
from typing import NamedTuple

from simulator.training.job import Job, Replicas

PARAMETERS, GRADIENTS = "parameter shard", "gradient shard"
"""Groups of neighbours that keep one set."""
HOLDERS, SETS = "holders of a parameter shard", "sets of gradients"
"""Groups of ranks in the same place of each set."""


class Levels(NamedTuple):
    """Ranks over which parameters and gradients of some copies are sharded."""

    parameters: int
    gradients: int


def levels_of(job: Job, copies: Replicas) -> Levels:
    """Ranks of a set of parameters, and of one of gradients; the shard set where the scenario names none."""
    found = None if job.sharding is None else job.sharding.levels
    if found is None:
        return Levels(copies.shard, copies.shard)
    return Levels(gcd(found.parameters, copies.shard), gcd(found.gradients or copies.shard, copies.shard))


def groups_of(job: Job, copies: Replicas) -> dict[str, tuple[int, int]]:
    """(ranks, distance between them) of each of the groups above."""
    parameters, gradients = levels_of(job, copies)
    return {
        PARAMETERS: (parameters, 1),
        GRADIENTS: (gradients, 1),
        HOLDERS: (copies.shard // parameters, parameters),
        SETS: (copies.shard // gradients, gradients),
    }
