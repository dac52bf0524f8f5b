"""What casts and scales cost beside the products that take them."""

import pytest

from simulator.training.build import build_job
from simulator.training.job import Job
from tests import jobs
from tests.jobs import kernels, moved


def job(name: str = "megatron-core", precision: str = "bf16", on: str = "generic-a100") -> Job:
    shape = jobs.model()
    return build_job(jobs.scenario(shape=shape, software=jobs.stack(name), on=on, training={"precision": precision}))


def test_scales_of_blocks_are_reordered_before_every_product() -> None:
    """A byte for 32 elements of both factors, read and written; three products of each of four matrices."""
    built = job(precision="mxfp8", on="gb200-nvl72")
    forward, backward = kernels(built, "reorder scales"), kernels(built, "reorder scales", backward=True)
    assert (len(forward), len(backward), sum(one.weight_gradient for one in backward)) == (4, 8, 4)
    assert not any(one.launches for one in (*forward, *backward))  # the call of the product does it
    width = (built.model.heads + 2 * built.model.kv_heads) * built.model.head_dim
    factors = built.model.hidden * (built.tokens + width)
    assert moved(forward)[0] == pytest.approx((factors / 32, factors / 32))


def test_one_scale_a_tensor_needs_no_order() -> None:
    assert kernels(job(precision="fp8", on="gb200-nvl72"), "reorder scales") == []


def test_aqt_casts_weights_for_each_product_and_draws_numbers_for_gradients() -> None:
    """Forward 16 bits are read four times for rows and twice for weights; backward fp32 numbers are written and read
    for each of the two orders of gradients."""
    built = job("maxtext", precision="int8", on="tpu-v5p-pod")
    model, rows = built.model, built.tokens
    inner, outer = model.heads * model.head_dim, model.hidden
    (forward,), (backward,) = (moved(kernels(built, "cast attention out", back)) for back in (False, True))
    assert forward == pytest.approx((8 * rows * inner + 4 * inner * outer, 2 * rows * inner + inner * outer))
    drawn = 2 * 4 * rows * outer
    assert backward == pytest.approx(
        (8 * rows * outer + 4 * inner * outer + drawn, 2 * rows * outer + inner * outer + drawn)
    )


@pytest.mark.parametrize("precision", ["fp8", "fp8-current"])
def test_other_recipes_cast_weights_once_a_step(precision: str) -> None:
    built = job(precision=precision, on="generic-h100")
    (read, _), *_ = moved(kernels(built, "cast attention out"))
    assert read == pytest.approx(
        built.tokens * built.model.heads * built.model.head_dim * (4 if "current" in precision else 2)
    )
