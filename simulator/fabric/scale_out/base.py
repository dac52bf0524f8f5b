"""What every kind of network between nodes answers: links, ways, latencies."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from simulator.specs.hardware import NETWORK_KEYS, Cluster, Level, Network
from simulator.specs.kinds import Builders

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Point = tuple[str | int, ...]
Block = tuple[str, int, Floats, Floats]
"""(kind, links, capacity in bytes/s, latency in s) of links with consecutive numbers."""

DIRECT = "global links"
"""The point where groups meet that are joined to each other directly: no switch stands there."""


UNLIMITED = 1e18
"""Bytes per second of what limits nothing."""


class ScaleOut(ABC):
    """Links that join the nodes of a cluster, numbered from 0 in the order of `blocks`. Flows are between ranks."""

    __slots__ = ()

    joins_kinds: ClassVar[bool] = False
    """Whether it joins nodes of several kinds (`Cluster.more_nodes`); others are refused these."""

    each_alone: ClassVar[bool] = False
    """Whether the way of a flow is found without the others, and leaves its node by its own card."""

    @classmethod
    @abstractmethod
    def build(cls, cluster: Cluster) -> Self:
        """The network of a cluster; InputError where its parts do not fit."""

    @classmethod
    def oversubscribed(cls, network: Network) -> tuple[Level, ...]:
        """Levels that give less upwards than comes from below."""
        return ()

    @property
    @abstractmethod
    def blocks(self) -> Sequence[Block]:
        """All links."""

    def promised(self, capacity: Floats) -> Floats:
        """Bytes per second of each of all links as libraries plan with them, given what links carry."""
        return capacity

    @abstractmethod
    def paths(self, src: Ints, dst: Ints, first: int = 0) -> Ints:
        """Links, counted from `first`, in the order of the way, padded with -1; shape (longest way, flows)."""

    def parts(self, transfers: int) -> int:
        """Flows that each of so many transfers at a time is split into."""
        return 1

    def reach(self) -> int:
        """Parts of a transfer that together use every link that one may ever use."""
        return self.parts(1)

    def parted(self, src: Ints, dst: Ints, part: Ints, parts: int, first: int = 0) -> Ints:
        """`paths` of parts of flows: `part` (flows,) is the number of each among the `parts` of its flow."""
        return self.paths(src, dst, first)

    def between_nodes(self) -> Floats | None:
        """The most bytes per second from each node to each other beside what cards and cables leave, infinite where
        nothing else limits them; (nodes, nodes), or None where it never does."""
        return None

    def proxies(self, src: Ints, dst: Ints) -> Ints:
        """Ranks of the senders' nodes from which transfers between nodes leave them."""
        return src

    def reduced(self, rank: Ints, tree: Ints, first: int = 0) -> tuple[Ints, Ints]:
        """Links from ranks up to the switch where those of a tree meet, and back down, padded with -1.

        The card is first both ways. Shape (longest way, flows) each. Only of networks of trees of switches.
        """
        raise NotImplementedError

    def ends(self, link: int) -> str:
        """From where to where a link, counted from 0, leads; empty where its name has both."""
        return ""

    @abstractmethod
    def tiers(self, src: Ints, dst: Ints) -> Ints:
        """How far apart ranks of different nodes are, as `Fabric.tiers` counts; shape (flows,)."""

    @abstractmethod
    def edges(self) -> Iterable[tuple[Point, Point, int | None]]:
        """(from, to, link or None where the way is free) of everything, for drawing."""

    def coordinates(self, rank: Ints) -> Ints | None:
        """Coordinates of ranks on a grid, one more dimension than `rank`; None where devices lie on none."""
        return None

    @property
    def sliced(self) -> bool:
        """Whether the first of the `coordinates` is that of a slice, which other links join to others."""
        return False

    def cards(self, rank: Ints) -> int:
        """Ports by which these ranks of one node leave it."""
        return len(rank)


NETWORKS: Builders[type[ScaleOut]] = Builders(NETWORK_KEYS)
"""Networks by `Network.kind`."""
