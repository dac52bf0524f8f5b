"""Passes that go on together: forward and backward of two microbatches hide each other's exchanges with experts.

Megatron-Core's `overlap_moe_expert_parallel_comm` runs a layer of the one beside a layer of the other in four
stretches, each of which waits for what runs beside it (`TransformerLayerSchedulePlan.run`): attention and router
forward beside the gradient of combine, experts backward beside dispatch, experts forward beside the gradient of
dispatch, attention and router backward beside combine. So a pass has stretches between its own exchanges, and the other
pass's exchanges beside them; what follows combine stands behind it on the lane of exchanges there, and is hidden by
nothing here. The first passes of a rank forward and its last ones backward have no partner. Left out: partners with
other kinds of layers or fewer; gradients of weights beside what a pair sends (`delay_wgrad_compute`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.model.backward import EXPERT_EXCHANGES
from simulator.program.actions import COMPUTE, Kind
from simulator.program.schedule import Schedule
from simulator.training.step import Collective, Step


class Stretch(NamedTuple):
    """Steps of a pass between its exchanges."""

    steps: tuple[Step, ...]
    beside: tuple[Collective, ...] = ()
    """Exchanges of the other pass, on a lane of their own."""


def exchanges(steps: Iterable[Step]) -> list[Collective]:
    """The exchanges with experts among steps."""
    return [step for step in steps if isinstance(step, Collective) and step.operation in EXPERT_EXCHANGES]


def stretches(steps: Sequence[Step], others: Sequence[Collective], backward: bool = False) -> list[Stretch]:
    """A pass without its exchanges, beside those of the `others`, as many: of a forward pass all stretches but the last
    have one beside them, of a backward pass all but the first."""
    own = exchanges(steps)
    found: list[list[Step]] = [[]]
    for step in steps:
        if step in own:
            found.append([])
        else:
            found[-1].append(step)
    each = [(one,) for one in others]
    beside = [(), *each] if backward else [*each, ()]
    return [Stretch(tuple(part), other) for part, other in zip(found, beside, strict=True)]


def together(schedule: Schedule) -> Schedule:
    """The schedule with each backward pass of a rank side by side with the forward pass behind it: both wait for what
    either takes, and after both is sent what they make."""
    kind, rank = schedule.kind, schedule.rank
    found = np.zeros(len(kind), np.bool_)
    found[:-1] = (kind[:-1] == Kind.B) & (kind[1:] == Kind.F) & (rank[1:] == rank[:-1])
    return replace(schedule, beside=found if found.any() else None)


def without_partner(schedule: Schedule) -> NDArray[np.bool_]:
    """Passes that nothing runs beside: those of a rank that go forward before its first backward pass, and those that
    go backward after its last forward pass; by stage, kind and microbatch."""
    found = np.zeros((schedule.stages, len(COMPUTE), schedule.microbatches), np.bool_)
    for start, end in pairwise(schedule.rank_start.tolist()):
        kind, places = schedule.kind[start:end], np.arange(end - start)
        forward, backward = kind == Kind.F, (kind == Kind.B) | (kind == Kind.I)
        first = int(np.argmax(backward)) if backward.any() else len(kind)
        last = int(places[forward].max(initial=-1))
        rows = start + np.flatnonzero((forward & (places < first)) | (backward & (places > last)))
        found[schedule.stage[rows], schedule.kind[rows], schedule.microbatch[rows]] = True
    return found
