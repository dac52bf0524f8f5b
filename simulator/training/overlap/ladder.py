"""Ladder-residual: tensor-parallel collectives of each block beside the block that follows (arXiv:2501.06589).

Each block reads the stream without the result of the block right before it, so that nothing waits for this result's sum
before the block after the next; backward, gradients of a block's rows are awaited one block later too. In a layer the
attention runs beside the collectives of the MLP of the layer before, and the MLP beside those of the attention. In the
first layer of a chunk that a pass comes to nothing is under way, and after the last one its collectives are waited for.
What is computed again runs likewise, layer by layer. With sequence parallelism the rows that a block gathers are known
one block earlier, so that gathers and scatters run alike.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from simulator.axes import TP
from simulator.model.backward import backward
from simulator.model.blocks.around import RESIDUAL
from simulator.model.ops import Elementwise, Op
from simulator.specs.model import LayerKind
from simulator.training import operators
from simulator.training.job import Job
from simulator.training.overlap.partners import Stretch
from simulator.training.step import Collective, Step


class Late(NamedTuple):
    """A pass of a layer whose collectives run one block late."""

    stretches: list[Stretch]
    """Its blocks, the first beside what the layer before it left."""
    first: list[Stretch]
    """The same where nothing was left."""
    left: tuple[Collective, ...]
    """What the layer leaves to the next one."""


def blocks(ops: Iterable[Op]) -> list[list[Op]]:
    """Operations of a layer's forward pass by block; each ends with the residual addition."""
    found: list[list[Op]] = [[]]
    for op in ops:
        found[-1].append(op)
        if isinstance(op.does, Elementwise) and op.does.kind == RESIDUAL:
            found.append([])
    return [block for block in found if block]


def blocks_forward(job: Job, kind: LayerKind) -> list[list[Step]]:
    """Forward pass of each block of a layer."""
    return [list(operators.steps(job.of(kind), block)) for block in blocks(operators.layer_ops(job, kind))]


def blocks_backward(job: Job, kind: LayerKind) -> list[list[Step]]:
    """Backward pass of each block of a layer, the last block first."""
    found = [
        list(operators.steps(job.of(kind), backward(block)))
        for block in reversed(blocks(operators.layer_ops(job, kind)))
    ]
    return [[*operators.weights_turned(job, kind), *found[0]], *found[1:]]


def late(each: Sequence[Sequence[Step]]) -> Late:
    """A pass through blocks, in the order of the pass, given the steps of each."""
    kept = [tuple(step for step in steps if not _deferred(step)) for steps in each]
    deferred = [tuple(step for step in steps if isinstance(step, Collective) and _deferred(step)) for steps in each]
    others = [Stretch(steps, before) for (_, before), (steps, _) in pairwise(zip(kept, deferred, strict=True))]
    return Late([Stretch(kept[0], deferred[-1]), *others], [Stretch(kept[0]), *others], deferred[-1])


def _deferred(step: Step) -> bool:
    return isinstance(step, Collective) and step.axis == TP.name
