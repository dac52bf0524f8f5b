"""Iterations of a replica that is in step with no other, each begun in one go.

`Batch.begin_any` asks for everything that a replica may have. Here is the same, to the tick, for one of one stage that
shares no links and has neither tiers, adapters, images, training, weights that come over links, static or padded
batches nor work that overlaps; what `plain` leaves out may be there: an intake, drafts, launches and a host that works
beside the device. What is rare (preemption, requests on the host) is left to the batch.
"""

from typing import TYPE_CHECKING

from simulator.serving.replica.in_step import scarce

if TYPE_CHECKING:
    from simulator.serving.policies.base import Chunks
    from simulator.serving.replica.batch import Batch


def runs_alone(batch: "Batch") -> bool:
    """Whether a batch takes the short way, as its replica stands when it first runs."""
    replica, policy = batch.replica, batch.replica.policy
    stages = replica.stages
    beside = (
        (replica.group, replica.wires, stages.wires, replica.loads, replica.adapters, replica.finetuning),
        (replica.weight_loads, replica.encoder, batch.decodes.shared_prefixes, stages.costs[0].overlap),
    )
    return not (stages.turns or policy.static_batch or policy.rules.padded) and all(
        one is None for some in beside for one in some
    )


def begin(batch: "Batch", now: int) -> bool:
    """Begin an iteration now, or stand by; False, with nothing done, where this is left to `Batch.begin_any`."""
    replica, decodes = batch.replica, batch.decodes
    queue, blocks, policy = replica.queue, replica.blocks, replica.policy
    if queue.swapped or now < replica.stages.gate:
        return False
    if replica.intake is not None:
        if replica.intake.unseen and scarce(batch):
            return False
        replica.intake.take(batch)
    if queue.ready:
        replica.admit_transferred(batch)
    need = decodes.need() if decodes.n else 0
    if need > blocks.free:
        return False
    batch.closed = batch.blocked = held = False
    chunks: Chunks = ()
    n = decodes.n
    if batch.partial or queue.waiting:
        chunks, decoding, held = policy.decide(batch.view)
        if chunks:
            replica.admit(batch, chunks, now)
            if not decoding:
                n = need = 0
        else:
            batch.blocked = not held
    if not chunks and not n:
        batch.stand_by(now)
        return True
    batch.held = held
    work, settled = batch.work, policy.time_invariant
    work.decoding, work.queued = n > 0, len(queue.waiting)
    if chunks or work.chunks:
        work.begin(chunks, replica.ledger.remaining_tokens)
    batch.stretch.begin(now)
    if need:
        settled = settled and need <= blocks.free
        blocks.take(need)
    work.used = blocks.memory.blocks - blocks.free - need
    ticks = _lasts(batch, chunks, n)
    if not chunks and not held and replica.fast_forwards and (settled or not batch.blocked):
        batch.fast_forward(need)
        if batch.stretch.count > 1:
            ticks = batch.stretch.lasts(batch.stretch.count)
    batch.schedule_end(now + ticks)
    return True


def _lasts(batch: "Batch", chunks: "Chunks", n: int) -> int:
    """Ticks of the iteration, which are noted with by how much the next would be longer, and what the device waits."""
    replica, work, line, stretch = batch.replica, batch.work, batch.line, batch.stretch
    stages, cost, ticks = replica.stages, replica.stages.costs[0], 0
    if n:
        context = batch.decodes.context
        if n == line.sequences and context <= line.limit:  # as in the iteration before
            ticks = line.base + line.slope * context
        else:
            ticks = line.at(cost, n, context)
        stretch.growth = 0 if batch.speculates else line.slope * n
    if chunks:
        each = cost.verified(n)
        rows = each + work.tokens
        ticks += stages.prompts(cost, chunks) + cost.rows(rows, each + work.ended) + cost.host(n + len(chunks))
        if cost.drafting is not None:
            work.drafts = stages.drafts(batch, n)
            ticks += work.drafts
        if cost.launching is not None:
            ticks += cost.launches(rows)
        least = cost.least(n + len(chunks), rows, True)
    else:
        _, usual, drafts, least = cost.decodes(n)
        ticks += usual
        if cost.drafting is not None:
            work.drafts = drafts
            replica.record.drafted += drafts
    work.short = max(least - ticks, 0)
    stretch.first = ticks + work.short
    return stretch.first
