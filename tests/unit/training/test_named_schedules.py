"""Schedules by name in a training step."""

import pytest

from simulator.errors import InputError
from simulator.run.simulate import simulate
from simulator.training.job import build_job
from simulator.training.memory import peak_activations
from tests import jobs

TWO_CHUNKS = ["zb-v", "v-half", "v-min", "dualpipev", "hanayo", "breadth-first", "depth-first", "zb-h1"]


def step(name: str, vpp: int = 1, **more: bool) -> float:
    """Seconds of a step of four stages and eight microbatches."""
    training = {"schedule": name, "recompute": "none"} | more
    return simulate(jobs.scenario(batch=16, pp=4, vpp=vpp, training=training)).metrics["step_time_s"]


@pytest.mark.parametrize("name", ["zb-h1", "zb-h2"])
def test_zero_bubble_saves_time(name: str) -> None:
    assert step(name) < step("1f1b")


@pytest.mark.parametrize("name", TWO_CHUNKS)
@pytest.mark.parametrize("blocking", [False, True])
def test_two_chunks(name: str, blocking: bool) -> None:
    """Never more than one pass after the other on one device, and not less than the work of a rank."""
    one = step("interleaved-1f1b", 2)
    assert one / 2 < step(name, 2, overlap_pipeline=not blocking) < 2 * one


def test_a_v_keeps_equally_much_on_all_ranks() -> None:
    kept = {}
    for name in ("zb-v", "v-half", "v-min"):
        job = build_job(jobs.scenario(batch=32, pp=4, vpp=2, training={"schedule": name, "recompute": "none"}))
        assert job.home == (0, 1, 2, 3, 3, 2, 1, 0)
        middle = [peak_activations(job, stage) for stage in (1, 2, 3)]
        assert max(middle) == pytest.approx(min(middle))
        kept[name] = middle[0]
    assert kept["v-min"] < kept["v-half"] < kept["zb-v"]


@pytest.mark.parametrize("name", ["dualpipe", "chimera"])
def test_two_copies_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="2 copies of the model on one pipeline, not simulated in training yet"):
        build_job(jobs.scenario(batch=16, pp=4, training={"schedule": name}))
