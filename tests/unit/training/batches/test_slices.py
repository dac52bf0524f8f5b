"""Steps whose microbatches pass in slices of the sequence."""

from typing import Any

import numpy as np
import pytest

from simulator.cost.work import Attention
from simulator.errors import InputError
from simulator.run.simulate import simulate
from simulator.specs.scenario import Scenario
from simulator.training import memory, operators
from simulator.training.batches.cuts import causal_share
from simulator.training.build import build_job
from simulator.training.step import Kernel
from tests import jobs

LONG = 8192


def scenario(schedule: str = "seq1f1b", slices: int | None = 4, **changes: Any) -> Scenario:
    """Four stages and four microbatches of one long sequence."""
    training = {"schedule": schedule, "recompute": "none", "attention": "fused"} | changes.pop("training", {})
    if slices is not None:
        training["slices"] = slices
    changes = {
        "batch": 8,
        "pp": 4,
        "sequence": LONG,
        "shape": jobs.model(hidden=4096, heads=32, vocabulary=1024),
    } | changes
    return jobs.scenario(training=training, **changes)


def test_slices_do_the_work_of_the_whole() -> None:
    """Pairs of a causal mask and rows of products add up; each slice sees the keys of those before it."""
    job = build_job(scenario())
    whole, parts = (
        [
            kernel.work
            for one in some
            for kernel in operators.layer_forward(one, jobs.LAYER)
            if isinstance(kernel, Kernel)
        ]
        for some in ([job], job.parts)
    )
    seen = [[one for one in works if isinstance(one, Attention)] for works in (whole, parts)]
    assert [one.context for one in seen[1]] == [2048, 4096, 6144, 8192]
    assert sum(one.flops for one in seen[1]) == pytest.approx(seen[0][0].flops)
    assert job.parts[3].tokens * 4 == job.tokens


def test_slices_shorten_the_step_and_keep_less() -> None:
    """Of 1F1B with four microbatches 3/7 are bubble, of equal slices 3/19; rank 1 keeps (p + k - 2) / k in place of
    p - 1. Slices of a small model pay more launches, and later ones more attention."""
    cut, plain = (simulate(scenario(*how)) for how in (("seq1f1b", 4), ("1f1b", None)))
    assert cut.metrics["step_time_s"] < 0.9 * plain.metrics["step_time_s"]
    assert max(one["bubble"] for one in cut.breakdown) < 0.6 * max(one["bubble"] for one in plain.breakdown)
    kept = [one.memory[1].at_peak["activations"] for one in (cut, plain)]
    assert kept[0] / kept[1] == pytest.approx((6 / 4) / 3)
    job = build_job(scenario())
    assert cut.metrics["peak_memory_bytes"] == pytest.approx(memory.peak_memory(job))


def test_later_slices_take_longer() -> None:
    """Passes of a stage in the middle, by slice: attention grows and nothing else does."""
    spans = simulate(scenario()).spans
    forward = (spans.name == spans.names.index("forward")) & (spans.stage == 1)
    order = np.flatnonzero(forward)[np.argsort(spans.microbatch[forward])]
    lasts = (spans.end - spans.start)[order].tolist()
    assert lasts[0] < lasts[1] < lasts[2] < lasts[3]
    assert lasts[:4] == lasts[4:8]
    steps = [lasts[at + 1] - lasts[at] for at in range(3)]
    assert max(steps) == pytest.approx(min(steps), rel=0.2)


def test_gradients_of_keys_wait_for_earlier_slices() -> None:
    """Three quarters of keys and values, 2 h a token and layer."""
    job = build_job(scenario())
    layers = job.chunks[1]
    assert memory.gradients_of_keys(job, 1) == pytest.approx(0.75 * job.tokens * 2 * job.model.hidden * layers * 2)


def test_four_slices_unless_told() -> None:
    assert build_job(scenario(slices=None)).slices == 4
    assert build_job(scenario(slices=8)).parts[7].before == 7 * LONG // 8


def test_balanced_slices_are_shorter_one_after_the_other_and_so_is_the_step() -> None:
    """First slices have more tokens, so that forward passes differ less; every pass, send and activation is its own."""
    even, balanced = (scenario(training={"slice_cut": cut}) for cut in ("even", "balanced"))
    job = build_job(balanced)
    assert sum(job.cuts) == LONG
    assert all(length % 128 == 0 for length in job.cuts)
    assert list(job.cuts) == sorted(job.cuts, reverse=True)
    pairs = [length * (part.before + length / 2) for length, part in zip(job.cuts, job.parts, strict=True)]
    assert pairs == sorted(pairs)
    share, whole = causal_share(job.model, LONG), LONG**2 / 2
    passes = [(1 - share) * own / LONG + share * seen / whole for own, seen in zip(job.cuts, pairs, strict=True)]
    assert passes == pytest.approx([0.25] * 4, abs=0.02)  # cut at 64ths
    found, plain = simulate(balanced), simulate(even)
    assert found.metrics["step_time_s"] < plain.metrics["step_time_s"]
    assert found.metrics["peak_memory_bytes"] == pytest.approx(memory.peak_memory(job))
    assert found.memory[1].at_peak["activations"] == pytest.approx(memory.peak_activations(job, 1))
    kept = memory.kept_by_slice(job)[0, 1]
    assert kept / kept.sum() == pytest.approx([length / LONG for length in job.cuts])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"slices": 3}, "8,192 tokens does not divide into 3 slices"),
        ({"schedule": "1f1b"}, "the schedule cuts no sequences"),
        ({"schedule": "1f1b", "slices": None, "training": {"slice_cut": "balanced"}}, "the schedule cuts no sequences"),
        ({"training": {"attention": "unfused"}}, "slices of sequences with unfused attention"),
        ({"training": {"causal": False}}, "slices of sequences with tokens that see those after them"),
        ({"zero": 2}, "slices of sequences with ZeRO-2"),
        ({"cp": 2, "batch": 4}, "slices of sequences with cp 2"),
    ],
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_job(scenario(**changes))
