"""Copies that PyTorch makes of what tensor-parallel ranks gather and scatter."""

from typing import Any

from simulator.training import operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.step import Collective, Kernel, Single
from tests import jobs


def job(name: str, **parallel: Any) -> Job:
    return build_job(jobs.scenario(on="generic-h100", software=jobs.stack(name), **parallel))


def layer(found: Job) -> list[Single]:
    steps = [*operators.layer_forward(found, jobs.LAYER), *operators.layer_backward(found, jobs.LAYER)]
    return list(operators.each(steps))


def test_each_gather_is_followed_and_each_scatter_preceded_by_a_copy_of_its_size() -> None:
    steps = layer(job("fsdp", tp=4))
    sent = [place for place, step in enumerate(steps) if isinstance(step, Collective)]
    assert {steps[place].operation for place in sent} == {"all_gather", "reduce_scatter"}  # type: ignore[union-attr]
    for place in sent:
        run = steps[place]
        assert isinstance(run, Collective)
        copy = steps[place + 1 if run.operation == "all_gather" else place - 1]
        assert isinstance(copy, Kernel) and copy.name == f"order {run.name}"
        assert (copy.work.read_bytes, copy.work.write_bytes) == (run.size, run.size)  # type: ignore[union-attr]


def test_sums_of_whole_rows_and_megatron_need_none() -> None:
    for found in (job("fsdp", tp=4, sequence_parallel=False), job("megatron-core", tp=4), job("nanotron", tp=4)):
        assert not [step for step in layer(found) if isinstance(step, Kernel) and step.name.startswith("order")]
