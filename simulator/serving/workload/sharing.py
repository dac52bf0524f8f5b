"""What prompts have in common: identities of consecutive blocks of tokens, counted from the start of a request.

Equal identities at equal places, after equal identities before, mean equal tokens. The blocks of a group's prefix come
first, then those of the conversation, then (as far as a later turn repeats it) those of the answer. What no prompt
repeats is left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, overload

import numpy as np

from simulator.random import stream
from simulator.serving.workload.lengths import whole_numbers
from simulator.specs.distributions import Integers, zipf
from simulator.specs.requests import SharedPrefix

BLOCK = 16
"""Tokens of a block by default, as in vLLM's cache."""

Blocks = Sequence[int]
"""Identities; ranges where they can be, for a long conversation has thousands."""


@dataclass(slots=True)
class Joined(Sequence[int]):
    """The identities of a prefix and then of what follows it."""

    head: range
    tail: range

    def __len__(self) -> int:
        """Blocks of both."""
        return len(self.head) + len(self.tail)

    def __iter__(self) -> Iterator[int]:
        """One after the other."""
        return chain(self.head, self.tail)

    def __reversed__(self) -> Iterator[int]:
        """The last one first."""
        return chain(reversed(self.tail), reversed(self.head))

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        """As of a tuple; a slice copies no identity."""
        first = len(self.head)
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step != 1:
                return tuple(self)[index]
            return Joined(self.head[start:stop], self.tail[max(0, start - first) : max(0, stop - first)])
        if not -len(self) <= index < len(self):
            raise IndexError(f"no block {index} of {len(self)}")
        place = index % len(self)
        return self.head[place] if place < first else self.tail[place - first]


class Groups(NamedTuple):
    """Prefixes that prompts begin with, and which conversation or request begins with which."""

    tokens: Integers
    """Length of the prefix of each group that has a member; shape (groups,)."""
    member: Integers
    """Group of each conversation or single request."""

    @property
    def shared(self) -> Integers:
        """Tokens of the prefix of each member."""
        return self.tokens[self.member]


def groups(shared: SharedPrefix, members: int, seed: int) -> Groups:
    """Draw the members and the groups that they make; popularity of the k-th group is proportional to k**-zipf.

    Groups without a member are not drawn, so that there may be many more of them than requests.
    """
    chances = stream(seed, "prefixes").random(members)
    known, member = np.unique(zipf(shared.zipf, 1, shared.groups, chances), return_inverse=True)
    tokens = whole_numbers(shared.tokens, len(known), seed, "prefix lengths", "requests.shared_prefix.tokens")
    return Groups(tokens, member.astype(np.int64))


def lengthened(prompt: Integers, shared: Integers) -> tuple[Integers, tuple[str, ...]]:
    """Prompts at least one token longer than what they share, and how many had to be made so, in words."""
    short = int(np.count_nonzero(prompt <= shared))
    if not short:
        return prompt, ()
    note = f"{short} of {len(prompt)} prompts, no longer than their shared prefix, were made one token longer than it"
    return np.maximum(prompt, shared + 1), (note,)


def of_members(given: Groups, block: int) -> tuple[Blocks, ...]:
    """The blocks that each single request shares with its group."""
    blocks = _of_groups(given, block)
    return tuple([blocks[group] for group in given.member.tolist()])


def of_turns(session: Integers, tokens: Integers, given: Groups | None, block: int) -> tuple[Blocks, ...]:
    """Blocks of the first `tokens` of each row; rows of one session continue each other, `session` rises from 0.

    Tokens of 0 mean that the row shares nothing but what its group shares.
    """
    common = [] if given is None else _of_groups(given, block)
    headed = np.zeros(len(session), np.int64) if given is None else (given.shared // block)[session]
    own = np.maximum(tokens // block - headed, 0)
    longest = np.zeros(session[-1] + 1, np.int64)
    np.maximum.at(longest, session, own)
    starts = (sum(map(len, common)) + np.cumsum(longest) - longest)[session]
    ranges = map(range, starts.tolist(), (starts + own).tolist())
    if given is None:
        return tuple(ranges)
    heads = [common[group] for group in given.member[session].tolist()]
    return tuple(map(Joined, heads, ranges))


def _of_groups(given: Groups, block: int) -> list[range]:
    """The full blocks of each group's prefix."""
    sizes = given.tokens // block
    ends = np.cumsum(sizes)
    return list(map(range, (ends - sizes).tolist(), ends.tolist()))
