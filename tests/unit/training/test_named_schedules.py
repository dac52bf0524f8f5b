"""Schedules by name in a training step."""

from contextlib import suppress
from math import inf
from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.program.actions import Kind
from simulator.program.timing import Costs, time_schedule
from simulator.run.simulate import simulate
from simulator.specs.scenario import Scenario
from simulator.training.arranged import arranged_job, priced, with_kept
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


def seen(asked: Scenario) -> Costs:
    """What makers of a scenario's schedule see."""
    job = build_job(asked)
    return with_kept(priced(asked, job), job)


def test_makers_see_what_the_chunks_last_and_keep() -> None:
    """A stage of one layer and the head of a large vocabulary; gradients of weights lack attention."""
    costs = seen(jobs.scenario(batch=16, pp=4, training={"stages": (3, 2, 2, 1), "recompute": "none"}))
    assert costs.forward[0] == pytest.approx(1.5 * costs.forward[1], rel=0.02)  # and the embedding
    assert np.all(costs.input_gradient > costs.weight_gradient)
    assert np.all(costs.weight_gradient < costs.forward)
    assert costs.kept[0] > costs.kept[1] == costs.kept[2]
    again = seen(jobs.scenario(batch=16, pp=4, training={"recompute": "full"}))
    assert np.all(again.input_gradient[:3] > 2.0 * again.forward[:3])  # the head is not computed again


@pytest.mark.parametrize("vpp", [1, 2])
@pytest.mark.parametrize("blocking", [False, True])
def test_steps_differ_by_what_makers_see(vpp: int, blocking: bool) -> None:
    """Beside the passes and sends of two orders with the same homes of chunks, their steps are the same."""
    names = ("1f1b", "zb-h1", "zb-h2") if vpp == 1 else ("interleaved-1f1b", "zb-h1")
    training = {"recompute": "none", "overlap_pipeline": not blocking}
    found = []
    for name in names:
        asked = jobs.scenario(batch=16, pp=4, vpp=vpp, training=training | {"schedule": name})
        took = time_schedule(arranged_job(asked).schedule, seen(asked)).makespan * 1e-12
        found.append(simulate(asked).metrics["step_time_s"] - took)
    assert found == pytest.approx([found[0]] * len(found), rel=0.01)
    assert 0.0 < found[0] < 0.1 * step(names[0], vpp)


def test_launches_bound_what_makers_see() -> None:
    """A pass of few tokens lasts as long as its launches whatever its FLOPs are; a cut backward pass lasts longer."""
    slow = jobs.stack(layer_overhead=jobs.stack().layer_overhead.model_copy(update={"value": 1e-3}))
    training = {"recompute": "none", "overlap_pipeline": True}
    costs = seen(jobs.scenario(batch=16, pp=4, sequence=128, software=slow, training=training))
    assert costs.forward[1] == costs.input_gradient[1] == 2 * 10**9  # two layers of 1 ms
    assert costs.weight_gradient[1] < 10**9
    assert np.all(costs.whole_backward < costs.input_gradient + costs.weight_gradient)


@pytest.mark.parametrize(
    ("vpp", "vocabulary", "recompute"), [(1, 51200, "none"), (2, 51200, "full"), (1, 256_000, "none")]
)
def test_auto_is_not_slower_than_the_others(vpp: int, vocabulary: int, recompute: str) -> None:
    """Also where a large head bounds the last stage: by FLOPs alone its order took 9 % longer than `zb-h1`."""
    others = ["zb-h1", "zb-h2", "1f1b"] if vpp == 1 else ["zb-v", "interleaved-1f1b"]
    shape, training = jobs.model(vocabulary=vocabulary), {"recompute": recompute}
    took = {
        name: simulate(
            jobs.scenario(batch=16, pp=4, vpp=vpp, shape=shape, training=training | {"schedule": name})
        ).metrics["step_time_s"]
        for name in ("auto", *others)
    }
    assert took["auto"] <= 1.001 * min(took.values())


ONE_COPY = ["gpipe", "1f1b", "zb-h1", "zb-h2", "interleaved-1f1b", *TWO_CHUNKS]


def _across(name: str, ranks: tuple[int, int], microbatches: int, zero: int, capacity: float = inf) -> Scenario:
    """Eight replicas, stages on nodes of their own: what is sharded travels beside and behind passes."""
    pp, vpp = ranks
    made = jobs.scenario(
        batch=8 * microbatches,
        nodes=pp,
        pp=pp,
        vpp=vpp,
        zero=zero,
        shape=jobs.model(layers=12 if pp == 3 else 8),
        software=jobs.stack("fsdp" if zero == 2 else "megatron-lm-2021"),
        training={"schedule": name, "recompute": "none"},
    )
    return made if capacity == inf else _with_memory(made, capacity)


@pytest.mark.parametrize("zero", [0, 1, 2, 3])
@pytest.mark.parametrize(
    ("ranks", "microbatches"),
    [
        ((2, 1), 8),
        ((2, 2), 4),
        ((4, 1), 8),
        ((4, 2), 8),
        pytest.param((3, 2), 7, marks=pytest.mark.slow),
        pytest.param((4, 1), 16, marks=pytest.mark.slow),
        pytest.param((4, 2), 16, marks=pytest.mark.slow),
        pytest.param((2, 4), 8, marks=pytest.mark.slow),
    ],
)
def test_no_name_that_fits_is_shorter_than_auto(ranks: tuple[int, int], microbatches: int, zero: int) -> None:
    """With all that gathers and reductions expose, and sums of a table that two stages hold: makers' makespans alone
    put it up to 4 % behind. Within three capacities, the least that any name needs among them."""
    took: dict[str, tuple[float, float]] = {}
    for name in ONE_COPY:
        with suppress(InputError):
            found = simulate(_across(name, ranks, microbatches, zero)).metrics
            took[name] = found["step_time_s"], found["peak_memory_bytes"]
    needs = sorted(need for _, need in took.values())
    assert len(took) >= 2
    for capacity in (inf, needs[0] * 1.0001, needs[len(needs) // 2] * 1.0001):
        found = simulate(_across("auto", ranks, microbatches, zero, capacity)).metrics
        assert found["peak_memory_bytes"] <= capacity
        assert found["step_time_s"] <= 1.001 * min(lasts for lasts, need in took.values() if need <= capacity)


def test_auto_leaves_backward_passes_whole_where_they_may_not_be_cut() -> None:
    job = arranged_job(jobs.scenario(batch=16, pp=4, zero=3, training={"schedule": "auto"}))
    assert not len(job.schedule.only([Kind.I, Kind.W]))


@pytest.mark.parametrize(("pp", "offload"), [(1, "parameters"), (2, "parameters"), (2, "activations")])
def test_auto_leaves_backward_passes_whole_beside_what_travels_to_the_host(pp: int, offload: str) -> None:
    moved: dict[str, Any] = {"offload": {offload: {"to": "host"}}}
    named = {
        name: jobs.scenario(devices=2, batch=32, pp=pp, training=moved | {"schedule": name})
        for name in ("auto", "1f1b")
    }
    assert not len(arranged_job(named["auto"]).schedule.only([Kind.I, Kind.W]))
    took = {name: simulate(scenario).metrics["step_time_s"] for name, scenario in named.items()}
    assert took["auto"] <= 1.001 * took["1f1b"]


def test_what_does_not_fit_under_auto_fits_under_nothing() -> None:
    """Then it keeps one microbatch of each chunk, so that what the run says it needs is the least there is."""
    long = jobs.scenario(batch=64, pp=4, vpp=2, sequence=65536, training={"schedule": "auto", "recompute": "none"})
    job = arranged_job(long)
    sizes = with_kept(priced(long, job), job).kept
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
