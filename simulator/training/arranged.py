"""The schedule of a job whose maker sees what passes cost and keep.

Costs come from the job itself, before anything is priced: FLOPs of the chunks' passes, which say how long they last
relative to each other (gradients of weights repeat the products, gradients of inputs do so too and attention twice, and
recompute what was dropped), and bytes of activations. Sends cost nothing here. What a rank may keep is what its device
has left beside states and workspace.
"""

from dataclasses import replace

import numpy as np

from simulator.errors import InfeasibleError
from simulator.program.timing import Costs
from simulator.specs.scenario import Scenario
from simulator.training.build import build_job, in_flight, named_schedule
from simulator.training.checks import check_copies, check_split
from simulator.training.flops import attention_flops, head_forward_flops, layer_forward_flops, repeated_flops
from simulator.training.job import Job
from simulator.training.memory import (
    Chunk,
    all_chunks,
    chunk_activations,
    chunk_for_weights,
    largest,
    over_layers,
    peak_memory,
    static_memory,
    working_memory,
)
from simulator.training.schedules import SIZES_ONLY, Pipeline, frugal, own_name

SCALE = 1_000_000
"""Ticks of the longest forward pass."""
NEAR = 0.01
"""Relative difference of makespans that FLOPs cannot tell: orders that they rank so closely come out of priced steps
either way round, up to a tenth apart."""
TRIES = 3
"""Orders that are made at most before one that does not fit is taken."""


def arranged_job(scenario: Scenario) -> Job:
    """`build_job`, then its schedule by name made again from the job's costs; raises InputError as that does.

    Where none keeps so little that the devices have room for it, it is the one that keeps least. What devices have left
    depends on the order itself, which says which rank holds the head and how many logits wait: one that turns out to
    need more than there is is made again with what that would keep.
    """
    job, name = build_job(scenario), own_name(scenario.training.schedule or "1f1b")
    if name in SIZES_ONLY or name.endswith(".csv"):
        return job
    capacity = float(scenario.cluster.node.accelerator.memory.capacity.value)
    room, kept, rest = np.inf, np.zeros(len(job.chunks)), np.zeros(len(job.chunks))
    for tried in range(TRIES):
        costs, before = relative_costs(largest(job)), (room, kept.sum(), rest.sum())
        room, kept = min(room, capacity - _beside(largest(job))), np.maximum(kept, costs.kept)
        rest = np.maximum(rest, costs.kept_for_weights)
        if tried and (peak_memory(job) <= capacity or (room, kept.sum(), rest.sum()) == before):
            break
        costs = replace(costs, kept=kept, kept_for_weights=rest)
        pipeline = Pipeline(
            job.pp, job.vpp, job.microbatches, costs=costs, limit=room, near=NEAR, split=not job.per_pass
        )
        job = _arranged(job, name, pipeline)
    return job


def _arranged(job: Job, name: str, pipeline: Pipeline) -> Job:
    """The job with the schedule that the maker of that name makes of its costs."""
    try:
        schedule = named_schedule(name, pipeline)
    except InfeasibleError:  # the run says so, as of every job: what it needs is then the least that there is
        schedule = frugal(pipeline)
    check_copies(schedule, job.zero)
    if job.per_pass:
        check_split(schedule)
    home = tuple(schedule.rank_of_stage().tolist())
    sums = schedule.vocabulary_sums
    return replace(job, schedule=schedule, home=home, vocabulary_sums=sums, **in_flight(schedule))


def _beside(job: Job) -> float:
    """Most bytes of a rank that are no kept activations."""
    return max(sum(static_memory(job, stage).values()) + working_memory(job, stage) for stage in range(job.pp))


def relative_costs(job: Job) -> Costs:
    """Passes of the chunks relative to each other, and the bytes that they keep."""
    chunks = all_chunks(job)[: len(job.chunks)]
    forward, inputs, weights = np.array([_passes(job, chunk) for chunk in chunks]).T
    unit = SCALE / max(float(forward.max()), 1.0)
    kept, rest = (np.array([size(job, one) for one in chunks]) for size in (chunk_activations, chunk_for_weights))
    forward, inputs, weights = np.maximum(np.rint(np.stack([forward, inputs, weights]) * unit), 1).astype(np.int64)
    costs = Costs(forward, inputs, weights, kept, rest)
    if not job.vocabulary_sums:
        return costs
    product = np.full(len(chunks), round(head_forward_flops(job) / job.pp * unit), np.int64)
    early = 2 if job.vocabulary_sums == 1 else 1
    return replace(costs, scores=early * product, scores_gradient=(3 - early) * product)


def _passes(job: Job, chunk: Chunk) -> tuple[float, float, float]:
    """FLOPs of F, I and W of one sequence through a chunk."""
    attention = over_layers(chunk.kinds, lambda kind: attention_flops(job, kind))
    forward = over_layers(chunk.kinds, lambda kind: layer_forward_flops(job, kind))
    if chunk.last and not job.vocabulary_sums:
        forward += head_forward_flops(job)
    products = forward - attention
    return forward, products + 2 * attention + repeated_flops(job, chunk.kinds), products
