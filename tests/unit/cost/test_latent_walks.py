"""Walks over latents that are cut into as many parts whatever the batch: rounds of blocks, one on each core."""

from dataclasses import replace

import pytest

from simulator.cost import compile_device
from simulator.cost.decode import DecodeCurve, Parts, decode_seconds
from simulator.serving.costs.able import with_kernels_of
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.libraries.walks import LatentWalks
from simulator.specs.serving import ServingStack

WIDTH, VALUES = 576, 512
FLOPS = 2.0 * (WIDTH + VALUES)
"""Of a query head and a cached token."""
MEASURED = {1151: 88, 2175: 94, 4223: 125, 8319: 150, 16_511: 173, 32_895: 190}
"""GB/s of Triton's kernel by tokens of each of 128 sequences, 128 heads, 32 parts, on H800 (FlagOpen/FlagGems pull
request 510); bytes are those of the cache, the queries and the results."""


def walks(stack: str) -> LatentWalks:
    found = load_spec(ServingStack, stack).latent_walks
    assert found is not None
    return found


def curve(parts: int, heads: int = 16, **changes: float) -> DecodeCurve:
    """That of an H100, whose chip an H800 has, with walks of SGLang's weeks."""
    device, of = compile_device(load_spec(Accelerator, "h100-sxm")), walks("sglang-blocks")
    flops = of.rate.value * device.peak("bf16") / device.latent.cores
    return replace(device.latent, parts=Parts(parts, heads, of.start.value, flops), **changes)


def lasts(sequences: int, tokens: int, heads: int, of: DecodeCurve) -> float:
    total = FLOPS * heads
    return decode_seconds(sequences, sequences * tokens, 1, 1.0, 2.0 * WIDTH, total, False, True, of, heads)


@pytest.mark.parametrize("tokens", MEASURED)
def test_the_published_kernel_takes_what_was_measured(tokens: int) -> None:
    moved = 2.0 * 128 * (tokens * WIDTH + 128 * (WIDTH + VALUES))
    measured = moved / (MEASURED[tokens] * 1e9)
    assert lasts(128, tokens, 128, curve(32, launch=0.0)) == pytest.approx(measured, rel=0.13)


def test_time_grows_by_rounds_of_blocks() -> None:
    of = curve(4, launch=0.0, sequence=0.0)
    assert of.parts is not None
    block = of.parts.start + 1000 * 16 * FLOPS / of.parts.flops
    for sequences, rounds in ((1, 1), (33, 1), (34, 2), (66, 2), (67, 3)):  # 132 multiprocessors
        assert lasts(sequences, 4000, 16, of) == pytest.approx(rounds * block)


def test_heads_beyond_those_of_a_block_are_more_blocks_and_fewer_fill_one() -> None:
    of = curve(8, launch=0.0, sequence=0.0)
    assert lasts(1, 4000, 8, of) == pytest.approx(lasts(1, 4000, 16, of))
    assert lasts(16, 4000, 128, of) == pytest.approx(lasts(128, 4000, 16, of))


def test_reading_is_no_faster_than_the_memory() -> None:
    fast = replace(curve(1024, launch=0.0), parts=Parts(1024, 16, 0.0, 1e15))
    assert lasts(64, 32_000, 16, fast) >= 64 * 32_000 * 2.0 * WIDTH / fast.peak


def test_devices_that_are_no_gpus_have_kernels_of_their_own() -> None:
    stack = load_spec(ServingStack, "vllm-v0")
    assert with_kernels_of(stack, "gpu").latent_walks is not None
    assert with_kernels_of(stack, "npu").latent_walks is None


def test_engines_cut_as_their_sources_say() -> None:
    assert [walks(name).parts.value for name in ("vllm-v0", "vllm-v0-blocks-rocm", "sglang-blocks")] == [4, 4, 8]
    assert walks("sglang-blocks-rocm").parts.value == 16
    for name in ("vllm", "sglang", "vllm-v0-blocks"):  # FlashMLA and its successors
        assert load_spec(ServingStack, name).latent_walks is None
