"""Sequences of a batch that are verified several rows at a time, and get several tokens from an iteration.

Each iteration of a sequence takes the next number of tokens from a table, at a place of the sequence's own: what it
gets does not depend on whom it runs with, nor on when. Frequencies in the table are those that the acceptance says, to
one part in the length of the table. Slots of drafted tokens are taken with the blocks that they lie in; those of
rejected tokens are written over by the next iteration.
"""

import numpy as np
from numpy.typing import NDArray

from simulator.serving.replica.blocks import Blocks
from simulator.serving.replica.decodes import Decodes
from simulator.specs.speculation import Speculation

Ints = NDArray[np.int64]

TURNS = 1 << 16
"""Entries of a table of tokens."""
STRIDE = 2_654_435_761
"""Odd multiplier that spreads requests over the table (2^32 over the golden ratio)."""
FEW = 16
"""Sequences that there is room for at first."""


class Yields:
    """How many tokens sequences get from their iterations, by draft length."""

    def __init__(self, spec: Speculation, random: np.random.Generator) -> None:
        """Of a speculation; the order in which numbers come is drawn, or follows the mean."""
        self.spec = spec
        lengths = {spec.draft_length, *(part.draft_length for part in spec.by_load)}
        order = random.permutation(TURNS) if spec.yields == "random" else None
        self.tables = {length: _table(spec, length, order) for length in lengths}

    def place(self, request: int, done: int) -> int:
        """Where in the table a request begins that has so many tokens already."""
        return (request * STRIDE + done * (STRIDE >> 7)) % (1 << 32) % TURNS


def _table(spec: Speculation, length: int, order: Ints | None) -> Ints:
    """Tokens of each entry, between 1 and `length` + 1."""
    if order is None:
        so_far = np.floor(np.arange(TURNS + 1) * spec.mean(length) + 1e-9).astype(np.int64)
        steps: Ints = so_far[1:] - so_far[:-1]
        return steps
    ends = np.rint(np.cumsum(spec.chances(length)) * TURNS).astype(np.int64)
    tokens = np.searchsorted(ends, np.arange(TURNS), side="right") + 1
    found: Ints = np.minimum(tokens, length + 1).astype(np.int64)[order]
    return found


class SpeculatingDecodes(Decodes):
    """Members of a batch, one by one in columns."""

    __slots__ = ("_asked", "_requests", "_rows", "_taken", "produced", "yields")

    def __init__(self, blocks: Blocks, grows: bool, shared_tokens: int, yields: Yields) -> None:
        """None."""
        super().__init__(blocks, grows, shared_tokens)
        self.yields = yields
        self.produced = 0
        """Tokens that came out of decode iterations so far."""
        self._rows: dict[int, int] = {}
        """Column of each member."""
        self._requests: list[int] = []
        """Member of each column."""
        self._taken = np.zeros((4, FEW), np.int64)
        """Of each member: tokens in the cache, tokens still to come, blocks of its tokens, its place in the table."""
        self._asked: int | None = None
        """Blocks that the next iteration takes, as far as is known."""

    def join(self, request: int, since: int) -> None:
        """A request, whose last token came out at `since`, decodes from the next iteration on."""
        ledger, size = self.blocks.ledger, self.blocks.size
        done = ledger.done[request]
        length = ledger.prompt[request] + done
        if self.n == 0:
            self.last = since
        elif since != self.last or self.fresh:
            self.fresh.append(since)
        column = len(self._requests)
        if column == self._taken.shape[1]:
            self._taken = np.concatenate([self._taken, np.zeros_like(self._taken)], axis=1)
        place = self.yields.place(request, done)
        self._taken[:, column] = length - 1, ledger.output[request] - done, -(-(length - 1) // size), place
        self._rows[request] = column
        self._requests.append(request)
        self.n += 1
        self.context += length
        self.members[request] = length
        self._asked = None
        if self.shared_prefixes is not None and request in self.blocks.shared:
            self.shared_prefixes.join(self.blocks.shared[request][0])

    def advance(self, count: int, now: int) -> list[int]:
        """An iteration is over now; requests that got their last token."""
        assert count == 1, "iterations that verify are not fast-forwarded"
        n, spec = self.n, self.yields.spec
        cached, left, held, place = self._taken[:, :n]
        held[:] = self._wanted()
        table = self.yields.tables[spec.length(n)]
        tokens = np.minimum(table[place], left)
        place += 1
        place %= TURNS
        cached += tokens
        left -= tokens
        out = int(tokens.sum())
        self.iteration += 1
        self.context += out
        self.produced += out
        self.last = now
        self.fresh.clear()
        self._asked = None
        done = sorted(self._requests[column] for column in np.flatnonzero(left == 0).tolist())
        for request in done:
            del self.members[request]
        return done

    def stay(self, request: int) -> None:
        """A member of a static batch is done: its row goes on until the whole batch is."""
        self._drop(request)
        super().stay(request)

    def leave(self, request: int, length: int) -> None:
        """Take a request of that many tokens, the next included, off the sums; slots of its drafts are free."""
        _, _, held, _ = self._drop(request)
        if self.grows:
            self.blocks.give_back(held + (-(length - 1) // self.blocks.size))
        self.n -= 1
        self.context -= length
        if self.shared_prefixes is not None and request in self.blocks.shared:
            self.shared_prefixes.leave(self.blocks.shared[request][0])

    def evict(self, request: int) -> int:
        """Take out a request that decodes; its tokens in the cache."""
        if (place := self._fresh(request)) >= 0:
            del self.fresh[place]
        del self.members[request]
        cached, left, _, _ = self._taken[:, self._rows[request]].tolist()
        self.blocks.ledger.done[request] = self.blocks.ledger.output[request] - left
        self.leave(request, cached + 1)
        return int(cached)

    def generated(self, request: int) -> int:
        """Tokens of a member that are out."""
        return self.blocks.ledger.output[request] - int(self._taken[1, self._rows[request]])

    def need(self) -> int:
        """Blocks that the next iteration takes, those of drafted tokens among them."""
        if not self.n or not self.grows:
            return 0
        if self._asked is None:
            self._asked = int((self._wanted() - self._taken[2, : self.n]).sum())
        return self._asked

    def _wanted(self) -> Ints:
        """Blocks of the tokens of each member while its next iteration runs; none are given back before it leaves."""
        cached, _, held, _ = self._taken[:, : self.n]
        wanted: Ints = (
            held
            if not self.grows
            else np.maximum(held, -(-(cached + self.yields.spec.rows(self.n)) // self.blocks.size))
        )
        return wanted

    def _drop(self, request: int) -> list[int]:
        """Take the column of a member out; what it held. The last column takes its place."""
        column, last = self._rows.pop(request), self._requests.pop()
        found: list[int] = self._taken[:, column].tolist()
        end = len(self._requests)
        if last != request:
            self._requests[column] = last
            self._rows[last] = column
            self._taken[:, column] = self._taken[:, end]
        self._asked = None
        return found
