"""Bytes that a layout moves, against the published volumes."""

import pytest

from simulator.run.simulate import simulate
from simulator.specs.scenario import Scenario
from simulator.training import operators
from simulator.training.build import build_job
from simulator.training.operators import Collective
from tests import jobs


def volume(steps: object, tp: int) -> float:
    """Bytes that a rank sends in the tensor-parallel collectives of some steps, by the ring."""
    share = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}
    return sum(share[s.operation] * (tp - 1) / tp * s.size for s in steps if isinstance(s, Collective))  # type: ignore[attr-defined]


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_tensor_parallel_volume_of_a_layer(sequence_parallel: bool) -> None:
    """8 b s h (t - 1) / t elements a layer and microbatch, forward and backward (arXiv:2104.04473, section 3.2).

    Sequence parallelism moves the same, but for the inputs of the two column-cut products, gathered again backward.
    """
    tp, s, b, h = 8, 1024, 2, 1024
    job = build_job(jobs.scenario(batch=16, micro=b, tp=tp, sequence_parallel=sequence_parallel))
    moved = volume([*operators.layer_forward(job, jobs.LAYER), *operators.layer_backward(job, jobs.LAYER)], tp)
    again = 2 * b * s * h * (tp - 1) / tp if sequence_parallel else 0
    assert moved / 2 == pytest.approx(8 * b * s * h * (tp - 1) / tp + again)


@pytest.mark.parametrize(("zero", "relative"), [(0, 1.0), (1, 1.0), (2, 1.0), (3, 1.5)])
def test_data_parallel_volume(zero: int, relative: float) -> None:
    """ZeRO-1 and -2 move what an all-reduce moves, ZeRO-3 half as much again (arXiv:1910.02054, section 7)."""
    scenario = jobs.scenario(batch=8, dp=8, zero=zero, software=jobs.stack(gradient_bytes=2, reduce_bytes=2))
    plain = jobs.scenario(batch=8, dp=8, zero=0, software=jobs.stack(gradient_bytes=2, reduce_bytes=2))
    assert busiest(scenario) / busiest(plain) == pytest.approx(relative, rel=0.01)


def busiest(scenario: Scenario) -> float:
    """Bytes on the busiest scale-up link."""
    return max(link.bytes for link in simulate(scenario, executor="simpy").links)


@pytest.mark.parametrize(("zero", "reductions", "gathers"), [(1, 1, 1), (2, 4, 1), (3, 4, 8)])
def test_traffic_counts_what_the_program_runs(zero: int, reductions: int, gathers: int) -> None:
    """Four microbatches: ZeRO-2 reduces each, ZeRO-3 also gathers forward and backward in each."""
    software = jobs.stack(gradient_bytes=2, reduce_bytes=2)
    plain = busiest(jobs.scenario(batch=32, dp=8, zero=0, software=software))
    moved = busiest(jobs.scenario(batch=32, dp=8, zero=zero, software=software))
    assert moved / plain == pytest.approx((reductions + gathers) / 2, rel=0.01)
