"""Two chunks a rank in a V: stage s on rank min(s, 2 p - 1 - s), so that first and last stage share a rank.

What a rank keeps is then the same on all of them, and how much is a matter of how soon I follows F. ZB-V keeps p
microbatches and is idle only while it fills and drains; V-Half keeps (p + 2) // 2 and V-Min (p + 4) // 3.

Sources: ZB-V, arXiv:2401.10241, section 6, in the order of PyTorch's ZBVZeroBubble; V-Half and V-Min,
arXiv:2405.15362, by their building blocks.
"""

from math import ceil

import numpy as np

from simulator.program.schedule import Schedule
from simulator.program.timing import time_schedule
from simulator.training.schedules.base import SCHEDULES, Pipeline
from simulator.training.schedules.building_block import Block, repeat
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
    """(p + 2) // 2 microbatches a rank: two slots a rank down the V and one up; for even p the last stage waits three
    between F and I, or ranks would meet in a slot. A list scheduler is shorter for some costs, or keeps less."""
    two_chunks(pipeline, "v-half")
    block = Block(down=2, up=1, turn=1 if pipeline.ranks % 2 else 4, limit=2 * ((pipeline.ranks + 2) // 2))
    orders = (repeat(pipeline, block), _listed(pipeline, block.limit))
    timings = [time_schedule(order, pipeline.known_costs) for order in orders]
    fitting = [timing for timing in timings if timing.peak.max() <= pipeline.limit] or timings
    near = min(timing.makespan for timing in fitting) * (1 + pipeline.near)
    frugal = min((timing for timing in fitting if timing.makespan <= near), key=lambda timing: float(timing.peak.max()))
    return frugal.schedule


def _listed(pipeline: Pipeline, most: int) -> Schedule:
    """Rank r keeps at most p - r / 2 microbatches of the chunk down, and what is left of the most of the chunk up."""
    ranks, even = pipeline.ranks, pipeline.ranks % 2 == 0
    down = [min(ceil((2 * ranks - rank + even) / 2), most - 1) for rank in range(ranks)]
    caps = np.array([*down, *(most - cap for cap in reversed(down))])

    def urgency(kind: int, stage: int) -> int:
        up = stage >= ranks
        return 1 - up if kind == F else 2 + (up if even else 1 - up)

    made = arrange(wave_home(ranks, 2), pipeline.microbatches, pipeline.known_costs, Rules(caps, urgency=urgency))
    assert made is not None  # caps alone never stop a rank
    return made


@SCHEDULES.add("v-min")
def v_min(pipeline: Pipeline) -> Schedule:
    """(p + 4) // 3 microbatches a rank: one slot a rank down the V and up; where 3 divides p the last stage waits two
    between F and I, or ranks would meet in a slot."""
    two_chunks(pipeline, "v-min")
    turn = 1 if pipeline.ranks % 3 else 3
    return repeat(pipeline, Block(down=1, up=1, turn=turn, limit=2 * ((pipeline.ranks + 4) // 3)))
