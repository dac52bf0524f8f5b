"""Conversations: each turn's prompt is all that was said before and something new.

Prompts of turn k: sum of the new tokens of turns 0 to k, plus the answers of turns 0 to k - 1.
"""

from typing import NamedTuple

import numpy as np

from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.serving.workload import arrivals, sharing
from simulator.serving.workload.lengths import lengths, whole_numbers
from simulator.serving.workload.sharing import Blocks
from simulator.specs.distributions import Integers, sample
from simulator.specs.requests import Requests, Sessions


class Turns(NamedTuple):
    """Turns as columns, those of one conversation after each other."""

    prompt: Integers
    output: Integers
    pause: Integers
    """Picoseconds from the answer to the earlier turn; 0 for the first."""
    opening: Integers
    """Row of the first turn of each conversation."""
    closing: Integers
    """Row of the last turn of each conversation."""
    prefix: tuple[Blocks, ...] | None
    assumptions: tuple[str, ...]
    session: Integers
    """Conversation of each row."""


def turns(requests: Requests, seed: int, block: int) -> Turns:
    """Conversations with `requests.count` turns in all; the last one is cut short where it would exceed that.

    What turns share has an identity for each `block` tokens.
    """
    if requests.sessions is None or requests.lengths is None or requests.count is None:
        raise InputError(Problem("conversations need `lengths` and `count`", path="requests"))
    count = requests.count
    new, output = lengths(requests.lengths, count, seed)
    session, opening, closing = _sessions(
        whole_numbers(requests.sessions.turns, count, seed, "turns", "requests.sessions.turns")
    )
    groups, notes = None, tuple[str, ...]()
    if requests.shared_prefix is not None:
        groups = sharing.groups(requests.shared_prefix, len(opening), seed)
        new[opening], notes = sharing.lengthened(new[opening], groups.shared)
    said = np.cumsum(new + output)
    prompt = said - output - np.concatenate(([0], said[closing[:-1]]))[session]
    pause = _pauses(requests.sessions, count, seed)
    pause[opening] = 0
    repeated = prompt + output
    repeated[closing] = prompt[closing]
    repeated[opening[opening == closing]] = 0
    shares = groups is not None or len(opening) < count
    prefix = sharing.of_turns(session, repeated, groups, block) if shares else None
    return Turns(prompt, output, pause, opening, closing, prefix, notes, session)


def _pauses(sessions: Sessions, count: int, seed: int) -> Integers:
    """Picoseconds before each of so many turns: of a thinking user, or of a tool that an agent waits for."""
    thought = arrivals.ticks(sample(sessions.think, stream(seed, "pauses"), count), "requests.sessions.think")
    if sessions.tools is None:
        return thought
    random = stream(seed, "tools")
    by_tool = random.random(count) < sessions.tools.share
    waited = arrivals.ticks(sample(sessions.tools.wait, random, count), "requests.sessions.tools.wait")
    return np.where(by_tool, waited, thought)


def _sessions(drawn: Integers) -> tuple[Integers, Integers, Integers]:
    """(conversation of each row, first row, last row of each conversation) for as many rows as there are draws."""
    count = len(drawn)
    ends = np.cumsum(np.minimum(drawn, count))
    sessions = int(np.searchsorted(ends, count)) + 1
    closing = np.minimum(ends[:sessions], count) - 1
    opening = np.concatenate(([0], closing[:-1] + 1))
    return np.repeat(np.arange(sessions), closing - opening + 1), opening, closing


def recorded(
    session: Integers, prompt: Integers, output: Integers, block: int
) -> tuple[tuple[Blocks, ...] | None, tuple[str, ...]]:
    """Blocks that recorded conversations share, with the assumption in words; rows in the order of arrival.

    A turn whose prompt is at least as long as the earlier prompt and its answer is taken to repeat them; a shorter one
    begins anew.
    """
    order = np.argsort(session, kind="stable")
    said = (prompt + output)[order]
    goes_on = np.zeros(len(order), bool)
    same = (session[order][1:] == session[order][:-1]) & (session[order][1:] >= 0)
    goes_on[1:] = same & (prompt[order][1:] >= said[:-1])
    if not goes_on.any():
        return None, ()
    repeats = np.append(goes_on[1:], False)
    tokens = np.where(repeats, said, np.where(goes_on, prompt[order], 0))
    chains = sharing.of_turns(np.cumsum(~goes_on) - 1, tokens, None, block)
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    note = (
        f"{int(goes_on.sum())} of {len(order)} requests are at least as long as the earlier turn of their session"
        " and its answer; they are taken to repeat both"
    )
    return tuple([chains[row] for row in back.tolist()]), (note,)
