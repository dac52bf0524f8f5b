"""Synchronous steps under jitter: the step is the slowest of its devices, so its mean is the mean of a maximum."""

import numpy as np
import pytest

from simulator.run.simulate import simulate
from tests import jobs

SPREAD, STEPS = 0.05, 4000


def computing(devices: int) -> float:
    """Seconds of kernels in a clean step of one replica each."""
    parts = simulate(jobs.scenario(devices=devices, batch=2 * devices, zero=0)).breakdown[0]
    return parts["compute"] + parts["recompute"] + parts["optimizer"]


@pytest.mark.parametrize("devices", [2, 8])
def test_data_parallel_steps_take_the_expected_maximum(devices: int) -> None:
    """Of n log-normal factors of mean 1, against numpy's own sample; what is no kernel stays what it was."""
    clean = simulate(jobs.scenario(devices=devices, batch=2 * devices, zero=0)).metrics["step_time_s"]
    noisy = simulate(
        jobs.scenario(
            devices=devices, batch=2 * devices, zero=0, training={"steps": STEPS, "noise": {"jitter": SPREAD}}
        )
    )
    sigma = np.sqrt(np.log1p(SPREAD**2))
    sample = np.random.default_rng(1).lognormal(-(sigma**2) / 2, sigma, (200_000, devices)).max(axis=1)
    before = noisy.metrics["step_time_s"] - clean
    assert before / computing(devices) == pytest.approx(
        sample.mean() - 1, abs=4 * sample.std() / np.sqrt(STEPS) + 0.002
    )
    measured = (noisy.step_times / 1e12 - clean) / computing(devices)
    for level in (50, 90, 99):
        assert np.percentile(measured, level) == pytest.approx(np.percentile(sample, level) - 1, abs=0.006)


def test_a_pipeline_goes_at_the_pace_of_its_slowest_stage() -> None:
    """Of m microbatches on p stages, a straggler by s makes the step (s m + p - 1) / (m + p - 1) of the clean one."""
    microbatches, stages, slowdown = 64, 4, 1.5
    software = jobs.stack(layer_overhead=jobs.stack().layer_overhead.model_copy(update={"value": 0.0}))
    shape = jobs.model(vocabulary=64, hidden=8192, heads=64)  # sends and embeddings are next to nothing

    def step(**noise: object) -> float:
        said = {"noise": noise, "recompute": "none", "schedule": "gpipe"}
        found = jobs.scenario(
            devices=4, tp=1, pp=stages, batch=microbatches, shape=shape, software=software, training=said
        )
        return simulate(found).metrics["step_time_s"]

    ratio = step(stragglers={"devices": [2], "slowdown": slowdown}) / step()
    assert ratio == pytest.approx((slowdown * microbatches + stages - 1) / (microbatches + stages - 1), rel=0.02)
