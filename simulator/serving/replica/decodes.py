"""Sequences of a batch that decode.

They are not looked at one by one: their number, the sum of their contexts and a heap of the iterations in which they
finish are enough, so that an iteration costs the same for any batch.
"""

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from simulator.serving.costs.shared_prefix import SharedPrefixAttention
from simulator.serving.replica.caches.blocks import Blocks

Ints = NDArray[np.int64]


class Decodes:
    """Members of a batch, as sums."""

    __slots__ = (
        "blocks",
        "context",
        "counts",
        "ends",
        "fresh",
        "grows",
        "iteration",
        "last",
        "members",
        "n",
        "over",
        "rows",
        "shared_prefixes",
        "short_looks",
    )

    def __init__(self, blocks: Blocks, grows: bool, shared_tokens: int) -> None:
        """None. `grows`: they take blocks as they grow; `shared_tokens` are those of an identity of the prefix cache
        that they read together, 0 where each reads for itself."""
        self.blocks, self.grows = blocks, grows
        self.iteration = 0
        """Decode iterations so far."""
        self.n = 0
        """Sequences that decode."""
        self.context = 0
        """Tokens that their next iteration reads, all together."""
        self.members: dict[int, int] = {}
        """Requests that decode, oldest first, and the iteration after which each is done."""
        self.ends: list[tuple[int, int]] = []
        """Heap of (iteration after which it is done, request); entries that `members` does not confirm are void."""
        self.counts = [0] * blocks.size
        """Sequences by (cached tokens - iterations) modulo the block size, which says when each needs a block."""
        self.shared_prefixes = SharedPrefixAttention(shared_tokens) if shared_tokens else None
        """Prefixes that are read once for all members; None where each reads for itself."""
        self.rows = 0
        """Rows that decode without a request: members of a static batch that are done."""
        self.over: list[int] = []
        """Those members."""
        self.last = 0
        """When members got their last token, those in `fresh` apart."""
        self.fresh: list[int] = []
        """Last tokens of members that joined since."""
        self.short_looks = False
        """Whether only few iterations are looked at where members come and go: a stretch may then end before anything
        changes, which rows of iterations say."""

    def join(self, request: int, since: int) -> None:
        """A request, whose last token came out at `since`, decodes from the next iteration on."""
        ledger = self.blocks.ledger
        done = ledger.done[request]
        length = ledger.prompt[request] + done
        end = self.iteration + ledger.output[request] - done
        if self.n == 0:
            self.last = since
        elif since != self.last or self.fresh:  # the youngest is the last of `fresh`, if there are any
            self.fresh.append(since)
        self.n += 1
        self.context += length
        if self.grows:
            self.counts[(length - 1 - self.iteration) % len(self.counts)] += 1
        self.members[request] = end
        heappush(self.ends, (end, request))
        if self.shared_prefixes is not None and request in self.blocks.shared:
            self.shared_prefixes.join(self.blocks.shared[request][0])

    def advance(self, count: int, now: int) -> list[int]:
        """So many iterations are over now; requests that got their last token, in the order of their ends."""
        iteration = self.iteration = self.iteration + count
        self.context += count * (self.n + self.rows)
        self.last = now
        if self.fresh:
            self.fresh.clear()
        return self.over_by(iteration)

    def over_by(self, iteration: int) -> list[int]:
        """Requests whose last iteration is that one, or was before it, in the order of their ends; they are members no
        more."""
        ends, members, done = self.ends, self.members, []
        while ends and ends[0][0] <= iteration:
            end, request = heappop(ends)
            if members.get(request) == end:
                del members[request]
                done.append(request)
        return done

    def stay(self, request: int) -> None:
        """A member of a static batch is done: its row goes on until the whole batch is."""
        self.rows += 1
        self.n -= 1
        self.over.append(request)

    def dismiss(self) -> list[int]:
        """The last member of a static batch is done: all that stayed leave."""
        self.rows = self.context = 0
        if self.shared_prefixes is not None:
            self.shared_prefixes.clear()
        over, self.over = self.over, []
        return over

    def leave(self, request: int, length: int) -> None:
        """Take a request of that many tokens, the next included, off the sums."""
        self.n -= 1
        self.context -= length
        if self.shared_prefixes is not None and request in self.blocks.shared:
            self.shared_prefixes.leave(self.blocks.shared[request][0])
        if self.grows:
            self.counts[(length - 1 - self.iteration) % len(self.counts)] -= 1

    def evict(self, request: int) -> int:
        """Take out a request that decodes; its tokens in the cache."""
        if (place := self._fresh(request)) >= 0:
            del self.fresh[place]
        ledger = self.blocks.ledger
        remaining = self.members.pop(request) - self.iteration
        length = ledger.prompt[request] + ledger.output[request] - remaining
        ledger.done[request] = ledger.output[request] - remaining
        self.leave(request, length)
        return length - 1

    def generated(self, request: int) -> int:
        """Tokens of a member that are out."""
        return self.blocks.ledger.output[request] - self.members[request] + self.iteration

    def last_token(self, request: int) -> int:
        """When a member got its last token."""
        place = self._fresh(request)
        return self.fresh[place] if place >= 0 else self.last

    def _fresh(self, request: int) -> int:
        """The place of a member in `fresh`, which holds the youngest ones; less than 0 where it is not there."""
        younger = next(count for count, member in enumerate(reversed(self.members)) if member == request)
        return len(self.fresh) - 1 - younger

    # Growth ---------------------------------------------------------------------------------------------------------

    def need(self) -> int:
        """Blocks that the next iteration takes."""
        return self.counts[-self.iteration % len(self.counts)] if self.n else 0

    def until_done(self) -> int:
        """Iterations until the first member is done."""
        ends, members = self.ends, self.members
        while members.get(ends[0][1]) != ends[0][0]:
            heappop(ends)
        return ends[0][0] - self.iteration

    def grown(self, count: int) -> int:
        """Blocks that the next `count` iterations need."""
        counts, size = self.counts, len(self.counts)
        whole, rest = divmod(count, size)
        stop = -self.iteration % size + 1
        start = stop - rest  # of the rest, which goes round where it is less than 0
        last = sum(counts[start:stop]) if start >= 0 else sum(counts[:stop]) + sum(counts[start:])
        return whole * sum(counts) + last if whole else last

    def affordable(self, free: int) -> tuple[int, int]:
        """(iterations, blocks): the most iterations, at least 1, that `free` blocks suffice for: whole rounds in which
        every sequence takes a block, and what fits of another one."""
        size, counts, start = len(self.counts), self.counts, -self.iteration
        whole, remaining = divmod(free, sum(counts))
        rest = 0
        while (taken := counts[(start - rest) % size]) <= remaining:
            remaining -= taken
            rest += 1
        count = max(1, whole * size + rest)
        return count, self.grown(count)

    def later(self, count: int) -> Ints:
        """Tokens by which the contexts are longer in each of the next `count` iterations than in the first."""
        found: Ints = np.arange(count) * (self.n + self.rows)
        return found

    def taken(self, count: int) -> Ints:
        """Blocks that were taken before each of the next `count` iterations since the first began."""
        counts = np.array(self.counts, np.int64)
        found = np.zeros(count, np.int64)
        counts[(-self.iteration - np.arange(count - 1)) % len(counts)].cumsum(out=found[1:])
        return found
