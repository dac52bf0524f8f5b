"""A replica: a copy of the model with its queue, its cache blocks and the batches that run on it.

Before a batch decodes, room for its growth is made: idle prefixes go first, then sequences that the policy names are
preempted, to be computed again or moved to the host.
"""

from typing import TYPE_CHECKING, Protocol

from simulator import units
from simulator.engine.agenda import Agenda
from simulator.errors import InputError, Problem
from simulator.results.serving.service import FINISHED, REJECTED
from simulator.serving.policies import Policy
from simulator.serving.policies.base import Chunks
from simulator.serving.replica.batch import Batch
from simulator.serving.replica.caches.blocks import Blocks, Memory
from simulator.serving.replica.caches.prefix import PrefixCache
from simulator.serving.replica.intake import FrontEnd, Intake
from simulator.serving.replica.ledger import Ledger, cached_tokens
from simulator.serving.replica.queue import Queue
from simulator.serving.replica.record import Record
from simulator.serving.replica.speculation import Yields
from simulator.serving.replica.stages import Stages
from simulator.serving.workload.generate import NEVER

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from simulator.serving.costs.iteration import StageCost
    from simulator.serving.replica.adapters import AdapterSlots
    from simulator.serving.replica.caches.loads import KvLoads
    from simulator.serving.replica.crossing import Encoder
    from simulator.serving.replica.finetuning import FinetuningTokens
    from simulator.serving.replica.images import ImageEncoder
    from simulator.serving.replica.lockstep import Lockstep
    from simulator.serving.replica.weight_loads import WeightLoads
    from simulator.serving.replica.wires import ReplicaWires


class Owner(Protocol):
    """What a replica tells the fleet that it belongs to."""

    def finished(self, request: int, now: int) -> None:
        """A request has all its tokens, or was rejected."""

    def hand_over(self, request: int, replica: "Replica", now: int) -> None:
        """A prompt is done on a replica that does not decode."""

    @property
    def by_layer(self) -> bool:
        """Whether caches leave layer by layer, so that it is to hear when the last iteration of a prompt begins."""

    def early(self, request: int, replica: "Replica", begin: int, end: int) -> None:
        """The last iteration of a prompt begins on a replica that does not decode, where caches leave `by_layer`."""


class Replica:
    """What its parts do together: requests come, are admitted, lose their memory, and leave."""

    def __init__(
        self,
        name: str,
        number: int,
        role: str,
        agenda: Agenda,
        ledger: Ledger,
        policy: Policy,
        costs: "tuple[StageCost, ...]",
        memory: Memory,
        owner: Owner,
        cache: PrefixCache | None = None,
        fast_forward: bool = True,
        in_flight: int | None = None,
        reads_once: bool = False,
        yields: Yields | None = None,
        ahead: bool = False,
        front: FrontEnd | None = None,
    ) -> None:
        """Idle. `in_flight` is how many batches run at once, as many as there are stages where left out; `reads_once`
        says whether decodes read what the prefix cache shares among them once; `yields` what they get where several
        tokens of each are verified together; `ahead` and `front` are as for `Intake`."""
        self.name, self.number, self.role = name, number, role
        self.agenda, self.ledger, self.policy, self.owner = agenda, ledger, policy, owner
        in_flight = in_flight or len(costs)
        self.blocks = Blocks(memory, ledger, cache, _reserve(policy, role, in_flight))
        self.queue = Queue(ledger)
        every = policy.rules.poll_interval
        self.intake = Intake(self, every, ahead, front) if ahead or front is not None or every > 1 else None
        """What keeps requests from the queue; None where they join it as they come."""
        self.stages = Stages(costs, ledger, in_flight)
        self.record = Record(memory.block_size)
        plain = all(cost.overlap is None for cost in costs)
        self.fast_forwards = fast_forward and not self.stages.turns and plain
        self.stays = False
        """Whether batches that only decode stay for several iterations of those that it runs in step with."""
        self.preempted = 0
        """Preemptions so far."""
        self.wasted = 0
        """Ticks of iterations that a failure cut short."""
        self.resumed = 0
        """When an iteration ends that stood still and goes on."""
        self.counts: array[int] | None = None
        """Unfinished requests of all replicas by number, for routers; None where they are not kept."""
        self.group: Lockstep | None = None
        """Replicas that it runs in step with."""
        self.wires: ReplicaWires | None = None
        """Links that it shares with others; None where no other user of them could get in the way."""
        self.loads: KvLoads | None = None
        """Tiers below the devices' memory that blocks come from; None where there are none."""
        self.adapters: AdapterSlots | None = None
        """Adapters that requests ask for; None where there are none."""
        self.finetuning: FinetuningTokens | None = None
        """Training that fills iterations up; None where there is none."""
        self.weight_loads: WeightLoads | None = None
        """Weights that come over links which others use too; None where they stay, or are alone there."""
        self.encoder: ImageEncoder | Encoder | None = None
        """What encodes images of requests, or their prompts; None where nothing does."""
        shared_tokens = cache.blocks * memory.block_size if reads_once and cache is not None else 0
        self.batches = [Batch(self, shared_tokens, yields) for _ in range(in_flight)]
        self.idle = self.batches[::-1]

    def be_silent(self) -> None:
        """Leave out rows of iterations: what the ledger says of requests is all that is asked."""
        self.record.silent = True
        for batch in self.batches:
            batch.decodes.short_looks = True

    # What policies and routers ask ----------------------------------------------------------------------------------

    @property
    def waiting(self) -> "Sequence[int]":
        """Requests that wait, the first to be looked at first."""
        return self.queue.waiting

    @property
    def outstanding(self) -> int:
        """Requests that it has and that are not finished."""
        return self.queue.outstanding

    def alone(self, request: int) -> int:
        """Ticks that the prompt would take in iterations of its own, for policies that look ahead."""
        return self.stages.alone(self.ledger.remaining_tokens[request], self.policy.rules.token_budget)

    def cached(self, request: int) -> int:
        """Tokens of a request's prompt that its prefix cache holds."""
        return self.blocks.hit(request)[1]

    def tokens(self, now: int) -> int:
        """Tokens in its queue and in the contexts of its sequences."""
        total = self.queue.pending + (self.intake.tokens if self.intake is not None else 0)
        remaining = self.ledger.remaining_tokens
        for batch in self.batches:
            decodes = batch.decodes
            total += decodes.context + sum(remaining[request] for request in batch.partial)
            if batch.stretch.count > 1:
                done = batch.stretch.done_by(now) if self.group is None else self.group.done(batch)
                total += int(decodes.later(done + 1)[-1])
        return total

    # Requests come --------------------------------------------------------------------------------------------------

    def submit(self, request: int) -> None:
        """A request joins the queue, or is rejected because it could never run."""
        if not self.could_run(request):
            self.ledger.status[request] = REJECTED
            self.owner.finished(request, self.agenda.now)
            return
        self._count(1)
        self.ledger.replica[request] = self.number
        if self.intake is not None:
            self.intake.come(request)
            return
        if self.enqueue(request):
            self.wake(queued=True)

    def enqueue(self, request: int) -> bool:
        """A request joins the queue; whether the policy sees it now, and not when its adapter is there."""
        ready = self.adapters is None or self.adapters.come(request)
        self.queue.enter(request)
        if not ready:
            self.queue.set_aside(request)
        return ready

    @property
    def empty(self) -> bool:
        """Whether it has no requests, and holds no caches of others."""
        return not self.queue.outstanding and not self.blocks.held

    def become(self, role: str) -> None:
        """Take another role, with nothing of the old one left."""
        self.role = role
        self.blocks.reserve = _reserve(self.policy, role, len(self.batches))

    def could_run(self, request: int) -> bool:
        """Whether a request fits into the context and, alone, what of it is kept here into the cache."""
        memory, prompt = self.blocks.memory, self.ledger.prompt[request]
        tokens = prompt + self.ledger.output[request]
        if tokens > memory.context:
            return False
        kept = prompt + self.ledger.done[request] if self.role == "prefill" else tokens + memory.lookahead
        adapter = 0 if self.adapters is None else self.adapters.blocks_of(request)
        return memory.state_blocks - (-kept // memory.block_size) + memory.watermark + adapter <= memory.blocks

    def accept(self, request: int, begun: bool = False) -> bool:
        """Take blocks for a request whose cache comes from elsewhere; False where there is no room now. `begun` as for
        `Batch.cut`."""
        if not self.has_slot():
            return False
        ledger, own = self.ledger, self.blocks
        tokens = cached_tokens(ledger, request)
        if not self.policy.grows:
            tokens = ledger.prompt[request] + ledger.output[request] + own.memory.lookahead
        blocks = own.state - (-tokens // own.size)
        looks = self.group is None or not self.record.silent  # rows of iterations say what is in use as they begin
        if looks:
            self._cut(begun)
        adapter = 0 if self.adapters is None else self.adapters.room_for(request)
        if adapter is None:
            return False
        needed = blocks + adapter + self.blocks_reserved() + own.watermark
        if not looks and needed > own.free:
            self._cut(begun)
        if needed > own.available():
            return False
        own.take(blocks)
        own.held[request] = blocks
        self.queue.coming += 1
        self._count(1)
        ledger.replica[request] = self.number
        if self.adapters is not None:
            self.adapters.accept(request)
        return True

    def _cut(self, begun: bool) -> None:
        """End stretches, which have taken blocks ahead of time."""
        for batch in self.batches:
            batch.cut(begun)

    def let_go(self, request: int) -> None:
        """The cache of a prompt that is done is not needed here any more."""
        self.blocks.release(request, self.ledger.prompt[request])
        if self.adapters is not None:
            self.adapters.freed()
        if not self.idle or self._may_run():
            self.wake()

    def _may_run(self) -> bool:
        """Whether a batch that is idle may find something to do."""
        queue, intake = self.queue, self.intake
        if queue.waiting or queue.swapped or queue.ready or (intake is not None and intake.handed):
            return True
        under_way = any(batch.partial for batch in self.batches)  # for want of memory
        return under_way or self.adapters is not None or self.finetuning is not None

    def abandon(self, request: int) -> None:
        """The cache of an accepted request does not come."""
        self.blocks.release(request, 0)
        self.queue.coming -= 1
        self._count(-1)
        if self.adapters is not None:
            self.adapters.abandon(request)

    def _count(self, requests: int) -> None:
        """It has so many requests more."""
        self.queue.outstanding += requests
        if self.counts is not None:
            self.counts[self.number] += requests

    def free_slots(self) -> int:
        """Sequences that may still join."""
        taken = sum(batch.running for batch in self.batches) + self.queue.coming
        return self.policy.rules.max_sequences * len(self.batches) - taken

    def has_slot(self) -> bool:
        """Whether there is one for a request whose cache comes from elsewhere."""
        queue, taken = self.queue, 0
        most = self.policy.rules.max_sequences * len(self.batches)
        if queue.outstanding < most:  # each that is taken is one of its requests
            return True
        for batch in self.batches:
            taken += batch.decodes.n + len(batch.partial) + batch.decodes.rows
        return taken + queue.coming + len(queue.waiting) + len(queue.swapped) < most

    def slots_reserved(self) -> int:
        """Slots that requests without their memory need, on a replica that decodes, before new ones come."""
        return len(self.queue.waiting) + len(self.queue.swapped)

    def blocks_reserved(self) -> int:
        """Blocks that they need, and that those under way still take."""
        ledger, own, queue = self.ledger, self.blocks, self.queue
        if not (queue.waiting or queue.swapped):
            for batch in self.batches:
                if batch.partial:
                    break
            else:
                return 0
        away = (*queue.waiting, *queue.swapped)
        blocks = sum((ledger.prompt[request] + ledger.done[request]) // own.size + 1 + own.state for request in away)
        under_way = [request for batch in self.batches for request in batch.partial]
        return blocks + sum(own.blocks_for(request, ledger.remaining_tokens[request]) for request in under_way)

    def arrived(self, request: int) -> None:
        """The cache of an accepted request is here."""
        if self.adapters is None or self.adapters.arrived(request):
            self.queue.ready.append(request)
            self.wake()

    def admit_transferred(self, batch: Batch) -> None:
        """Requests whose cache has arrived decode from now on, and their first token goes out where this side gives it:
        an engine looks for caches once an iteration."""
        ledger, queue = self.ledger, self.queue
        for request in queue.ready_for(max(0, self.policy.rules.max_sequences - batch.running)):
            if self.policy.grows:
                del self.blocks.held[request]
            if request in queue.handed:
                queue.handed.remove(request)
                ledger.first_token[request] = self.agenda.now
            batch.decodes.join(request, queue.paused.pop(request, ledger.first_token[request]))
        if queue.ready and self.idle:
            self.wake()

    def wake(self, queued: bool = False) -> None:
        """Something came that an idle or fast-forwarded batch should look at."""
        if self.idle:
            batch = self.idle.pop()
            batch.appointment = self.agenda.begin(batch.begin)
        elif self.fast_forwards or self.stays:
            batch, policy = self.batches[0], self.policy
            if queued and self.intake is not None:
                batch.cut_before_look(self.intake)
            elif batch.stretch.count > 1 and not (
                queued
                and batch.blocked
                and policy.in_order
                and policy.time_invariant
                and self.loads is None  # which looks at every arrival
            ):
                batch.cut()

    def admit(self, batch: Batch, chunks: Chunks, now: int) -> None:
        """Take memory for what an iteration works on, and the slots of those that start; InputError where there is less
        than the policy has given away."""
        own, ledger = self.blocks, self.ledger
        held, by_piece, need = own.held, own.reserve == "chunk", 0
        sound, remaining = True, ledger.remaining_tokens
        for request, chunk in chunks:
            if request not in held:
                need += self._start(batch, request, chunk, now)
            elif by_piece:  # as `blocks_for` says
                have = held[request] + own.shared[request][1] if own.shared and request in own.shared else held[request]
                before = ledger.prompt[request] + ledger.done[request] - remaining[request]
                more = own.state - (-(before + chunk) // own.size) - have
                if more > 0:
                    held[request] += more
                    need += more
            if not 0 < chunk <= remaining[request]:
                sound = False
        running = batch.decodes.n + len(batch.partial) + batch.decodes.rows
        if not sound or (need > own.free and need > own.available()) or running > self.policy.rules.max_sequences:
            message = f"{type(self.policy).__name__} gives away more tokens, blocks or slots than there are: {chunks}"
            raise InputError(Problem(message, path="serving.batching.policy", hint="mend the policy, or write another"))
        if need:
            own.take(need)

    def _start(self, batch: Batch, request: int, chunk: int, now: int) -> int:
        """A waiting request becomes one under way; blocks that it takes."""
        own, scheduled = self.blocks, self.ledger.scheduled
        blocks = own.blocks_for(request, chunk)
        self.queue.leave(request)
        if own.cache is not None or own.chunks is not None:
            own.reuse(request)
        if self.loads is not None:
            self.loads.admitted(request)
        own.held[request] = blocks
        if scheduled[request] == NEVER:
            scheduled[request] = now
        batch.partial.append(request)
        return blocks

    # Preemption -----------------------------------------------------------------------------------------------------

    def make_room(self, batch: Batch, need: int, now: int) -> tuple[int, int]:
        """Room for the growth of a batch: (blocks that it needs now, ticks of copies to and from the host)."""
        own, queue, decodes = self.blocks, self.queue, batch.decodes
        extra, preempted = 0, False
        while need > own.available():
            if self.adapters is not None and self.adapters.shed(batch, keep=0):
                continue
            extra += self.preempt(batch)
            preempted = True
            need = decodes.need()
        while queue.swapped and not preempted:
            request = queue.swapped[0]
            tokens = own.before(request)
            room = need + own.state + (tokens + own.memory.lookahead) // own.size + 1  # for its next token too
            slots = min(self.free_slots(), self.policy.rules.max_sequences - batch.running)
            if room + own.watermark > own.available() or slots <= 0:
                break
            queue.swap_in(tokens)
            own.take(own.state - (-tokens // own.size))
            decodes.join(request, queue.resume(request, now))
            ticks = self._copy(tokens)
            extra += ticks
            if self.weight_loads is not None:
                self.weight_loads.inbound += ticks
            need = decodes.need()
        return need, extra

    def preempt(self, batch: Batch) -> int:
        """Take the memory of the request that the policy names; ticks of copying it to the host."""
        ledger, queue, memory = self.ledger, self.queue, self.blocks.memory
        request = self.policy.victim(batch.view)
        decodes = request in batch.decodes.members
        if decodes:
            queue.paused[request] = batch.decodes.last_token(request)
            tokens = batch.decodes.evict(request)
        else:
            batch.partial.remove(request)
            tokens = self.blocks.before(request)
        ledger.preemptions[request] += 1
        self.preempted += 1
        self.blocks.release(request, tokens)
        if decodes and queue.swapped_tokens + tokens <= memory.swap_tokens:
            queue.swap_out(request, tokens)
            return self._copy(tokens)
        ledger.remaining_tokens[request] = ledger.prompt[request] + ledger.done[request]
        queue.return_first(request)
        return 0

    def _copy(self, tokens: int) -> int:
        """Ticks of moving so many tokens of a sequence and its states between devices and host."""
        memory = self.blocks.memory
        return units.to_ticks((tokens * memory.token_bytes + memory.state_bytes) / memory.swap_rate)

    # Requests leave -------------------------------------------------------------------------------------------------

    def prompt_done(self, batch: Batch, request: int, now: int) -> None:
        """A prompt is in the cache and its next token is out."""
        ledger = self.ledger
        if self.blocks.cache is not None:
            self.blocks.share(request, ledger.prompt[request] + ledger.done[request])
        if self.blocks.chunks is not None:
            self.blocks.chunks.keep(request)
        ledger.done[request] += 1
        if ledger.first_token[request] == NEVER:
            ledger.first_token[request] = now
        elif (since := self.queue.resume(request, now)) < now:
            self.record.gap(now - since, 1)
        if ledger.done[request] == ledger.output[request]:
            self.finish(request, now)
        elif self.role == "prefill":
            self._count(-1)
            if self.adapters is not None:
                self.adapters.finished(request)
            self.owner.hand_over(request, self, now)
        else:
            if self.policy.grows:
                del self.blocks.held[request]
            batch.decodes.join(request, now)

    def finish(self, request: int, now: int) -> None:
        """A request has all its tokens; all but the last are in the cache."""
        ledger = self.ledger
        self._count(-1)
        ledger.finish[request], ledger.status[request] = now, FINISHED
        tokens = ledger.prompt[request] + ledger.output[request] - 1
        if self.blocks.cache is not None:
            self.blocks.share(request, tokens)
        self.blocks.release(request, tokens)
        if self.adapters is not None:
            self.adapters.finished(request)
        if self.idle and self.queue.waiting:  # another batch is idle for want of the memory that is free now
            self.wake()
        self.owner.finished(request, now)


def _reserve(policy: Policy, role: str, in_flight: int) -> str:
    """What an admission takes. Answers grow elsewhere where prompts are all that a replica works on; of batches that
    share the cache, each could hold half a prompt and wait for the other."""
    if (policy.reserve == "chunk" and in_flight > 1) or (policy.reserve == "whole" and role == "prefill"):
        return "prompt"
    return policy.reserve
