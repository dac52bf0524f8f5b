"""A service beside a training on one cluster: fast-forward changes nothing, nothing is lost, and whoever has links of
its own is as alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import units
from simulator.run.jobs.gather import gather
from simulator.run.jobs.simulate import simulate_jobs
from simulator.specs.hardware import Cluster
from simulator.specs.jobs import AnyJob, JobsScenario, Perturbation, ServingJob
from tests import together
from tests.effort import simulations
from tests.factories import columns
from tests.properties.test_jobs import fabric, trainings
from tests.together import FULL


@st.composite
def services(draw: st.DrawFn, name: str, placement: dict[str, list[int]], count: int = 10) -> AnyJob:
    """A job that serves on given nodes."""
    pools = len(placement["nodes"]) > 1 and draw(st.booleans())
    system = together.apart(draw(st.sampled_from([4, 8]))) if pools else {"replicas": 2, "parallel": {"tp": 8}}
    if not pools and len(placement["nodes"]) == 1:
        system = {"replicas": draw(st.sampled_from([1, 2])), "parallel": {"tp": draw(st.sampled_from([1, 4]))}}
    if pools and draw(st.booleans()):
        system = system | {"transfer": "layer"}
    return together.serves(
        name,
        placement=placement,
        count=count,
        rate=draw(st.sampled_from(["20 /s", "200 /s"])),
        prompt=draw(st.sampled_from([300, 3000])),
        output=draw(st.sampled_from([4, 30])),
        of_job={"start": draw(st.sampled_from(["0 s", "7 ms"]))},
        **system,
    )


def job(name: str, placement: dict[str, list[int]]) -> st.SearchStrategy[AnyJob]:
    """A job of either kind."""
    return trainings(name, placement) | services(name, placement)


@simulations(8)
@given(
    on=st.builds(fabric, st.sampled_from(["spine", "leaf", "bus"]), st.sampled_from([1.0, 4.0])),
    listed=st.tuples(job("one", {"nodes": [0, 1]}), job("two", {"nodes": [2, 3]})),
)
def test_jobs_on_links_of_their_own_are_as_alone(on: Cluster, listed: tuple[AnyJob, ...]) -> None:
    asked = together.scenario(*listed, on=on)
    result = simulate_jobs(asked)
    assert not result.meetings
    for record, one in zip(result.jobs, listed, strict=True):
        alone = together.plain(one.model_copy(update={"start": 0.0}), asked, 2)
        assert record.slowdown == 1.0
        assert record.result.metrics == pytest.approx(alone.metrics, rel=0, abs=0, nan_ok=True)
        assert [array.tolist() for array in columns(record.result)] == [array.tolist() for array in columns(alone)]
        assert record.result.breakdown == alone.breakdown
        ours, theirs = ([replace(load, links=0, busiest="") for load in one.links] for one in (record.result, alone))
        assert ours == theirs


@st.composite
def beside(draw: st.DrawFn) -> JobsScenario:
    """A service whose caches cross the spine, or not, beside a training on both sides of it, and slow links."""
    training = draw(trainings("training", {"nodes": [0, 2]}))
    slow = {"kind": "slow-links", "start": draw(st.sampled_from(["0 s", "11 ms"])), "factor": 0.5}
    slow |= {"links": [draw(st.sampled_from(["leaf up 0", "NIC 8", "leaf down 1"]))]}
    if draw(st.booleans()):
        slow["lasts"] = "60 ms"
    perturbations = [Perturbation.model_validate(slow)] if draw(st.booleans()) else []
    listed = training, draw(services("service", {"nodes": [1, 3]}))
    return together.scenario(
        *listed, on=fabric("spine", draw(st.sampled_from([2.0, 8.0]))), perturbations=perturbations
    )


def leaping(asked: JobsScenario, leap: bool) -> JobsScenario:
    """The same with fast-forward, or without."""
    changed = (one.model_copy(update={"leap": leap}) if isinstance(one, ServingJob) else one for one in asked.jobs)
    return asked.model_copy(update={"jobs": tuple(changed)})


@simulations(6)
@given(asked=beside())
def test_fast_forward_changes_nothing_beside_others(asked: JobsScenario) -> None:
    one, two = (simulate_jobs(leaping(asked, leap)) for leap in (True, False))
    for left, right in zip(one.jobs, two.jobs, strict=True):
        assert left.result.metrics == pytest.approx(right.result.metrics, rel=1e-8, nan_ok=True)
        assert (left.slowdown, left.end_s) == pytest.approx((right.slowdown, right.end_s), rel=1e-12)
        if left.result.service is not None and right.result.service is not None:
            for name in ("first_token", "finish", "scheduled"):
                column = getattr(left.result.service.requests, name)
                assert np.array_equal(column, getattr(right.result.service.requests, name))


@simulations(6)
@given(asked=beside())
def test_a_service_beside_a_training_loses_nothing(asked: JobsScenario) -> None:
    ran = together.run(asked)
    result = gather(ran)
    for link, whole in enumerate(ran.site.fabric.capacity / units.TICKS_PER_SECOND):
        assert all(span.load <= min(whole, span.capacity) * (1 + 1e-8) for span in ran.load.of(link))
    assert together.most_together(ran) <= 1 + FULL
    training, served = result.jobs
    assert training.slowdown >= 1 - 1e-9
    count, output = asked.jobs[1].requests.count, served.result.metrics["total_output_tokens"]  # type: ignore[union-attr]
    assert served.result.metrics["completed"] == count
    service = served.result.service
    assert service is not None
    rows = [replica.iterations for replica in service.replicas]
    decoded = sum(int((row.decodes * row.count).sum()) for row in rows)
    assert decoded + count == output
    prompts = sum(int((row.prompt_tokens * row.count).sum()) for row in rows)
    assert prompts == served.result.metrics["total_input_tokens"]
