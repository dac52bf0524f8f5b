"""Lengths into the microbatches of each data-parallel rank, by the policy of `training.batching`."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from simulator.cost.work import Document
from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.specs.batching import Batching
from simulator.specs.training import Training
from simulator.training.batches.base import NOTHING, Batch, Shape, batch_of
from simulator.training.batches.groups import Group, Speed, as_they_come, by_load, flexible, needed
from simulator.training.batches.lengths import PATH, pairs
from simulator.training.batches.packing import balanced, dealt, first_fit
from simulator.training.batches.padding import buckets, by_bucket, filled, in_turn
from simulator.training.batches.served import served

IDLE = (Document(1, 1, 1),)
"""What a rank attends to that has given all away."""
MOST_SHAPES = 8192
"""Microbatches of a step that differ, above which it is refused rather than priced for minutes."""


@dataclass(frozen=True, slots=True)
class Work:
    """Forward FLOPs of a document of l tokens: linear l + square l^2."""

    linear: float
    square: float

    def of(self, lengths: Sequence[int]) -> NDArray[np.float64]:
        """Of each length; shape (n,)."""
        each = np.array(lengths, np.float64)
        found: NDArray[np.float64] = self.linear * each + self.square * each * each
        return found


@dataclass(frozen=True, slots=True)
class Step:
    """What a step has room for."""

    training: Training
    batching: Batching
    ranks: int
    """Data-parallel ones."""
    each: int
    """Microbatches of each."""
    unit: int
    """Tokens of which every sequence has a multiple, as it is cut over ranks; pieces on each rank of a group."""
    work: Work
    seed: int

    @property
    def microbatches(self) -> int:
        """Of all ranks."""
        return self.ranks * self.each

    speed: Speed
    """Of groups of ranks."""

    def cut(self, shape: Shape) -> Shape:
        """A shape whose sequences divide over the ranks that they are cut over."""
        unit = (
            self.unit * shape.ranks
            if self.batching.groups and shape.ranks > 1
            else 1
            if self.batching.groups
            else self.unit
        )
        return replace(shape, tokens=-(-shape.tokens // unit) * unit)


def plan(training: Training, ranks: int, unit: int, work: Work, speed: Speed, seed: int) -> Batch | None:
    """The microbatches of one step on so many data-parallel ranks; None where all are alike.

    Raises InputError for lengths that the policy cannot put into microbatches.
    """
    batching = training.batching
    if batching is None:
        return None
    each = max(training.global_batch // (ranks * training.micro_batch), 1)
    step = Step(training, batching, ranks, each, unit, work, seed, speed)
    found = POLICIES[batching.policy](step)
    if batching.disaggregated is not None:
        found = _served(found, batching.disaggregated)
    if len(found.shapes) > MOST_SHAPES:
        message = f"{len(found.shapes):,} microbatches of different sizes, more than {MOST_SHAPES:,}"
        hint = "buckets with `fill: bucket` make fewer; or take a smaller global_batch"
        raise InputError(Problem(message, path="training.batching", hint=hint))
    return found


def _served(batch: Batch, tolerance: float) -> Batch:
    """The batch with the attention of every microbatch spread over all ranks."""
    rows: list[list[Shape]] = [[] for _ in batch.rows]
    for slot in zip(*batch.rows, strict=True):
        own = [batch.shapes[number] for number in slot]
        documents, moved = served([shape.documents for shape in own], tolerance)
        for row, shape, works in zip(rows, own, documents, strict=True):
            row.append(replace(shape, served=works or IDLE, moved=moved))
    lengths = Counter({(tokens, encoder): count for tokens, encoder, count in batch.lengths})
    return batch_of(rows, lengths, batch.delayed)


def _packed(step: Step, members: Sequence[int]) -> Shape:
    """A microbatch of documents, filled up where it is said."""
    own = tuple(sorted(members, reverse=True))
    room = step.training.micro_batch * step.training.sequence_length
    shape = Shape(1, room if step.batching.fill == "context" else max(sum(own), 1), 0, own)
    return step.cut(shape)


def _up_to(step: Step, tokens: int) -> list[int]:
    """Sequences in their order whose tokens fit, the next of which would not."""
    found, total = list[int](), 0
    for length, _ in pairs(step.training, step.seed):
        total += length
        if total > tokens:
            return found
        found.append(length)
    if total < tokens - step.training.sequence_length:
        raise _too_few(len(found), f"{total:,} tokens do not fill {step.microbatches:,} microbatches of {tokens:,}")
    return found


def _packs(step: Step) -> Batch:
    """Whole documents in microbatches with room, by first fit or by work."""
    training, batching = step.training, step.batching
    size = training.micro_batch * training.sequence_length
    room = batching.capacity or size
    if room < training.sequence_length:
        message = f"a capacity of {room:,} tokens has no room for a sequence of `sequence_length`"
        hint = f"write {training.sequence_length:,} or more"
        raise InputError(Problem(message, path="training.batching.capacity", hint=hint))
    lengths = _up_to(step, size * step.microbatches)
    if batching.policy == "balanced":
        found, left = balanced(lengths, step.work.of(lengths), room, step.microbatches)
        work = [float(step.work.of(one).sum()) for one in found]
        rows = dealt(work, step.ranks)
    else:
        found, left = first_fit(lengths, room, step.microbatches)
        order = stream(step.seed, "microbatches").permutation(step.microbatches)
        rows = [order[rank :: step.ranks].tolist() for rank in range(step.ranks)]
    if empty := sum(not pack for pack in found):
        raise _too_few(len(lengths), f"{empty:,} of {step.microbatches:,} microbatches stay empty")
    taken = Counter((length, 0) for pack in found for length in pack)
    return batch_of([[_packed(step, found[place]) for place in row] for row in rows], taken, len(left))


def _cut(step: Step) -> Batch:
    """Documents one after the other through sequences, whose ends cut them; each microbatch holds its sequences."""
    length, size = step.training.sequence_length, step.training.micro_batch
    parts = _parts(step, length)
    found, taken = list[Shape](), Counter[tuple[int, int]]()
    for _ in range(step.microbatches):
        members: list[int] = []
        while sum(members) < size * length:
            members.append(next(parts))
        taken.update((part, 0) for part in members)
        found.append(_packed(step, members))
    return batch_of([found[rank :: step.ranks] for rank in range(step.ranks)], taken)


def _parts(step: Step, length: int) -> Iterator[int]:
    """Documents in the parts into which the ends of sequences cut them."""
    room, count = length, 0
    for document, _ in pairs(step.training, step.seed):
        count += 1
        left = document
        while left:
            part = min(left, room)
            yield part
            left, room = left - part, room - part or length
    raise _too_few(count, "they do not fill the sequences of a step")


def _padded(step: Step) -> Batch:
    """Each sequence for itself, as they come."""
    training = step.training
    bound = (training.sequence_length, training.encoder_sequence_length or 0)
    members = list(islice(in_turn(pairs(training, step.seed), training.micro_batch), step.microbatches))
    if len(members) < step.microbatches:
        raise _too_few(len(members) * training.micro_batch, f"a step takes {training.global_batch:,}")
    shapes = [step.cut(filled(one, bound if step.batching.fill == "context" else None)) for one in members]
    rows = [shapes[rank :: step.ranks] for rank in range(step.ranks)]
    return batch_of(rows, Counter(pair for one in members for pair in one))


def _bucketed(step: Step) -> Batch:
    """Sequences of about equal lengths together."""
    training, batching, ranks = step.training, step.batching, step.ranks
    most = (training.sequence_length, training.encoder_sequence_length or 0)
    into = buckets(
        _bounds(batching.buckets, most[0], "buckets"),
        _bounds(batching.encoder_buckets, most[1], "encoder_buckets"),
        training.micro_batch,
        batching.tokens,
    )
    source = by_bucket(pairs(training, step.seed), into, ranks if batching.synchronous else 1)
    found = list(islice(source, step.microbatches))
    if len(found) < step.microbatches:
        raise _too_few(
            sum(len(one) for _, one in found), f"they fill {len(found):,} of {step.microbatches:,} microbatches"
        )
    to = {"context": most}
    shapes = [
        step.cut(filled(members, bucket.bound if batching.fill == "bucket" else to.get(batching.fill or "")))
        for bucket, members in found
    ]
    rows = [shapes[rank::ranks] for rank in range(ranks)]
    return batch_of(rows, Counter(pair for _, members in found for pair in members))


def _bounds(given: Sequence[int], most: int, name: str) -> list[int]:
    """Bounds of buckets, the last of which holds the longest sequence."""
    if given and given[-1] > most:
        message = f"a bucket up to {given[-1]:,} tokens is longer than the context, {most:,}"
        raise InputError(Problem(message, path=f"training.batching.{name}", hint=f"write {most:,} or less"))
    return [*given, *([most] if not given or given[-1] < most else [])]


def _groups(step: Step) -> Batch:
    """Documents on as many ranks as they need."""
    training, ranks, room = step.training, step.ranks, step.batching.capacity or 0
    if (most := needed(training.sequence_length, room)) > ranks:
        message = (
            f"{training.sequence_length:,} tokens need {most:,} ranks with room for {room:,} each, there are {ranks}"
        )
        largest = 1 << (ranks.bit_length() - 1)
        hint = f"write a capacity of {-(-training.sequence_length // largest):,} or more"
        raise InputError(Problem(message, path="training.batching.capacity", hint=hint))
    lengths = _up_to(step, training.global_batch * training.sequence_length)
    if step.batching.policy == "flexible":
        rows = flexible(lengths, ranks, room, step.speed)
    elif step.batching.balance:
        rows = by_load(lengths, ranks, room, step.speed)
    else:
        rows = as_they_come(lengths, ranks, room)
    made = {group: step.cut(_shape(group)) for row in rows for group in row if group is not None}
    shapes = [[NOTHING if group is None else made[group] for group in row] for row in rows]
    return batch_of(shapes, Counter((length, 0) for length in lengths))


def _shape(group: Group) -> Shape:
    """The microbatch of a group."""
    own = tuple(sorted(group.members, reverse=True))
    return Shape(1, sum(own), 0, own, group.ranks)


def _grid(step: Step) -> Batch:
    """Shapes in turn, the same on all ranks."""
    cycle = [step.cut(Shape(sequences, tokens)) for sequences, tokens in step.batching.shapes]
    if any(shape.tokens > step.training.sequence_length for shape in cycle):
        longest = max(shape.tokens for shape in cycle)
        message = f"a shape of {longest:,} tokens is longer than `sequence_length` {step.training.sequence_length:,}"
        raise InputError(Problem(message, path="training.batching.shapes", hint=f"write sequence_length: {longest}"))
    row = [cycle[place % len(cycle)] for place in range(step.each)]
    taken = Counter[tuple[int, int]]()
    for shape in row:
        taken[shape.tokens, 0] += shape.sequences * step.ranks
    return batch_of([row] * step.ranks, taken)


def _too_few(count: int, what: str) -> InputError:
    hint = "give more lengths, or a smaller global_batch"
    return InputError(Problem(f"too few sequences, {count:,}: {what}", path=PATH, hint=hint))


POLICIES: dict[str, Callable[[Step], Batch]] = {
    "cut": _cut,
    "first-fit": _packs,
    "balanced": _packs,
    "pad": _padded,
    "bucket": _bucketed,
    "grid": _grid,
    "hybrid": _groups,
    "flexible": _groups,
}
