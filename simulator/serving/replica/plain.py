"""Iterations of a replica on which nothing but prompts and decodes takes time, each in one go.

`Batch.ended` and `Batch.begin` ask for everything that a replica may have. Here is the same, to the tick, for those of
one stage that have no links to share, tiers, adapters, images, drafts, peers in step or work beside the device: most
replicas of most fleets. While nothing else is due before an iteration ends, the next one follows without an
appointment. What is rare (preemption, a replica that stands still or goes idle) is left to the batch.
"""

from struct import error
from typing import TYPE_CHECKING

from simulator.serving.replica.record import TOO_LONG, packed

if TYPE_CHECKING:
    from simulator.serving.policies.base import Chunks
    from simulator.serving.replica.batch import Batch

IN_A_ROW = 1 << 12
"""Iterations after which an appointment is made all the same, so that progress is reported."""


def is_plain(batch: "Batch") -> bool:
    """Whether nothing but prompts and decodes takes time on the replica of a batch, as it stands when it first runs."""
    replica, blocks, policy = batch.replica, batch.replica.blocks, batch.replica.policy
    stages = replica.stages
    beside = (
        (replica.group, replica.wires, stages.wires, replica.intake, replica.loads, replica.adapters),
        (replica.finetuning, replica.weight_loads, replica.encoder, batch.decodes.shared_prefixes),
        (blocks.cache, blocks.chunks, blocks.spare),
    )
    return (
        replica.role == "both"
        and blocks.reserve == policy.reserve == "chunk"
        and not (stages.turns or policy.static_batch or policy.rules.padded)
        and all(one is None for some in beside for one in some)
        and stages.costs[0].plain
    )


def run(batch: "Batch", ended: bool) -> None:
    """Begin an iteration now, the one before it having `ended` or not, and those that follow until something is due.

    One function for the sake of speed: it is what the time of most serving runs goes to.
    """
    agenda, replica, decodes, work = batch.agenda, batch.replica, batch.decodes, batch.work
    policy, stages, blocks, stretch = replica.policy, replica.stages, replica.blocks, batch.stretch
    waits, swapped, due, cost = replica.queue.waiting, replica.queue.swapped, agenda.queue, stages.costs[0]
    ledger, counts, line, partial = replica.ledger, decodes.counts, batch.line, batch.partial
    now, size, remaining = agenda.now, len(counts), ledger.remaining_tokens
    for left in range(IN_A_ROW, 0, -1):
        if ended:
            complete(batch, now)
            if due and due[0][0] <= now:
                batch.appointment = agenda.begin(batch.begin)
                return
        ended, n = True, decodes.n
        need = counts[-decodes.iteration % size] if n else 0
        if swapped or need > blocks.free or now < stages.gate:
            batch.begin_any(now)
            return
        batch.closed = batch.blocked = held = False
        chunks: Chunks = ()
        if partial or waits:
            chunks, decoding, held = policy.decide(batch.view)
            if chunks:
                replica.admit(batch, chunks, now)
                if not decoding:
                    n = need = 0
            else:
                batch.blocked = not held
        if not chunks and not n:
            batch.stand_by(now)
            return
        batch.held = held
        settled = not batch.blocked or (policy.time_invariant and need <= blocks.free)
        work.decoding, work.queued, work.used = n > 0, len(waits), blocks.memory.blocks - blocks.free
        if need:
            blocks.take(need)
        ticks, growth = 0, 0
        if chunks:
            if len(chunks) == 1:
                ((request, piece),) = work.chunks = chunks
                left_over = remaining[request]
                work.tokens, work.ended = piece, int(left_over == piece)
                ticks = cost.prompt(piece, ledger.prompt[request] + ledger.done[request] - left_over)
            else:
                work.begin(chunks, remaining)
                ticks = stages.prompts(cost, chunks)
        elif work.chunks:
            work.chunks, work.tokens, work.ended = chunks, 0, 0
        if n:
            context = decodes.context
            if n == line.sequences and context <= line.limit:  # as in the iteration before
                ticks += line.base + line.slope * context
            else:
                ticks += line.at(cost, n, context)
            growth = line.slope * n
        ticks += cost.host(n + len(chunks)) + cost.rows(n + work.tokens, n + work.ended)
        stretch.start, stretch.count, stretch.first, stretch.growth = now, 1, ticks, growth
        if not chunks and settled and not held and replica.fast_forwards:
            batch.fast_forward(need)
            if stretch.count > 1:
                ticks = stretch.lasts(stretch.count)
        now += ticks
        if left == 1 or (due and due[0][0] <= now):
            break
        agenda.skip_to(now)
    batch.appointment = agenda.at(now, batch.ended)


def complete(batch: "Batch", now: int) -> None:
    """The iteration, or the stretch, is written down, tokens are out, prompts are done, requests finish."""
    replica, work, stretch, decodes = batch.replica, batch.work, batch.stretch, batch.decodes
    record, chunks, count, start = replica.record, work.chunks, stretch.count, stretch.start
    n, context = (decodes.n, decodes.context) if work.decoding else (0, 0)
    if not record.silent:  # as `Record.note` does
        first, log, used, growth = stretch.first, record.log, work.used, stretch.growth
        ends = work.ended
        try:
            row = packed(start, count, first, growth, n, work.tokens, len(chunks), context, used, work.queued, ends)
        except error:
            raise OverflowError(TOO_LONG) from None
        log.frombytes(row)
        if count > 1:
            record.usage.note(count, first, growth, used, decodes.iteration, decodes.counts)
        record.busy += now - start
        if n and (decodes.fresh or decodes.last != start):  # not all have waited for this iteration, and for it only
            record.gaps_apart(decodes, start + first)
        if len(log) >= record.most:
            record.hand_over()
    if n:
        decodes.iteration += count
        decodes.context = context + count * n
        decodes.last = now
        if decodes.fresh:
            decodes.fresh.clear()
        if decodes.ends[0][0] <= decodes.iteration:
            for request in decodes.over_by(decodes.iteration):
                batch.finish(request, now)
    stretch.count = 0
    if chunks:
        remaining = replica.ledger.remaining_tokens
        for request, chunk in chunks:
            left = remaining[request] = remaining[request] - chunk
            if not left:
                batch.partial.remove(request)
                replica.prompt_done(batch, request, now)
