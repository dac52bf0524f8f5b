"""Pipeline stages of a replica: what an iteration takes on each, and when each is free for the next."""

from typing import TYPE_CHECKING

from simulator.serving.policies.base import Chunks
from simulator.serving.replica.launching import HostThread
from simulator.serving.replica.ledger import Ledger

if TYPE_CHECKING:
    from simulator.serving.costs.iteration import StageCost
    from simulator.serving.replica.batch import Batch
    from simulator.serving.replica.decodes import Decodes
    from simulator.serving.replica.passage import StageWires


class Stages:
    """One stage, or several that batches pass one after the other."""

    __slots__ = ("costs", "free", "gate", "host", "ledger", "roomy", "streams", "turns", "wires")

    def __init__(self, costs: "tuple[StageCost, ...]", ledger: Ledger, in_flight: int) -> None:
        """All free; `in_flight` batches run at once."""
        self.costs, self.ledger = costs, ledger
        self.turns = len(costs) > 1 or in_flight > 1
        """Whether iterations wait for each other at a stage."""
        self.streams = in_flight < len(costs)
        """Whether pieces of a prompt follow each other from stage to stage, as no other batch fills the stages."""
        self.gate = 0
        """When the first stage is free."""
        self.free = [0] * len(costs)
        """When each stage is free."""
        self.host = host_thread(costs) if self.streams else None
        """What launches kernels on all stages; None where it is always ahead of them."""
        self.roomy = self.host is not None and self.host.roomy
        """Whether it is ahead of a piece that nothing is before or behind."""
        self.wires: StageWires | None = None
        """Links that batches share with others as they pass; None where no other user of them could get in the way."""

    def decode(self, stage: int, sequences: int, decodes: "Decodes") -> tuple[int, int, int]:
        """Attention of decodes: (ticks, by how much a token of context is longer, context up to which that holds)."""
        cost, prefixes = self.costs[stage], decodes.shared_prefixes
        together = more = 0
        if prefixes is not None:
            together, more = prefixes.together, prefixes.ticks(cost)
        context = decodes.context - together
        for limit, base, slope in cost.decode(sequences):
            if context <= limit:
                return more + base + slope * context, slope, limit + together
        raise AssertionError("the last segment has no end")

    def prompts(self, cost: "StageCost", chunks: Chunks) -> int:
        """Ticks of the attention of pieces of prompts on a stage."""
        ledger = self.ledger
        prompt, done, remaining = ledger.prompt, ledger.done, ledger.remaining_tokens
        if len(chunks) == 1:
            ((request, chunk),) = chunks
            return cost.prompt(chunk, prompt[request] + done[request] - remaining[request])
        return cost.prompts([(chunk, prompt[one] + done[one] - remaining[one]) for one, chunk in chunks])

    def alone(self, remaining: int, budget: int) -> int:
        """Ticks that a prompt of so many tokens would take in iterations of its own."""
        cost = self.costs[0]
        chunk = min(remaining, budget)
        each = cost.rows(chunk, 1) + cost.host(1) + cost.prompt(chunk, 0)
        each += cost.together(chunk, 1) + cost.exchanged(chunk, chunk)
        each += cost.launches(chunk)
        return len(self.costs) * (-(-remaining // chunk)) * each

    def ticks(self, batch: "Batch", n: int, extra: int) -> list[int]:
        """What an iteration of `n` decodes takes on each stage."""
        work, adapters = batch.work, batch.replica.adapters
        work.adapting = 0
        if not work.chunks and adapters is None:
            return self._decoding(batch, n, extra)
        return self._general(batch, n, extra)

    def _general(self, batch: "Batch", n: int, extra: int) -> list[int]:
        """The same, whatever is in the iteration."""
        work, chunks, adapters, found = batch.work, batch.work.chunks, batch.replica.adapters, []
        for stage, cost in enumerate(self.costs):
            reading = self.decode(stage, n, batch.decodes)[0] if n else 0
            attention = reading + (self.prompts(cost, chunks) if chunks else 0)
            rows = cost.verified(n)
            saved = cost.saved(rows + work.priced, attention, None, reading)
            batch.replica.record.saved += saved
            each = cost.rows(rows + work.priced, rows + work.ended) + attention - saved
            if cost.drafting is not None:
                each += self.drafts(batch, n)
            each += cost.launches(rows + work.priced) if chunks else 0
            if adapters is not None:
                own = adapters.ticks(batch, n > 0, stage)
                each, work.adapting = each + own, work.adapting + own
            if stage == 0:
                each += extra + cost.host(n + len(chunks))
            short = max(cost.least(n + len(chunks), rows + work.tokens, bool(chunks)) - each, 0)
            batch.replica.record.hosted += short
            each += short
            found.append(each)
        return found

    def _decoding(self, batch: "Batch", n: int, extra: int) -> list[int]:
        """The same, shorter, where nothing but decodes is there, and no adapters are."""
        record, found = batch.replica.record, []
        for stage, cost in enumerate(self.costs):
            reading = self.decode(stage, n, batch.decodes)[0]
            rows, usual, drafts, least = cost.decodes(n)
            each = usual + reading + (0 if stage else extra)
            if cost.overlap is not None:
                saved = cost.saved(rows, reading, None, reading)
                record.saved, each = record.saved + saved, each - saved
            record.drafted += drafts
            short = max(least - each, 0)
            record.hosted += short
            found.append(each + short)
        return found

    def drafts(self, batch: "Batch", n: int) -> int:
        """Ticks of drafting for `n` decodes and for those whose prompt ends, on the last stage."""
        cost, work, record = self.costs[-1], batch.work, batch.replica.record
        if cost.drafting is None:
            return 0
        ticks = cost.drafting.ticks(cost.verified(n) + work.tokens, n + work.ended, n)
        record.drafted += ticks
        return ticks

    def pass_through(self, ticks: list[int], tokens: int, now: int, followed: bool) -> int:
        """Ticks from now until an iteration of so many rows has passed all stages, each after the batches before it;
        `followed` says whether another may begin before that."""
        ready, thread = now, self.host
        if self.roomy and not followed and max(self.free) <= now:
            thread = None  # all is launched before it can begin, and over before the next is launched
        host = 0 if thread is None else thread.begin(now)
        for stage, each in enumerate(ticks):
            ready = max(ready, self.free[stage])
            if thread is None:
                end = ready + each
            else:
                host, end = thread.stage(stage, host, ready, each)
            self.free[stage] = end
            ready = end + self.costs[stage].send(tokens)
        self.gate = self.free[0]
        return ready - now


def host_thread(costs: "tuple[StageCost, ...]") -> HostThread | None:
    """The thread that launches on some stages; None where queues have no end."""
    if any(cost.queue is None for cost in costs):
        return None
    queues = [cost.queue for cost in costs if cost.queue is not None]
    return HostThread([one.kernels for one in queues], queues[0].places, queues[0].ahead)
