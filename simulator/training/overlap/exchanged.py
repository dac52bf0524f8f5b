"""What lies between sending rows to experts and their results' return, which may be done in parts, and what beside it.

In N parts, the rows of one travel while those of another are worked on (Tutel, arXiv:2206.03382, section 3.2). With
exchanges of t each way and e of work for a part, all of it lasts 2t + Ne where a part is worked on for longer than the
exchanges beside it take, Ne >= 2(N - 1)t, and 2Nt else (cases 2 and 3 of FSMoE, arXiv:2501.10714, equations 3 and 4).
"""

from collections.abc import Sequence
from typing import NamedTuple

from simulator.model.backward import EXPERT_EXCHANGES
from simulator.model.ops import SHARED_EXPERTS, Comm, Elementwise, Op, WeightGradient
from simulator.training.step import Collective, Kernel, Single, Turn


def exchanges_rows(op: Op) -> bool:
    """Whether an operation sends rows to experts of other devices, or back."""
    return isinstance(op.does, Comm) and op.does.operation in EXPERT_EXCHANGES


def exchanged(ops: Sequence[Op]) -> range:
    """Places of operations from an exchange with experts to its way back, gradients of weights behind it included;
    empty where nothing is exchanged."""
    sent = [i for i, op in enumerate(ops) if exchanges_rows(op)]
    if len(sent) < 2:
        return range(0)
    last = sent[-1] + 1
    while last < len(ops) and isinstance(ops[last].does, WeightGradient):
        last += 1
    return range(sent[0], last)


def shared_halves(ops: Sequence[Op]) -> tuple[list[int], list[int]]:
    """Places of the operations of shared experts, up to the nonlinearity and behind it: the first half stands beside
    the way to the experts, the second beside the way back (Megatron-Core's `--moe-shared-expert-overlap`)."""
    found = [i for i, op in enumerate(ops) if op.owner == SHARED_EXPERTS]
    middle = next((n for n, i in enumerate(found) if isinstance(ops[i].does, Elementwise)), -1) + 1
    return found[:middle], found[middle:]


class Staged(NamedTuple):
    """Steps of a part by when they may run."""

    needs: tuple[Collective, ...]
    """What has to arrive before it is worked on."""
    works: tuple[Single, ...]
    sends: tuple[Collective, ...]
    later: tuple[Kernel | Turn, ...]
    """Gradients of weights, for which nothing that it sends waits."""


def staged(steps: Sequence[Single]) -> Staged:
    """Steps of a part in four."""
    sent = [i for i, step in enumerate(steps) if isinstance(step, Collective)]
    kernels = [i for i, step in enumerate(steps) if not isinstance(step, Collective)]
    first, last = kernels[0], max((i for i in kernels if i < sent[-1]), default=sent[-1]) + 1
    return Staged(
        tuple(step for step in steps[:first] if isinstance(step, Collective)),
        tuple(steps[first:last]),
        tuple(step for step in steps[last:] if isinstance(step, Collective)),
        tuple(step for step in steps[last:] if not isinstance(step, Collective)),
    )
