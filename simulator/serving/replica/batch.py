"""A batch that runs iteration after iteration: what it works on, when it ends, and how far it can be fast-forwarded.

Requests wait in their replica; a policy chooses which prompts an iteration works on and whether it decodes. Decode
iterations in a row in which nothing can change are one stretch. An arrival cuts it at the boundary at or after it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from simulator.serving.policies.base import NOTHING, Chunks
from simulator.serving.policies.view import view
from simulator.serving.replica import alone, in_step
from simulator.serving.replica.decodes import Decodes
from simulator.serving.replica.fast_forward import DecodeLine, Stretch
from simulator.serving.replica.plain import is_plain, run
from simulator.serving.replica.speculation import SpeculatingDecodes, Yields

if TYPE_CHECKING:
    from simulator.engine.agenda import Appointment
    from simulator.serving.replica.intake import Intake
    from simulator.serving.replica.ledger import Column
    from simulator.serving.replica.replica import Replica


class Work:
    """What the running iteration works on."""

    __slots__ = (
        "adapting",
        "attention",
        "chunks",
        "decoding",
        "drafts",
        "ended",
        "filled",
        "queued",
        "reading",
        "short",
        "tokens",
        "used",
    )

    def __init__(self) -> None:
        """Nothing."""
        self.chunks: Chunks = []
        """(request, tokens of its prompt)."""
        self.tokens = self.ended = 0
        """Tokens of these pieces, and how many of them end their prompt."""
        self.filled = 0
        """Rows by which pieces are filled up to the longest of them."""
        self.attention = self.reading = 0
        """Ticks of its attention, and of that of decodes, where what it saves is known with those that run in step."""
        self.drafts = 0
        """Ticks of drafting, that of attention apart."""
        self.adapting = 0
        """Ticks of the kernels of adapters, all stages together."""
        self.short = 0
        """Ticks by which the device is done before the host, that works on the iteration beside it."""
        self.decoding = False
        """Whether sequences decode beside them."""
        self.used = self.queued = 0
        """Blocks in use, without those that its decodes take, and requests waiting, when it began."""

    def begin(self, chunks: Chunks, remaining: "Column", padded: bool = False) -> None:
        """Work on these pieces; `remaining` are tokens of prompts by request."""
        self.chunks = chunks
        if len(chunks) == 1 and not padded:
            ((request, self.tokens),) = chunks
            self.ended, self.filled = int(remaining[request] == self.tokens), 0
            return
        tokens = ended = 0
        for request, chunk in chunks:
            tokens += chunk
            if remaining[request] == chunk:
                ended += 1
        self.tokens, self.ended = tokens, ended
        self.filled = max(chunk for _, chunk in chunks) * len(chunks) - tokens if padded and chunks else 0

    @property
    def priced(self) -> int:
        """Rows of prompts that are computed."""
        return self.tokens + self.filled


class Batch:
    """Sequences that run together; a replica has one for each pipeline stage."""

    __slots__ = (
        "agenda",
        "alone",
        "appointment",
        "blocked",
        "closed",
        "decodes",
        "held",
        "in_step",
        "line",
        "partial",
        "plain",
        "replica",
        "speculates",
        "stretch",
        "view",
        "work",
    )

    def __init__(self, replica: "Replica", shared_tokens: int, yields: Yields | None = None) -> None:
        """Empty; `shared_tokens` as for `Decodes`; `yields` where several tokens of a sequence are verified."""
        self.replica = replica
        self.agenda = replica.agenda
        given = replica.blocks, replica.policy.grows, shared_tokens
        self.decodes = Decodes(*given) if yields is None else SpeculatingDecodes(*given, yields)
        self.speculates = yields is not None
        """Whether sequences get several tokens from an iteration."""
        self.partial: list[int] = []
        """Requests whose prompt is under way."""
        self.work = Work()
        self.stretch = Stretch()
        self.line = DecodeLine()
        self.blocked = False
        """Whether requests wait that cannot be admitted before a member is done."""
        self.closed = False
        """Whether a request was preempted just now or waits on the host, so that none is admitted."""
        self.held = False
        """Whether the policy holds prompts back and wants to be asked again after the iteration."""
        self.appointment: Appointment | None = None
        self.plain: bool | None = None
        """Whether nothing but prompts and decodes takes time; None before it first runs."""
        self.in_step = False
        """Whether stays of nothing but decodes are begun and ended in one go."""
        self.alone = False
        """Whether iterations are begun in one go, as nothing rare is beside them."""
        self.view = view(self)
        """What the policy sees."""

    @property
    def running(self) -> int:
        """Sequences that hold a slot."""
        return self.decodes.n + len(self.partial) + self.decodes.rows

    def rows(self) -> tuple[int, int]:
        """(rows that the iteration works on, those of them that give a token)."""
        n = self.decodes.n + self.decodes.rows if self.work.decoding else 0
        each = self.replica.stages.costs[0].verified(n)
        return each + self.work.tokens, each + self.work.ended

    # Time -----------------------------------------------------------------------------------------------------------

    def ended(self, appointment: Any) -> None:
        """The iteration, or the stretch, is over."""
        if appointment is not self.appointment:
            return
        if self.plain:
            run(self, ended=True)
            return
        loads = self.replica.weight_loads
        if loads is not None and loads.holds():
            return
        agenda = self.agenda
        if self.in_step and not self.work.chunks:
            in_step.complete(self, agenda.now)
        else:
            self._complete(agenda.now)
        if not agenda.queue or agenda.queue[0][0] > agenda.now:  # `alone`, without the call
            self.begin(None)
        else:
            self.appointment = agenda.begin(self.begin)

    def begin(self, appointment: Any) -> None:
        """Choose what to do next and start it, or go idle; nothing where what it had was lost since."""
        if appointment is not None and appointment is not self.appointment:
            return
        if self.plain is None:
            self.plain, self.in_step = is_plain(self), in_step.decodes_in_step(self)
            self.alone = alone.runs_alone(self)
        now = self.agenda.now
        if self.plain:
            run(self, ended=False)
        elif not ((self.in_step and in_step.begin(self, now)) or (self.alone and alone.begin(self, now))):
            self.begin_any(now)

    def begin_any(self, now: int) -> None:
        """Choose what to do next and start it, whatever the replica has."""
        replica, decodes = self.replica, self.decodes
        queue, blocks = replica.queue, replica.blocks
        if replica.group is not None and replica.group.waits(self):
            return
        if replica.stages.wires is not None and replica.stages.wires.waits(self):
            return
        gate = replica.stages.gate if replica.group is None else replica.group.end
        if now < gate:
            self.appointment = self.agenda.at(gate, self.begin)
            return
        if replica.intake is not None:
            replica.intake.take(self)
        if queue.ready:
            replica.admit_transferred(self)
        need = decodes.need() if decodes.n else 0
        extra, self.closed = 0, False
        if queue.swapped or need > blocks.free:
            before = replica.preempted
            need, extra = replica.make_room(self, need, now)
            # Requests on the host come back before new ones, or a steady stream of short prompts would starve them.
            self.closed = bool((replica.preempted > before or queue.swapped) and (decodes.n or self.partial))
        self.blocked = False
        if replica.loads is not None and queue.waiting and not self.closed:
            replica.loads.look(self)
        chunks, decoding, held = NOTHING
        if self.partial or queue.waiting:
            chunks, decoding, held = replica.policy.decide(self.view)
            self.blocked = not chunks and not self.closed and not held
        if not chunks and not decodes.n:
            self.stand_by(now)
            return
        if chunks:
            replica.admit(self, chunks, now)
        self.held = held
        self.start(chunks, decodes.n > 0 and (decoding or not chunks), need, extra, now)

    def stand_by(self, now: int) -> None:
        """There is nothing to run: make room for what waits, train, or go idle."""
        replica = self.replica
        if len(self.partial) > 1 and replica.policy.grows:  # they keep each other from the memory they need
            replica.preempt(self)
            self.begin(None)
        elif self._shed():
            self.begin(None)
        elif not self._train(now):
            self._go_idle()

    def _shed(self) -> bool:
        """Nothing can run: whether adapters of requests that wait made room."""
        adapters, waiting = self.replica.adapters, self.replica.queue.waiting
        return adapters is not None and bool(waiting) and adapters.shed(self, keep=0 if self.partial else 1)

    def _train(self, now: int) -> bool:
        """Nothing is to be served: whether an iteration of training alone begins."""
        replica, work, blocks = self.replica, self.work, self.replica.blocks
        if replica.finetuning is None or not (ticks := replica.finetuning.alone(now)):
            return False
        work.begin([], replica.ledger.remaining_tokens)
        work.decoding, work.short, work.drafts, work.adapting = False, 0, 0, 0
        work.used, work.queued = blocks.memory.blocks - blocks.free, len(replica.queue.waiting)
        self.stretch.begin(now)
        self.stretch.first = ticks
        if replica.wires is not None:
            replica.wires.leave()
        self.appointment = self.agenda.at(now + ticks, self.ended)
        return True

    def _go_idle(self) -> None:
        self.stretch.count = 0
        self.appointment = None
        self.replica.idle.append(self)
        if self.replica.wires is not None:
            self.replica.wires.leave()

    def start(self, chunks: Chunks, decoding: bool, need: int, extra: int, now: int) -> None:
        """Begin an iteration: find how long it lasts, and make the appointment at its end."""
        replica, work, stretch = self.replica, self.work, self.stretch
        blocks, stages = replica.blocks, replica.stages
        work.decoding = decoding
        if chunks or work.chunks:
            work.begin(chunks, replica.ledger.remaining_tokens, replica.policy.rules.padded)
        work.queued = len(replica.queue.waiting)
        stretch.begin(now)
        n = self.decodes.n + self.decodes.rows if decoding else 0
        settled = replica.policy.time_invariant
        if not decoding:
            need = 0
        elif need:
            settled = settled and need <= blocks.free  # else a prefix is dropped, which waiting requests may count on
            blocks.take(need)
        work.used = blocks.memory.blocks - blocks.free - need
        replica.record.copied += extra
        if replica.encoder is not None:
            extra += self._encoding()
        wires = replica.wires
        if wires is not None:
            wires.enter()
        meets = wires is not None and wires.contended()
        if stages.turns:
            ticks, streams = stages.ticks(self, n, extra), stages.streams and not n and not work.ended
            replica.record.busy += sum(ticks) // len(ticks)
            if stages.wires is not None:
                self._expect_end(now + sum(ticks))
                stages.wires.begin(self, ticks, streams)
                return
            span = stages.pass_through(ticks, self.rows()[0], now, streams)
            span = stretch.first = stages.gate - now if streams else span
        else:
            computing = span = self._lasts_one(n, extra)
            if replica.finetuning is not None:
                each = stages.costs[0].verified(n)
                span += replica.finetuning.fill(each + work.priced, each + work.ended, span)
                replica.finetuning.counts.end = now + span
            work.short = 0
            cost = stages.costs[0]
            each = n if cost.speculation is None else cost.verified(n)
            least = cost.least(n + len(chunks), each + work.tokens, bool(chunks))
            if replica.group is None and least > span:
                work.short, span = least - span, least
            stretch.first = span
            if (
                not (chunks or extra or self.closed or self.held)
                and (replica.fast_forwards or replica.stays)
                and not meets
                and (settled or not self.blocked)
            ):
                self.fast_forward(need)
                if stretch.count > 1 and replica.group is None:
                    span = stretch.lasts(stretch.count)
            if replica.group is not None:
                replica.group.enter(self, span, each + work.tokens, each + work.ended, least)
                return
        self.schedule_end(now + span)
        if replica.weight_loads is not None:
            replica.weight_loads.begin(computing)
        if wires is not None and meets:
            wires.share()

    def _encoding(self) -> int:
        """Ticks in which images of prompts that begin are encoded."""
        encoder = self.replica.encoder
        if encoder is None or not self.work.chunks:
            return 0
        ticks = encoder.ticks(self.work.chunks)
        self.replica.record.encoded += ticks
        return ticks

    def schedule_end(self, end: int) -> None:
        """The iteration, or the stretch, ends then."""
        self.appointment = self.agenda.at(end, self.ended)
        if self.replica.role == "prefill":
            self._expect_end(end)

    def _expect_end(self, end: int) -> None:
        """The iteration ends then, or not before."""
        if self.work.chunks and self.replica.role == "prefill" and self.replica.owner.by_layer:
            # When all have begun: whether another replica gives room must not hang on which of them began first.
            start = self.stretch.start
            self.agenda.end_of_instant(lambda _: self._announce(start, end))

    def end_now(self) -> None:
        """The iteration, which shared its links, ends now, unless its weights are still on their way."""
        if self.replica.weight_loads is not None and self.replica.weight_loads.holds():
            return
        now, stretch = self.agenda.now, self.stretch
        self.replica.record.stalled += now - stretch.start - stretch.first
        stretch.first, stretch.growth = now - stretch.start, 0
        self.appointment = self.agenda.at(now, self.ended)

    def passed(self) -> None:
        """The iteration, which shared its links stage by stage, ends now."""
        now, stretch = self.agenda.now, self.stretch
        stretch.first = now - stretch.start
        self.appointment = self.agenda.at(now, self.ended)

    def _lasts_one(self, n: int, extra: int) -> int:
        """Ticks of an iteration on a replica of one stage; notes by how much the next would be longer."""
        stages, work, line = self.replica.stages, self.work, self.line
        cost, chunks = stages.costs[0], work.chunks
        reading = 0
        if n:
            context = self.decodes.context
            if n == line.sequences and context <= line.limit:  # as in the iteration before
                reading = line.base + line.slope * context
            elif self.decodes.shared_prefixes is None:
                reading = line.at(cost, n, context)
            else:
                reading, line.slope, line.limit = stages.decode(0, n, self.decodes)
            self.stretch.growth = 0 if self.speculates else line.slope * n
        attention = reading + (stages.prompts(cost, chunks) if chunks else 0)
        each = n if cost.speculation is None else cost.verified(n)
        ticks = extra + cost.rows(each + work.priced, each + work.ended) + cost.host(n + len(chunks)) + attention
        if cost.drafting is not None:
            work.drafts = stages.drafts(self, n)
            ticks += work.drafts
        if self.replica.adapters is not None:
            work.adapting = self.replica.adapters.ticks(self, n > 0)
            ticks += work.adapting
        if chunks and cost.launching is not None:
            ticks += cost.launches(each + work.priced)
        if cost.overlap is None:
            return ticks
        if self.replica.group is not None and cost.common is not None:
            work.attention, work.reading = attention, reading
            return ticks
        saved = cost.saved(each + work.priced, attention, None, reading)
        self.replica.record.saved += saved
        return ticks - saved

    def _announce(self, begin: int, end: int) -> None:
        """Tell the owner which prompts end with this iteration and decode elsewhere."""
        replica = self.replica
        ledger = replica.ledger
        for request, chunk in self.work.chunks:
            if ledger.remaining_tokens[request] == chunk and ledger.output[request] > 1:
                replica.owner.early(request, replica, begin, end)

    # Fast-forward ---------------------------------------------------------------------------------------------------

    def fast_forward(self, taken: int) -> None:
        """Go on to the iteration in which the first member is done, as far as blocks and the line of decodes go.

        `taken` blocks were taken for the first iteration already.
        """
        decodes, blocks = self.decodes, self.replica.blocks
        count = decodes.until_done()
        if self.replica.intake is not None:
            count = self.replica.intake.until_look(self, count)
        room, growth, short = self.line.limit - decodes.context, self.stretch.growth, self.work.short
        if not self.speculates:
            count = min(count, room // (decodes.n + decodes.rows) + 1)
            if short and growth:  # as long as the host takes longer
                count = min(count, short // growth + 1)
        elif count > 1:
            later = decodes.later(count)
            if later[-1] > room:
                count = int(np.searchsorted(later, room, side="right"))
        if count <= 1:
            return
        grown = decodes.grown(count)
        if grown - taken > blocks.free:
            count, grown = decodes.affordable(blocks.free + taken)
        blocks.take(grown - taken)
        self.stretch.count = count
        if short:
            self.stretch.growth = 0
        if self.speculates and count > 1:
            more = self.line.slope * later[:count]
            self.stretch.bend(np.maximum(more - short, 0) if short else more)

    def cut(self, begun: bool = False) -> None:
        """Something came: end the stretch at the first boundary from now on, or after now where all that begins in
        this instant has `begun`."""
        stretch, group = self.stretch, self.replica.group
        if stretch.count <= 1:
            return
        if group is not None:
            group.cut(self, group.boundary(self, begun))
            return
        if self.appointment is None:
            return
        count = stretch.boundary(self.agenda.now + begun)
        if count < stretch.count:
            self.shorten(count)

    def cut_before_look(self, intake: "Intake") -> None:
        """A request has come: end the stretch where the engine looks for it."""
        stretch, group = self.stretch, self.replica.group
        if stretch.count <= 1:
            return
        if group is not None:
            group.cut(self, intake.look_from(self, group.boundary(self), stretch.count))
            return
        if self.appointment is None:
            return
        count = intake.look_from(self, stretch.boundary(self.agenda.now), stretch.count)
        if count < stretch.count:
            self.shorten(count)

    def shorten(self, count: int) -> None:
        """End the stretch after so many iterations, the last of which is not over yet."""
        stretch = self.stretch
        self.replica.blocks.give_back(self.decodes.grown(stretch.count) - self.decodes.grown(count))
        stretch.count = count
        self.appointment = self.agenda.at(stretch.start + stretch.lasts(count), self.ended)

    def shorten_stay(self, count: int) -> None:
        """End the stay in its group after so many iterations."""
        self.replica.blocks.give_back(self.decodes.grown(self.stretch.count) - self.decodes.grown(count))
        self.stretch.count = count

    def split(self, done: int) -> None:
        """So many iterations of the stretch are over: the one under way goes on by itself."""
        stretch, decodes = self.stretch, self.decodes
        self.shorten(done + 1)
        if not done:
            return
        grown, first = decodes.grown(done), stretch.nth(done)
        begun = stretch.start + stretch.lasts(done)
        stretch.count = done
        self.replica.record.note(self, begun, self.replica.policy.grows, self.replica.stages.turns)
        gone = self.line.slope * int(decodes.later(done + 1)[-1])
        decodes.advance(done, begun)
        self.work.short = max(self.work.short - gone, 0)
        self.work.used += grown
        stretch.begin(begun)
        stretch.first = first

    # What an iteration leaves ---------------------------------------------------------------------------------------

    def _complete(self, now: int) -> None:
        """Tokens are out, prompts are done, requests finish."""
        replica, work, decodes = self.replica, self.work, self.decodes
        if replica.finetuning is not None and replica.finetuning.served_out():
            self.stretch.count = 0
            return
        stay = replica.group.leave(self) if replica.group is not None else None
        if stay is not None:
            replica.record.note_stay(self, stay)
        else:
            replica.record.note(self, now, replica.policy.grows, replica.stages.turns)
        if work.decoding:
            for request in decodes.advance(self.stretch.count, now):
                self.finish(request, now)
            if decodes.rows and not decodes.n and not self.partial:
                for request in decodes.dismiss():
                    replica.finish(request, now)
        self.stretch.count = 0
        if work.chunks:
            remaining = replica.ledger.remaining_tokens
            for request, chunk in work.chunks:
                remaining[request] -= chunk
                if not remaining[request]:
                    self.partial.remove(request)
                    replica.prompt_done(self, request, now)

    def finish(self, request: int, now: int) -> None:
        """A member has its last token."""
        replica, ledger = self.replica, self.replica.ledger
        ledger.done[request] = ledger.output[request]
        if replica.policy.static_batch:
            self.decodes.stay(request)
            return
        self.decodes.leave(request, ledger.prompt[request] + ledger.output[request])
        replica.finish(request, now)
