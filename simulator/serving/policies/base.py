"""What policies see, what they answer, and the admission in order that most of them share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from simulator.registry import Registry

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch

Chunks = list[tuple[int, int]]
"""(request, tokens of its prompt to work on)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers that a scenario gives a policy."""

    token_budget: int
    """Most tokens of an iteration."""
    max_sequences: int
    """Most sequences of the batch at once."""
    tile: int = 128
    """Rows that `sarathi` rounds an iteration to."""
    ageing: int | None = None
    """Ticks of waiting that raise a request by one priority class."""


class Policy(ABC):
    """Base of policies. Class attributes say what the engine of a replica may rely on."""

    reserve: ClassVar[Literal["chunk", "prompt", "whole"]] = "chunk"
    """What memory an admission takes: of the tokens to be worked on, of the prompt, of the prompt and the whole
    answer."""
    time_invariant: ClassVar[bool] = True
    """Whether its choice does not depend on the time."""
    in_order: ClassVar[bool] = True
    """Whether a request that cannot be admitted keeps those behind it waiting."""
    static_batch: ClassVar[bool] = False
    """Whether the members of a batch leave together."""
    chunked: ClassVar[bool] = True
    """Whether a prompt may be cut over several iterations; if not, one longer than the budget is worked on whole."""
    spans: ClassVar[bool] = False
    """Whether the budget, where the scenario sets none, is at least the longest sequence."""

    def __init__(self, rules: Rules) -> None:
        """Take the numbers of the scenario."""
        self.rules = rules
        self.grows = self.reserve != "whole"
        """Whether sequences take blocks as they grow."""

    @abstractmethod
    def decide(self, batch: "Batch", room: int, now: int) -> tuple[Chunks, bool]:
        """Prompts to work on, and whether sequences decode beside them.

        `room` counts the blocks that may be taken, those that decoding needs apart. Without prompts, all decode.
        """

    def order(self, batch: "Batch", now: int) -> Iterable[int]:
        """Waiting requests in the order in which they are looked at."""
        return batch.replica.queue.waiting


POLICIES: Registry[type[Policy]] = Registry("batching policy")


def fill(
    policy: Policy, batch: "Batch", budget: int, room: int, waiting: Iterable[int], started: Sequence[int] | None = None
) -> Chunks:
    """Prompts under way first, then waiting ones, in their order while slots, tokens and blocks last."""
    replica = batch.replica
    blocks, remaining = replica.blocks, replica.ledger.remaining_tokens
    chunks: Chunks = []
    size, free, slots = blocks.size, room, policy.rules.max_sequences - batch.running
    by_piece = blocks.reserve == "chunk"
    most = len(batch.partial) + max(0, min(slots, len(replica.queue.waiting)))
    # Whatever is chosen then fits: each piece takes two blocks at most beside those that it fills.
    plenty = by_piece and blocks.cache is None and room - blocks.watermark >= budget // size + 2 * most
    for request in batch.partial if started is None else started:
        chunk = min(remaining[request], budget)
        if chunk <= 0:
            return chunks
        if not plenty:
            needed = blocks.blocks_for(request, chunk) if by_piece else 0
            if needed > free:
                chunk = min(chunk, free * size + blocks.slack(request))
                if chunk <= 0:
                    return chunks
                needed = free
            free -= needed
        chunks.append((request, chunk))
        budget -= chunk
    if batch.closed:
        return chunks
    free -= blocks.watermark
    for request in waiting:
        if budget <= 0 or slots <= 0:
            break
        chunk = remaining[request] if blocks.cache is None else blocks.uncached(request)
        if chunk > budget:
            if policy.chunked:
                chunk = budget
            elif chunks or chunk <= policy.rules.token_budget:  # longer than any budget: whole, in its own iteration
                if policy.in_order:
                    break
                continue
        if not plenty:
            needed = blocks.demand(request, chunk)
            if needed > free:
                if policy.in_order:
                    break
                continue
            free -= needed
        chunks.append((request, chunk))
        budget -= chunk
        slots -= 1
    return chunks
