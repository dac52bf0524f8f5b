"""Prefixes that several sequences of a batch read together when they decode (Hydragen, arXiv:2402.05099).

The queries of all members of a prefix are multiplied with one copy of its keys, a matrix product in place of one
vector product a member. Which tokens are common is known by the identities of cached blocks, so that trees of prefixes
need nothing of their own: each level is read once by those that share it. Sequences that do not decode yet read for
themselves.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from simulator.serving.costs.iteration import StageCost


class SharedPrefixAttention:
    """Which cached blocks the members of a batch read in its next iteration."""

    __slots__ = ("_members", "_tokens", "_widths", "together")

    def __init__(self, tokens: int) -> None:
        """No member reads anything; an identity stands for so many tokens."""
        self._tokens = tokens
        self._members: dict[int, int] = {}
        """Members that read each identity."""
        self._widths: dict[int, int] = {}
        """Tokens that are read by so many members, two or more."""
        self.together = 0
        """Tokens of the members' contexts that they do not read for themselves."""

    def join(self, identities: Iterable[int]) -> None:
        """A member reads these too."""
        for identity in identities:
            count = self._members.get(identity, 0)
            self._members[identity] = count + 1
            self._move(count, count + 1)

    def leave(self, identities: Iterable[int]) -> None:
        """A member of them is gone."""
        for identity in identities:
            count = self._members[identity]
            self._move(count, count - 1)
            if count == 1:
                del self._members[identity]
            else:
                self._members[identity] = count - 1

    def clear(self) -> None:
        """All members are gone."""
        self._members.clear()
        self._widths.clear()
        self.together = 0

    def _move(self, before: int, after: int) -> None:
        """The tokens of an identity have other members."""
        tokens = self._tokens
        if before > 1:
            self.together -= before * tokens
            self._widths[before] -= tokens
            if not self._widths[before]:
                del self._widths[before]
        if after > 1:
            self.together += after * tokens
            self._widths[after] = self._widths.get(after, 0) + tokens

    def ticks(self, cost: "StageCost") -> int:
        """Ticks of a stage for what is read together."""
        total = 0
        for members, tokens in self._widths.items():
            base, slope = cost.shared(members)
            total += base + slope * tokens
        return total
