"""A step of a model with latent attention, and the FLOP of windows and of chosen tokens."""

from typing import Any

import pytest

from simulator.cost.work import Stream
from simulator.run.simulate import simulate
from simulator.specs.model import Model
from simulator.training.build import build_job
from simulator.training.flops import attention_flops, causal_flops, model_flops
from simulator.training.memory import layer_activations
from simulator.training.operators import Collective, Kernel, collectives, layer_backward, layer_forward
from tests import jobs

LATENT: dict[str, Any] = {
    "hidden": 1024,
    "heads": 16,
    "q_lora_rank": 256,
    "kv_lora_rank": 128,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "position": "rotary",
    "norm": "rmsnorm",
    "biases": False,
}


def latent(**more: Any) -> Model:
    return Model.model_validate(
        {"name": "latent", "layers": 8, "vocabulary": 51200, "max_sequence": 1024} | LATENT | more
    )


def job(shape: Model, **more: Any) -> Any:
    software = jobs.stack("megatron-core", dropout=False) if "dropout" not in more else jobs.stack("megatron-core")
    return build_job(jobs.scenario(shape=shape, software=software, **more))


def test_flops_are_those_of_expanded_heads() -> None:
    """4 S^2 / 2 H (96 + 64) of attention; matrices as in the theory of latent attention."""
    found = job(latent(), dp=8)
    kind = found.model.kinds[0]
    assert attention_flops(found, kind) == 2 * 1024**2 * 16 * (96 + 64)


def test_keys_of_two_parts_are_written_together() -> None:
    """Of a row's 16 heads 64 + 64 elements and one key with positions of 32 are read, 96 + 64 of each head written; the
    other way round backward."""
    found = job(latent(), dp=8)
    apart, whole = 1024 * (16 * 128 + 32) * 2, 1024 * 16 * 160 * 2
    for one, (read, written) in ((layer_forward, (apart, whole)), (layer_backward, (whole, apart))):
        steps = [step for step in one(found, found.kinds[0]) if isinstance(step, Kernel)]
        assert [step.work for step in steps if step.name == "keys of two parts"] == [Stream(read, written)]


def test_windows_count_the_pairs_within_them() -> None:
    full, slid, cut = (
        job(jobs.model(**more), dp=8) for more in ({}, {"window": 128}, {"window": 128, "chunked_window": True})
    )
    pairs = (1024**2 / 2, 1024 * 128 - 128 * 127 / 2, 8 * 128 * 129 / 2)
    for found, count in zip((full, slid, cut), pairs, strict=True):
        assert attention_flops(found, found.model.kinds[0]) == 2 * count * 4 * 16 * 64
    assert model_flops(cut) < model_flops(slid) < model_flops(full)
    assert causal_flops(full) < model_flops(full)


def test_chosen_tokens_are_attended_over_their_latents_and_all_are_scored() -> None:
    sizes = {"index_heads": 4, "index_head_dim": 32, "index_top_k": 256}
    found = job(latent(**sizes), dp=8)
    kernels = [step for step in layer_forward(found, found.model.kinds[0]) if isinstance(step, Kernel)]
    scores, core = (next(k.work for k in kernels if k.name == name) for name in ("index scores", "attention"))
    assert (scores.heads, scores.kv_heads, scores.head_dim) == (4, 1, 32)
    assert (core.window, core.kv_heads, core.head_dim, core.value_dim) == (256, 1, 160, 128)
    square, pairs = 1024**2, 1024 * 256 - 256 * 255 / 2
    expected = 2 * square * 4 * 32 + 4 * pairs * 16 * (160 + 128)
    assert attention_flops(found, found.model.kinds[0]) == expected
    short = job(latent(**sizes | {"index_top_k": 1024}), dp=8)
    names = [step.name for step in layer_forward(short, short.model.kinds[0]) if isinstance(step, Kernel)]
    assert "index scores" not in names


def test_the_backward_pass_returns_what_the_forward_pass_moves() -> None:
    """Latents are gathered over rows that sequence parallelism cuts, and their gradients scattered."""
    found = job(latent(), tp=4, dp=2, sequence_parallel=True)
    kind = found.model.kinds[0]
    for steps, operation in (
        (layer_forward(found, kind), "all_gather"),
        (layer_backward(found, kind), "reduce_scatter"),
    ):
        sizes = [c.size for c in collectives(steps) if isinstance(c, Collective) and c.operation == operation]
        assert {256 * 1024 * 2.0, 160 * 1024 * 2.0} <= set(sizes)


def test_tensor_parallelism_cuts_what_heads_keep_and_no_latent() -> None:
    layouts = ((1, False), (4, False), (4, True))
    jobs_of = [job(latent(), tp=tp, dp=8 // tp, sequence_parallel=scattered) for tp, scattered in layouts]
    whole, four, scattered = (layer_activations(each, each.model.kinds[0]) for each in jobs_of)
    assert scattered == whole / 4 < four < whole / 2


@pytest.mark.parametrize("parallel", [{"dp": 8}, {"tp": 2, "pp": 2, "dp": 2}, {"tp": 8, "sequence_parallel": True}])
def test_a_step_runs(parallel: dict[str, Any]) -> None:
    result = simulate(jobs.scenario(shape=latent(), software=jobs.stack("megatron-core"), **parallel))
    assert result.metrics["step_time_s"] > 0
