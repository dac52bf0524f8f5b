"""Several jobs on one cluster, whatever they are, wherever they lie: what is shared is shared fairly, what is not is as
alone."""


from hypothesis import given
from hypothesis import strategies as st

from simulator.run.jobs.gather import gather
from simulator.specs.hardware import Cluster
from simulator.specs.jobs import AnyJob, JobsScenario
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
def trainings(draw: st.DrawFn, name: str, placement: dict[str, list[int]], steps: int = 2) -> AnyJob:
    """A job that trains on given devices."""
    devices = len(placement.get("devices", ())) or 8 * len(placement["nodes"])
    tp = draw(st.sampled_from([n for n in (1, 2, 4, 8) if devices % n == 0]))
    pp = draw(st.sampled_from([n for n in (1, 1, 2, 4) if devices // tp % n == 0]))
    dp = devices // tp // pp
    return together.trains(
        name,
        placement=placement,
        batch=dp * draw(st.sampled_from([1, 2, 4])),
        sequence=draw(st.sampled_from([64, 512])),
        steps=draw(st.integers(1, steps)),
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


@simulations(15)
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
