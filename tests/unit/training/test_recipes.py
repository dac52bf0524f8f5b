"""Recipes of 8 and 4 bits: bytes of their elements, what casts move, what travels and what is kept."""

from typing import Any

import pytest

from simulator.cost.work import Gemm, Stream
from simulator.errors import InputError
from simulator.training import memory, operators
from simulator.training.build import build_job
from simulator.training.job import Job
from simulator.training.operators import Collective, Kernel
from simulator.training.recipes import RECIPES
from simulator.training.tiers import gathered
from tests import jobs


def job(precision: str, on: str = "dgx-b200", stack: str = "megatron-core", tp: int = 1, **training: Any) -> Job:
    software = jobs.stack(stack)
    return build_job(jobs.scenario(on=on, software=software, training={"precision": precision, **training}, tp=tp))


def cast(found: Job, *kinds: str) -> float:
    """Bytes of casts of a layer, over tokens and hidden width."""
    steps = [*operators.layer_forward(found, jobs.LAYER), *operators.layer_backward(found, jobs.LAYER)]
    works = [s.work for s in steps if isinstance(s, Kernel) and s.name.startswith(kinds or ("cast", "turn"))]
    return sum(w.bytes for w in works if isinstance(w, Stream)) / (found.tokens * found.model.hidden)


@pytest.mark.parametrize(
    ("name", "element", "weight"),
    [
        ("fp8-delayed", 1.0, 1.0),
        ("fp8-current", 1.0, 1.0),
        ("fp8-rowwise", 1.0, 1.0),
        ("fp8-block", 1.03125, 1 + 4 / 16384),
        ("mxfp8", 1.03125, 1.03125),
        ("nvfp4", 0.5625, 0.5625),
        ("int8", 1.0, 1.0),
    ],
)
def test_an_element_takes_its_share_of_the_scales(name: str, element: float, weight: float) -> None:
    """4 bytes for 128 or 128 x 128, 1 byte for 32, 1 byte for 16."""
    recipe = RECIPES.get(name)
    assert (recipe.element, recipe.weight) == (element, weight)


def test_fp8_without_a_word_is_delayed_scaling() -> None:
    assert RECIPES.get("fp8") is RECIPES.get("fp8-delayed")


@pytest.mark.parametrize(
    ("precision", "on", "plain", "normed"),
    [
        ("fp8", "generic-h100", 2 + 2, 1),
        ("fp8", "dgx-b200", 2 + 1, 0),
        ("fp8-current", "generic-h100", 4 + 2, 2 + 2),
        ("fp8-current", "dgx-b200", 4 + 1, 2 + 1),
        ("fp8-block", "generic-h100", 2 + 2.0625, 2 + 2.0625),
        ("mxfp8", "dgx-b200", 2 + 2.0625, 2 + 2.0625),
        ("nvfp4", "dgx-b200", 4 + 1.125, 2 + 1.125),
    ],
)
def test_casts_read_16_bits_and_write_the_orders_that_products_take(
    precision: str, on: str, plain: float, normed: float
) -> None:
    """Of a layer: 1 + 4 h of rows out of attention and activation, 2 h out of norms, 9 h of gradients."""
    assert cast(job(precision, on)) == pytest.approx(plain * (5 + 9) + normed * 2)


def test_products_of_the_layers_alone_are_narrow() -> None:
    found = job("nvfp4")
    layer = [*operators.layer_forward(found, jobs.LAYER), *operators.layer_backward(found, jobs.LAYER)]
    assert {s.work.dtype for s in layer if isinstance(s, Kernel) and isinstance(s.work, Gemm)} == {"fp4"}
    head = [*operators.head_forward(found), *operators.head_backward(found)]
    assert {s.work.dtype for s in head if isinstance(s, Kernel) and isinstance(s.work, Gemm)} == {"bf16"}


@pytest.mark.parametrize(
    ("precision", "on", "sizes"),
    [
        ("bf16", "generic-h100", (2, 2, 2, 2, 2, 2)),
        ("fp8", "generic-h100", (1, 1, 1, 1, 1, 1)),
        ("mxfp8", "dgx-b200", (1.03125, 1.03125, 2.0625, 1.03125, 2.0625, 1.03125)),
        ("nvfp4", "dgx-b200", (0.5625, 0.5625, 1.125, 0.5625, 1.125, 0.5625)),
    ],
)
def test_gathered_rows_travel_in_the_format(precision: str, on: str, sizes: tuple[float, ...]) -> None:
    """Forward attention and MLP; backward the gradient of the MLP's result in both orders, its input again, and the
    same of attention."""
    found = job(precision, on, tp=4)
    steps = [*operators.layer_forward(found, jobs.LAYER), *operators.layer_backward(found, jobs.LAYER)]
    sent = [c.size for c in operators.collectives(steps) if c.operation == "all_gather"]
    row = found.tokens * found.model.hidden
    assert [size / row for size in sent] == pytest.approx(sizes)
    scattered = {c.size for c in operators.collectives(steps) if c.operation == "reduce_scatter"}
    assert scattered == {2.0 * row, 2.0 * row / 4}  # whole beside gradients of weights, in parts after products


@pytest.mark.parametrize(("precision", "count"), [("fp8", 0), ("fp8-current", 4), ("mxfp8", 0), ("nvfp4", 4)])
def test_ranks_that_gather_a_tensor_agree_on_its_scale(precision: str, count: int) -> None:
    found = job(precision, tp=4)
    steps = [*operators.layer_forward(found, jobs.LAYER), *operators.layer_backward(found, jobs.LAYER)]
    amax = [s for s in steps if isinstance(s, Collective) and s.name.startswith("largest")]
    assert [(s.operation, s.size) for s in amax] == [("all_reduce", 4.0)] * count


def test_each_rank_casts_its_own_rows_of_what_is_gathered() -> None:
    """Hopper, 4 ranks: 2 + 1 bytes of a fourth of the rows, then 1 + 1 to turn all of them; norms write theirs, which
    are turned when they are gathered again."""
    found = job("fp8", "generic-h100", tp=4)
    own = (2 + 2) * (1 + 4 + 3 + 4) / 4
    gathered = 2 * (3 / 4 + 2)
    again = 2 * 2
    assert cast(found) == pytest.approx(own + gathered + again)


@pytest.mark.parametrize(
    ("precision", "on", "size"),
    [
        ("fp8", "generic-h100", 2.0),
        ("fp8", "dgx-b200", 1.0),
        ("mxfp8", "dgx-b200", 2.0625),
        ("nvfp4", "dgx-b200", 1.125),
    ],
)
def test_cast_weights_are_kept_beside_those_in_16_bits(precision: str, on: str, size: float) -> None:
    found, plain = job(precision, on), job("bf16", on)
    matrices = memory.matrices(found, 0)
    assert matrices == 8 * 12 * 1024**2
    static, before = memory.static_memory(found, 0), memory.static_memory(plain, 0)
    assert static["cast parameters"] == pytest.approx(size * matrices)
    assert static["parameters"] == before["parameters"]


def test_quantised_parameters_have_no_copy_in_16_bits_and_are_gathered_in_8() -> None:
    kept, alone = job("fp8", "generic-h100"), job("fp8", "generic-h100", quantized_parameters=True)
    matrices = memory.matrices(alone, 0)
    spared = memory.static_memory(kept, 0)["parameters"] - memory.static_memory(alone, 0)["parameters"]
    assert spared == 2 * matrices
    (whole,), (halved,) = (gathered.gathered_units(j, jobs.LAYER, j.dense) for j in (kept, alone))
    assert whole - halved == pytest.approx(matrices / 8 / 2)


def test_weights_that_are_turned_at_every_use_are_kept_once() -> None:
    """AMD's builds: a byte an element, and both a read and a write of it in each backward pass of a layer."""
    found = job("fp8", "mi300x-cluster", quantized_parameters=True)
    assert memory.static_memory(found, 0)["cast parameters"] == memory.matrices(found, 0)
    turned = [s.work for s in operators.layer_backward(found, jobs.LAYER) if s.name == "turn weights"]  # type: ignore[union-attr]
    assert [work.bytes for work in turned] == [2 * 12 * 1024**2]


def test_mxfp8_keeps_16_bits_beside() -> None:
    assert not job("mxfp8", quantized_parameters=True).quantized_parameters


@pytest.mark.parametrize(
    ("precision", "on"),
    [("nvfp4", "generic-h100"), ("mxfp8", "generic-h100"), ("fp8-block", "generic-a100"), ("int8", "gaudi2-cluster")],
)
def test_a_recipe_beyond_the_device_is_refused(precision: str, on: str) -> None:
    with pytest.raises(InputError, match=f"cannot multiply as `{precision}` asks") as raised:
        job(precision, on)
    assert "bf16" in str(raised.value)


def test_scales_of_rows_and_columns_cast_each_factor_of_each_product() -> None:
    """By hand: 6 + 2 bytes an element of rows that no norm wrote, 4 + 2 of those of norms; weights of 12 h x h are read
    twice and written in each direction, 4 + 1 bytes. Nothing is gathered in 8 bits."""
    found = job("fp8-rowwise", "generic-h100")
    weights = 2 * 12 * found.model.hidden**2 * 5 / (found.tokens * found.model.hidden)
    assert cast(found) == pytest.approx(8 * (5 + 9) + 6 * 2 + weights)
    assert not RECIPES.get("fp8-rowwise").gathered


def test_weights_in_one_order_take_a_byte_less_and_are_turned_in_each_backward_pass() -> None:
    """On a device that multiplies in one order alone; each is read and written once."""
    both, one = job("fp8", "generic-h100"), job("fp8", "generic-h100", turned_weights=True)
    matrices = memory.matrices(both, 0)
    spared = memory.static_memory(both, 0)["cast parameters"] - memory.static_memory(one, 0)["cast parameters"]
    assert spared == matrices
    (turned,) = [s.work for s in operators.layer_backward(one, jobs.LAYER) if getattr(s, "name", "") == "turn weights"]
    assert isinstance(turned, Stream)
    assert turned.bytes == 2 * operators.layer_matrices(one, jobs.LAYER)
    assert not any(getattr(s, "name", "") == "turn weights" for s in operators.layer_backward(both, jobs.LAYER))


@pytest.mark.parametrize(
    ("precision", "on", "why"),
    [
        ("fp8", "dgx-b200", "weights have one order here"),
        ("fp8-block", "generic-h100", "scales of blocks go with an order"),
        ("bf16", "generic-h100", "weights have one order here"),
    ],
)
def test_weights_that_cannot_be_turned_are_told(precision: str, on: str, why: str) -> None:
    found = job(precision, on, turned_weights=True)
    assert not found.turns_weights
    assert any(f"no effect: turned_weights: {why}" in one for one in found.warnings)
