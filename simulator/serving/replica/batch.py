"""A batch that runs iteration after iteration: what it works on, when it ends, and how far it can leap.

Requests wait in their replica; a policy chooses which prompts an iteration works on and whether it decodes. Sequences
that decode are not looked at one by one: their number, the sum of their contexts and a heap of the iterations in
which they finish are enough, so that an iteration costs the same for any batch.

A leap runs decode iterations in a row in which nothing can change. Iteration j lasts `first + j * growth` ticks, whole
numbers, so the sum is exact. An arrival cuts the leap at the boundary at or after it.
"""

from heapq import heappop, heappush
from math import isqrt
from typing import TYPE_CHECKING, Any

from simulator.serving.costs.readers import Readers
from simulator.serving.policies.base import Chunks

if TYPE_CHECKING:
    from simulator.engine.agenda import Appointment
    from simulator.serving.replica.replica import Replica


class Batch:
    """Sequences that run together; a replica has one for each pipeline stage."""

    __slots__ = (
        "agenda",
        "base",
        "blocked",
        "chunks",
        "closed",
        "context",
        "counts",
        "decoding",
        "ended_prompts",
        "ends",
        "first",
        "fresh",
        "growth",
        "iteration",
        "last",
        "leap",
        "limit",
        "members",
        "moment",
        "n",
        "over",
        "partial",
        "priced",
        "queue",
        "readers",
        "replica",
        "rows",
        "slope",
        "start",
        "used",
        "worked",
    )

    def __init__(self, replica: "Replica") -> None:
        """Empty."""
        self.replica = replica
        self.agenda = replica.agenda
        self.n = 0
        """Sequences that decode."""
        self.context = 0
        """Tokens that their next iteration reads, all together."""
        self.iteration = 0
        """Decode iterations so far."""
        self.ends: list[tuple[int, int]] = []
        """Heap of (iteration after which it is done, request); entries that `members` does not confirm are void."""
        self.members: dict[int, int] = {}
        """Requests that decode, oldest first, and the iteration after which each is done."""
        self.counts = [0] * replica.block_size
        """Sequences by (cached tokens - iterations) modulo the block size: who needs a block when."""
        self.readers = Readers(replica.shared_tokens) if replica.shared_tokens else None
        """Prefixes that are read once for all members; None where each reads for itself."""
        self.partial: list[int] = []
        """Requests whose prompt is under way."""
        self.chunks: Chunks = []
        """(request, tokens of its prompt) of the running iteration."""
        self.worked = self.ended_prompts = 0
        """Tokens of these pieces, and how many of them end their prompt."""
        self.decoding = False
        """Whether the running iteration decodes."""
        self.rows = 0
        """Rows that decode without a request: members of a static batch that are done."""
        self.over: list[int] = []
        """Those members."""
        self.leap = 0
        """Iterations that run in a row; 0 while idle."""
        self.first = self.growth = self.start = 0
        """Ticks of the first of them, by how many each next is longer, and when the first began."""
        self.priced = self.base = self.slope = 0
        """Sequences whose price is known, and its ticks: of none of the context, and of a token of it."""
        self.limit = 0
        """Tokens of context up to which the price of its decodes holds."""
        self.last = 0
        """When members got their last token, those in `fresh` apart."""
        self.fresh: list[int] = []
        """Last tokens of members that joined since."""
        self.used = self.queue = 0
        """Blocks in use, without those that its decodes take, and requests waiting, when it began."""
        self.blocked = False
        """Whether requests wait that cannot be admitted before a member is done."""
        self.closed = False
        """Whether somebody was preempted just now or waits on the host, so that nobody is admitted."""
        self.moment: Appointment | None = None

    # What policies look at ------------------------------------------------------------------------------------------

    @property
    def running(self) -> int:
        """Sequences that hold a place."""
        return self.n + len(self.partial) + self.rows

    # Time -----------------------------------------------------------------------------------------------------------

    def ended(self, moment: Any) -> None:
        """The iteration, or the leap, is over."""
        if moment is not self.moment:
            return
        agenda = self.agenda
        self._complete(agenda.now)
        if not agenda.queue or agenda.queue[0][0] > agenda.now:  # `alone`, without the call
            self.begin(None)
        else:
            self.moment = agenda.begin(self.begin)

    def begin(self, _: Any) -> None:
        """Choose what to do next and start it, or rest."""
        replica, now = self.replica, self.agenda.now
        if now < replica.gate:
            self.moment = self.agenda.at(replica.gate, self.begin)
            return
        if replica.ready:
            replica.welcome(self)
        need = self.counts[-self.iteration % replica.block_size] if self.n else 0
        extra, self.closed = 0, False
        if replica.swapped or need > replica.free:
            before = replica.preempted
            need, extra = replica.make_room(self, need, now)
            # Who waits on the host comes back before anybody new, or a steady stream of short prompts would starve it.
            self.closed = bool((replica.preempted > before or replica.swapped) and (self.n or self.partial))
        self.blocked = False
        chunks: Chunks = []
        decodes = True
        if self.partial or replica.waiting:
            chunks, decodes = replica.policy.decide(self, replica.available() - need, now)
            self.blocked = not chunks and not self.closed
        if not chunks and not self.n:
            if len(self.partial) > 1 and replica.policy.grows:  # they keep each other from the memory they need
                replica.preempt(self)
                self.begin(None)
            else:
                self._rest()
            return
        if chunks:
            replica.admit(self, chunks, now)
        self._start(chunks, self.n > 0 and (decodes or not chunks), need, extra, now)

    def _rest(self) -> None:
        self.leap = 0
        self.moment = None
        self.replica.idle.append(self)

    def _start(self, chunks: Chunks, decodes: bool, need: int, extra: int, now: int) -> None:
        """Price the iteration and make the appointment at its end."""
        replica = self.replica
        self.chunks, self.decoding, self.start, self.leap, self.growth = chunks, decodes, now, 1, 0
        self.queue = len(replica.waiting)
        n = self.n + self.rows if decodes else 0
        settled = replica.policy.timeless
        if need and decodes:
            settled = settled and need <= replica.free  # else a prefix is dropped, which who waits may have counted on
            replica.take(need)
        self.used = replica.memory.blocks - replica.free - (need if decodes else 0)
        worked = ended = 0
        if chunks:
            left = replica.ledger.left
            for request, chunk in chunks:
                worked += chunk
                if left[request] == chunk:
                    ended += 1
        self.worked, self.ended_prompts = worked, ended
        replica.copied += extra
        if replica.turns:
            span = self.first = replica.pass_through(self, n, extra, now)
            if replica.streams and not n and not self.ended_prompts:
                span = self.first = replica.gate - now
        else:
            span = self.first = self._lasts_one(n, extra)
            if not (chunks or extra or self.closed) and replica.leaps and (settled or not self.blocked):
                self._reach(need)
                if self.leap > 1:
                    span = self._lasts(self.leap)
        if replica.group is not None:
            replica.group.enter(self, span, n + worked, n + ended)
            return
        self.appoint(now + span)

    def appoint(self, end: int) -> None:
        """The iteration, or the leap, ends then."""
        self.moment = self.agenda.at(end, self.ended)
        if self.chunks and self.replica.role == "prefill":
            self._announce(self.start, end)

    def _lasts_one(self, n: int, extra: int) -> int:
        """Ticks of an iteration on a replica of one stage; notes by how much the next would be longer."""
        replica, chunks = self.replica, self.chunks
        price = replica.prices[0]
        ticks = extra + price.rows(n + self.worked, n + self.ended_prompts) + price.host(n + len(chunks))
        if chunks:
            ticks += replica.prompt_price(price, chunks)
        if n:
            context = self.context
            if n == self.priced and context <= self.limit:  # as in the iteration before
                ticks += self.base + self.slope * context
            elif self.readers is None:
                for self.limit, self.base, self.slope in price.decode(n):
                    if context <= self.limit:
                        break
                self.priced = n
                ticks += self.base + self.slope * context
            else:
                reading, self.slope, self.limit = replica.decode_price(0, n, self)
                ticks += reading
            self.growth = self.slope * n
        return ticks

    def _announce(self, begin: int, end: int) -> None:
        """Tell the owner which prompts end with this iteration and decode elsewhere."""
        replica = self.replica
        ledger = replica.ledger
        for request, chunk in self.chunks:
            if ledger.left[request] == chunk and ledger.output[request] > 1:
                replica.owner.early(request, replica, begin, end)

    # Leaps ----------------------------------------------------------------------------------------------------------

    def _lasts(self, count: int) -> int:
        """Ticks of that many iterations in a row."""
        return count * self.first + self.growth * (count * (count - 1) // 2)

    def _reach(self, taken: int) -> None:
        """Leap to the iteration in which the first member is done, as far as blocks and the price's segment go.

        `taken` blocks were taken for the first iteration already.
        """
        ends, members = self.ends, self.members
        while members.get(ends[0][1]) != ends[0][0]:
            heappop(ends)
        replica = self.replica
        count = ends[0][0] - self.iteration
        count = min(count, (self.limit - self.context) // (self.n + self.rows) + 1)
        if count <= 1:
            return
        blocks = self._grown(count)
        if blocks - taken > replica.free:
            count, blocks = self._affordable(replica.free + taken)
        replica.take(blocks - taken)
        self.leap = count

    def _grown(self, count: int) -> int:
        """Blocks that the next `count` iterations need."""
        size, counts, start = len(self.counts), self.counts, -self.iteration
        whole, rest = divmod(count, size)
        return whole * sum(counts) + sum([counts[(start - j) % size] for j in range(rest)])

    def _affordable(self, free: int) -> tuple[int, int]:
        """(iterations, blocks): the most iterations, at least 1, that `free` blocks suffice for: whole rounds in which
        every sequence takes a block, and what fits of another one."""
        size, counts, start = len(self.counts), self.counts, -self.iteration
        whole, left = divmod(free, sum(counts))
        rest = 0
        while (taken := counts[(start - rest) % size]) <= left:
            left -= taken
            rest += 1
        count = max(1, whole * size + rest)
        return count, self._grown(count)

    def done_by(self, now: int) -> int:
        """Iterations of the running leap whose end is before or at `now`, at least 0."""
        elapsed, first, growth = now - self.start, self.first, self.growth
        if not growth:
            return min(self.leap, elapsed // first)
        middle = 2 * first - growth
        count = (isqrt(middle * middle + 8 * growth * elapsed) - middle) // (2 * growth)
        while self._lasts(count + 1) <= elapsed:
            count += 1
        return min(self.leap, count)

    def cut(self) -> None:
        """Something came: end the leap at the first boundary from now on."""
        if self.leap <= 1 or self.moment is None:
            return
        now = self.agenda.now
        count = self.done_by(now)
        if count == 0 or self._lasts(count) < now - self.start:
            count += 1
        if count < self.leap:
            self.replica.give_back(self._grown(self.leap) - self._grown(count))
            self.leap = count
            self.moment = self.agenda.at(self.start + self._lasts(count), self.ended)

    # What an iteration leaves ---------------------------------------------------------------------------------------

    def _complete(self, now: int) -> None:
        """Tokens are out, prompts are done, requests finish."""
        replica = self.replica
        replica.note(self, now)
        if self.decoding:
            count = self.leap
            self.iteration += count
            self.context += count * (self.n + self.rows)
            self.last = now
            if self.fresh:
                self.fresh.clear()
            ends = self.ends
            while ends and ends[0][0] <= self.iteration:
                end, request = heappop(ends)
                if self.members.get(request) == end:
                    self._finish(request, now)
            if self.rows and not self.n and not self.partial:
                self._dismiss(now)
        self.leap = 0
        if self.chunks:
            left = replica.ledger.left
            for request, chunk in self.chunks:
                left[request] -= chunk
                if not left[request]:
                    self.partial.remove(request)
                    replica.prompt_done(self, request, now)

    def join(self, request: int, since: int) -> None:
        """A request, whose last token came out at `since`, decodes from the next iteration on."""
        ledger = self.replica.ledger
        done = ledger.done[request]
        length = ledger.prompt[request] + done
        end = self.iteration + ledger.output[request] - done
        if self.n == 0:
            self.last = since
        elif since != self.last or self.fresh:  # the youngest is the last of `fresh`, if there are any
            self.fresh.append(since)
        self.n += 1
        self.context += length
        if self.replica.policy.grows:
            self.counts[(length - 1 - self.iteration) % len(self.counts)] += 1
        self.members[request] = end
        heappush(self.ends, (end, request))
        if self.readers is not None and request in self.replica.shared:
            self.readers.join(self.replica.shared[request][0])

    def _finish(self, request: int, now: int) -> None:
        ledger = self.replica.ledger
        length = ledger.prompt[request] + ledger.output[request]
        del self.members[request]
        ledger.done[request] = ledger.output[request]
        if self.replica.policy.together:  # its row goes on until the whole batch is done
            self.rows += 1
            self.n -= 1
            self.over.append(request)
            return
        self._leave(request, length)
        self.replica.finish(request, length - 1, now)

    def _dismiss(self, now: int) -> None:
        """The last member of a static batch is done: all leave."""
        ledger, over = self.replica.ledger, self.over
        self.rows = self.context = 0
        if self.readers is not None:
            self.readers.clear()
        self.over = []
        for request in over:
            self.replica.finish(request, ledger.prompt[request] + ledger.output[request] - 1, now)

    def _leave(self, request: int, length: int) -> None:
        """Take a request of that many tokens, the next included, off the sums."""
        self.n -= 1
        self.context -= length
        if self.readers is not None and request in self.replica.shared:
            self.readers.leave(self.replica.shared[request][0])
        if self.replica.policy.grows:
            self.counts[(length - 1 - self.iteration) % len(self.counts)] -= 1

    def expel(self, request: int) -> int:
        """Take out a request that decodes; its tokens in the cache."""
        ledger = self.replica.ledger
        left = self.members.pop(request) - self.iteration
        length = ledger.prompt[request] + ledger.output[request] - left
        ledger.done[request] = ledger.output[request] - left
        self._leave(request, length)
        self.fresh = self.fresh[:-1]
        return length - 1

    def last_token(self) -> int:
        """When the youngest member, whom preemption takes, got its last token."""
        return self.fresh[-1] if self.fresh else self.last
