"""Requests per second that each pool takes up when it has all that it can use: which pool saturates first.

Requests are taken to be alike, of the mean lengths. A pool that reads prompts runs iterations full of prompts; one that
writes answers as many sequences as slots and memory allow, half of the answer in each context; one that does both
spends its time on each in turn. Ranks that share experts do so in step. Left out: what shared links, waiting for a
cache on its way and uneven lengths cost, so that a run saturates somewhat below.
"""

from collections.abc import Sequence
from typing import NamedTuple

from simulator import units
from simulator.serving.costs.iteration import StageCost
from simulator.serving.fleet.system import System
from simulator.units import TICKS_PER_SECOND

LONGEST_PIECES = 4096
"""Pieces of a prompt that are looked at one by one."""


class PoolRate(NamedTuple):
    """What one pool takes up."""

    name: str
    role: str
    requests_per_s: float
    """0 where it can run no such request."""
    batch: int
    """Sequences of a rank that decode at once; 0 where it only reads prompts."""


def pool_rates(systems: Sequence[System], prompt: int, output: int) -> tuple[PoolRate, ...]:
    """What each pool takes up of requests of so many tokens, the first of the answer with the prompt."""
    return tuple(_rate(system, max(prompt, 1), max(output, 1)) for system in systems)


def first_to_saturate(systems: Sequence[System], prompt: int, output: int) -> PoolRate:
    """The pool that holds the others back; of pools of one role, which share requests, those together."""
    rates = pool_rates(systems, prompt, output)
    roles = {rate.role: sum(other.requests_per_s for other in rates if other.role == rate.role) for rate in rates}
    least = min(rates, key=lambda rate: roles[rate.role])
    return least._replace(requests_per_s=roles[least.role])


def said(systems: Sequence[System], prompt: int, output: int) -> tuple[str, ...]:
    """A sentence that names the pool which saturates first, where prefill and decode are apart."""
    if not any(system.role == "prefill" for system in systems):
        return ()
    rates = pool_rates(systems, prompt, output)
    listed = " and ".join(f"{units.plain(rate.requests_per_s)}/s (`{rate.name}`)" for rate in rates)
    least = first_to_saturate(systems, prompt, output)
    lengths = f"{prompt:,} tokens of prompt and {output:,} of answer"
    return (f"pools take up at most {listed} requests of {lengths}: `{least.name}` saturates first",)


def _rate(system: System, prompt: int, output: int) -> PoolRate:
    reading = _reading(system, prompt) if system.role != "decode" else 0.0
    batch = _batch(system, prompt, output) if system.role != "prefill" else 0
    writing = _writing(system, batch, prompt, output) if batch and output > 1 else 0.0
    held = not batch and system.role != "prefill"
    each = reading + writing  # ticks of one rank for one request
    rate = 0.0 if held or not each else system.replicas * TICKS_PER_SECOND / each
    return PoolRate(system.name, system.role, rate, batch)


def _reading(system: System, prompt: int) -> float:
    """Ticks of a rank for one prompt, in iterations that are as full of prompts as the budget lets them be."""
    budget = max(system.rules.token_budget, 1)
    if prompt <= budget:
        many = max(min(budget // prompt, system.rules.max_sequences), 1)
        return _slowest(system, [(prompt, 0)] * many) / many
    pieces = [(min(budget, prompt - before), before) for before in range(0, prompt, budget)][:LONGEST_PIECES]
    return float(sum(_slowest(system, [piece], ends=piece is pieces[-1]) for piece in pieces))


def _slowest(system: System, pieces: list[tuple[int, int]], ends: bool = True) -> int:
    tokens, ended = sum(tokens for tokens, _ in pieces), len(pieces) if ends else 0
    return max(_prompts(cost, pieces, tokens, ended, system.peers) for cost in system.cost.stages)


def _prompts(cost: StageCost, pieces: list[tuple[int, int]], tokens: int, ended: int, peers: int) -> int:
    attention = cost.prompts(pieces)
    ticks = cost.rows(tokens, ended) + cost.host(len(pieces)) + attention + cost.together(peers * tokens, peers * ended)
    return max(ticks - cost.saved(tokens, attention, peers * tokens), cost.least(len(pieces), tokens, prompts=True))


def _batch(system: System, prompt: int, output: int) -> int:
    """Sequences that a rank holds at once: slots, and memory for what each has on average or may come to have."""
    cost = system.cost
    grows = getattr(system.make_policy(), "grows", True)
    tokens = prompt + (output // 2 if grows else output)
    room = max(cost.blocks - system.watermark, 0) // (-(-tokens // cost.block_size) + cost.state_blocks)
    return int(min(system.rules.max_sequences * len(cost.stages), room))


def _writing(system: System, batch: int, prompt: int, output: int) -> float:
    """Ticks of a rank for the answer to one request after its first token."""
    stages = system.cost.stages
    each = -(-batch // len(stages))  # as many batches in flight as stages
    context = each * (prompt + output // 2)
    ticks = max(_decode(cost, each, context, system.peers) for cost in stages)
    yields = 1.0 if stages[0].speculation is None else stages[0].speculation.mean(stages[0].speculation.length(each))
    return (output - 1) / yields * ticks / each


def _decode(cost: StageCost, sequences: int, context: int, peers: int) -> int:
    base, slope = next((base, slope) for limit, base, slope in cost.decode(sequences) if context <= limit)
    rows, attention = cost.verified(sequences), base + slope * context
    ticks = cost.rows(rows, rows) + cost.host(sequences) + attention + cost.together(peers * rows, peers * rows)
    return max(ticks - cost.saved(rows, attention, peers * rows, attention), cost.least(sequences, rows))
