"""Local steps as a program: the steps of a worker, and what workers exchange beside them.

A step is forward pieces and backward pieces of the fragments of the model, a third and two thirds of it. Where a
fragment is due, its exchange starts when its backward piece is done, on a lane of its own, one after the other; the
forward piece of that fragment waits for it, as many steps later as results are applied late. One worker stands for
all, which are alike and meet in every exchange. With one inner step and a fragment a layer this is data parallelism
whose steps overlap. DiLoCo (arXiv:2311.08105), Streaming DiLoCo (arXiv:2501.18512, sections 2 and 3), CO2
(arXiv:2401.16265). Left out: workers of different speed, loss of convergence, the outer optimizer's own kernels.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.axes import CP, DP
from simulator.engine.tape import Tape
from simulator.errors import InputError, Problem
from simulator.program.maxplus import sweep
from simulator.specs.tiers.local_steps import LocalSteps
from simulator.training import memory
from simulator.training.job import Job

Ints = NDArray[np.int64]

PATH = "training.local_steps"
BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
"""Bytes of an exchanged element, scales left out."""
FORWARD = 1 / 3
"""Of a step, its forward pass."""
ROUNDS = 4
"""Rounds that are run; the last one is shown."""
MOST = 2_000_000
"""Pieces of all rounds above which a run is refused."""


class Rounds(NamedTuple):
    """Steps of a worker in the steady state."""

    steps: Ints
    """Ticks of each step of a round."""
    waited: int
    """Ticks of them in which exchanges are waited for."""


def check(local: LocalSteps | None, dp: int, layers: int, steps: int, noisy: bool) -> None:
    """Refuse workers that do not divide the replicas, fragments that are none, and what is not simulated."""
    if local is None:
        return
    workers = local.workers
    if workers is not None and dp % workers:
        message = f"{workers} workers do not divide the {dp} data-parallel replicas"
        raise InputError(Problem(message, path=f"{PATH}.workers", hint=f"write a divisor of {dp}"))
    if dp == 1 or workers == 1:
        message = "one worker has no other to meet"
        raise InputError(Problem(message, path=PATH, hint="leave it out, or use several replicas (`parallel.dp`)"))
    if local.fragments > layers:
        message = f"{local.fragments} fragments of a model of {layers} layers"
        raise InputError(Problem(message, path=f"{PATH}.fragments", hint=f"write {layers} or less"))
    if local.overlap > local.inner:
        message = f"a result {local.overlap} steps late comes after the next exchange, {local.inner} steps on"
        raise InputError(Problem(message, path=f"{PATH}.overlap", hint=f"write {local.inner} or less"))
    if steps > 1 or noisy:
        apart = "`steps`, `noise` and drawn devices are not simulated beside them yet"
        hint = "leave `training.steps`, `training.noise` and `variability: drawn` out"
        raise InputError(Problem(f"local steps are those of a round, all alike; {apart}", path=PATH, hint=hint))
    if ROUNDS * (local.inner + local.overlap) * 3 * local.fragments > MOST:
        message = (
            f"{local.inner:,} steps of {local.fragments} fragments are more pieces than {MOST // ROUNDS:,} a round"
        )
        raise InputError(Problem(message, path=f"{PATH}.inner", hint="fewer steps or fragments"))


def elements(job: Job) -> float:
    """Elements that a rank exchanges in a round: its share of those that the ranks of its worker hold alike."""
    owned = [
        sum(memory.parameters(job, chunk, copies, trained=True) for chunk in memory.all_chunks(job)) / copies.count
        for copies in job.replicas
    ]
    return sum(owned) / (job.pp * job.copies)


def whole(job: Job) -> float:
    """Elements that a rank holds, a mean over stages."""
    return sum(memory.parameters(job, chunk) for chunk in memory.all_chunks(job)) / (job.pp * job.copies)


def groups(job: Job, workers: int) -> tuple[Ints, Ints]:
    """Ranks of different workers that exchange with each other, (groups, workers), and ranks of one worker that hold
    the same parameters, (groups, ranks)."""
    count = job.mesh.sizes[DP.name] * job.mesh.sizes[CP.name]
    ranks = job.mesh.grid(DP.name, CP.name).reshape(-1, workers, count // workers)
    across: Ints = ranks.transpose(0, 2, 1).reshape(-1, workers)
    return across, ranks.reshape(-1, count // workers)


def ranks_of(job: Job, workers: int) -> Ints:
    """All ranks of each worker, (workers, ranks)."""
    count = job.mesh.sizes[DP.name] * job.mesh.sizes[CP.name]
    ranks = job.mesh.grid(DP.name, CP.name).reshape(-1, workers, count // workers)
    return ranks.transpose(1, 0, 2).reshape(workers, -1)


def rounds(local: LocalSteps, step: int, exchange: int) -> Rounds:
    """Steps of `step` ticks, each fragment's exchange taking `exchange` ticks."""
    tape, ends = _tape(local, step, exchange, ROUNDS + -(-local.overlap // local.inner))
    done = sweep(tape).end[ends]
    last = done[-local.inner - 1 :]
    steps = np.diff(last)
    return Rounds(steps, int(steps.sum()) - local.inner * step)


def due(local: LocalSteps, fragment: int) -> int:
    """The step of a round after which a fragment is exchanged."""
    return ((fragment + 1) * local.inner) // local.fragments % local.inner


def _tape(local: LocalSteps, step: int, exchange: int, many: int) -> tuple[Tape, Ints]:
    """The tape of so many rounds, and the last operation of each step."""
    parts, count = local.fragments, many * local.inner
    edges = np.rint(
        np.concatenate([np.arange(parts) * FORWARD, FORWARD * parts + np.arange(parts + 1) * (1 - FORWARD)])
        * step
        / parts
    )
    lasts = np.diff(edges.astype(np.int64))
    sent: list[tuple[int, int]] = []
    for number in range(count):
        for place in range(parts - 1, -1, -1):
            if (number + 1) % local.inner == due(local, place):
                sent.append((number, place))
    after: list[list[int]] = [[] for _ in range(2 * parts * count + len(sent))]
    for index, (number, place) in enumerate(sent):
        operation = 2 * parts * count + index
        after[operation].append(2 * parts * number + 2 * parts - 1 - place)
        later = number + 1 + local.overlap
        if later < count:
            after[2 * parts * later + place].append(operation)
    tape = Tape(
        lane_start=np.array([0, 2 * parts * count, len(after)], np.int64),
        duration=np.concatenate([np.tile(lasts, count), np.full(len(sent), exchange, np.int64)]),
        after_start=np.concatenate([[0], np.cumsum([len(one) for one in after])]).astype(np.int64),
        after=np.array([one for each in after for one in each], np.int64),
        rendezvous=np.full(len(after), -1, np.int64),
        activity=np.full(len(after), -1, np.int64),
        lane_names=("steps", "exchanges"),
    )
    return tape, np.arange(1, count + 1) * 2 * parts - 1
