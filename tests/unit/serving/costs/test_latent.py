"""Attention over latents in serving: cache, decodes, prompts, and the tokens that an indexer chooses."""

from typing import Any

import pytest

from simulator.cost import Decode, compile_device, kernel_cost
from simulator.serving.costs.attention import Attention
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.formats import Formats
from simulator.serving.costs.operators import Shard
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.model import Model
from simulator.units import TICKS_PER_SECOND
from tests.unit.serving.costs.test_iteration import stack

BF16 = Formats("bf16", 2.0, "bf16", 2.0, "bf16", 2.0, "bf16", 2.0, "bf16", whole=False)
V3: dict[str, Any] = {
    "name": "m",
    "layers": 61,
    "hidden": 7168,
    "heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "vocabulary": 129280,
    "position": "rotary",
    "biases": False,
    "norm": "rmsnorm",
}
SPARSE = {"index_heads": 64, "index_head_dim": 128, "index_top_k": 2048}
H200 = compile_device(load_spec(Accelerator, "h200-sxm"))
SECOND = 61 * TICKS_PER_SECOND
"""Ticks of all layers for a second of one."""


def attention(tp: int = 8, **more: Any) -> Attention:
    model = Model.model_validate(V3 | more)
    return Attention(Shard(model, tp, BF16, True), Depth(61, 0, 0), H200, stack(attention_kernel="paged"))


def decodes(of: Attention, sequences: int, each: int) -> float:
    """Ticks of decodes, the launch that is part of rows besides."""
    context = sequences * each
    base, slope = next((base, slope) for end, base, slope in of.decode(sequences) if context <= end)
    return base + slope * context + of.curve.launch * SECOND


@pytest.mark.parametrize("tp", [1, 4, 8])
def test_every_device_keeps_all_of_the_latents(tp: int) -> None:
    shard = attention(tp).shard
    assert shard.kv_bytes == 2 * 576
    assert shard.heads == 128 / tp
    assert shard.context_flops() == 61 * 278_528 / tp


@pytest.mark.parametrize(("tp", "sequences", "each"), [(8, 64, 8192), (1, 64, 8192), (2, 1, 32768), (8, 256, 2048)])
def test_decodes_cost_what_the_kernel_does(tp: int, sequences: int, each: int) -> None:
    work = Decode(sequences, sequences * each, 128 // tp, 1, 576, latent=512)
    expected = kernel_cost(work, H200).seconds * SECOND
    assert decodes(attention(tp), sequences, each) == pytest.approx(expected, rel=1e-4)


def test_chunks_expand_the_latents_before_them() -> None:
    """16 heads of 128 + 128 expanded elements, 512 deep; a first chunk expands its own rows among the products."""
    of = attention()
    curve = of.curve
    rate = curve.cores * dict(curve.forward)[192]
    token = 2 * 512 * 16 * 256 / rate + 2 * 16 * (192 + 128) / curve.bandwidth
    assert of.expand_seconds == pytest.approx(token)
    alike = Attention(of.shard, of.layers, of.device, of.stack)
    object.__setattr__(alike, "expand_seconds", 0.0)
    assert of.prompt(512, 0) == alike.prompt(512, 0)
    assert of.prompt(512, 4096) - alike.prompt(512, 4096) == pytest.approx(4096 * token * SECOND, rel=1e-6)
    both = [(512, 4096), (256, 1024)]
    assert of.prompts(both) - alike.prompts(both) == pytest.approx(5120 * token * SECOND, rel=1e-6)


def test_a_prefix_that_is_shared_is_read_once_over_its_latents() -> None:
    """2 x 16 heads of two sequences fill one block; beyond that, what is read costs what its bytes or products do."""
    of = attention()
    base, token = of.shared(2)
    assert base > 0
    assert of.shared(1000)[1] > 10 * token


def test_decodes_of_long_contexts_read_what_the_indexer_chose() -> None:
    """Beyond 2,048 tokens each more costs its score and nothing else: 132 bytes, or 64 heads of 128 in 8 bits."""
    dense, sparse = attention(), attention(**SPARSE)
    rate = H200.latent.arithmetic * H200.peaks["fp8"] / H200.peaks["bf16"]
    scored = max(132 / H200.latent.bandwidth, 2 * 64 * 128 / rate)
    more = (decodes(sparse, 16, 65536) - decodes(sparse, 16, 32768)) / SECOND
    assert more == pytest.approx(16 * 32768 * scored, rel=1e-3)
    assert decodes(sparse, 16, 65536) < decodes(dense, 16, 65536) / 2
    assert decodes(sparse, 16, 1024) > decodes(dense, 16, 1024)


def test_layers_that_reuse_a_choice_score_and_cache_nothing() -> None:
    every, third = (attention(**SPARSE, index_layers=n) for n in (61, 20))
    assert every.shard.kv_bytes == 2 * 576 + 132
    assert third.shard.kv_bytes == pytest.approx(2 * 576 + 132 * 20 / 61)
    more = [decodes(of, 16, 65536) - decodes(of, 16, 32768) for of in (every, third)]
    assert more[1] / more[0] == pytest.approx(20 / 61, rel=1e-3)


def test_prompts_with_an_indexer_are_linear_but_for_its_scores() -> None:
    """The scores of a chunk grow with the tokens before it, its attention no more beyond those that are chosen."""
    sparse = attention(**SPARSE)
    rate = H200.latent.arithmetic * H200.peaks["fp8"] / H200.peaks["bf16"]
    more = (sparse.prompt(512, 65536) - sparse.prompt(512, 32768)) / SECOND
    assert more == pytest.approx(2 * 64 * 128 * 512 * 32768 / rate, rel=0.02)


def test_few_heads_cost_what_the_kernel_fills_up_in_prompts() -> None:
    """16 heads over chosen tokens take as long as 64, half as long as 128; without an index an eighth."""
    sixteen, all_heads = (attention(tp, **SPARSE, index_layers=1).prompt(8192, 65536) for tp in (8, 1))
    assert H200.padded_heads == 64
    assert all_heads / sixteen == pytest.approx(2.0, rel=0.1)
    dense = [attention(tp).prompt(8192, 65536) for tp in (8, 1)]
    assert dense[1] / dense[0] == pytest.approx(8.0, rel=0.1)
