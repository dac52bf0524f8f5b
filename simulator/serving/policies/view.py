"""What batching policies see of a batch: read-only, and as things stand at the moment of the question."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch


class Requests(Sequence[int]):
    """Requests by number, to look at only."""

    __slots__ = ("_of",)

    def __init__(self, of: Sequence[int]) -> None:
        """Those in `of`, with the changes that come to it later."""
        self._of = of

    @overload
    def __getitem__(self, place: int) -> int: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[int]: ...
    def __getitem__(self, place: int | slice) -> int | Sequence[int]:
        return tuple(self._of)[place] if isinstance(place, slice) else self._of[place]

    def __len__(self) -> int:
        return len(self._of)

    def __iter__(self) -> Iterator[int]:
        return iter(self._of)

    def __reversed__(self) -> Iterator[int]:
        return reversed(self._of)


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A batch, the queue of its replica and the cache blocks. Times are ticks."""

    waiting: Requests
    """Requests that wait, the first to be looked at first."""
    decoding: Collection[int]
    """Requests of the batch that decode, oldest first."""
    block_size: int
    """Tokens of a cache block."""
    watermark: int
    """Blocks that stay free when a request is admitted."""
    reserve: str
    """What memory an admission takes on this replica, as `Policy.reserve`."""
    shares: bool
    """Whether prompts find blocks of others in a prefix cache."""
    ttft_slo: int
    """From an arrival to the first token, as an objective allows; 0 where there is none."""
    arrival: Callable[[int], int]
    """When a request came."""
    priority: Callable[[int], int]
    """Class of a request, 0 the most urgent."""
    tenant: Callable[[int], int]
    """Tenant of a request."""
    weight: Callable[[int], float]
    """Share of the service of a tenant."""
    remaining: Callable[[int], int]
    """Tokens of the prompt of a request that are still to be worked on."""
    uncached: Callable[[int], int]
    """The same of a waiting request, without those that a cached prefix saves."""
    blocks_for: Callable[[int, int], int]
    """Blocks that working on the next so many tokens of a prompt under way takes."""
    demand: Callable[[int, int], int]
    """Blocks, of `free_blocks`, that admitting a waiting request for so many tokens takes."""
    slack: Callable[[int], int]
    """Tokens that the blocks of a prompt under way have room for."""
    alone: Callable[[int], int]
    """Ticks that what remains of a prompt would take in iterations of its own."""
    state_blocks: int
    """Blocks that a sequence takes beside those of its tokens."""
    _batch: "Batch"

    @property
    def now(self) -> int:
        """The present tick."""
        return self._batch.agenda.now

    def peers_admit(self, every: int, wait: int) -> bool:
        """Whether prompts may join the next iteration of the replicas in step (`Lockstep.admits`); yes of one alone."""
        group = self._batch.replica.group
        return group is None or group.admits(every, wait)

    def generated(self, request: int) -> int:
        """Tokens of a request's answer that are out."""
        decodes = self._batch.decodes
        if request in decodes.members:
            return decodes.generated(request)
        return self._batch.replica.ledger.done[request]

    def ended(self, request: int) -> bool:
        """Whether a request is no more in this batch nor in its queue: it is done, or elsewhere."""
        batch = self._batch
        return (
            batch.replica.ledger.finish[request] >= 0 or batch.replica.ledger.replica[request] != batch.replica.number
        )

    @property
    def partial(self) -> tuple[int, ...]:
        """Requests of the batch whose prompt is under way, oldest first."""
        return tuple(self._batch.partial)

    @property
    def free_blocks(self) -> int:
        """Blocks that may be taken; those that decoding needs for the next iteration are not among them."""
        blocks = self._batch.replica.blocks
        free = blocks.free if blocks.plain else blocks.available()
        return free - self._batch.decodes.need()

    @property
    def decodes(self) -> int:
        """Sequences that decode."""
        return self._batch.decodes.n

    @property
    def rows(self) -> int:
        """Rows of an iteration that they take: more than one each where drafted tokens are verified."""
        batch = self._batch
        n = batch.decodes.n
        return batch.replica.stages.costs[0].verified(n) if batch.speculates else n

    @property
    def running(self) -> int:
        """Sequences that hold a slot."""
        batch = self._batch
        return batch.decodes.n + len(batch.partial) + batch.decodes.rows

    @property
    def closed(self) -> bool:
        """Whether no request is admitted, as one has just lost its memory or waits on the host to come back."""
        return self._batch.closed

    def counts(self) -> tuple[Sequence[int], int, int, int, bool]:
        """(prompts under way, how many requests wait, `running`, `free_blocks`, `closed`) at one go, for `fill`."""
        batch = self._batch
        partial, decodes, replica = batch.partial, batch.decodes, batch.replica
        blocks, n = replica.blocks, decodes.n
        free = blocks.free if blocks.cache is None and blocks.spare is None else blocks.available()
        if n:
            free -= decodes.need()
        return partial, len(replica.queue.waiting), n + len(partial) + decodes.rows, free, batch.closed


def view(batch: "Batch") -> View:
    """What a policy sees of a batch, from now on."""
    replica = batch.replica
    blocks, ledger = replica.blocks, replica.ledger
    remaining, shares = ledger.remaining_tokens.__getitem__, blocks.cache is not None or blocks.chunks is not None
    return View(
        waiting=Requests(replica.queue.waiting),
        decoding=batch.decodes.members.keys(),
        block_size=blocks.size,
        watermark=blocks.watermark,
        reserve=blocks.reserve,
        shares=shares,
        ttft_slo=ledger.ttft_slo,
        arrival=ledger.arrival.__getitem__,
        priority=ledger.priority.__getitem__,
        tenant=ledger.tenant_of,
        weight=ledger.weight_of,
        remaining=remaining,
        uncached=blocks.uncached if shares else remaining,
        blocks_for=blocks.blocks_for,
        demand=blocks.demand if shares else blocks.blocks_for,
        slack=blocks.slack,
        alone=replica.alone,
        state_blocks=blocks.state,
        _batch=batch,
    )
