"""Ulysses inside, a zigzag ring outside (USP, arXiv:2405.07719; Transformer Engine's a2a+p2p).

Neighbouring ranks, `training.parallel.ulysses` of them, exchange tokens for heads by all-to-alls; ranks with the same
heads, that far apart, pass keys and values around. Ulysses so stays inside a node and below the number of heads, and
the ring's blocks are that many times longer.
"""

from collections.abc import Iterator
from dataclasses import replace

from simulator.model.ops import AttentionCore
from simulator.training.context import ring
from simulator.training.context.base import SCHEMES, Scheme, Sharing
from simulator.training.context.ulysses import in_flight as exchanged
from simulator.training.context.ulysses import own, ulysses
from simulator.training.step import Step


def usp(sharing: Sharing) -> Iterator[Step]:
    """All-to-alls around a ring."""
    return ulysses(inner(sharing))


def inner(sharing: Sharing) -> Sharing:
    """What the ranks that share heads do, whose attention over all their tokens is the ring."""
    heads = sharing.by_heads

    def rings(core: AttentionCore) -> Iterator[Step]:
        return ring.turns(replace(outer(sharing), core=core), ring.zigzag)

    sequence = sharing.tokens * heads
    return replace(sharing, ranks=heads, sequence=sequence, part=(heads, 1), whole=rings)


def outer(sharing: Sharing) -> Sharing:
    """What the ranks that hold the same heads do."""
    heads = sharing.by_heads
    return replace(sharing, ranks=sharing.ranks // heads, part=(sharing.ranks // heads, heads))


def in_flight(sharing: Sharing) -> float:
    """Both forms of what goes to heads, and two blocks of the ring."""
    core = own(inner(sharing))
    return exchanged(inner(sharing)) + ring.in_flight(replace(outer(sharing), core=core))


TWO_LEVELS = "usp"
SCHEMES.add(TWO_LEVELS)(Scheme(usp, in_flight, pieces=2, windows=False))
