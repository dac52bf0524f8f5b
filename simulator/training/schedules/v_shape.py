"""Two chunks a rank in a V: stage s on rank min(s, 2 p - 1 - s), so that first and last stage share a rank.

What a rank keeps is then the same on all of them, and how much is a matter of how soon I follows F. ZB-V keeps p
microbatches and is idle only while it fills and drains; V-Half keeps (p + 2) // 2; V-Min, (p + 4) // 3, is in
`building_block`.

Sources: ZB-V, arXiv:2401.10241, section 6, in the order of PyTorch's ZBVZeroBubble; V-Half,
arXiv:2405.15362. V-Half is found by the list scheduler under caps that add up to what may be kept.
"""

from math import ceil

import numpy as np

from simulator.program.schedule import Schedule
from simulator.training.schedules.base import SCHEDULES, Pipeline
from simulator.training.schedules.greedy import Rules, arrange
from simulator.training.schedules.orders import F, I, Pass, W, from_rows, two_chunks, wave_home


@SCHEDULES.add("zb-v")
def zb_v(pipeline: Pipeline) -> Schedule:
    """Fills with forward passes, then F I W of each chunk in turn; made for 2 p - 1 microbatches or more, then cut."""
    two_chunks(pipeline, "zb-v")
    return from_rows([_zb_v_row(pipeline.ranks, rank, pipeline.microbatches) for rank in range(pipeline.ranks)])


def _zb_v_row(ranks: int, rank: int, microbatches: int) -> list[Pass]:
    """What a rank runs: `down` is its chunk of the first half of the model, `up` of the second."""
    many = max(microbatches, 2 * ranks - 1)
    row = _Row(rank, 2 * ranks - 1 - rank)
    row.add("d" * (2 * (ranks - rank) - 1) + "ud" * rank + "uIW" * (ranks - rank))
    steady = many - (2 * (ranks - rank) - 1) - rank
    row.add("diwuIW" * steady)
    row.add("iwuIW" * (many - ranks - steady))
    row.add("iI" * rank + "iw" * (ranks - rank))
    row.add("W" * rank + "w" * rank)
    return [one for one in row.passes if one[2] < microbatches]


class _Row:
    """Passes of a rank by letters: d and u are F of the chunks down and up, i and I, w and W their gradients."""

    def __init__(self, down: int, up: int) -> None:
        """Nothing has run."""
        kinds = ((F, "du"), (I, "iI"), (W, "wW"))
        self.what = {
            letter: (kind, stage) for kind, two in kinds for letter, stage in zip(two, (down, up), strict=True)
        }
        self.next = dict.fromkeys(self.what, 0)
        self.passes: list[Pass] = []

    def add(self, letters: str) -> None:
        """Append passes, each of the next microbatch."""
        for letter in letters:
            self.passes.append((*self.what[letter], self.next[letter]))
            self.next[letter] += 1


@SCHEDULES.add("v-half")
def v_half(pipeline: Pipeline) -> Schedule:
    """Rank r keeps at most p - r / 2 microbatches of the chunk down, and so many of both as make (p + 2) // 2 units."""
    two_chunks(pipeline, "v-half")
    ranks, even = pipeline.ranks, pipeline.ranks % 2 == 0
    most = 2 * ((ranks + 2) // 2)
    down = [min(ceil((2 * ranks - rank + even) / 2), most - 1) for rank in range(ranks)]
    caps = np.array([*down, *(most - cap for cap in reversed(down))])

    def urgency(kind: int, stage: int) -> int:
        up = stage >= ranks
        return 1 - up if kind == F else 2 + (up if even else 1 - up)

    made = arrange(wave_home(ranks, 2), pipeline.microbatches, pipeline.known_costs, Rules(caps, urgency=urgency))
    assert made is not None  # caps alone never stop a rank
    return made
