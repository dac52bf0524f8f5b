"""Schedules by name in a training step."""

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.program.actions import Kind
from simulator.run.simulate import simulate
from simulator.specs.scenario import Scenario
from simulator.training.arranged import arranged_job, relative_costs
from simulator.training.build import build_job
from simulator.training.memory import kept_of_chunks, peak_activations, peak_memory
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


def test_a_v_keeps_no_more_on_any_rank_than_its_unit_says() -> None:
    """8, 6 and 4 chunks at p = 4; those between I and W keep less than a whole one."""
    kept = {}
    for name, chunks in (("zb-v", 8), ("v-half", 6), ("v-min", 4)):
        job = build_job(jobs.scenario(batch=32, pp=4, vpp=2, training={"schedule": name, "recompute": "none"}))
        assert job.home == (0, 1, 2, 3, 3, 2, 1, 0)
        middle = [peak_activations(job, stage) for stage in (1, 2, 3)]
        assert max(middle) <= chunks * kept_of_chunks(job)[1] * (1 + 1e-9)
        kept[name] = max(middle)
    assert kept["v-min"] < kept["v-half"] < kept["zb-v"]


def test_makers_see_what_the_chunks_cost_and_keep() -> None:
    """A stage of one layer and the head of a large vocabulary; gradients of weights lack attention."""
    job = build_job(jobs.scenario(batch=16, pp=4, training={"stages": (3, 2, 2, 1), "recompute": "none"}))
    costs = relative_costs(job)
    assert costs.forward[0] == pytest.approx(1.5 * costs.forward[1], abs=1)
    assert np.all(costs.input_gradient > costs.forward)
    assert np.all(costs.weight_gradient < costs.forward)
    assert costs.kept[0] > costs.kept[1] == costs.kept[2]
    again = relative_costs(build_job(jobs.scenario(batch=16, pp=4, training={"recompute": "full"})))
    assert np.all(again.input_gradient[:3] > 2.0 * again.forward[:3])  # the head is not computed again


@pytest.mark.parametrize("vpp", [1, 2])
def test_auto_is_not_slower_than_the_others(vpp: int) -> None:
    """By estimated costs it is the fastest; by priced ones within a tenth."""
    others = ["zb-h1", "1f1b"] if vpp == 1 else ["zb-v", "interleaved-1f1b"]
    assert step("auto", vpp) < 1.1 * min(step(name, vpp) for name in others)


def test_auto_leaves_backward_passes_whole_where_they_may_not_be_cut() -> None:
    job = arranged_job(jobs.scenario(batch=16, pp=4, zero=3, training={"schedule": "auto"}))
    assert not len(job.schedule.only([Kind.I, Kind.W]))


def test_what_does_not_fit_under_auto_fits_under_nothing() -> None:
    """Then it keeps one microbatch of each chunk, so that what the run says it needs is the least there is."""
    long = jobs.scenario(batch=64, pp=4, vpp=2, sequence=65536, training={"schedule": "auto", "recompute": "none"})
    job = arranged_job(long)
    sizes = relative_costs(job).kept
    assert peak_activations(job, 0) == pytest.approx(sizes[0] + sizes[4])
    assert not simulate(long).feasible


@pytest.mark.parametrize(("vpp", "zero"), [(1, 1), (2, 1), (2, 3)])
def test_auto_counts_logits_and_ends_as_its_order_has_them(vpp: int, zero: int) -> None:
    """Head and embedding of a large vocabulary meet in a V, and logits of several microbatches wait under some orders:
    what is found needs no more than there is."""
    settings, shape = {"schedule": "auto", "recompute": "none"}, jobs.model(vocabulary=256_000)
    scenario = jobs.scenario(batch=64, pp=4, vpp=vpp, zero=zero, shape=shape, training=settings)
    least = peak_memory(arranged_job(_with_memory(scenario, 1.0)))
    for share in (1.05, 1.3, 2.0):
        assert peak_memory(arranged_job(_with_memory(scenario, least * share))) <= least * share


def _with_memory(scenario: Scenario, capacity: float) -> Scenario:
    """The scenario on devices with so many bytes."""
    node, accelerator = scenario.cluster.node, scenario.cluster.node.accelerator
    figure = accelerator.memory.capacity.model_copy(update={"value": capacity})
    memory = accelerator.memory.model_copy(update={"capacity": figure})
    node = node.model_copy(update={"accelerator": accelerator.model_copy(update={"memory": memory})})
    return scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update={"node": node})})


def test_skipped_stages_are_refused_in_a_step() -> None:
    with pytest.raises(InputError, match="skipped stages are drawn by `clustersim schedule`"):
        build_job(jobs.scenario(batch=16, pp=4, training={"schedule": "skippipe"}))


@pytest.mark.parametrize(
    ("theirs", "own", "vpp"),
    [
        ("TrainSchedule", "1f1b", 1),  # DeepSpeed
        ("forward_backward_pipelining_with_interleaving", "interleaved-1f1b", 2),  # Megatron-LM
        ("Interleaved1F1B", "interleaved-1f1b", 2),  # torchtitan
        ("ScheduleInterleavedZeroBubble", "zb-h1", 1),  # PyTorch
        ("zbvzerobubble", "zb-v", 2),
    ],
)
def test_names_of_other_programs(theirs: str, own: str, vpp: int) -> None:
    made, same = (
        arranged_job(jobs.scenario(batch=16, pp=4, vpp=vpp, training={"schedule": name})).schedule
        for name in (theirs, own)
    )
    assert made.actions() == same.actions()


def test_a_name_that_nobody_has_is_misspelt() -> None:
    with pytest.raises(InputError, match="unknown pipeline schedule `TrainSchedul`"):
        build_job(jobs.scenario(pp=4, training={"schedule": "TrainSchedul"}))


def test_steps_without_a_flush_are_refused_in_a_step() -> None:
    with pytest.raises(InputError, match="steps without a flush are drawn by `clustersim schedule`"):
        build_job(jobs.scenario(batch=16, pp=4, training={"schedule": "pipedream-2bw"}))
