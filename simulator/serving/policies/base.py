"""What policies answer, and the admission in order that most of them share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from simulator.registry import Registry
from simulator.serving.policies.view import View

Chunks = Sequence[tuple[int, int]]
"""(request, tokens of its prompt to work on)."""


class Decision(NamedTuple):
    """What an iteration works on; without prompts, all decode."""

    prompts: Chunks = ()
    """Prompts under way and waiting ones to admit, each with the tokens of it to work on, within the free blocks."""
    decode: bool = True
    """Whether sequences decode beside them."""
    held: bool = False
    """Whether prompts that could run are held back, so that the policy is asked again after one iteration."""


NOTHING = Decision()
"""No prompts: all decode."""


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
    poll_interval: int = 1
    """Decode iterations between two looks for new requests."""
    wait_iterations: int = 0
    """Iterations that prompts are held back at most until more of them have come."""
    wait_share: float = 0.0
    """Share of the token budget from which they are not held back."""
    balance_iterations: int = 0
    """Iterations of replicas in step of which one lets prompts join though not each replica has one; 0: all do."""
    balance_wait: int = 0
    """Iterations that prompts wait for more where each replica has one."""
    padded: bool = False
    """Whether prompts of an iteration are filled up to the longest of them."""


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
    def decide(self, view: View) -> Decision:
        """What the next iteration works on; asked while prompts wait or are under way."""

    def order(self, view: View) -> Iterable[int]:
        """Waiting requests in the order in which they are looked at."""
        return view.waiting

    def victim(self, view: View) -> int:
        """The request of `partial` and `decoding` that loses its memory where growth has no room: the one that came
        last."""
        return view.partial[-1] if view.partial else list(view.decoding)[-1]

    def fill(self, view: View, budget: int) -> Chunks:
        """Prompts under way first, then waiting ones, in their order while slots, tokens and blocks last."""
        size, by_piece, remaining = view.block_size, view.reserve == "chunk", view.remaining
        partial, waiting, running, room, closed = view.counts()
        if (
            partial
            and remaining(partial[0]) >= budget > 0
            and (not by_piece or room >= budget // size + 2 + view.state_blocks)
        ):
            return ((partial[0], budget),)  # one piece that takes it all, and for which there is room in any case
        slots = self.rules.max_sequences - running
        # Whatever is chosen then fits: each piece takes two blocks and a state at most beside those that it fills.
        plenty = by_piece and not view.shares
        if plenty:
            most = len(partial) + max(0, min(slots, waiting))
            plenty = room - view.watermark >= budget // size + (2 + view.state_blocks) * most
        chunks: list[tuple[int, int]] = []
        for request in partial:
            chunk = min(remaining(request), budget)
            if chunk <= 0:
                return chunks
            if not plenty:
                needed = view.blocks_for(request, chunk) if by_piece else 0
                if needed > room:
                    chunk = min(chunk, room * size + view.slack(request))
                    if chunk <= 0:
                        return chunks
                    needed = room
                room -= needed
            chunks.append((request, chunk))
            budget -= chunk
        if closed or budget <= 0 or slots <= 0 or not waiting:
            return chunks
        return self._admit(view, chunks, budget, room, slots, plenty)

    def _admit(
        self, view: View, chunks: list[tuple[int, int]], budget: int, room: int, slots: int, plenty: bool
    ) -> Chunks:
        """The pieces, and waiting requests after them; `plenty`: blocks need not be counted."""
        room -= view.watermark
        for request in self.order(view):
            if budget <= 0 or slots <= 0:
                break
            chunk = view.uncached(request)
            if chunk > budget:
                if self.chunked:
                    chunk = budget
                elif chunks or chunk <= self.rules.token_budget:  # longer than any budget: whole, in its own iteration
                    if self.in_order:
                        break
                    continue
                else:
                    plenty = False  # of room for a budget
            if not plenty:
                needed = view.demand(request, chunk)
                if needed > room:
                    if self.in_order:
                        break
                    continue
                room -= needed
            chunks.append((request, chunk))
            budget -= chunk
            slots -= 1
        return chunks


POLICIES: Registry[type[Policy]] = Registry("batching policy")
