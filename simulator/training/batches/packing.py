"""Documents into microbatches with room for so many tokens: first fit decreasing, and by work.

First fit decreasing needs at most 11/9 of the least number of packs and 2/3 of one (Dosa 2007). The longest document
first, each into the microbatch with least work, ends at most a third above the best maximum where room does not bind
(Graham 1969); WLB-LLM (arXiv:2503.17924) packs so, work being that of attention and of products together.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Packs = list[list[int]]


def first_fit(lengths: Sequence[int], capacity: int, packs: int) -> tuple[Packs, list[int]]:
    """Lengths, longest first, each into the first of so many packs with room; and those that found none."""
    found: Packs = [[] for _ in range(packs)]
    room = np.full(packs, capacity, np.int64)
    left = []
    for length in sorted(lengths, reverse=True):
        place = int(np.argmax(room >= length))
        if room[place] < length:
            left.append(length)
            continue
        found[place].append(length)
        room[place] -= length
    return found, left


def balanced(lengths: Sequence[int], work: Floats, capacity: int, packs: int) -> tuple[Packs, list[int]]:
    """Lengths, most `work` (n,) first, each into the pack with room that has least work; and those that found none."""
    found: Packs = [[] for _ in range(packs)]
    room, heap, left = [capacity] * packs, [(0.0, pack) for pack in range(packs)], []
    for place in np.lexsort((np.arange(len(work)), -work)).tolist():
        length, full = lengths[place], []
        while heap and room[heap[0][1]] < length:
            full.append(heappop(heap))
        if heap:
            done, pack = heappop(heap)
            found[pack].append(length)
            room[pack] -= length
            heappush(heap, (done + float(work[place]), pack))
        else:
            left.append(length)
        for one in full:
            heappush(heap, one)
    return found, left


def dealt(work: Sequence[float], ranks: int) -> list[list[int]]:
    """Places of microbatches dealt to ranks, as many to each: by falling work, to and fro, so that sums are near."""
    order = sorted(range(len(work)), key=lambda place: -work[place])
    found: list[list[int]] = [[] for _ in range(ranks)]
    for start in range(0, len(order), ranks):
        turn = order[start : start + ranks]
        back = start // ranks % 2
        for rank, place in zip(reversed(range(ranks)) if back else range(ranks), turn, strict=True):
            found[rank].append(place)
    return found
