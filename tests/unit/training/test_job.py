"""What a scenario leaves open, and what does not fit."""

import pytest

from simulator.errors import InputError
from simulator.run.simulate import simulate
from simulator.specs.base import Figure
from simulator.training import flops, memory
from simulator.training.build import build_job
from tests import jobs


def test_defaults_of_the_stack_are_listed() -> None:
    job = build_job(jobs.scenario())
    assert job.recompute == "full"
    assert any(text.startswith("recompute is not given: full") for text in job.assumptions)


def test_what_is_given_is_no_assumption() -> None:
    job = build_job(jobs.scenario(training={"recompute": "none", "attention": "fused", "precision": "bf16"}, zero=1))
    assert not any("recompute" in text or "zero" in text for text in job.assumptions)


def test_schedule_and_overlap_that_nobody_chose_are_listed() -> None:
    texts = build_job(jobs.scenario()).assumptions
    assert "schedule is not given: 1f1b" in texts
    assert any(text.startswith("communication is not given: overlap_gradients off") for text in texts)
    chosen = {"schedule": "gpipe", "overlap_gradients": True, "overlap_parameters": True, "overlap_pipeline": True}
    texts = build_job(jobs.scenario(training=chosen | {"scatter_gather": False})).assumptions
    assert not any("schedule" in text or "communication" in text for text in texts)


@pytest.mark.parametrize(
    ("changes", "path", "words"),
    [
        ({"batch": 12, "micro": 4}, "training.global_batch", "no multiple of dp 8 x micro_batch 4"),
        ({"tp": 32, "nodes": 4}, "training.parallel.tp", "does not divide the 16 attention heads"),
        ({"zero": 1, "shard_size": 3}, "training.parallel.shard_size", "does not divide dp 8"),
    ],
)
def test_sizes_that_do_not_fit(changes: dict[str, int], path: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        build_job(jobs.scenario(**changes))  # type: ignore[arg-type]
    assert caught.value.problems[0].path == path


@pytest.mark.parametrize("key", ["offload_layers", "recompute_layers"])
@pytest.mark.parametrize(("layout", "most"), [({}, 8), ({"pp": 2}, 4), ({"pp": 2, "vpp": 2}, 2)])
def test_no_stage_has_more_layers_than_its_share_of_the_model(key: str, layout: dict[str, int], most: int) -> None:
    """A count between the layers of a stage and those of the model would mean all without a word."""
    assert build_job(jobs.scenario(training={key: most}, **layout))
    what = "chunk" if "vpp" in layout else "stage"
    said = f"{most + 1} layers of each {what}, but the largest has {most} .*write {most} for all, or less"
    with pytest.raises(InputError, match=said) as caught:
        build_job(jobs.scenario(training={key: most + 1}, **layout))
    assert [problem.path for problem in caught.value.problems] == [f"training.{key}"]


def test_layers_count_up_to_those_of_the_largest_stage() -> None:
    training = {"stages": (1, 5, 1, 1), "offload_layers": 5}
    assert build_job(jobs.scenario(pp=4, training=training)).offloaded == 1


def test_sequences_longer_than_the_model_is_made_for_are_a_warning() -> None:
    shape = jobs.model().model_copy(update={"max_sequence": 1024})
    fitting, longer = (build_job(jobs.scenario(shape=shape, sequence=size)) for size in (1024, 2048))
    assert not fitting.warnings
    assert [text.partition(" that ")[0] for text in longer.warnings] == [
        "sequence_length 2,048 is more than the 1,024 tokens"
    ]


def test_what_has_no_effect_is_a_warning() -> None:
    job = build_job(jobs.scenario(training={"recompute": "none", "recompute_layers": 2}, sequence_parallel=True))
    assert len(job.warnings) == 2


@pytest.mark.parametrize(("recompute", "factor"), [("none", 72), ("full", 96)])
def test_flops_are_megatrons_formula(recompute: str, factor: int) -> None:
    """72 B s l h^2 (1 + s/6h + V/12lh); with recomputation 96 ... V/16lh (arXiv:2104.04473, equation 3)."""
    h, layers, s, v, batch = 1024, 8, 1024, 51200, 16
    job = build_job(jobs.scenario(training={"recompute": recompute}, batch=batch))
    head = 12 if factor == 72 else 16
    assert flops.hardware_flops(job) == pytest.approx(
        factor * batch * s * layers * h**2 * (1 + s / (6 * h) + v / (head * layers * h))
    )


def test_launches_that_block_add_up_and_overlap_nothing() -> None:
    overhead = Figure[float](value=1e-3, status="estimate", source="test")
    software = jobs.stack("megatron-lm-2022", layer_overhead=overhead)
    free = jobs.scenario(software=software, tp=4, dp=2)
    blocked = jobs.scenario(software=software, tp=4, dp=2, training={"blocking_launches": True})
    job = build_job(blocked)
    assert not (job.overlap_gradients or job.overlap_parameters or job.overlap_pipeline)
    more = simulate(blocked).metrics["step_time_s"] - simulate(free).metrics["step_time_s"]
    passes = job.microbatches * job.model.layers * 2
    assert more >= 0
    assert simulate(blocked).metrics["step_time_s"] > passes * 1e-3


def test_blocking_launches_are_refused_with_zero_3() -> None:
    with pytest.raises(InputError, match="waits for every kernel"):
        build_job(jobs.scenario(zero=3, training={"blocking_launches": True}))


def test_a_share_of_the_blocks_is_recomputed() -> None:
    """Between nothing and everything in kept memory, in time and in FLOPs; the same as as many layers."""

    def figures(**training: object) -> tuple[float, float, float]:
        scenario = jobs.scenario(batch=16, training={"recompute": "full", **training})
        metrics = simulate(scenario).metrics
        kept = memory.peak_activations(build_job(scenario), 0)
        return metrics["step_time_s"], metrics["hfu"] * metrics["step_time_s"], -kept

    some, few, whole = figures(recompute_share=0.4), figures(recompute_layers=3), figures()
    assert some == few
    assert figures(recompute_share=1.0) == whole
    nothing = figures(recompute="none")
    assert all(a < b < c for a, b, c in zip(nothing, some, whole, strict=True))


def test_share_and_number_of_recomputed_layers_exclude_each_other() -> None:
    with pytest.raises(InputError, match="recompute_share"):
        build_job(jobs.scenario(training={"recompute": "full", "recompute_share": 0.5, "recompute_layers": 2}))


def test_a_share_without_full_recomputation_is_a_warning() -> None:
    job = build_job(jobs.scenario(training={"recompute": "none", "recompute_share": 0.5}))
    assert any("recompute_share" in text for text in job.warnings)
