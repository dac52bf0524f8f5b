"""What replicas of one kind have in common, as tables for `kernel`: their memory, their policy, what iterations cost.

Costs are filled in as they are asked for. The attention of prompts is computed in the compiled function where it is in
closed form and has no windows, choices of tokens or recurrences; else Python answers, piece by piece.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.serving.compiled import layout as at
from simulator.serving.costs.attention import MOST_CUTS, Attention
from simulator.serving.costs.iteration import StageCost
from simulator.serving.policies.sarathi import Sarathi
from simulator.serving.replica.replica import Replica

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

UNKNOWN = -1
BLOCK = 64
"""Counts of rows that are asked for at once."""


class Kinds:
    """Kinds of replicas: of equal costs, memory and rules."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        """Nothing is known of costs yet."""
        self.of: list[int] = []
        """Kind of each replica."""
        known: dict[tuple[object, ...], int] = {}
        firsts: list[Replica] = []
        for replica in replicas:
            policy = replica.policy
            key = id(replica.stages.costs[0]), replica.blocks.memory, type(policy), policy.rules
            if key not in known:
                known[key] = len(firsts)
                firsts.append(replica)
            self.of.append(known[key])
        self.slots = max(one.policy.rules.max_sequences for one in firsts)
        self.sizes = max(one.blocks.size for one in firsts)
        self.costs = [one.stages.costs[0] for one in firsts]
        self.rows = max(self.slots, *(budget(one) for one in firsts)) + 1
        """Places of the table of rows of each kind."""
        self.numbers = [_numbers(one) for one in firsts]
        """As `kernel` has them, places of tables apart."""
        self.price = np.array([_closed_form(cost) for cost in self.costs], np.float64).ravel()
        self.size = at.KINDS + self.rows + (self.slots + 1) * (1 + 3 * at.SEGMENTS)
        """Places of a kind with its tables."""

    def table(self, first: int) -> Ints:
        """All kinds, the first of which will lie in that place; nothing is known of costs yet."""
        found = np.full((len(self.numbers), self.size), UNKNOWN, np.int64)
        found[:, : at.KINDS] = self.numbers
        own = first + np.arange(len(self.numbers)) * self.size
        found[:, at.BODY] = own + at.KINDS
        found[:, at.ENDING] = found[:, at.BODY] + self.rows
        found[:, at.LINES] = found[:, at.ENDING] + self.slots + 1
        found[:, at.PRICE] = np.arange(len(self.numbers)) * at.PRICES
        return found.ravel()

    def fill_rows(self, kind: int, own: Ints, tokens: int, sampled: int) -> None:
        """Have the ticks of so many rows, and of the output head for so many, with those that come with them; `own` is
        the kind in the table."""
        cost, stop = self.costs[kind], at.KINDS + self.rows
        body, ending = own[at.KINDS : stop], own[stop : stop + self.slots + 1]
        for count in _block(tokens, len(body)):
            body[count] = cost.rows(count, 0)
        for count in _block(sampled, len(ending)):
            ending[count] = cost.rows(1, count) - cost.rows(1, 0)

    def fill_lines(self, kind: int, own: Ints, sequences: int, context: int) -> tuple[int, int, int]:
        """(up to, base, slope) of the decodes of so many sequences at that context; kept where there are few lines."""
        lines = self.costs[kind].decode(sequences)
        if len(lines) <= at.SEGMENTS:
            place = at.KINDS + self.rows + self.slots + 1 + sequences * at.SEGMENTS * 3
            own[place : place + 3 * len(lines)] = np.array(lines, np.int64).ravel()
        return next(line for line in lines if context <= line[0])


def _block(count: int, stop: int) -> range:
    """Counts that are asked for together."""
    first = count // BLOCK * BLOCK
    return range(first, min(first + BLOCK, stop))


def budget(replica: Replica) -> int:
    """Rows of an iteration."""
    policy = replica.policy
    return policy.whole if isinstance(policy, Sarathi) else policy.rules.token_budget


def _numbers(replica: Replica) -> list[int]:
    """`State.kind` of a replica."""
    memory, cost = replica.blocks.memory, replica.stages.costs[0]
    each = cost.host(1) - cost.host(0)
    found = dict.fromkeys(range(at.KINDS), 0)
    found[at.SIZE], found[at.BLOCKS], found[at.STATE] = memory.block_size, memory.blocks, memory.state_blocks
    found[at.WATERMARK], found[at.LONGEST] = memory.watermark, memory.context
    found[at.SEQUENCES], found[at.BUDGET] = replica.policy.rules.max_sequences, budget(replica)
    found[at.HOST], found[at.HOST_EACH] = cost.host(0), each
    found[at.PRICED] = int(_in_closed_form(cost))
    return list(found.values())


def _in_closed_form(cost: StageCost) -> bool:
    """Whether the attention of prompts is what `kernel` computes."""
    own = getattr(cost, "attention", None)
    if type(own) is not Attention or not own.prompt_scale:
        return False
    return own.shard.model.window is None and own.shard.core.chosen is None and not own.states.scans


def _closed_form(cost: StageCost) -> list[float]:
    """`State.price` of costs, nothing where they are not in closed form."""
    if not _in_closed_form(cost):
        return [0.0] * at.PRICES
    own = cost.attention
    assert isinstance(own, Attention)
    curve = own.curve
    found = {
        at.HEADS: own.shard.heads,
        at.QUERIES: curve.rows,
        at.CORES: curve.cores,
        at.BLOCK: curve.block,
        at.KEY: own.per_key,
        at.TAIL_SHARE: curve.tail,
        at.CUTS: MOST_CUTS if own.cuts_all else 0,
        at.ROW: own.row_seconds[0],
        at.ROW_APART: own.row_seconds[1],
        at.TOKEN: own.token_seconds,
        at.SCORE: own.score_seconds,
        at.EXPAND: own.expand_seconds,
        at.SCALE: own.prompt_scale,
        at.FOUR: 4.0,
        at.QUARTER: 0.25,
    }
    return [found[place] for place in range(at.PRICES)]
