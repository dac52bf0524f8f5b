"""The schedule of a job whose maker sees what passes last and keep.

What they last is priced as the step prices it (`durations`), before there is an order: on the first devices of the
cluster, where other jobs or perturbations are not yet known. What a rank may keep is what its device has left beside
states and workspace.
"""

from dataclasses import replace
from math import inf

import numpy as np
from numpy.typing import NDArray

from simulator import fabric
from simulator.cost import compile_device
from simulator.errors import InfeasibleError
from simulator.program.schedule import Schedule
from simulator.program.timing import Costs, time_schedule
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
from simulator.training.passes.step_time import step_ticks
from simulator.training.placement import devices_of_ranks
from simulator.training.schedules import AUTO, SIZES_ONLY, Pipeline, frugal, homes, named, own_name, searched

Ints = NDArray[np.int64]

NEAR = 0.001
"""Relative difference of makespans that says nothing: it is that of steps with all that runs beside passes."""
SEARCHED = 3
"""Orders of the list scheduler on a placement whose steps are priced."""
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
    found = _within(scenario, job, name, capacity)
    return found if name != AUTO or job.pp == 1 else _shortest(scenario, found, capacity)


def _within(scenario: Scenario, job: Job, name: str, capacity: float) -> Job:
    """The job with its schedule made of what passes last and keep, within what devices have room for."""
    lasting = priced(scenario, job)
    room, kept, rest = inf, np.zeros(len(job.chunks)), np.zeros(len(job.chunks))
    for tried in range(TRIES):
        costs, before = with_kept(lasting, largest(job)), (room, kept.sum(), rest.sum())
        room, kept = min(room, capacity - _beside(largest(job))), np.maximum(kept, costs.kept)
        rest = np.maximum(rest, costs.kept_for_weights)
        if tried and (peak_memory(job) <= capacity or (room, kept.sum(), rest.sum()) == before):
            break
        pipeline = _pipeline(job, replace(costs, kept=kept, kept_for_weights=rest), room)
        job = _arranged(job, name, pipeline)
    return job


def _pipeline(job: Job, costs: Costs, room: float) -> Pipeline:
    """What makers see of a job: backward passes are whole where what goes on beside them is simulated of whole ones."""
    split = not (job.per_pass or job.offload is not None or job.optimizer.in_backward)
    return Pipeline(job.pp, job.vpp, job.microbatches, costs=costs, limit=room, near=NEAR, split=split)


def _shortest(scenario: Scenario, found: Job, capacity: float) -> Job:
    """The job with the shortest step of all that fit: of the order that was `found`, all orders with names, and the
    best of those that the list scheduler makes on each placement of the chunks. Of steps about as short, the one that
    needs least memory.

    Passes alone are not the step: parameters that are gathered around them, gradients that are reduced behind them and
    sums of tables that two stages hold are exposed to another extent under each order.
    """
    device, limit = compile_device(scenario.cluster.node.accelerator), inf
    tried: list[tuple[int, float, Job]] = []
    for place in homes(_pipeline(found, Costs.equal(len(found.chunks)), inf)):
        network, orders = _orders(scenario, found, place, capacity)
        for lasts, job in sorted(orders, key=lambda one: one[0]):
            if lasts > limit or (need := peak_memory(job)) > capacity:
                continue
            tried.append((step_ticks(job, device, network, scenario.cluster.node.devices), need, job))
            limit = min(limit, tried[-1][0])  # no step is shorter than its passes
    near = [one for one in tried if one[0] <= limit * (1 + NEAR)]
    return min(near, key=lambda one: (one[1], one[0]))[2] if near else found


def _orders(scenario: Scenario, found: Job, place: Ints, capacity: float) -> tuple[Network, list[tuple[int, Job]]]:
    """The network of a job whose chunks lie on the ranks `place` (chunks,), and that job under each order, with the
    ticks of its passes."""
    bare = _pipeline(found, Costs.equal(len(found.chunks)), inf)
    job = _ordered(found, frugal(bare, place))
    network = _network(scenario, job)
    costs = with_kept(durations(job, compile_device(scenario.cluster.node.accelerator), network), largest(job))
    beside = [_beside_of(largest(job), rank) for rank in range(job.pp)]
    wide, tight = (_pipeline(job, costs, capacity - other(beside)) for other in (min, max))
    orders = [*named(wide, place), *searched(wide, place, SEARCHED)]
    if wide.limit < float(costs.kept.sum()) * job.microbatches:  # else neither limits anything
        orders += searched(tight, place, SEARCHED)
    if job.home == found.home:
        orders.append(found.schedule)
    different = {(one.kind.tobytes(), one.stage.tobytes(), one.microbatch.tobytes()): one for one in orders}
    return network, [(time_schedule(one, costs).makespan, _ordered(job, one)) for one in different.values()]


def _arranged(job: Job, name: str, pipeline: Pipeline) -> Job:
    """The job with the schedule that the maker of that name makes of its costs."""
    try:
        schedule = named_schedule(name, pipeline)
    except InfeasibleError:  # the run says so, as of every job: what it needs is then the least that there is
        schedule = frugal(pipeline)
    check_copies(schedule, job.zero)
    if job.per_pass:
        check_split(schedule)
    return _ordered(job, schedule)


def _ordered(job: Job, schedule: Schedule) -> Job:
    """The job with another schedule."""
    home = tuple(schedule.rank_of_stage().tolist())
    sums = schedule.vocabulary_sums
    return replace(job, schedule=schedule, home=home, vocabulary_sums=sums, **in_flight(schedule))


def _beside(job: Job) -> float:
    """Most bytes of a rank that are no kept activations."""
    return max(_beside_of(job, rank) for rank in range(job.pp))


def _beside_of(job: Job, rank: int) -> float:
    """Bytes of a rank that are no kept activations."""
    return sum(static_memory(job, rank).values()) + working_memory(job, rank)


def priced(scenario: Scenario, job: Job) -> Costs:
    """What passes and sends of a job last on the cluster of its scenario."""
    return durations(job, compile_device(scenario.cluster.node.accelerator), _network(scenario, job))


def _network(scenario: Scenario, job: Job) -> Network:
    profile = load_spec(CollectiveProfile, scenario.cluster.collectives)
    return Network(job, fabric.build(scenario.cluster), profile, devices_of_ranks(scenario))


def with_kept(costs: Costs, job: Job) -> Costs:
    """The costs with the bytes that passes of the job's chunks keep."""
    chunks = all_chunks(job)[: len(job.chunks)]
    kept, rest = (np.array([size(job, one) for one in chunks]) for size in (chunk_activations, chunk_for_weights))
    return replace(costs, kept=kept, kept_for_weights=rest)
