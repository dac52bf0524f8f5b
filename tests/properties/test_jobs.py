"""Several jobs on one cluster, whatever they are, wherever they lie: what is shared is shared fairly, what is not is as
alone."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator.results.summary import dumps, to_json
from simulator.run.jobs.gather import gather
from simulator.run.jobs.simulate import simulate_jobs
from simulator.specs.hardware import Cluster
from simulator.specs.jobs import AnyJob, JobsScenario, Place
from tests import jobs, together
from tests.effort import simulations
from tests.machines import torus
from tests.together import FULL

NODES = 4


def fabric(kind: str, over: float) -> Cluster:
    """Four nodes of eight devices."""
    if kind == "bus":
        return together.host_bus(NODES)
    trees = {"leaf": together.tree(1.0, NODES), "rails": together.tree(over, rails=True), "torus": torus(4, 8)}
    return together.cluster(NODES, 8, trees.get(kind) or together.tree(over))


FABRICS = st.builds(
    fabric,
    st.sampled_from(["spine", "rails", "bus", "leaf", "torus", "spine", "spine"]),
    st.sampled_from([4.0, 8.0, 2.0, 1.0]),
)
BETWEEN = ([[0, 2], [1, 3]], [[2, 0], [1, 3]], [[0, 3], [2, 1]], [[0, 1], [2, 3]], [[0], [1, 2, 3]])
"""Nodes of two jobs: on both sides of the spine, or each in a leaf of its own."""
HALVES = [[{"devices": [n * 8 + j * 4 + i for n in on for i in range(4)]} for j in range(2)] for on in ([0], [0, 2])]
"""Devices of two jobs that share nodes."""
THREE = [[{"nodes": list(on)} for on in ([0], [2, 1], [3])], [{"nodes": [n]} for n in (0, 1, 3)]]
PLACES = st.sampled_from([*([{"nodes": on} for on in nodes] for nodes in BETWEEN), *HALVES, *THREE])


@st.composite
def trainings(draw: st.DrawFn, name: str, placement: dict[str, list[int]], per_node: int = 8) -> AnyJob:
    """A job that trains on given devices."""
    devices = len(placement.get("devices", ())) or per_node * len(placement["nodes"])
    tp = draw(st.sampled_from([n for n in (1, 2, 4, 8) if devices % n == 0]))
    pp = draw(st.sampled_from([n for n in (1, 1, 2, 4) if devices // tp % n == 0]))
    dp = devices // tp // pp
    return together.trains(
        name,
        placement=placement,
        batch=dp * draw(st.sampled_from([1, 2, 4])),
        sequence=draw(st.sampled_from([64, 512])),
        steps=draw(st.integers(1, 2)),
        software=jobs.stack(draw(st.sampled_from(["megatron-core", "fsdp", "megatron-lm-2022"]))),
        of_job={"start": draw(st.sampled_from(["0 s", "0 s", "3 ms", "50 ms"])), "repeat": draw(st.booleans())},
        tp=tp,
        pp=pp,
        zero=draw(st.sampled_from([0, 1, 2, 3])) if dp > 1 else None,
    )


@st.composite
def trainings_together(draw: st.DrawFn) -> JobsScenario:
    """Two or three jobs that train."""
    listed = [draw(trainings(f"job {i}", place)) for i, place in enumerate(draw(PLACES))]
    return together.scenario(*listed, on=draw(FABRICS), seed=draw(st.integers(0, 3)))


@simulations(8)
@given(asked=trainings_together())
def test_no_link_carries_more_than_it_has(asked: JobsScenario) -> None:
    """Found from the times of all operations, also of those that were thought to meet nobody, wherever several jobs
    send."""
    ran = together.run(asked, "none")
    result = gather(ran)
    assert together.most_together(ran) <= 1 + FULL
    for meeting in result.meetings:
        assert all(sum(by.values()) <= meeting.capacity * (1 + FULL) for _, by in meeting.rates)
    for record in result.jobs:
        assert all(load.peak <= load.capacity * (1 + FULL) for load in record.result.links if load.rates)
        assert record.slowdown >= 1 - 1e-9


@st.composite
def scattered(draw: st.DrawFn) -> JobsScenario:
    """Two or three jobs that train on nodes of two devices here and there, in any order."""
    nodes, count = draw(st.permutations(range(8))), draw(st.sampled_from([2, 3]))
    cuts = sorted(draw(st.lists(st.integers(1, 7), min_size=count - 1, max_size=count - 1, unique=True)))
    parts = [nodes[a:b] for a, b in pairwise([0, *cuts, 8])]
    network = together.tree(draw(st.sampled_from([2.0, 8.0])), draw(st.sampled_from([2, 4])), rails=draw(st.booleans()))
    listed = [draw(trainings(f"job {i}", {"nodes": list(on)}, per_node=2)) for i, on in enumerate(parts)]
    return together.scenario(*listed, on=together.cluster(8, 2, network))


@simulations(8)
@given(asked=scattered())
def test_folding_is_exact_with_what_jobs_share(asked: JobsScenario) -> None:
    """But for the rounding of transfers to whole ticks, which jobs that meet hand on to each other and grow: a job that
    began 10 ps later moved another's end by 0.1 us of 9.7 ms, and folded steps came out 3e-4 apart from others."""
    folded, unfolded = (together.run(asked, fold) for fold in ("exact", "none"))
    for name, trainer in unfolded.trainers.items():
        for one, other in zip(together.steps(folded.trainers[name]), together.steps(trainer), strict=True):
            assert one[1].makespan == pytest.approx(other[1].makespan, rel=1e-3, abs=len(other[1].end))


def one_whole_pass() -> JobsScenario:
    """Two jobs that meet in their gradients, one of which runs its only forward pass as one instruction."""
    one = together.trains("one", placement={"nodes": [0, 2]}, batch=16, sequence=64, zero=0)
    other = together.trains("other", placement={"nodes": [1, 3]}, batch=8, sequence=64, tp=2, zero=0)
    return together.scenario(one, other, on=fabric("spine", 4.0))


@simulations(8)
@example(asked=one_whole_pass())
@given(asked=trainings_together())
def test_bytes_are_the_same_alone_and_together(asked: JobsScenario) -> None:
    """What links carried for a job is what its operations have to send, as often as they ran; what it says that it sent
    does not depend on who is beside it."""
    once = tuple(job.model_copy(update={"repeat": False}) for job in asked.jobs)
    ran = together.run(asked.model_copy(update={"jobs": once}))
    for record, job in zip(gather(ran).jobs, ran.trainers.values(), strict=True):
        alone = {load.name: load.bytes for load in job.own.links}
        assert {load.name: load.bytes for load in record.result.links} == pytest.approx(alone, rel=1e-9)
        if job.meets:
            assert together.carried(ran, job) == pytest.approx(together.to_carry(job), rel=1e-6)


@simulations(8)
@given(asked=trainings_together(), data=st.data())
def test_the_order_of_jobs_changes_nothing(asked: JobsScenario, data: st.DataObject) -> None:
    listed = data.draw(st.permutations(asked.jobs))
    one = {record.name: record for record in simulate_jobs(asked).jobs}
    for record in simulate_jobs(asked.model_copy(update={"jobs": tuple(listed)})).jobs:
        before = one[record.name]
        assert (record.devices, record.start_s) == (before.devices, before.start_s)
        assert record.slowdown == pytest.approx(before.slowdown, rel=1e-9)
        assert record.result.metrics == pytest.approx(before.result.metrics, rel=1e-9, nan_ok=True)


@simulations(8)
@given(asked=trainings_together())
def test_equal_scenarios_give_equal_bytes(asked: JobsScenario) -> None:
    one, two = (dumps(to_json(simulate_jobs(asked))) for _ in range(2))
    assert one == two


@simulations(10)
@given(data=st.data(), kind=st.sampled_from(["spine", "rails", "bus"]))
def test_equal_jobs_in_equal_places_fare_alike(data: st.DataObject, kind: str) -> None:
    on = fabric(kind, 8.0)
    places = HALVES[0] if kind == "bus" else [{"nodes": [0, 2]}, {"nodes": [1, 3]}]
    first = data.draw(trainings("one", places[0]))
    second = first.model_copy(update={"name": "two", "placement": Place(**places[1])})
    one, two = together.run(together.scenario(first, second, on=on)).trainers.values()
    assert [timeline.end.tolist() for _, timeline in together.steps(one)] == [
        timeline.end.tolist() for _, timeline in together.steps(two)
    ]


@simulations(8)
@given(data=st.data())
def test_more_bandwidth_never_hurts_where_nothing_contends(data: st.DataObject) -> None:
    """A leaf without oversubscription: whole nodes share nothing."""
    listed = [data.draw(trainings(f"job {i}", {"nodes": on})) for i, on in enumerate(([0, 2], [1, 3]))]
    on = fabric("leaf", 1.0)
    nics = on.node.nics.model_copy(update={"bandwidth": on.node.nics.bandwidth.model_copy(update={"value": 50e9})})  # type: ignore[union-attr]
    faster = on.model_copy(update={"node": on.node.model_copy(update={"nics": nics})})
    slow, fast = (simulate_jobs(together.scenario(*listed, on=cluster)) for cluster in (on, faster))
    for one, other in zip(slow.jobs, fast.jobs, strict=True):
        assert other.result.metrics["step_time_s"] <= one.result.metrics["step_time_s"] * (1 + 1e-12)
        assert one.slowdown == other.slowdown == 1.0
