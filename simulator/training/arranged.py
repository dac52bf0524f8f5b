"""The schedule of a job whose maker sees what passes last and keep.

What they last is priced as the step prices it (`durations`), before there is an order: on the first devices of the
cluster, where other jobs or perturbations are not yet known. What a rank may keep is what its device has left beside
states and workspace.
"""

from dataclasses import replace

import numpy as np

from simulator import fabric
from simulator.cost import compile_device
from simulator.errors import InfeasibleError
from simulator.program.timing import Costs
from simulator.specs import load_spec
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.scenario import Scenario
from simulator.training.build import build_job, in_flight, named_schedule
from simulator.training.checks import check_copies, check_split
from simulator.training.communication import Network
from simulator.training.durations import durations
from simulator.training.job import Job
from simulator.training.memory import (
    all_chunks,
    chunk_activations,
    chunk_for_weights,
    largest,
    peak_memory,
    static_memory,
    working_memory,
)
from simulator.training.schedules import SIZES_ONLY, Pipeline, frugal, own_name

NEAR = 0.001
"""Relative difference of makespans that says nothing: it is that of steps with all that runs beside passes."""
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
    lasting = priced(scenario, job)
    room, kept, rest = np.inf, np.zeros(len(job.chunks)), np.zeros(len(job.chunks))
    for tried in range(TRIES):
        costs, before = with_kept(lasting, largest(job)), (room, kept.sum(), rest.sum())
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


def priced(scenario: Scenario, job: Job) -> Costs:
    """What passes and sends of a job last on the cluster of its scenario."""
    profile = load_spec(CollectiveProfile, scenario.cluster.collectives)
    network = Network(job, fabric.build(scenario.cluster), profile)
    return durations(job, compile_device(scenario.cluster.node.accelerator), network)


def with_kept(costs: Costs, job: Job) -> Costs:
    """The costs with the bytes that passes of the job's chunks keep."""
    chunks = all_chunks(job)[: len(job.chunks)]
    kept, rest = (np.array([size(job, one) for one in chunks]) for size in (chunk_activations, chunk_for_weights))
    return replace(costs, kept=kept, kept_for_weights=rest)
