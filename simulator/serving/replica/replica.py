"""A replica: its queue, its cache blocks and the batches that run on it.

Memory is counted in blocks: those that nothing uses (`free`), those of requests, and those of cached prefixes, of
which idle ones give way. Before a batch decodes, room for its growth is made: idle prefixes go first, then the
sequences that came last are preempted, to be computed again or moved to the host.
"""

from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from simulator import units
from simulator.engine.agenda import Agenda
from simulator.serving.policies import Policy
from simulator.serving.policies.base import Chunks
from simulator.serving.replica.batch import Batch
from simulator.serving.replica.ledger import FINISHED, REJECTED, Ledger
from simulator.serving.replica.prefix import PrefixCache
from simulator.serving.replica.usage import Usage
from simulator.serving.workload.generate import NEVER

if TYPE_CHECKING:
    from simulator.serving.costs.prices import StagePrice
    from simulator.serving.replica.lockstep import Lockstep

COLUMNS = 11
"""Numbers of a row of a replica's log, in the order of `results.Iterations`, and the prompts that end."""


class Owner(Protocol):
    """What a replica tells the fleet that it belongs to."""

    def finished(self, request: int, now: int) -> None:
        """A request has all its tokens, or was rejected."""

    def hand_over(self, request: int, replica: "Replica", now: int) -> None:
        """A prompt is done on a replica that does not decode."""

    def early(self, request: int, replica: "Replica", begin: int, end: int) -> None:
        """The last iteration of a prompt begins on a replica that does not decode."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The cache of a replica."""

    blocks: int
    block_size: int
    watermark: int
    """Blocks that stay free when a request is admitted."""
    token_bytes: float
    """Bytes of a token in the cache of one replica, all its devices together."""
    context: int = 1 << 62
    """Longest sequence in tokens, prompt and answer."""
    swap_tokens: int = 0
    """Tokens that host memory holds; 0: preempted sequences are computed again."""
    swap_rate: float = 0.0
    """Bytes per second between devices and host, all devices of the replica together."""


class Replica:
    """A copy of the model and its queue."""

    def __init__(
        self,
        name: str,
        number: int,
        role: str,
        agenda: Agenda,
        ledger: Ledger,
        policy: Policy,
        prices: "tuple[StagePrice, ...]",
        memory: Memory,
        owner: Owner,
        cache: PrefixCache | None = None,
        fast_forward: bool = True,
        in_flight: int | None = None,
        reads_once: bool = False,
    ) -> None:
        """Idle. `in_flight` is how many batches run at once, as many as there are stages where left out; `reads_once`
        says whether decodes read what the prefix cache shares among them once."""
        self.name, self.number, self.role = name, number, role
        self.agenda, self.ledger, self.policy, self.prices = agenda, ledger, policy, prices
        self.memory, self.owner, self.cache = memory, owner, cache
        self.block_size, self.watermark = memory.block_size, memory.watermark
        self.free = memory.blocks
        """Blocks that nothing uses."""
        in_flight = in_flight or len(prices)
        self.turns = len(prices) > 1 or in_flight > 1
        """Whether iterations wait for each other at a stage."""
        self.streams = in_flight < len(prices)
        """Whether pieces of a prompt follow each other from stage to stage, as no other batch fills the stages."""
        self.fast_forwards = fast_forward and not self.turns
        self.shared_tokens = cache.blocks * memory.block_size if reads_once and cache is not None else 0
        """Tokens of an identity of the prefix cache that decodes read together; 0 where each reads for itself."""
        self.waiting: deque[int] = deque()
        self.swapped: deque[int] = deque()
        """Requests in host memory, the first to come back first."""
        self.swapped_tokens = 0
        self.ready: list[int] = []
        """Requests whose cache has arrived from elsewhere and that decode from the next iteration on."""
        self.coming = 0
        """Requests that it has accepted and that do not decode yet."""
        self.held: dict[int, int] = {}
        """Blocks of requests that do not decode yet, shared ones apart; of all where memory is taken whole."""
        self.shared: dict[int, tuple[Sequence[int], int]] = {}
        """Identities that a request uses, and the cache blocks of its tokens that they hold."""
        self.paused: dict[int, int] = {}
        """Preempted requests and when they got their last token."""
        self.hits: dict[int, tuple[int, int]] = {}
        """Version of the cache, and identities that the prompt of a waiting request would find."""
        self.preempted = 0
        """Preemptions so far."""
        self.gate = 0
        """When the first stage is free."""
        self.stage_free = [0] * len(prices)
        self.outstanding = 0
        """Requests that it has and that are not finished."""
        self.pending = 0
        """Tokens of prompts in its queue."""
        self.log = array("q")
        self.usage = Usage(memory.block_size)
        self.gap_ticks, self.gap_counts = array("q"), array("q")
        self.group: Lockstep | None = None
        """Replicas that it runs in step with."""
        self.waits = array("q")
        """Ticks in which it waited for these, in each iteration; nothing where there are none."""
        self.shared_rows: dict[tuple[int, int], int] = {}
        """Iterations by the rows of all these, and those of them that gave a token."""
        self.busy = 0
        """Ticks in which it worked, the mean over its stages."""
        self.copied = 0
        """Ticks of its first stage in which it copied to and from the host."""
        self.reserve = policy.reserve
        """What an admission takes. Answers grow elsewhere where prompts are all that it works on; of batches that share
        the cache, each could hold half a prompt and wait for the other."""
        self.batches = [Batch(self) for _ in range(in_flight)]
        if (self.reserve == "chunk" and len(self.batches) > 1) or (self.reserve == "whole" and role == "prefill"):
            self.reserve = "prompt"
        self.idle = self.batches[::-1]

    # Requests come --------------------------------------------------------------------------------------------------

    def submit(self, request: int) -> None:
        """A request joins the queue, or is rejected because it could never run."""
        self.outstanding += 1
        self.pending += self.ledger.remaining_tokens[request]
        self.ledger.replica[request] = self.number
        if not self.could_run(request):
            self.reject(request)
            return
        self.waiting.append(request)
        self.wake(queued=True)

    def reject(self, request: int) -> None:
        """A request that can never run is answered with an error."""
        self.outstanding -= 1
        self.pending -= self.ledger.remaining_tokens[request]
        self.ledger.status[request], self.ledger.replica[request] = REJECTED, -1
        self.owner.finished(request, self.agenda.now)

    def could_run(self, request: int) -> bool:
        """Whether a request fits into the context and, alone, what of it is kept here into the cache."""
        prompt = self.ledger.prompt[request]
        tokens = prompt + self.ledger.output[request]
        if tokens > self.memory.context:
            return False
        kept = prompt if self.role == "prefill" else tokens
        return -(-kept // self.block_size) + self.watermark <= self.memory.blocks

    def accept(self, request: int) -> bool:
        """Take blocks for a request whose cache comes from elsewhere; False where there is no room now."""
        for batch in self.batches:
            batch.cut()  # a stretch has taken blocks ahead of time
        ledger = self.ledger
        tokens = ledger.prompt[request] + (0 if self.policy.grows else ledger.output[request])
        blocks = -(-tokens // self.block_size)
        blocks_reserved, slots_reserved = self.reserved()
        if blocks + blocks_reserved + self.watermark > self.available() or self.free_slots() <= slots_reserved:
            return False
        self.take(blocks)
        self.held[request] = blocks
        self.coming += 1
        self.outstanding += 1
        ledger.replica[request] = self.number
        return True

    def free_slots(self) -> int:
        """Sequences that may still join."""
        taken = sum(batch.running for batch in self.batches) + self.coming
        return self.policy.rules.max_sequences * len(self.batches) - taken

    def reserved(self) -> tuple[int, int]:
        """(blocks, slots) that those who lost their memory on a replica that decodes need before anybody new comes."""
        ledger, size = self.ledger, self.block_size
        away = (*self.waiting, *self.swapped)
        blocks = sum((ledger.prompt[request] + ledger.done[request]) // size + 1 for request in away)
        under_way = [request for batch in self.batches for request in batch.partial]
        return blocks + sum(self.blocks_for(request, ledger.remaining_tokens[request]) for request in under_way), len(
            away
        )

    def arrived(self, request: int) -> None:
        """The cache of an accepted request is here."""
        self.ready.append(request)
        self.wake()

    def admit_transferred(self, batch: Batch) -> None:
        """Requests whose cache has arrived decode from now on."""
        slots = max(0, self.policy.rules.max_sequences - batch.running)
        ready = sorted(self.ready)  # in an order that does not depend on who was told first
        for request in ready[:slots]:
            if self.policy.grows:
                del self.held[request]
            batch.join(request, self.ledger.first_token[request])
            self.coming -= 1
        self.ready = ready[slots:]
        if self.ready and self.idle:
            self.wake()

    def wake(self, queued: bool = False) -> None:
        """Something came that a idle or fast-forwarded batch should look at."""
        if self.idle:
            batch = self.idle.pop()
            batch.appointment = self.agenda.begin(batch.begin)
        elif self.fast_forwards:
            batch = self.batches[0]
            if batch.stretch > 1 and not (
                queued and batch.blocked and self.policy.in_order and self.policy.time_invariant
            ):
                batch.cut()

    # What policies ask ----------------------------------------------------------------------------------------------

    def before(self, request: int) -> int:
        """Tokens of a request that are in the cache before the next piece of its prompt."""
        ledger = self.ledger
        return ledger.prompt[request] + ledger.done[request] - ledger.remaining_tokens[request]

    def uncached(self, request: int) -> int:
        """Tokens of a waiting request's prompt that no cached prefix saves."""
        if self.cache is None:
            return self.ledger.remaining_tokens[request]
        return self.ledger.remaining_tokens[request] - self._hit(request)[1]

    def _hit(self, request: int) -> tuple[int, int]:
        """(identities, tokens) that a waiting request finds in the prefix cache; one token is always worked on."""
        cache = self.cache
        if cache is None or self.ledger.prefix is None:
            return 0, 0
        version, count = self.hits.get(request, (-1, 0))
        if version != cache.version:
            count = cache.matched(self._identities(request))
            self.hits[request] = cache.version, count
        size = cache.blocks * self.block_size
        count = min(count, (self.ledger.remaining_tokens[request] - 1) // size)
        return count, count * size

    def _identities(self, request: int) -> Sequence[int]:
        """Identities of the full blocks of what is to be computed."""
        ledger, cache = self.ledger, self.cache
        assert ledger.prefix is not None and cache is not None
        tokens = ledger.prompt[request] + ledger.done[request]
        return ledger.prefix[request][: tokens // (cache.blocks * self.block_size)]

    def blocks_for(self, request: int, chunk: int) -> int:
        """Blocks that working on the next `chunk` tokens of a prompt takes, those that it has apart."""
        ledger, size = self.ledger, self.block_size
        total = ledger.prompt[request]
        if self.reserve == "chunk":
            total += ledger.done[request] + chunk - ledger.remaining_tokens[request]
        else:
            total += ledger.output[request] if self.reserve == "whole" else ledger.done[request]
        if request in self.held:
            shared = self.shared[request][1] if request in self.shared else 0
            return -(-total // size) - self.held[request] - shared
        if self.cache is None:
            return -(-total // size)
        hit = self._hit(request)[1]
        return -(-(total + (hit if self.reserve == "chunk" else 0)) // size) - hit // size

    def demand(self, request: int, chunk: int) -> int:
        """Blocks out of the available ones that admitting a request takes: new ones, and idle ones that it pins."""
        if self.cache is None:
            return self.blocks_for(request, chunk)
        count = self._hit(request)[0]
        idle = self.cache.idle_among(self._identities(request)[:count])
        return self.blocks_for(request, chunk) + idle * self.cache.blocks

    def slack(self, request: int) -> int:
        """Tokens that the blocks of a prompt under way have room for."""
        shared = self.shared[request][1] if request in self.shared else 0
        return (self.held[request] + shared) * self.block_size - self.before(request)

    def alone(self, request: int) -> int:
        """Ticks that the prompt would take in iterations of its own, for policies that look ahead."""
        remaining, price = self.ledger.remaining_tokens[request], self.prices[0]
        chunk = min(remaining, self.policy.rules.token_budget)
        each = price.rows(chunk, 1) + price.together(chunk, 1) + price.host(1) + price.prompt(chunk, 0)
        return len(self.prices) * (-(-remaining // chunk)) * each

    def available(self) -> int:
        """Blocks that can be had without taking them from a running request."""
        return self.free if self.cache is None else self.free + self.cache.idle_blocks

    # Blocks ---------------------------------------------------------------------------------------------------------

    def take(self, blocks: int) -> None:
        """Use free blocks, dropping idle prefixes where there are too few."""
        if blocks > self.free and self.cache is not None:
            self.free += self.cache.evict(blocks - self.free)
        self.free -= blocks

    def give_back(self, blocks: int) -> None:
        """Blocks are free again."""
        self.free += blocks

    def admit(self, batch: Batch, chunks: Chunks, now: int) -> None:
        """Take memory for what an iteration works on, and the slots of those that start."""
        need = 0
        for request, chunk in chunks:
            if request not in self.held:
                need += self._start(batch, request, chunk, now)
            elif self.reserve == "chunk":
                blocks = max(0, self.blocks_for(request, chunk))
                self.held[request] += blocks
                need += blocks
        self.take(need)

    def _start(self, batch: Batch, request: int, chunk: int, now: int) -> int:
        """A waiting request becomes one under way; blocks that it takes."""
        ledger = self.ledger
        blocks = self.blocks_for(request, chunk)
        if self.waiting[0] == request:
            self.waiting.popleft()
        else:
            self.waiting.remove(request)
        self.pending -= ledger.remaining_tokens[request]
        if self.cache is not None:
            self._reuse(request)
        self.held[request] = blocks
        if ledger.scheduled[request] == NEVER:
            ledger.scheduled[request] = now
        batch.partial.append(request)
        return blocks

    def _reuse(self, request: int) -> None:
        """Pin what the prefix cache holds of a prompt."""
        count, tokens = self._hit(request)
        assert self.cache is not None
        self.hits.pop(request, None)
        if count:
            identities = self._identities(request)[:count]
            self.cache.pin(identities)
            self.shared[request] = identities, tokens // self.block_size
            self.ledger.remaining_tokens[request] -= tokens
            if not self.ledger.done[request]:
                self.ledger.cached[request] = tokens

    def _share(self, request: int, tokens: int) -> None:
        """Make the full blocks of `tokens` computed tokens of a request findable."""
        cache, prefix = self.cache, self.ledger.prefix
        if cache is None or prefix is None or not prefix[request]:
            return
        identities, blocks = self.shared.get(request, ((), 0))
        known = prefix[request][: tokens // (cache.blocks * self.block_size)]
        made = cache.insert(known[len(identities) :])
        if made:
            self.shared[request] = known[: len(identities) + made], blocks + made * cache.blocks
            if request in self.held:
                self.held[request] -= made * cache.blocks

    def release(self, request: int, tokens: int) -> None:
        """Give back the memory of a request with that many tokens in the cache."""
        held = self.held.pop(request, None)
        identities, shared = self.shared.pop(request, ((), 0))
        blocks = -(-tokens // self.block_size) - shared if held is None else held
        self.free += blocks
        if identities and self.cache is not None:
            self.cache.unpin(identities)

    # Preemption -----------------------------------------------------------------------------------------------------

    def make_room(self, batch: Batch, need: int, now: int) -> tuple[int, int]:
        """Room for the growth of a batch: (blocks that it needs now, ticks of copies to and from the host)."""
        extra = 0
        size, most = self.block_size, self.policy.rules.max_sequences
        preempted = False
        while need > self.available():
            extra += self.preempt(batch)
            preempted = True
            need = batch.counts[-batch.iteration % size] if batch.n else 0
        while self.swapped and not preempted:
            request = self.swapped[0]
            tokens = self.before(request)
            room = need + tokens // size + 1  # for its next token too
            if room + self.watermark > self.available() or min(self.free_slots(), most - batch.running) <= 0:
                break
            self.swapped.popleft()
            self.swapped_tokens -= tokens
            self.take(-(-tokens // size))
            batch.join(request, self._resume(request, now))
            extra += self._copy(tokens)
            need = batch.counts[-batch.iteration % size]
        return need, extra

    def preempt(self, batch: Batch) -> int:
        """Take the memory of the request that came last; ticks of copying it to the host."""
        ledger = self.ledger
        if batch.partial:
            request, decodes = batch.partial.pop(), False
            tokens = self.before(request)
        else:
            request, decodes = next(reversed(batch.members)), True
            self.paused[request] = batch.last_token()
            tokens = batch.evict(request)
        ledger.preemptions[request] += 1
        self.preempted += 1
        self.release(request, tokens)
        if decodes and self.swapped_tokens + tokens <= self.memory.swap_tokens:
            self.swapped.appendleft(request)
            self.swapped_tokens += tokens
            ledger.remaining_tokens[request] = 1
            return self._copy(tokens)
        ledger.remaining_tokens[request] = ledger.prompt[request] + ledger.done[request]
        self.pending += ledger.remaining_tokens[request]
        self.waiting.appendleft(request)
        return 0

    def _copy(self, tokens: int) -> int:
        return units.to_ticks(tokens * self.memory.token_bytes / self.memory.swap_rate)

    def _resume(self, request: int, now: int) -> int:
        """A request goes on: when it got its last token, now if it was never interrupted after one."""
        since = self.paused.pop(request, now)
        if since < now:
            self.ledger.pauses.append((request, since, now))
        return since

    # Iterations -----------------------------------------------------------------------------------------------------

    def decode_price(self, stage: int, sequences: int, batch: Batch) -> tuple[int, int, int]:
        """Attention of decodes: (ticks, by how much a token of context is longer, context up to which that holds)."""
        price, readers = self.prices[stage], batch.shared_prefixes
        together = more = 0
        if readers is not None:
            together, more = readers.together, readers.ticks(price)
        context = batch.context - together
        for limit, base, slope in price.decode(sequences):
            if context <= limit:
                return more + base + slope * context, slope, limit + together
        raise AssertionError("the last segment has no end")

    def prompt_price(self, price: "StagePrice", chunks: Chunks) -> int:
        """Ticks of the attention of pieces of prompts on a stage."""
        if len(chunks) == 1:
            ((request, chunk),) = chunks
            ledger = self.ledger
            return price.prompt(chunk, ledger.prompt[request] + ledger.done[request] - ledger.remaining_tokens[request])
        return price.prompts([(chunk, self.before(request)) for request, chunk in chunks])

    def pass_through(self, batch: Batch, n: int, extra: int, now: int) -> int:
        """Ticks from now until an iteration has passed all stages, each after the batches before it."""
        chunks = batch.chunks
        tokens, ready, work = n + batch.worked, now, 0
        for stage, price in enumerate(self.prices):
            ticks = price.rows(tokens, n + batch.ended_prompts)
            if chunks:
                ticks += self.prompt_price(price, chunks)
            if n:
                ticks += self.decode_price(stage, n, batch)[0]
            if stage == 0:
                ticks += extra + price.host(n + len(chunks))
            end = max(ready, self.stage_free[stage]) + ticks
            self.stage_free[stage] = end
            work += ticks
            ready = end + price.send(tokens)
        self.gate = self.stage_free[0]
        self.busy += work // len(self.prices)
        return ready - now

    def meet(self, rows: tuple[int, int], waited: int) -> None:
        """An iteration works on so many (rows, rows that give a token) of the group, and waits so many ticks for it."""
        self.shared_rows[rows] = self.shared_rows.get(rows, 0) + 1
        self.waits.append(waited)

    def note(self, batch: Batch, now: int) -> None:
        """Write down an iteration, or a stretch, that is over."""
        first, start = batch.first, batch.start
        n = batch.n if batch.decoding else 0
        self.log.extend(
            (
                start,
                batch.stretch,
                first,
                batch.growth,
                n,
                batch.worked,
                len(batch.chunks),
                batch.context if n else 0,
                batch.used,
                batch.queue,
                batch.ended_prompts,
            )
        )
        if batch.stretch > 1 and self.policy.grows:
            self.usage.note(batch.stretch, first, batch.growth, batch.used, batch.iteration, batch.counts)
        if not self.turns:
            self.busy += now - start
        if n:
            fresh, end = batch.fresh, start + first
            if not fresh:
                self.gap_ticks.append(end - batch.last)
                self.gap_counts.append(n)
                return
            if n > len(fresh):
                self.gap_ticks.append(end - batch.last)
                self.gap_counts.append(n - len(fresh))
            for tick in fresh:
                self.gap_ticks.append(end - tick)
                self.gap_counts.append(1)

    def prompt_done(self, batch: Batch, request: int, now: int) -> None:
        """A prompt is in the cache and its next token is out."""
        ledger = self.ledger
        self._share(request, ledger.prompt[request] + ledger.done[request])
        ledger.done[request] += 1
        if ledger.first_token[request] == NEVER:
            ledger.first_token[request] = now
        elif (since := self._resume(request, now)) < now:
            self.gap_ticks.append(now - since)
            self.gap_counts.append(1)
        if ledger.done[request] == ledger.output[request]:
            self.finish(request, ledger.prompt[request] + ledger.done[request] - 1, now)
        elif self.role == "prefill":
            self.outstanding -= 1
            self.owner.hand_over(request, self, now)
        else:
            if self.policy.grows:
                del self.held[request]
            batch.join(request, now)

    def finish(self, request: int, tokens: int, now: int) -> None:
        """A request has all its tokens; `tokens` of it are in the cache."""
        ledger = self.ledger
        self.outstanding -= 1
        ledger.finish[request], ledger.status[request] = now, FINISHED
        if self.cache is not None:
            self._share(request, tokens)
        self.release(request, tokens)
        if self.idle and self.waiting:  # another batch rests for want of the memory that is free now
            self.wake()
        self.owner.finished(request, now)

    def cached(self, request: int) -> int:
        """Tokens of a request's prompt that its prefix cache holds, for routers."""
        return self._hit(request)[1]

    def tokens(self, now: int) -> int:
        """Tokens in its queue and in the contexts of its sequences, for routers."""
        total = self.pending
        for batch in self.batches:
            total += batch.context + sum(self.ledger.remaining_tokens[request] for request in batch.partial)
            if batch.stretch > 1:
                total += (batch.n + batch.rows) * batch.done_by(now)
        return total
