"""A simulated training step as executions, one for each kind of rank, so that tools for traces of devices read it.

The rank is the first of its kind. Passes are operations of the compute lane, as the simulation has them: several layers
are one. Sends and collectives are named as NCCL's, so that tools count them as communication.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from simulator import units
from simulator.interop.executions.graph import Execution, Operation
from simulator.results.result import Result

_COLLECTIVES = (
    ("gather parameters", "all_gather"),
    ("reduce gradients", "reduce_scatter"),
    ("broadcast", "broadcast"),
    ("sum", "all_reduce"),
    ("send", "send"),
    ("receive", "receive"),
)
"""Beginnings of the names of operations that communicate."""

Times = Sequence[tuple[float, float]]


def executions(result: Result) -> Iterator[tuple[Execution, Times]]:
    """The execution of each kind of rank, and when its operations ran, in seconds; none of a run that serves."""
    spans = result.spans
    owner = np.array([of for of, _ in spans.lanes], np.int64)[spans.lane] if len(spans.start) else spans.start
    for number, kind in enumerate(result.classes if result.kind == "training" else ()):
        rows = np.flatnonzero((owner == number) & (spans.end > spans.start))
        rows = rows[np.lexsort((spans.lane[rows], spans.start[rows]))]
        last: dict[str, int] = {}
        operations, times = [], []
        for place, row in enumerate(rows.tolist()):
            lane, name = spans.lanes[spans.lane[row]][1], spans.names[spans.name[row]]
            words = name if spans.microbatch[row] < 0 else f"{name} {spans.microbatch[row]}"
            begin, end = units.to_seconds(int(spans.start[row])), units.to_seconds(int(spans.end[row]))
            after = (last[lane],) if lane in last else ()
            collective = next((found for start, found in _COLLECTIVES if name.startswith(start)), "")
            operations.append(Operation(place, words, lane, after, end - begin, collective=collective))
            times.append((begin, end))
            last[lane] = place
        yield Execution(f"rank-{kind.example}.json", kind.example, tuple(operations)), times
