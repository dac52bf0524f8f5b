"""Attention of prompts and of shared prefixes on a device of round numbers, worked out by hand.

Four cores with blocks of 64 rows: 1 us a block and 1 ns a key; memory of 1 TB/s, queries at 0.1 TB/s; three layers with
two heads of 128 over one of keys, so that a row moves 1024 bytes and a token 512.
"""

from dataclasses import replace
from typing import Any

import pytest

from simulator.cost import compile_device
from simulator.cost.attention import AttentionCurve
from simulator.serving.costs.attention import FAR, Attention, Segments, beyond
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.formats import Formats
from simulator.serving.costs.in_turns import UNFUSED
from simulator.serving.costs.operators import Shard
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.model import Model
from tests.unit.serving.costs.test_iteration import stack

BF16 = Formats("bf16", 2.0, "bf16", 2.0, "bf16", 2.0, "bf16", 2.0, "bf16", whole=False)
RATES = ((128, 4 * 64 * 128 / 1e-9),)
US = 3 * 1_000_000
"""Ticks of the three layers for a microsecond of one."""


def attention(
    cores: int = 4, cuts_all: bool = False, kernel: str = "paged", launch: float = 0.0, **shape: Any
) -> Attention:
    model = Model.model_validate(
        {
            "name": "m",
            "layers": 3,
            "hidden": 256,
            "heads": 2,
            "kv_heads": 1,
            "head_dim": 128,
            "vocabulary": 100,
            **shape,
        }
    )
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    curve = AttentionCurve(1e15, 1e12, cores, 64, RATES, RATES, launch, 1e-6, 0.0, 0.5)
    own: dict[str, Any] = {"attention": {kernel: curve}, "best_attention": kernel}
    device = replace(device, decode=replace(device.decode, query=1e11, cuts_all=cuts_all), **own)
    return Attention(Shard(model, 1, BF16, True), Depth(3, 0, 0), device, stack(attention_kernel=kernel))


def roofs(compute_us: float, memory_us: float) -> float:
    """The smooth maximum."""
    return (compute_us**4 + memory_us**4) ** 0.25


def test_a_piece_of_a_prompt_after_cached_tokens() -> None:
    """100 rows after 28 tokens: blocks that walk over 92 and 128 keys, on each of two heads."""
    compute = 2 * (2 * 1.0 + 0.220) / 4 + 0.5 * 1.128
    memory = 100 * 1.024e-3 + 128 * 0.512e-3
    assert attention().prompt(100, 28) == pytest.approx(US * (roofs(compute, memory) + 100 * 10.24e-3), abs=1)
    assert attention().prompt(0, 28) == 0
    assert attention().prompts([(100, 28)]) == attention().prompt(100, 28)


def test_a_single_block_lasts_as_long_as_its_walk() -> None:
    """Eight cores share two blocks: work / 8 and half a walk is less than one."""
    memory = 10 * 1.024e-3 + 10 * 0.512e-3
    expected = US * (roofs(1.010, memory) + 10 * 10.24e-3)
    assert attention(cores=8).prompt(10, 0) == pytest.approx(expected, abs=1)
    assert attention(cores=8).prompts([(10, 0)]) == attention(cores=8).prompt(10, 0)


def test_idle_cores_take_parts_of_a_walk() -> None:
    """Of 16 cores four for each of the 2 x 2 blocks."""
    compute = 2 * 2.220 / 16 + 0.5 * 1.128 / 4
    memory = 100 * 1.024e-3 + 128 * 0.512e-3
    cut = attention(cores=16, cuts_all=True)
    assert cut.prompt(100, 28) == pytest.approx(US * (roofs(compute, memory) + 1.024), abs=1)
    assert cut.prompts([(100, 28)]) == cut.prompt(100, 28)


def test_scores_in_memory() -> None:
    """16 bytes of each of 100 x 128 pairs of both heads: 32 bits written, through the softmax, and read."""
    compute = 2 * 2.220 / 4 + 0.5 * 1.128
    memory = 100 * 1.024e-3 + 128 * 0.512e-3 + 2 * 16 * 100 * 128 * 1e-6
    slow = attention(kernel=UNFUSED)
    assert slow.prompt(100, 28) == pytest.approx(US * (roofs(compute, memory) + 1.024), abs=1)
    assert slow.prompts([(100, 28)]) == slow.prompt(100, 28)


def test_pieces_of_several_prompts_in_one_kernel() -> None:
    """The work and the bytes of both, and the longest walk of them."""
    compute = 2 * (2.220 + 1.010) / 4 + 0.5 * 1.128
    memory = 110 * 1.024e-3 + 138 * 0.512e-3
    found = attention().prompts([(100, 28), (10, 0), (0, 7)])
    assert found == pytest.approx(US * (roofs(compute, memory) + 110 * 10.24e-3), abs=1)
    assert attention().prompts([]) == attention().prompts([(0, 7)]) == 0


def test_a_prefix_that_65_sequences_read_together() -> None:
    """130 rows are three blocks; of 1, 2, 3, 4 parts each, four cores need 1, 2/2, 3/3 and 3/4 of a walk."""
    base, slope = attention(launch=2e-6).shared(65)
    assert base == pytest.approx(US * (2.0 + 3 * 1.0 / 4 + 65 * 10.24e-3), abs=1)
    assert slope == pytest.approx(US * roofs(0.75e-3, 0.512e-3), abs=1)


def test_the_launch_is_not_part_of_decoding() -> None:
    for (far, base, slope), (near, less, same) in zip(
        attention().decode(100), attention(launch=1e-6).decode(100), strict=True
    ):
        assert (far, slope) == (near, same)
        assert base - less == US
    assert attention().decode(0) == ((1 << 62, 0, 0),)


def reading(lines: Segments, context: int) -> int:
    """Ticks of decodes at so many cached tokens."""
    return next(base + slope * context for limit, base, slope in lines if context <= limit)


@pytest.mark.parametrize("window", [1, 64, 1000, 100_000])
@pytest.mark.parametrize("windowed", [1, 2, 3])
def test_layers_with_a_window_read_no_more_than_it(window: int, windowed: int) -> None:
    """Of 8 sequences: as without windows up to 8 of them, then only the other layers read more."""
    plain, bounded = attention().decode(8), attention(window=window, windowed_layers=windowed).decode(8)
    full = 8 * window
    for context in (0, 8, full // 2, full, full + 1, 3 * full, 1_000_000, 10_000_000):
        share = windowed / 3
        expected = (1 - share) * reading(plain, context) + share * reading(plain, min(context, full))
        assert reading(bounded, context) == pytest.approx(expected, rel=3e-3, abs=2)  # slopes are whole ticks
    limits = [limit for limit, *_ in bounded]
    assert limits == sorted(set(limits)) and limits[-1] == FAR
    values = [reading(bounded, context) for context in range(0, 3 * full + 2, max(1, full // 50))]
    assert values == sorted(values)


@pytest.mark.parametrize("chunk", [1, 63, 64, 100, 1000])
@pytest.mark.parametrize("before", [0, 28, 200, 5000])
@pytest.mark.parametrize("window", [1, 64, 130, 4000])
def test_keys_out_of_a_window_are_those_of_each_block(chunk: int, before: int, window: int) -> None:
    starts = [before + first for first in range(0, chunk, 64)]
    assert beyond(chunk, before, window, 64) == sum(max(0, start - window) for start in starts)


def test_a_window_longer_than_the_context_changes_nothing() -> None:
    wide, plain = attention(window=10_000), attention()
    assert wide.prompt(100, 28) == plain.prompt(100, 28)
    assert wide.prompts([(100, 28), (64, 0)]) == plain.prompts([(100, 28), (64, 0)])


def test_a_window_bounds_the_attention_of_a_prompt() -> None:
    all_layers, one = attention(window=128), attention(window=128, windowed_layers=1)
    long, plain = all_layers.prompt(512, 32_768), attention().prompt(512, 32_768)
    assert long == all_layers.prompt(512, 65_536)
    assert long < plain / 10
    assert one.prompt(512, 32_768) == pytest.approx(plain * 2 / 3 + long / 3, abs=1)
