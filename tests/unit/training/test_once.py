from dataclasses import replace

from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.once import once_a_job
from tests import jobs

CALLS: list[tuple[object, ...]] = []


@once_a_job
def asked(job: Job, *rest: int, scale: float = 1.0) -> float:
    """A function that says when it is called."""
    CALLS.append((rest, scale))
    return job.micro_batch * scale * sum(rest)


def test_each_set_of_arguments_is_asked_for_once() -> None:
    CALLS.clear()
    job = build_job(jobs.scenario())
    once = job.micro_batch
    assert [asked(job, 1, 2), asked(job, 1, 2), asked(job, 3), asked(job, 3, scale=2.0)] == [3 * once] * 3 + [6 * once]
    assert CALLS == [((1, 2), 1.0), ((3,), 1.0), ((3,), 2.0)]


def test_another_job_answers_for_itself() -> None:
    CALLS.clear()
    job = build_job(jobs.scenario())
    larger = replace(job, micro_batch=2 * job.micro_batch)
    assert asked(larger, 1) == 2 * asked(job, 1)
    assert len(CALLS) == 2
    assert larger != job
    assert asked.__name__ == "asked"
