"""Execute a plan on small integer arrays: does every byte arrive once, and is it reduced once?

Each chunk is an array that counts how often it holds each chunk of each rank's input. Blocks run their steps in order;
a step waits for what it names and for its message. The level of a message is one more than that of the last message
that it had to wait for: messages of one level may travel at the same time.
"""

from collections import defaultdict, deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from simulator.collectives.synthesised.msccl import Algo, Block, Step
from simulator.errors import InputError, Problem

Counts = NDArray[np.int32]
LARGEST = 1 << 26
"""Numbers in all arrays together."""
_RECEIVE, _SEND, _REDUCE = ("r", "rcs", "rrc", "rrs", "rrcs"), ("s", "rcs", "rrs", "rrcs"), ("rrc", "rrs", "rrcs")


@dataclass(frozen=True, slots=True)
class Message:
    """Chunks that go from one rank to another."""

    level: int
    """From 1."""
    source: int
    target: int
    chunks: int
    reduce: bool
    """Whether the receiver adds them to what it has."""


@dataclass
class _Run:
    """Arrays, messages and the progress of each block of threads."""

    algo: Algo
    buffers: list[dict[str, Counts]]
    done: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    """Steps that are over, by (GPU, block)."""
    levels: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """(GPU, block, step) to the level of the last message that it waited for."""
    sent: dict[tuple[int, int, int], deque[tuple[Counts, int]]] = field(default_factory=lambda: defaultdict(deque))
    """(source, target, channel) to (chunks, level) on their way."""
    messages: list[Message] = field(default_factory=list)


def execute(algo: Algo) -> tuple[Message, ...]:
    """The messages of a plan; InputError where it gets stuck, loses, doubles or misplaces chunks."""
    run = _Run(algo, _filled(algo))
    _check_channels(algo)
    waiting = deque((gpu, block) for gpu, one in enumerate(algo.gpus) for block in one.blocks)
    idle = 0
    while waiting and idle <= len(waiting):
        gpu, block = waiting.popleft()
        before = run.done[gpu, block.id]
        while run.done[gpu, block.id] < len(block.steps) and _advance(run, gpu, block):
            run.done[gpu, block.id] += 1
        if run.done[gpu, block.id] < len(block.steps):
            waiting.append((gpu, block))
        idle = 0 if run.done[gpu, block.id] > before else idle + 1
    if waiting:
        gpu, block = waiting[0]
        _refuse(algo, f"GPU {gpu}, block {block.id}, step {run.done[gpu, block.id]} waits for ever")
    for (source, target, channel), left in run.sent.items():
        if left:
            _refuse(algo, f"GPU {target} never receives what GPU {source} sends on channel {channel}")
    _check_result(run)
    return tuple(run.messages)


def _advance(run: _Run, gpu: int, block: Block) -> bool:
    """Do the next step of a block if it can be done."""
    number = run.done[gpu, block.id]
    step = block.steps[number]
    level = run.levels.get((gpu, block.id, number - 1), 0)
    if step.after[0] >= 0:
        if run.done[gpu, step.after[0]] <= step.after[1]:
            return False
        level = max(level, run.levels[(gpu, *step.after)])
    held: Counts | None = None
    if step.kind in _RECEIVE:
        came = run.sent[block.receive, gpu, block.channel]
        if not came:
            return False
        held, arrived = came.popleft()
        level = max(level, arrived)
        if len(held) != step.count:
            _refuse(run.algo, f"GPU {gpu}, block {block.id}, step {number} takes {step.count} chunks of {len(held)}")
    _do(run, gpu, block, step, held, level)
    run.levels[gpu, block.id, number] = level
    return True


def _do(run: _Run, gpu: int, block: Block, step: Step, held: Counts | None, level: int) -> None:
    if step.kind == "nop" or step.count == 0:
        return
    where = f"GPU {gpu}, block {block.id}, `{step.kind}`"
    if held is None:
        held = _view(run, gpu, step.source, step.count, where).copy()
    elif step.kind in _REDUCE:
        held = held + _view(run, gpu, step.source, step.count, where)
    if step.kind in ("r", "rcs", "rrc", "rrcs", "cpy"):
        _view(run, gpu, step.target, step.count, where)[:] = held
    elif step.kind in ("re", "ra"):
        _view(run, gpu, step.target, step.count, where)[:] += held
    if step.kind in _SEND:
        if not 0 <= block.send < len(run.algo.gpus) or block.send == gpu:
            _refuse(run.algo, f"{where} sends to GPU {block.send}")
        run.sent[gpu, block.send, block.channel].append((held, level + 1))
        reduce = run.algo.operation in ("all_reduce", "reduce_scatter")
        run.messages.append(Message(level + 1, gpu, block.send, step.count, reduce))


def _view(run: _Run, gpu: int, place: tuple[str, int], count: int, where: str) -> Counts:
    """Chunks of a buffer."""
    buffer, first = run.buffers[gpu][place[0]], place[1]
    if first + count > len(buffer):
        _refuse(run.algo, f"{where} goes to chunk {first + count - 1} of buffer `{place[0]}`, which has {len(buffer)}")
    return buffer[first : first + count]


def _check_channels(algo: Algo) -> None:
    """InputError where two blocks share a connection, whose order would then be open."""
    for gpu, one in enumerate(algo.gpus):
        for side in ("send", "receive"):
            used = [(getattr(block, side), block.channel) for block in one.blocks if getattr(block, side) >= 0]
            if len(set(used)) < len(used):
                _refuse(algo, f"two blocks of GPU {gpu} {side} on the same channel with the same GPU")


def width(algo: Algo) -> int:
    """Chunks of a rank's input."""
    one = algo.gpus[0]
    gathered = algo.operation == "all_gather" and algo.in_place and not one.chunks[0]
    return one.chunks[1] // len(algo.gpus) if gathered else one.chunks[0] or one.chunks[1]


def _filled(algo: Algo) -> list[dict[str, Counts]]:
    """Buffers of all ranks before the first step; those in place share their arrays."""
    ranks, chunks = len(algo.gpus), width(algo)
    held = sum(sum(gpu.chunks) for gpu in algo.gpus)
    if not 1 <= chunks * ranks * held <= LARGEST:
        _refuse(algo, f"{chunks} chunks of {ranks} GPUs are none or too many to check")
    buffers = []
    for rank, gpu in enumerate(algo.gpus):
        i, o, s = (np.zeros((count, ranks * chunks), np.int32) for count in gpu.chunks)
        if algo.in_place:
            i, o = _shared(algo, rank, i, o)
        if algo.operation != "broadcast" or rank == 0:
            i[np.arange(len(i)), rank * chunks + np.arange(len(i))] = 1
        buffers.append({"i": i, "o": o, "s": s})
    return buffers


def _shared(algo: Algo, rank: int, i: Counts, o: Counts) -> tuple[Counts, Counts]:
    """(input, output) over one array: the larger one, of which a gather's input and a scatter's output are a part."""
    whole = i if len(i) >= len(o) else o
    part = len(whole) // len(algo.gpus)
    own = whole[rank * part : (rank + 1) * part]
    if algo.operation == "all_gather":
        return own, whole
    return (whole, own) if algo.operation == "reduce_scatter" else (whole, whole)


def _check_result(run: _Run) -> None:
    """InputError where an output holds what it should not, or does not hold what it should."""
    ranks, chunks = len(run.algo.gpus), width(run.algo)
    for rank, buffers in enumerate(run.buffers):
        wanted = _wanted(run.algo.operation, rank, ranks, chunks)
        found = buffers["o"]
        if len(found) < len(wanted):
            _refuse(run.algo, f"GPU {rank} has {len(found)} output chunks of {len(wanted)}")
        wrong = np.argwhere(found[: len(wanted)] != wanted)
        if len(wrong):
            chunk, origin = (int(place) for place in wrong[0])
            times, should = int(found[chunk, origin]), int(wanted[chunk, origin])
            what = f"chunk {origin % chunks} of GPU {origin // chunks}"
            _refuse(run.algo, f"output chunk {chunk} of GPU {rank} holds {what} {times} times, not {should}")


def _wanted(operation: str, rank: int, ranks: int, chunks: int) -> Counts:
    """Counts of each output chunk of a rank; (chunks of the output, ranks * chunks of an input)."""
    every = np.eye(ranks * chunks, dtype=np.int32)
    if operation == "all_gather":
        return every
    summed: Counts = every.reshape(ranks, chunks, -1).sum(axis=0, dtype=np.int32)
    part = chunks // ranks
    if operation == "all_reduce":
        return summed
    if operation == "reduce_scatter":
        return summed[rank * part : (rank + 1) * part]
    if operation == "broadcast":
        return every[:chunks]
    return every.reshape(ranks, chunks, -1)[:, rank * part : (rank + 1) * part].reshape(ranks * part, -1)


def _refuse(algo: Algo, problem: str) -> None:
    raise InputError(Problem(problem, file=algo.file, hint="the plan does not do what its `coll` says"))
