"""Pipeline stages of a replica: what an iteration takes on each, and when each is free for the next."""

from typing import TYPE_CHECKING

from simulator.serving.policies.base import Chunks
from simulator.serving.replica.ledger import Ledger

if TYPE_CHECKING:
    from simulator.serving.costs.iteration import StageCost
    from simulator.serving.replica.batch import Batch
    from simulator.serving.replica.decodes import Decodes


class Stages:
    """One stage, or several that batches pass one after the other."""

    __slots__ = ("costs", "free", "gate", "ledger", "streams", "turns")

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
        each = cost.rows(chunk, 1) + cost.together(chunk, 1) + cost.host(1) + cost.prompt(chunk, 0)
        return len(self.costs) * (-(-remaining // chunk)) * each

    def pass_through(self, batch: "Batch", n: int, extra: int, now: int) -> tuple[int, int]:
        """(ticks from now until an iteration has passed all stages, each after the batches before it, and the mean
        work of a stage)."""
        work, chunks = batch.work, batch.work.chunks
        tokens, ready, total = n + work.tokens, now, 0
        for stage, cost in enumerate(self.costs):
            ticks = cost.rows(tokens, n + work.ended)
            if chunks:
                ticks += self.prompts(cost, chunks)
            if n:
                ticks += self.decode(stage, n, batch.decodes)[0]
            if stage == 0:
                ticks += extra + cost.host(n + len(chunks))
            end = max(ready, self.free[stage]) + ticks
            self.free[stage] = end
            total += ticks
            ready = end + cost.send(tokens)
        self.gate = self.free[0]
        return ready - now, total // len(self.costs)
