"""Stays of replicas in step that only decode, each in one go.

`Batch.begin_any` asks for everything that a replica may have. Here is the same, to the tick, for a member of a group
that has no prompt under way, and neither tiers, adapters, training, weights that come over links, static batches nor
work that overlaps. What is rare is left to the batch, and so are iterations with prompts once they are chosen.
"""

from typing import TYPE_CHECKING

from simulator.serving.replica.speculation import SpeculatingDecodes

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch


def decodes_in_step(batch: "Batch") -> bool:
    """Whether a batch of nothing but decodes takes the short way, as its replica stands when it first runs."""
    replica = batch.replica
    stages, cost = replica.stages, replica.stages.costs[0]
    beside = (
        (replica.wires, stages.wires, replica.loads, replica.adapters, replica.finetuning, replica.weight_loads),
        (batch.decodes.shared_prefixes, cost.overlap),
    )
    return (
        replica.group is not None
        and not (stages.turns or replica.policy.static_batch)
        and all(one is None for some in beside for one in some)
    )


def begin(batch: "Batch", now: int) -> bool:
    """Begin a stay now, or stand by; False, with nothing done, where this is left to `Batch.begin_any`."""
    replica, decodes, work = batch.replica, batch.decodes, batch.work
    group, queue, blocks, intake = replica.group, replica.queue, replica.blocks, replica.intake
    assert group is not None
    if group.late is not None or now < group.end or queue.swapped or batch.partial:
        return False
    if intake is not None:
        if intake.unseen and scarce(batch):
            return False
        intake.take(batch)
    if queue.ready:
        replica.admit_transferred(batch)
    need = decodes.need() if decodes.n else 0
    if need > blocks.free:
        return False
    batch.closed = batch.blocked = batch.held = False
    if queue.waiting:
        chunks, decoding, batch.held = replica.policy.decide(batch.view)
        if chunks:
            replica.admit(batch, chunks, now)
            batch.start(chunks, decodes.n > 0 and decoding, need, 0, now)
            return True
        batch.blocked = not batch.held
    n = decodes.n
    if not n:
        batch.stand_by(now)
        return True
    cost, line, stretch = replica.stages.costs[0], batch.line, batch.stretch
    if work.chunks:
        work.begin((), replica.ledger.remaining_tokens)
    work.decoding, work.queued, work.short = True, len(queue.waiting), 0
    stretch.begin(now)
    work.used = blocks.memory.blocks - blocks.free
    if need:
        blocks.take(need)
    context = decodes.context
    if n == line.sequences and context <= line.limit:  # as in the stay before
        ticks = line.base + line.slope * context
    else:
        ticks = line.at(cost, n, context)
    rows, usual, drafts, least = cost.decodes(n)
    ticks += usual
    if cost.drafting is not None:
        work.drafts = drafts
        replica.record.drafted += drafts
    stretch.first, stretch.growth = ticks, 0 if batch.speculates else line.slope * n
    if replica.stays and not batch.held and (replica.policy.time_invariant or not batch.blocked):
        if isinstance(decodes, SpeculatingDecodes) and (intake is None or not intake.unseen):
            _stay(batch, decodes, need)
        else:
            batch.fast_forward(need)
    group.enter(batch, ticks, rows, rows, least)
    return True


def scarce(batch: "Batch") -> bool:
    """Whether there may be too few blocks for the next iteration, with those whose cache has arrived."""
    decodes, come = batch.decodes, len(batch.replica.queue.ready)  # each takes a block at most, where it has one row
    need = decodes.need() if decodes.n else 0
    return need + come > batch.replica.blocks.free or (come > 0 and batch.speculates and decodes.grows)


def _stay(batch: "Batch", decodes: SpeculatingDecodes, need: int) -> None:
    """As `Batch.fast_forward` where nothing has come that is not seen yet, and the host is not waited for."""
    blocks, line, stretch = batch.replica.blocks, batch.line, batch.stretch
    count, grown, later = decodes.until(line.limit - decodes.context)
    if count <= 1:
        return
    if grown - need > blocks.free:
        count, grown = decodes.affordable(blocks.free + need)
    blocks.take(grown - need)
    stretch.count = count
    if count > 1:
        stretch.bend(line.slope * later[:count])


def complete(batch: "Batch", now: int) -> None:
    """A stay of nothing but decodes is over: it is written down, tokens are out, requests finish."""
    replica, stretch = batch.replica, batch.stretch
    assert replica.group is not None
    stay = replica.group.leave(batch)
    if stay is not None:
        replica.record.note_stay(batch, stay)
    elif not replica.record.silent:
        replica.record.note(batch, now, replica.policy.grows, replica.stages.turns)
    for request in batch.decodes.advance(stretch.count, now):
        batch.finish(request, now)
    stretch.count = 0
