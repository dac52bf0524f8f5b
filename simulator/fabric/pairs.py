"""Ways between two devices, and which of them are alike: what moves over one costs what it costs over the other.

Ways of one device are found for a block of neighbours at once where the way of a flow does not depend on others.
"""

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from simulator.fabric.fabric import Fabric

Ints = NDArray[np.int64]

BLOCK = 512
"""Devices to which ways are found at once."""


class Pairs:
    """Ways of a fabric, those that were asked for and what was found beside them."""

    __slots__ = ("_fabric", "_found", "_links")

    def __init__(self, fabric: Fabric) -> None:
        """None was asked for."""
        self._fabric = fabric
        self._found: dict[tuple[int, int], Ints] = {}
        """By source and block of targets, (targets, longest way)."""
        self._links: dict[int, Hashable] = {}
        """What says of a link which others are like it."""

    def way(self, source: int, target: int) -> tuple[list[int], Hashable]:
        """(links from a device to another, each once; what ways over links of the same kinds have in common)."""
        numbering, known = self._fabric.numbering, self._links
        way = [link for link in self._row(source, target) if link >= 0]
        links = list(dict.fromkeys(way))
        for link in links:
            if link not in known:
                known[link] = self._kind(link)
        ends = numbering.kind_of(source), numbering.kind_of(target)
        return links, (ends, tuple(map(links.index, way)), tuple([known[link] for link in links]))

    def _row(self, source: int, target: int) -> list[int]:
        """Links of a way, padded with -1."""
        fabric = self._fabric
        if not fabric.network.each_alone:
            return fabric.paths([source], [target]).T.ravel().tolist()
        key = source, target // BLOCK
        if key not in self._found:
            first = key[1] * BLOCK
            targets = np.arange(first, min(first + BLOCK, fabric.devices))
            self._found[key] = fabric.paths(np.full(len(targets), source), targets).T
        row: list[int] = self._found[key][target % BLOCK].tolist()
        return row

    def _kind(self, link: int) -> Hashable:
        """Its block, and what it carries how soon."""
        fabric = self._fabric
        figures = (float(column[link]) for column in (fabric.capacity, fabric.rated, fabric.latency))
        return fabric.block_of(link), *figures
