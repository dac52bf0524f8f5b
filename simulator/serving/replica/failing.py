"""What a failure does to a replica: it stands still for a while, or loses all that is in its memory.

A stretch of iterations is cut where the failure comes. Iterations that are over keep their tokens; what the running one
did, even where it would end in this instant, is lost with the memory, or goes on after the repair (preemptive resume).
Left out: an iteration whose bytes share links with others at that moment ends before its replica stands still.
"""

from typing import TYPE_CHECKING

from simulator.serving.replica.ledger import Ledger
from simulator.serving.replica.record import COLUMNS
from simulator.serving.replica.stages import host_thread

if TYPE_CHECKING:
    from simulator.serving.replica.batch import Batch
    from simulator.serving.replica.lockstep import Lockstep
    from simulator.serving.replica.replica import Replica

EVERYTHING = 1 << 62
"""More blocks than any cache has."""


def stand_still(replica: "Replica", until: int) -> None:
    """Nothing happens on a replica of one batch before `until`; then it goes on where it was."""
    agenda, batch = replica.agenda, replica.batches[0]
    now = agenda.now
    replica.stages.gate = max(replica.stages.gate, until)
    if replica.resumed <= now:  # nothing stood still and goes on since
        _cut(batch, now)
        stretch = batch.stretch
        if not stretch.count or batch.appointment is None or stretch.done_before(now) >= stretch.count:
            return
        replica.resumed = stretch.start + stretch.first
    replica.resumed += until - now
    batch.appointment = agenda.at(replica.resumed, lambda call: batch.end_now() if call is batch.appointment else None)


def lose_all(replica: "Replica") -> tuple[list[int], dict[int, int]]:
    """Everything in memory is gone. The requests that the replica had, by number, with the tokens that came out of them
    counted in the ledger; and when those that had some got the last."""
    now, queue = replica.agenda.now, replica.queue
    lost = [*queue.waiting, *queue.swapped, *queue.ready]
    for request in queue.ready:
        queue.paused.setdefault(request, replica.ledger.first_token[request])
        replica.blocks.release(request, 0)
    if replica.loads is not None:
        lost += replica.loads.forget()
    queue.waiting.clear()
    queue.swapped.clear()
    queue.ready.clear()
    queue.handed.clear()
    if replica.intake is not None:
        lost += replica.intake.forget()
    for batch in sorted(replica.batches, key=lambda one: one.stretch.start):  # rows of a log are in the order of time
        lost += _lose_batch(replica, batch, now)
    lost += empty_memory(replica)
    paused, queue.paused = queue.paused, {}
    queue.pending = queue.swapped_tokens = queue.outstanding = queue.coming = 0
    if replica.counts is not None:
        replica.counts[replica.number] = 0
    stages = replica.stages
    stages.gate, stages.free = now, [now] * len(stages.free)
    stages.host = host_thread(stages.costs) if stages.streams else None
    replica.idle[:] = replica.batches[::-1]
    if replica.wires is not None:
        replica.wires.drop()
    if replica.weight_loads is not None:
        replica.weight_loads.drop()
    if stages.wires is not None:
        stages.wires.drop()
    if replica.group is not None:
        replica.group.stop()
    return sorted(lost), paused


def empty_memory(replica: "Replica") -> list[int]:
    """Shared prefixes, encoded images and adapters are gone, none written out; requests that waited for an adapter."""
    lost = replica.adapters.forget() if replica.adapters is not None else []
    if replica.encoder is not None:
        replica.encoder.forget()
    blocks = replica.blocks
    if blocks.cache is not None:
        dropped, blocks.cache.dropped = blocks.cache.dropped, None
        blocks.give_back(blocks.cache.evict(EVERYTHING))
        blocks.cache.dropped = dropped
    blocks.hits.clear()
    if blocks.chunks is not None:
        blocks.chunks.forget()
    return lost


def start_again(ledger: Ledger, request: int) -> None:
    """A request as if nothing had been done for it."""
    ledger.done[request], ledger.cached[request] = 0, 0
    ledger.remaining_tokens[request] = ledger.prompt[request]
    ledger.scheduled[request] = ledger.first_token[request] = -1


def go_on(ledger: Ledger, request: int) -> None:
    """A request whose prompt and tokens so far are to be computed again, and then its next token."""
    ledger.remaining_tokens[request] = ledger.prompt[request] + ledger.done[request]


def _cut(batch: "Batch", now: int) -> None:
    """Of a stretch of iterations only the one that runs now is left; those before it are written down."""
    stretch = batch.stretch
    if batch.replica.group is not None:
        _cut_stay(batch, batch.replica.group)
    elif stretch.count > 1 and batch.appointment is not None:
        batch.split(stretch.done_before(now))


def _cut_stay(batch: "Batch", group: "Lockstep") -> None:
    """The same of iterations in step with others; the group goes on without this batch."""
    stretch, decodes, replica = batch.stretch, batch.decodes, batch.replica
    if not stretch.count:
        return
    whole, count = stretch.count > 1, stretch.count
    done = min(group.before(batch), count - 1)
    if whole:
        batch.shorten_stay(done + 1)
        stretch.count = done
    stay = group.leave(batch)
    stretch.count = 1
    if not whole:
        return
    if stay is not None and done:
        replica.record.note_stay(batch, stay)
    if done:
        begun, grown = group.begun(), decodes.grown(done)
        decodes.advance(done, begun)
        batch.work.used += grown
        stretch.begin(begun)
    replica.record.waits.append(0)
    replica.record.shared_rows.extend((0, 0))


def _lose_batch(replica: "Replica", batch: "Batch", now: int) -> list[int]:
    """Take all out of a batch; the requests that it had."""
    _cut(batch, now)
    blocks, queue, decodes, work, stretch = replica.blocks, replica.queue, batch.decodes, batch.work, batch.stretch
    if stretch.count:
        if work.decoding:
            blocks.give_back(decodes.need())
        _note_lost(replica, batch, now)
    lost = list(decodes.members)
    for request in lost:
        queue.paused[request] = decodes.last_token(request)
        blocks.release(request, decodes.evict(request))
    for request in decodes.dismiss() if decodes.rows else ():
        replica.finish(request, now)  # of a static batch: all its tokens were out
    for request in batch.partial:
        blocks.release(request, blocks.before(request))
    lost += batch.partial
    batch.partial.clear()
    stretch.count, work.chunks, work.tokens, work.ended, work.decoding = 0, (), 0, 0, False
    work.filled = 0
    batch.appointment = None
    return lost


def _note_lost(replica: "Replica", batch: "Batch", now: int) -> None:
    """Write down the time that the running iteration took for nothing."""
    stretch, work = batch.stretch, batch.work
    spent = now - stretch.start
    if spent <= 0:
        return
    row = [stretch.start, 1, spent, *([0] * (COLUMNS - 3))]
    row[8], row[9] = work.used, work.queued
    replica.record.log.extend(row)
    if not replica.stages.turns:
        replica.record.busy += spent
        replica.wasted += spent
