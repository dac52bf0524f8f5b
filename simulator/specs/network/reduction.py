"""Switches that add up what nodes send them, and copy the sum to all (InfiniBand SHARP)."""

from simulator.specs.base import Figure, Seconds, SomeBytes, Spec


class SwitchReduction(Spec):
    """What switches between nodes take to reduce; there are algorithms for it (`collnet_chain`, `nvls_sharp`)."""

    latency: Figure[Seconds]
    """Of adding up what comes from below, at each switch on the way to the one where all meet."""
    largest: Figure[SomeBytes]
    """Most bytes of one operation of a tree of switches; more are several in a row, each with hops of its own."""


REDUCING = ("tree", "fat-tree", "leaf-spine", "rail-only")
"""Kinds of networks whose switches form trees."""
