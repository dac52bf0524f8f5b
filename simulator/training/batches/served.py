"""Core attention of documents on other ranks than their own, so that all have the same of it (DistCA).

Attention has no state: any rank that is sent queries, and the keys and values that they see, can work for another
(arXiv:2510.18121). Of the ranks whose documents have more pairs than the mean, the one with most gives to the one with
fewest, whole documents where they fit, for these move most pairs a byte, or the last queries of its longest, until all
are within a tolerance.
"""

from collections import Counter
from collections.abc import Sequence
from math import ceil, sqrt

from simulator.cost.work import Document

SHARD = 128
"""Queries that are moved at least."""
MOST_MOVES = 64
"""Moves per rank after which what is left stays where it is."""
Moved = tuple[int, int]
"""Queries, and keys with their values, that the busiest rank sends or takes in."""


def pairs(document: Document) -> float:
    """Causal pairs of the last `query` positions of a document up to `context`."""
    return document.number * document.query * (document.context - document.query / 2)


class _Rank:
    """Documents that a rank works on, and what it sent and took in."""

    def __init__(self, lengths: Sequence[int]) -> None:
        self.own = sorted(lengths)
        """Lengths of its own documents, the longest last."""
        self.taken: list[Document] = []
        self.work = sum(length * length / 2 for length in lengths)
        self.sent: list[int] = [0, 0]
        self.came: list[int] = [0, 0]

    def gives(self, other: "_Rank", most: float) -> bool:
        """Give so many pairs at most to another, whole documents or a part of the longest; whether any went."""
        whole = [place for place, length in enumerate(self.own) if length * length / 2 <= most]
        if whole and self.own[whole[-1]] >= self.own[-1] / 2:
            length = self.own.pop(whole[-1])
            query = length
        else:
            length = self.own[-1]
            query = ceil(length - sqrt(max(length * length - 2 * most, 0.0)))
            if query < min(SHARD, length):
                return False
            self.own[-1:] = [length - query] if query < length else []
            self.own.sort()
        part = Document(1, query, length)
        other.taken.append(part)
        self.work -= pairs(part)
        other.work += pairs(part)
        for counts in (self.sent, other.came):
            counts[0] += query
            counts[1] += length
        return True

    @property
    def documents(self) -> tuple[Document, ...]:
        """All that it works on, those that are alike together."""
        each = Counter([*(Document(1, length, length) for length in self.own), *self.taken])
        return tuple(sorted(Document(count, one.query, one.context) for one, count in each.items()))


def served(packs: Sequence[Sequence[int]], tolerance: float) -> tuple[list[tuple[Document, ...]], Moved]:
    """What each rank works on in place of its own documents `packs`, within `tolerance` of the mean of their pairs, and
    what is moved for it."""
    ranks = [_Rank(lengths) for lengths in packs]
    mean = sum(rank.work for rank in ranks) / len(ranks)
    for _ in range(MOST_MOVES * len(ranks)):
        busiest, idlest = max(ranks, key=lambda one: one.work), min(ranks, key=lambda one: one.work)
        if busiest.work <= (1 + tolerance) * mean:
            break
        if not busiest.gives(idlest, min(busiest.work - mean, mean - idlest.work)):
            break
    query = max(max(rank.sent[0], rank.came[0]) for rank in ranks)
    keys = max(max(rank.sent[1], rank.came[1]) for rank in ranks)
    return [rank.documents for rank in ranks], (query, keys)
