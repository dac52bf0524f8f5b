"""Sequences of a batch that are verified several rows at a time, and get several tokens from an iteration.

Each iteration of a sequence takes the next number of tokens from a table, at a place of the sequence's own: what it
gets does not depend on the sequences that it runs with, nor on when. Frequencies in the table are those that the
acceptance says, to one part in the length of the table. Slots of drafted tokens are taken with the blocks that they lie
in; those of rejected tokens are written over by the next iteration. While members stay, iterations are looked at many
at a time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.serving.replica import looking
from simulator.serving.replica.caches.blocks import Blocks
from simulator.serving.replica.decodes import Decodes
from simulator.specs.speculation import Speculation

Ints = NDArray[np.int64]

TURNS = 1 << 16
"""Entries of a table of tokens."""
STRIDE = 2_654_435_761
"""Odd multiplier that spreads requests over the table (2^32 over the golden ratio)."""
FEW = 16
"""Sequences that there is room for at first."""
AHEAD = 128
"""Iterations that are looked at together, at most."""
LEAST_AHEAD = 8
"""Iterations that are looked at together, at least, where members come and go; else twice those of the last stay."""
CELLS = 8_192
"""Iterations times members that compiled code looks at in the time that another stay would take."""


class Yields:
    """How many tokens sequences get from their iterations, by draft length."""

    def __init__(self, spec: Speculation, random: np.random.Generator) -> None:
        """Of a speculation; the order in which numbers come is drawn, or follows the mean."""
        self.spec = spec
        lengths = {spec.draft_length, *(part.draft_length for part in spec.by_load)}
        order = random.permutation(TURNS) if spec.yields == "random" else None
        self.tables = {length: _sums(_table(spec, length, order)) for length in lengths}
        """Tokens of all entries before each, by draft length; as many more as are looked at together."""
        self.means = {length: float(table[TURNS]) / TURNS for length, table in self.tables.items()}
        """Tokens of an entry on average."""
        self.largest = {length: int(np.diff(table).max()) for length, table in self.tables.items()}
        """The most tokens of an entry."""
        self._drafts: dict[int, tuple[int, int]] = {}

    def drafts(self, sequences: int) -> tuple[int, int]:
        """(tokens that are drafted, rows that are verified) for each of so many sequences."""
        found = self._drafts.get(sequences)
        if found is None:
            found = self._drafts[sequences] = self.spec.length(sequences), self.spec.rows(sequences)
        return found

    def place(self, request: int, done: int) -> int:
        """Where in the table a request begins that has so many tokens already."""
        return (request * STRIDE + done * (STRIDE >> 7)) % (1 << 32) % TURNS


def _sums(table: Ints) -> Ints:
    """Tokens before each entry of a table that begins again at its end."""
    found: Ints = np.concatenate([[0], np.cumsum(np.concatenate([table, table[:AHEAD]]))])
    return found


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


class Ahead:
    """Iterations to come while members stay: as many as until the first is done, or `most`."""

    __slots__ = ("_rows", "_size", "_tokens", "count", "done", "held", "out")

    def __init__(self, taken: Ints, table: Ints, rows: int, size: int, mean: float, largest: int, most: int) -> None:
        """Of members with columns as `SpeculatingDecodes` has them; `size` is that of blocks, 0 where none are taken.
        `table` is one of `Yields`, `mean` what it gives on average and `largest` what it gives at most."""
        cached, left, held, place = taken
        self._rows, self._size = rows, size
        least = int(np.minimum.reduce(left))
        count = max(min(int(least / mean * 1.2) + 3, most), 1)
        tokens: Ints = table[place + np.arange(count + 1)[:, None]]
        tokens -= tokens[0].copy()
        self.done = False
        """Whether members are done after the last of these iterations."""
        if least <= count * largest:  # some may be done
            near = (left <= count * largest).nonzero()[0]
            over = np.logical_or.reduce(tokens[1:, near] >= left[near], axis=1)
            first = int(over.argmax())
            self.done = bool(over[first])
            if self.done:
                count = first + 1
                tokens = tokens[: count + 1]
                tokens[-1, near] = np.minimum(tokens[-1, near], left[near])
        self.count = count
        """How many iterations."""
        self._tokens = tokens
        """Tokens of each member before each iteration, shape (count + 1, n)."""
        self.out: Ints = np.add.reduce(tokens, axis=1)
        """Tokens of all before each iteration, shape (count + 1,)."""
        self.held: Ints = np.empty(count + 1, np.int64)
        """Blocks of all before the first iteration and in each, shape (count + 1,)."""
        self.held[0] = np.add.reduce(held)
        if size:
            wanted = tokens[:-1] + (cached + (rows + size - 1))
            wanted //= size
            np.add.reduce(np.maximum(wanted, held, out=wanted), axis=1, out=self.held[1:])
        else:
            self.held[1:] = self.held[0]

    def settle(self, taken: Ints, passed: int) -> None:
        """Bring members to where they are after the first `passed` of them."""
        tokens, size = self._tokens[passed], self._size
        cached, left, held, place = taken[:, : len(tokens)]
        if size:
            np.maximum(held, (self._tokens[passed - 1] + cached + (self._rows + size - 1)) // size, out=held)
        cached += tokens
        left -= tokens
        place += passed
        place %= TURNS


class CompiledAhead:
    """The same by compiled code, over columns that are kept."""

    __slots__ = ("_given", "_look", "_settle", "count", "done", "held", "out")

    def __init__(self, code: tuple[Callable[..., Any], Callable[..., Any]]) -> None:
        """Of no members; `code` as `looking.compiled` gives it. Of `out` and `held` the first `count` + 1 are those of
        the last look; what lies behind them is of earlier ones."""
        self._look, self._settle = code
        self.count, self.done = 0, False
        self.out, self.held = np.zeros((2, AHEAD + 1), np.int64)
        self._given: tuple[int, Ints, int, int] = 0, self.out, 0, 0

    def look(
        self, taken: Ints, n: int, table: Ints, rows: int, size: int, mean: float, largest: int, most: int
    ) -> "CompiledAhead":
        """It, with what `Ahead` says of the first `n` columns."""
        self._given = n, table, rows, size
        self.count, self.done = self._look(taken, n, table, rows, size, mean, largest, most, self.out, self.held)
        return self

    def settle(self, taken: Ints, passed: int) -> None:
        """Bring members to where they are after the first `passed` iterations."""
        self._settle(taken, *self._given, passed, self.done and passed == self.count, TURNS)


class SpeculatingDecodes(Decodes):
    """Members of a batch, one by one in columns."""

    __slots__ = ("_ahead", "_compiled", "_look", "_passed", "_requests", "_rows", "_taken", "produced", "yields")

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
        """Of each member: tokens in the cache, tokens still to come, blocks of its tokens, its place in the table; all
        as they were before the iterations that have `_passed`."""
        self._ahead: Ahead | CompiledAhead | None = None
        """Iterations that were looked at; None where members came or went since."""
        code = looking.compiled_for(len(blocks.ledger))
        self._compiled = None if code is None else CompiledAhead(code)
        """What looks where many iterations are looked at; None where that is not worth the loading of the code."""
        self._passed = 0
        """How many of them are over."""
        self._look = AHEAD
        """How many to look at next."""

    def join(self, request: int, since: int) -> None:
        """A request, whose last token came out at `since`, decodes from the next iteration on."""
        ledger, size = self.blocks.ledger, self.blocks.size
        done = ledger.done[request]
        length = ledger.prompt[request] + done
        if self.n == 0:
            self.last = since
        elif since != self.last or self.fresh:
            self.fresh.append(since)
        self._settle()
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
        if self.shared_prefixes is not None and request in self.blocks.shared:
            self.shared_prefixes.join(self.blocks.shared[request][0])

    def advance(self, count: int, now: int) -> list[int]:
        """So many iterations are over now; requests that got their last token."""
        ahead = self._looked()
        passed = self._passed + count
        out = int(ahead.out[passed] - ahead.out[self._passed])
        self._passed = passed
        self.iteration += count
        self.context += out
        self.produced += out
        self.last = now
        self.fresh.clear()
        if passed < ahead.count:
            return []
        self._settle()
        if not ahead.done:
            return []
        done = sorted(self._requests[column] for column in (self._taken[1, : self.n] == 0).nonzero()[0].tolist())
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
        self._settle()
        cached, left, _, _ = self._taken[:, self._rows[request]].tolist()
        self.blocks.ledger.done[request] = self.blocks.ledger.output[request] - left
        self.leave(request, cached + 1)
        return int(cached)

    def generated(self, request: int) -> int:
        """Tokens of a member that are out."""
        self._settle()
        return self.blocks.ledger.output[request] - int(self._taken[1, self._rows[request]])

    # Iterations to come -----------------------------------------------------------------------------------------------

    def need(self) -> int:
        """Blocks that the next iteration takes, those of drafted tokens among them."""
        return self.grown(1) if self.n and self.grows else 0

    def until_done(self) -> int:
        """Iterations until the first member is done, or as many as were looked at."""
        return self._looked().count - self._passed

    def until(self, room: int) -> tuple[int, int, Ints]:
        """(iterations until the first member is done, or as many as were looked at, while contexts grow by `room`
        tokens or less; blocks that these need; tokens as `later` gives them)."""
        ahead, passed = self._looked(), self._passed
        count, later = ahead.count - passed, ahead.out[passed : ahead.count]
        if passed:
            later = later - later[0]
        if count > 1 and later[-1] > room:
            count = int(later.searchsorted(room, side="right"))
        return count, int(ahead.held[passed + count] - ahead.held[passed]), later

    def grown(self, count: int) -> int:
        """Blocks that the next `count` iterations need; none are given back before a member leaves."""
        held = self._looked().held
        return int(held[self._passed + count] - held[self._passed])

    def affordable(self, free: int) -> tuple[int, int]:
        """(iterations, blocks): the most iterations, at least 1, that `free` blocks suffice for."""
        ahead = self._looked()
        held = ahead.held[self._passed : ahead.count + 1]
        count = max(int(np.searchsorted(held - held[0], free, side="right")) - 1, 1)
        return count, self.grown(count)

    def later(self, count: int) -> Ints:
        """Tokens by which the contexts are longer in each of the next `count` iterations than in the first."""
        out = self._looked().out[self._passed : self._passed + count]
        found: Ints = out - out[0]
        return found

    def taken(self, count: int) -> Ints:
        """Blocks that were taken before each of the next `count` iterations since the first began."""
        held = self._looked().held[self._passed : self._passed + count]
        found: Ints = held - held[0]
        return found

    def _looked(self) -> Ahead | CompiledAhead:
        """Iterations to come, with at least one that is not over."""
        if self._ahead is None:
            yields, n = self.yields, self.n
            length, rows = yields.drafts(n)
            size = self.blocks.size if self.grows else 0
            look = self._look if self.short_looks else AHEAD
            if self._compiled is not None:
                look = min(max(look, CELLS // max(n, 1)), AHEAD)
            table = yields.tables[length], rows, size, yields.means[length], yields.largest[length]
            if self._compiled is not None:
                self._ahead = self._compiled.look(self._taken, n, *table, look)
            else:
                self._ahead = Ahead(self._taken[:, :n], *table, look)
        return self._ahead

    def _settle(self) -> None:
        """Bring the columns of members to where they are now, and look anew from here."""
        ahead, passed = self._ahead, self._passed
        self._ahead, self._passed = None, 0
        if ahead is None or not passed:
            return
        self._look = min(max(2 * passed, LEAST_AHEAD), AHEAD)
        ahead.settle(self._taken, passed)

    def _drop(self, request: int) -> list[int]:
        """Take the column of a member out; what it held. The last column takes its place."""
        self._settle()
        column, last = self._rows.pop(request), self._requests.pop()
        found: list[int] = self._taken[:, column].tolist()
        end = len(self._requests)
        if last != request:
            self._requests[column] = last
            self._rows[last] = column
            self._taken[:, column] = self._taken[:, end]
        return found
