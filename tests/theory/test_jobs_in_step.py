"""Trainings that compute for C and then fill a link for M: n of them in step take C + n M, and C + M where they fit
into each other's pauses."""

import pytest

from simulator.results import Result
from simulator.run.dispatch import simulate
from simulator.specs.jobs import JobsScenario
from tests import jobs


def beside(count: int, shift_s: float = 0.0, batch: int = 8) -> Result:
    """Equal jobs of two devices each, one on either node, that all send over the one card of their nodes."""
    machine = jobs.cluster(2, devices=4)
    node = machine.node.model_copy(update={"nics": machine.node.nics.model_copy(update={"count": 1})})
    training = {
        "global_batch": batch,
        "micro_batch": 1,
        "sequence_length": 1024,
        "parallel": {"dp": 2},
        "overlap_gradients": False,
        "steps": 6,
    }
    several = [
        {
            "name": f"job {i}",
            "model": jobs.model(),
            "stack": jobs.stack(),
            "placement": {"devices": [i, 4 + i]},
            "start": f"{i * shift_s!r} s",
            "training": training,
        }
        for i in range(count)
    ]
    cluster = machine.model_copy(update={"node": node})
    return simulate(JobsScenario.model_validate({"version": 1, "name": "in step", "cluster": cluster, "jobs": several}))


@pytest.mark.parametrize("batch", [2, 8, 64])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_jobs_in_step_take_turns_of_the_link_for_ever(count: int, batch: int) -> None:
    found = beside(count, batch=batch)
    for job in found.jobs:
        alone, sends = job.alone["step_time_s"], job.alone["exposed_communication_s"]
        assert job.slowdown == pytest.approx((alone + (count - 1) * sends) / alone, rel=0.01)
        assert len({int(ticks) // 10**6 for ticks in job.result.step_times}) == 1


def test_jobs_in_each_others_pauses_are_as_alone() -> None:
    alone = beside(1, batch=64).jobs[0].alone
    computes = alone["step_time_s"] - alone["exposed_communication_s"]
    assert computes > 2 * alone["exposed_communication_s"]
    apart = beside(2, shift_s=computes / 2, batch=64)
    assert [job.slowdown for job in apart.jobs] == pytest.approx([1, 1], abs=1e-9)
    assert beside(2, batch=64).metrics["worst_slowdown"] > 1.02
