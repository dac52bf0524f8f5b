"""Plans of files as phases of transfers: messages of one level travel together, one level after the other.

A level takes one hop between nodes where one of its messages crosses them, else one inside. What is left out: streaming
of chunks from one level into the next, which hides hops of large messages.
"""

import os
from functools import lru_cache
from itertools import groupby

import numpy as np

from simulator.collectives.phase import Phase, phase
from simulator.collectives.placement import GroupPlacement
from simulator.collectives.synthesised.execute import Message, execute, width
from simulator.collectives.synthesised.msccl import Algo, read
from simulator.errors import InputError, Problem

SUFFIX = ".xml"
"""What names of plans end in."""


def plan_of(file: str) -> Algo:
    """The plan of a file, checked by executing it; InputError where it cannot be read or does something else."""
    return _known(file, _stamp(file))[0]


def synthesised(file: str, operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """Phases of a plan for a layout; None where it is for another collective, InputError for other ranks."""
    algo, messages = _known(file, _stamp(file))
    if algo.operation != operation:
        return None
    if len(algo.gpus) != layout.members:
        problem = f"the plan is for {len(algo.gpus)} GPUs, the group has {layout.members}"
        raise InputError(Problem(problem, file=file))
    whole = width(algo) * (len(algo.gpus) if operation == "all_gather" else 1)
    node = np.repeat(np.arange(layout.nodes), layout.counts)
    ordered = sorted(messages, key=lambda message: message.level)
    levels = [list(group) for _, group in groupby(ordered, key=lambda message: message.level)]
    return tuple(_phase(level, whole, node) for level in levels)


def _phase(level: list[Message], whole: int, node: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Phase:
    pairs = {(message.source, message.target): 0.0 for message in level}
    for message in level:
        pairs[message.source, message.target] += message.chunks / whole
    src, dst = (np.array(side) for side in zip(*pairs, strict=True))
    crosses = bool((node[src] != node[dst]).any())
    reduce = any(message.reduce for message in level)
    return phase(1, (src, dst, list(pairs.values())), float(not crosses), float(crosses), reduce=reduce)


def _stamp(file: str) -> int:
    """When a file was written last; 0 where there is none, which reading it will tell."""
    try:
        return os.stat(file).st_mtime_ns
    except (OSError, ValueError):
        return 0


@lru_cache(maxsize=64)
def _known(file: str, stamp: int) -> tuple[Algo, tuple[Message, ...]]:
    algo = read(file)
    return algo, execute(algo)
