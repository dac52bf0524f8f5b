"""Captured graphs of decoding, which are of some sizes only: a batch replays the next larger one.

Rows that fill a graph up pass products, norms and collectives as others do; nothing reads what they give. Attention and
experts skip them, or nearly so: they have one cached token each, and rows of one dummy token all choose the same
experts. An iteration of more rows than the largest graph runs as it is. Left out: graphs of attention alone, and that
the output head is part of the graph in some engines and outside of it in others.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simulator.serving.costs.attention import Segments
from simulator.specs.serving import ServingStack

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class GraphSizes:
    """Sizes of the graphs of an engine."""

    steps: tuple[tuple[int, int], ...]
    """(up to this size, in steps of so many), ascending."""
    each: int
    """Rows of what the sizes count: those of a sequence, or 1 where they count rows."""
    largest: int
    """Rows of the largest graph."""
    capped: int
    """Rows of all sequences that may run, which have a graph of their own; that of the largest where it is one of the
    steps, so that equal graphs are equal."""

    def captured(self, rows: Ints) -> Ints:
        """Rows of the graph that an iteration of so many replays; as many where none is large enough; shape (r,)."""
        ends, steps = np.array(self.steps).T
        count = -(-rows // self.each)
        step = steps[np.minimum(np.searchsorted(ends, count), len(ends) - 1)]
        filled = np.minimum(
            -(-count // step) * step * self.each, np.where(rows > self.capped, self.largest, self.capped)
        )
        found: Ints = np.where(rows > self.largest, rows, np.maximum(np.minimum(filled, self.largest), rows))
        return found


def graph_sizes(stack: ServingStack, each: int, max_sequences: int) -> GraphSizes | None:
    """The graphs of a stack whose sequences have `each` rows; None where there is one of every size, or none at all.
    `stack.graphs` counts rows."""
    if not stack.graph_steps or not stack.graphs:
        return None
    own = GraphSizes(stack.graph_steps, 1 if stack.graph_unit == "tokens" else each, stack.graphs, stack.graphs)
    most = max_sequences * each
    return own if int(own.captured(np.array([most]))[0]) == most else replace(own, capped=most)


def captured_rows(stack: ServingStack) -> tuple[int, int]:
    """Most rows of iterations that replay captured graphs: (of decodes, with prompts among them)."""
    most = stack.graphs or 0
    return most, most if stack.graph_prompts else 0


def beyond_graphs(lines: Segments, context: int, waits: int) -> Segments:
    """Lines of decodes that wait so many ticks longer for the host from so many cached tokens on: there no graph was
    captured. Sequences are taken to be alike."""
    found: list[tuple[int, int, int]] = []
    begin = 0
    for end, base, slope in lines:
        if begin < context:
            found.append((min(end, context), base, slope))
        if context < end:
            found.append((end, base + waits, slope))
        begin = end
    return tuple(found)
