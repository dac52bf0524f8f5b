"""From a schedule to a program: passes over a draft, each of which adds one kind of traffic.

1. `pipeline`: forward and backward operations of every rank of one pipeline, with sends between stages.
2. `split`: operations beside which something runs are cut into the layers that they consist of.
3. `shard_parameters` / `reduce_gradients` / `finish`: data-parallel collectives and the optimizer.

A step is the period of a steady state: parameters that the optimizer left in shards are gathered at its start where
the stack overlaps that with the forward pass, at its end where it does not. Where a collective runs beside
computation, both are activities on the rank's multiprocessors: the collective takes the share that its channels need.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import Activity, Tape, Use
from simulator.program import draft as d
from simulator.program.content import Content, Lump
from simulator.program.draft import SPREAD, Draft
from simulator.program.lowering import Lowered, lower
from simulator.training.job import Job

Ints = NDArray[np.int64]

LANES = ("compute", "send forward", "send backward", "data")
PASSES = (d.FORWARD, d.BACKWARD, d.INPUT, d.WEIGHT)
LAST = SPREAD // 4
"""Key of what follows a pass at once, before its blocking send."""


@dataclass(frozen=True, slots=True)
class Prices:
    """What every instruction of a chain (one pipeline replica) consists of; lists are by model chunk or by rank."""

    forward: Sequence[Sequence[Content]]
    """Pieces of the forward pass of each chunk."""
    backward: Sequence[Sequence[Content]]
    """Pieces of the backward pass of each chunk, last layer first."""
    input_gradient: Sequence[Content]
    """Backward pass of each chunk without the gradients of weights, for schedules that split it."""
    weight_gradient: Sequence[Content]
    """The rest: gradients of weights."""
    send_forward: Sequence[Content]
    """From chunk i to chunk i + 1."""
    send_backward: Sequence[Content]
    """From chunk i + 1 to chunk i."""
    gather: Sequence[Sequence[Content]]
    """Gather of the parameters of each piece of each chunk, in forward order."""
    reduce: Sequence[Sequence[Content]]
    """Reduction of the gradients of each piece, last layer first; pieces of one bucket are empty but for the last."""
    embedding: Sequence[Content]
    """Sum of the gradients of a tied embedding on first and last stage; empty where there is none."""
    optimizer: Sequence[Content]
    """By rank."""

    def passes(self, kind: int) -> Sequence[Sequence[Content]]:
        """The pieces of the passes of a kind, by chunk."""
        whole = {d.INPUT: self.input_gradient, d.WEIGHT: self.weight_gradient}
        if kind in whole:
            return [[content] for content in whole[kind]]
        return self.forward if kind == d.FORWARD else self.backward


@dataclass(frozen=True, slots=True)
class Columns:
    """What each operation of a tape is; arrays of shape (n,) in tape order."""

    kind: Ints
    """Index into `draft.KINDS`."""
    stage: Ints
    """Model chunk, -1 for none."""
    microbatch: Ints
    piece: Ints
    """Layer within the chunk where the operation was cut, else -1."""
    lane: Ints
    content: Ints
    """Index into `Program.contents`."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program ready to run, and what its operations mean."""

    tape: Tape
    columns: Columns
    contents: tuple[Lump, ...]
    """What operations consist of."""
    lanes: tuple[tuple[int, int, str], ...]
    """(chain, rank, name) of each lane."""


class Lowering:
    """Builds the program of several chains that run the same schedule."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.draft = Draft()

    def run(self, chains: Sequence[Prices], rendezvous: Ints) -> Program:
        """Lower all chains; `rendezvous` (chains,) numbers the data-parallel groups whose chains wait for each other,
        -1 none."""
        for number, prices in enumerate(chains):
            self._chain(number, prices, int(rendezvous[number]))
        names = tuple((c, r, name) for c in range(len(chains)) for r in range(self.job.pp) for name in LANES)
        labels = tuple(f"chain {c} rank {r} {name}" for c, r, name in names)
        tape, order = self.draft.build(labels)
        picked = {f.name: self.draft[f.name][order] for f in fields(Columns)}
        return Program(tape, Columns(**picked), tuple(self.draft.contents), names)

    # ---- one chain -----------------------------------------------------------------------------------------------

    def _chain(self, number: int, prices: Prices, rendezvous: int) -> None:
        part = ChainDraft(self.job, prices, number * self.job.pp, rendezvous)
        part.build()
        columns = {name: part.draft[name] for name in d.COLUMNS}
        for name, known in (("activity", self.draft.activities), ("content", self.draft.contents)):
            columns[name] = np.where(columns[name] >= 0, columns[name] + len(known), -1)
        added = self.draft.add(**columns)
        self.draft.after(added[part.draft.edges[:, 0]], added[part.draft.edges[:, 1]])
        shift = self.draft.resources
        self.draft.activities += [
            a._replace(uses=tuple(u._replace(resource=u.resource + shift) for u in a.uses))
            for a in part.draft.activities
        ]
        self.draft.resources += part.draft.resources
        self.draft.contents += part.draft.contents


class ChainDraft:
    """The draft of one chain; its lanes start at lane 4 x `first_rank`."""

    def __init__(self, job: Job, prices: Prices, first_rank: int, rendezvous: int) -> None:
        self.job, self.prices = job, prices
        self.first_rank, self.rendezvous = first_rank, rendezvous
        self.draft = Draft()

    def build(self) -> None:
        """Run the passes."""
        self.pipeline()
        self.gathered, self.reduced = (self.draft.register(lists) for lists in (self.prices.gather, self.prices.reduce))
        self.split()
        multiprocessors = [self.draft.resource() for _ in range(self.job.pp)] if self.job.shares else []
        if self.job.per_pass and self.job.dp > 1:
            self.shard_parameters(multiprocessors)
        self.finish(multiprocessors)

    def lane(self, rank: int | Ints, name: str) -> Ints:
        """Number of a lane."""
        return np.asarray((self.first_rank + rank) * len(LANES) + LANES.index(name))

    # ---- pass 1 --------------------------------------------------------------------------------------------------

    def pipeline(self) -> None:
        """Passes and sends of every rank in the order of the schedule."""
        numbers = np.full((len(d.KINDS), len(self.job.chunks)), -1)
        for kind in PASSES:
            numbers[kind] = [self.draft.content(pieces) for pieces in self.prices.passes(kind)]
        numbers[d.SEND_FORWARD] = [self.draft.content([sent]) for sent in self.prices.send_forward]
        back = [self.draft.content([sent]) for sent in self.prices.send_backward]
        numbers[d.SEND_BACKWARD] = np.roll(back, 1)  # stage i + 1 sends over boundary i
        ticks = np.array([each.ticks for each in self.draft.contents])
        sends = np.stack([ticks[numbers[d.SEND_FORWARD]], ticks[back]], axis=1)
        lowered = lower(self.job.schedule, ticks[numbers[list(PASSES)]].T, sends, self.job.overlap_pipeline)
        self._take(lowered, numbers)

    def _take(self, lowered: Lowered, numbers: Ints) -> None:
        """Continue from a lowered schedule; `numbers` (kinds, stages) are contents."""
        tape = lowered.tape
        counts = np.diff(tape.lane_start)
        lane = np.repeat(
            [self.lane(r, p) for r, p in zip(lowered.lane_rank, lowered.lane_purpose, strict=True)], counts
        )
        key = (np.arange(len(tape)) - np.repeat(tape.lane_start[:-1], counts)) * SPREAD
        self.draft.add(
            lane=lane,
            key=key,
            kind=lowered.kind,
            stage=lowered.stage,
            microbatch=lowered.microbatch,
            duration=tape.duration,
            content=numbers[lowered.kind, lowered.stage],
        )
        self.draft.after(np.repeat(np.arange(len(tape)), np.diff(tape.after_start)), tape.after)

    # ---- pass 2 --------------------------------------------------------------------------------------------------

    def split(self) -> None:
        """Cut the operations beside which parameters or gradients travel."""
        pieces = np.ones(len(self.draft), np.int64)
        if self.job.shares:
            chosen = self._chosen()
            lengths = np.array([[len(p) for p in t] for t in (self.prices.forward, self.prices.backward)])
            pieces[chosen] = lengths[self.draft["kind"][chosen], self.draft["stage"][chosen]]
        self.draft.cut(pieces)
        cut = np.flatnonzero(self.draft["piece"] >= 0)
        if len(cut):
            known = self.draft.register([*self.prices.forward, *self.prices.backward])
            kind, stage, piece = (self.draft[n][cut] for n in ("kind", "stage", "piece"))
            numbers = known.numbers(kind * len(self.job.chunks) + stage, piece)
            self.draft["content"][cut], self.draft["duration"][cut] = numbers, known.lasting(numbers)

    def _chosen(self) -> Ints:
        """Operations to cut: all where each gathers, else the first forward and the last backward pass of a chunk."""
        if self.job.per_pass:
            return np.flatnonzero(self.draft["kind"] <= d.BACKWARD)
        chosen = []
        for chunk in range(len(self.job.chunks)):
            if self.job.overlap_parameters and self.job.zero > 0:
                chosen += self._passes(chunk, d.FORWARD)[:1].tolist()
            if self.job.overlap_gradients:
                last = self._passes(chunk, d.BACKWARD, d.WEIGHT)[-1:]
                chosen += last[self.draft["kind"][last] == d.BACKWARD].tolist()
        return np.array(chosen, np.int64)

    def _passes(self, chunk: int, *kinds: int) -> Ints:
        """Operations of some kinds of a chunk in the order of execution."""
        found = np.flatnonzero((self.draft["stage"] == chunk) & np.isin(self.draft["kind"], kinds))
        return found[np.argsort(self.draft["key"][found])]

    # ---- pass 3 --------------------------------------------------------------------------------------------------

    def _shared(self, operations: Ints, resource: int, rate: float) -> None:
        """Turn operations into activities that take `rate` of the rank's multiprocessors."""
        durations = self.draft["duration"][operations]
        known: dict[int, int] = {}
        for ticks in np.unique(durations).tolist():
            known[ticks] = self.draft.activity(Activity(0, ticks, (Use(resource, rate, 1.0),)))
        self.draft["activity"][operations] = [known[t] for t in durations.tolist()]

    def _data(self, rank: int, resource: int, **columns: Ints | int) -> Ints:
        """Collectives on the data lane of a rank, members of a rendezvous where chains wait for each other."""
        numbers = self.draft.add(lane=self.lane(rank, "data"), **columns)
        self._shared(numbers, resource, 1.0 - self.job.stack.overlap_quality.value)
        if self.rendezvous >= 0:
            self.draft["rendezvous"][numbers] = self._rendezvous_number(rank, numbers)
        return numbers

    def _rendezvous_number(self, rank: int, numbers: Ints) -> Ints:
        """The same number for the same collective in every chain of the group."""
        local = numbers - len(self.draft) + len(numbers)
        done = int((self.draft["lane"][: numbers[0]] == self.lane(rank, "data")).sum())
        return (self.rendezvous * self.job.pp + rank) * (1 << 24) + done + local

    def shard_parameters(self, multiprocessors: list[int]) -> None:
        """Gather each piece before its use, two ahead; reduce its gradients after its backward pass.

        Under ZeRO-2 what the forward pass gathered serves the backward pass too.
        """
        for rank in range(self.job.pp):
            pieces = np.flatnonzero(
                (self.draft["lane"] == self.lane(rank, "compute")) & (self.draft["kind"] <= d.BACKWARD)
            )
            pieces = pieces[np.argsort(self.draft["key"][pieces])]
            self._gathers(rank, pieces, multiprocessors[rank])
            self._reductions(rank, pieces, multiprocessors[rank])
            self._shared(pieces, multiprocessors[rank], 1.0)

    def _position(self, operations: Ints) -> Ints:
        return np.maximum(self.draft["piece"][operations], 0)

    def _gathers(self, rank: int, pieces: Ints, resource: int) -> None:
        turns = np.arange(len(pieces))
        if self.job.zero == 2:
            turns = turns[self.draft["kind"][pieces] == d.FORWARD]
        users = pieces[turns]
        stage, position = self.draft["stage"][users], self._position(users)
        backward = self.draft["kind"][users] == d.BACKWARD
        count = np.array([len(g) for g in self.prices.gather])[stage]
        layer = np.where(backward, count - 1 - position, position)
        numbers = self.gathered.numbers(stage, layer)
        gathers = self._data(
            rank,
            resource,
            kind=d.GATHER,
            stage=stage,
            key=4 * turns + 4,
            duration=self.gathered.lasting(numbers),
            content=numbers,
            microbatch=self.draft["microbatch"][users],
            piece=layer,
        )
        self.draft.after(users, gathers)
        later = turns >= 2
        self.draft.after(gathers[later], pieces[turns[later] - 2])

    def _reductions(self, rank: int, pieces: Ints, resource: int) -> None:
        backward = np.flatnonzero(self.draft["kind"][pieces] == d.BACKWARD)
        stage, position = self.draft["stage"][pieces[backward]], self._position(pieces[backward])
        numbers = self.reduced.numbers(stage, position)
        reductions = self._data(
            rank,
            resource,
            kind=d.REDUCE,
            stage=stage,
            key=4 * backward + 11,
            duration=self.reduced.lasting(numbers),
            content=numbers,
            microbatch=self.draft["microbatch"][pieces[backward]],
            piece=position,
        )
        self.draft.after(reductions, pieces[backward])

    def finish(self, multiprocessors: list[int]) -> None:
        """Gradient reduction, tied embeddings, optimizer and parameter gather of every rank."""
        if not self.job.per_pass and self.job.dp > 1:
            self._reduce_gradients(multiprocessors)
        self._tied_embedding()
        for rank in range(self.job.pp):
            optimizer = self.draft.add(
                lane=self.lane(rank, "compute"),
                key=1 << 60,
                kind=d.OPTIMIZER,
                duration=self.prices.optimizer[rank].total,
                content=self.draft.content([self.prices.optimizer[rank]]),
            )
            self.draft.after(np.repeat(optimizer, len(waits := self._last_reduction(rank))), waits)
        if self.job.zero > 0 and not self.job.per_pass and self.job.dp > 1:
            self._gather_parameters(multiprocessors)

    def _pieces(self, passes: Ints, which: int) -> Ints:
        """Pieces of the first (0) or last (-1) of some passes."""
        same = self.draft["microbatch"][passes] == self.draft["microbatch"][passes[which]]
        kind = self.draft["kind"][passes] == self.draft["kind"][passes[which]]
        pieces: Ints = passes[same & kind]
        return pieces

    def _chunks(self, rank: int) -> list[int]:
        return [chunk for chunk, home in enumerate(self.job.home) if home == rank]

    def _reduce_gradients(self, multiprocessors: list[int]) -> None:
        """A reduction a bucket: beside the last backward pass of the chunk, or after everything on the compute lane."""
        for rank in range(self.job.pp):
            chunks = self._chunks(rank)
            if self.job.zero == 2:
                self._reduce_earlier(rank, chunks, multiprocessors)
            if not self.job.overlap_gradients:
                self._serial(rank, d.REDUCE, [piece for c in chunks for piece in self.prices.reduce[c]], 1 << 58)
                continue
            for chunk in reversed(chunks):
                self._overlapped_reduction(rank, chunk, multiprocessors[rank])

    def _reduce_earlier(self, rank: int, chunks: Sequence[int], multiprocessors: list[int]) -> None:
        """ZeRO-2 keeps no whole gradients: those of every microbatch before the last are reduced after its pass.

        Where they run beside the passes that follow, they share the multiprocessors with these.
        """
        for chunk in chunks:
            passes = self._passes(chunk, d.BACKWARD, d.WEIGHT)
            earlier = np.setdiff1d(passes, self._pieces(passes, -1))
            content = self.draft.content(self.prices.reduce[chunk])
            ticks = self.draft.contents[content].ticks
            if not len(earlier) or not ticks:
                continue
            columns = {name: self.draft[name][earlier] for name in ("stage", "microbatch")}
            key = self.draft["key"][earlier] + LAST
            if self.job.overlap_gradients:
                order = np.argsort(key)
                reductions = self._data(
                    rank,
                    multiprocessors[rank],
                    kind=d.REDUCE,
                    key=key[order],
                    duration=ticks,
                    content=content,
                    **{n: c[order] for n, c in columns.items()},
                )
                self.draft.after(reductions, earlier[order])
                self._shared(self._passes(chunk, *PASSES), multiprocessors[rank], 1.0)
                continue
            reductions = self.draft.add(
                lane=self.lane(rank, "compute"), kind=d.REDUCE, key=key, duration=ticks, content=content, **columns
            )
            if self.rendezvous >= 0:
                first = (self.rendezvous * len(self.job.chunks) + chunk) * (1 << 24) + (1 << 61) + (1 << 60)
                self.draft["rendezvous"][reductions] = first + columns["microbatch"]

    def _last_reduction(self, rank: int) -> Ints:
        """The reduction that ends last on the data lane of a rank; shape (1,), or (0,) where there is none."""
        data = np.flatnonzero((self.draft["lane"] == self.lane(rank, "data")) & (self.draft["kind"] == d.REDUCE))
        return data[np.argsort(self.draft["key"][data])][-1:]

    def _serial(self, rank: int, kind: int, contents: Sequence[Content], key: int) -> None:
        content = self.draft.content(contents)
        ticks = self.draft.contents[content].ticks
        number = self.draft.add(lane=self.lane(rank, "compute"), key=key, kind=kind, duration=ticks, content=content)
        if self.rendezvous >= 0:
            self.draft["rendezvous"][number] = ((self.rendezvous * self.job.pp + rank) * len(d.KINDS) + kind) + (
                1 << 60
            )

    def _overlapped_reduction(self, rank: int, chunk: int, resource: int) -> None:
        pieces = self._pieces(self._passes(chunk, d.BACKWARD, d.WEIGHT), -1)
        numbers = self.reduced.numbers(chunk, np.arange(len(self.prices.reduce[chunk])))
        ticks = self.reduced.lasting(numbers)
        if len(pieces) < len(ticks):  # a pass for weights is not cut: everything is reduced after it
            pieces = np.repeat(pieces, len(ticks))
        ends = np.flatnonzero(ticks)
        if not len(ends):
            return
        key = self.draft["key"][pieces[ends]] + LAST + ends
        columns = {"duration": ticks[ends], "content": numbers[ends], "piece": ends}
        reductions = self._data(rank, resource, kind=d.REDUCE, stage=chunk, key=key, **columns)
        self.draft.after(reductions, pieces[ends])
        self._shared(pieces, resource, 1.0)

    def _tied_embedding(self) -> None:
        """First and last stage meet to sum the gradients of the embedding that both hold."""
        if self.prices.embedding:
            ranks = np.array([self.job.home[0], self.job.home[-1]])
            contents = [self.draft.content([sum_]) for sum_ in self.prices.embedding]
            sums = self.draft.add(
                lane=self.lane(ranks, "compute"),
                key=1 << 59,
                kind=d.EMBEDDING,
                duration=np.array([self.draft.contents[number].ticks for number in contents]),
                content=np.array(contents),
                rendezvous=(1 << 61) + self.first_rank,
            )
            for number, rank in zip(sums, ranks, strict=True):
                waits = self._last_reduction(int(rank))
                self.draft.after(np.repeat(number, len(waits)), waits)

    def _gather_parameters(self, multiprocessors: list[int]) -> None:
        """ZeRO-1 and -2: at the start, ahead of the first forward pass, or at the end after the optimizer."""
        for rank in range(self.job.pp):
            chunks = self._chunks(rank)
            if not self.job.overlap_parameters:
                gathers = [piece for c in chunks for piece in self.prices.gather[c]]
                self._serial(rank, d.GATHER, gathers, (1 << 60) + 1)
                continue
            for chunk in chunks:
                self._overlapped_gather(rank, chunk, multiprocessors[rank])

    def _overlapped_gather(self, rank: int, chunk: int, resource: int) -> None:
        pieces = self._pieces(self._passes(chunk, d.FORWARD), 0)
        numbers = self.gathered.numbers(chunk, np.arange(len(self.prices.gather[chunk])))
        ticks = self.gathered.lasting(numbers)
        starts = np.flatnonzero(ticks)
        if not len(starts):
            return
        key = -(1 << 40) + chunk * SPREAD + starts
        columns = {"duration": ticks[starts], "content": numbers[starts], "piece": starts}
        gathers = self._data(rank, resource, kind=d.GATHER, stage=chunk, key=key, **columns)
        self.draft.after(pieces[starts], gathers)
        self._shared(pieces, resource, 1.0)
