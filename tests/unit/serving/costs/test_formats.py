"""Number formats of a replica, with nothing left open."""

import pytest

from simulator.cost import compile_device
from simulator.errors import InputError
from simulator.serving.costs.formats import resolve_formats
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.serving import NumberFormats


def device(name: str):
    return compile_device(load_spec(Accelerator, name))


@pytest.mark.parametrize(
    ("name", "sums", "compute"),
    [
        ("rtx-4090", "fp32", "fp16"),
        ("rtx-4090", "fp16", "fp16_acc16"),
        ("h100-sxm", "fp16", "fp16"),
    ],
)
def test_sums_in_16_bits_are_taken_where_stack_and_device_have_them(name: str, sums: str, compute: str) -> None:
    formats, _ = resolve_formats(NumberFormats(weights="fp16"), device(name), sums)
    assert (formats.compute, formats.plain_compute) == (compute, compute)


@pytest.mark.parametrize("weights", ["fp16", "int4"])
def test_activations_that_are_given_keep_their_sums_in_16_bits(weights: str) -> None:
    given = NumberFormats(weights=weights, activations="fp16")
    formats, notes = resolve_formats(given, device("rtx-4090"), "fp16")
    assert (formats.compute, formats.factor_size, notes) == ("fp16_acc16", 2.0, ())


def test_sums_in_16_bits_double_the_rate_of_consumer_cards() -> None:
    peaks = device("rtx-4090").peaks
    assert peaks["fp16_acc16"] == pytest.approx(2 * peaks["fp16"], rel=1e-3)


def test_sums_in_16_bits_leave_bf16_alone() -> None:
    formats, _ = resolve_formats(NumberFormats(weights="bf16"), device("rtx-4090"), "fp16")
    assert formats.compute == "bf16"


def test_a_format_narrower_than_the_device_has_is_computed_in_a_wider_one() -> None:
    formats, notes = resolve_formats(NumberFormats(weights="fp8"), device("a100-sxm-80gb"))
    assert (formats.compute, formats.weight_size, formats.factor_size) == ("bf16", 1.0, 2.0)
    assert formats.dequantised and not formats.cast
    assert notes == ("activations' format is not given: bf16, with weights in fp8 on NVIDIA A100 SXM4 80GB",)


@pytest.mark.parametrize(
    ("name", "activations", "kernels", "bytes_each"),
    [("h100-sxm", None, "w4a16", 0.53125), ("b200", "fp8", "w4a8", 0.53125), ("b200", "fp4", "fp4", 0.53125)],
)
def test_experts_may_have_formats_of_their_own(
    name: str, activations: str | None, kernels: str, bytes_each: float
) -> None:
    given = NumberFormats(weights="bf16", experts="fp4", expert_activations=activations or "bf16")
    formats, _ = resolve_formats(given, device(name))
    assert (formats.compute, formats.weight_size, formats.mixture) == ("bf16", 2.0, "bf16")
    own = formats.of_experts
    assert (own.mixture, own.weight_size) == (kernels, bytes_each)


def test_formats_of_experts_that_a_device_lacks_are_refused() -> None:
    with pytest.raises(InputError, match="expert_activations"):
        resolve_formats(NumberFormats(experts="fp4", expert_activations="ternary"), device("h100-sxm"))


@pytest.mark.parametrize(
    ("given", "path"),
    [
        (NumberFormats(weights="fp8", activations="fp8"), "serving.precision.activations"),
        (NumberFormats(experts="fp4", expert_activations="fp4"), "serving.precision.expert_activations"),
    ],
)
def test_what_a_device_multiplies_nothing_in_is_refused_with_what_to_leave_out(given: NumberFormats, path: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve_formats(given, device("a100-sxm-80gb"))
    (problem,) = caught.value.problems
    assert problem.path == path
    assert "multiplies nothing in fp" in problem.message and "leave `activations` out" in problem.hint


def test_scales_of_blocks_are_those_of_fp8_where_the_device_multiplies_with_them() -> None:
    given = NumberFormats(weights="fp8", weight_blocks=True)
    found, notes = resolve_formats(given, device("h200-sxm"))
    assert found.blocks and found.compute == "fp8" and not any("blocks" in note for note in notes)
    found, notes = resolve_formats(given, device("b200"))
    assert not found.blocks and any("scales of blocks are priced as others" in note for note in notes)
    found, _ = resolve_formats(given, device("a100-sxm-80gb"))
    assert not found.blocks and found.compute == "bf16"
    with pytest.raises(InputError, match="weights in int4 have no scales of blocks"):
        resolve_formats(NumberFormats(weights="int4", weight_blocks=True), device("h200-sxm"))
