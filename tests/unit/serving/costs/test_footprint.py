"""Memory of replicas, worked out by hand for models whose sizes are published."""

from dataclasses import replace
from typing import Any

import pytest

from simulator.cost import compile_device
from simulator.report.catalogue.profiles import ROOMS
from simulator.serving.costs.depth import depths
from simulator.serving.costs.footprint import Footprint, blocks_of, cached_share, footprint, runtime
from simulator.serving.costs.formats import resolve_formats
from simulator.serving.costs.iteration import split_layers
from simulator.serving.costs.operators import Shard
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.serving import KvCache, NumberFormats, ServingStack
from tests.unit.serving.costs.test_iteration import stack

GIB = 1 << 30


def needs(
    model: str,
    tp: int = 1,
    pp: int = 1,
    most: int = 256,
    context: int = 1,
    whole_windows: bool = False,
    tokens: int = 2048,
    **formats: Any,
) -> list[Footprint]:
    """Of each stage, for iterations of so many tokens of up to `most` sequences."""
    shape = load_spec(Model, model)
    device = compile_device(load_spec(Cluster, "dgx-h100").node.accelerator)
    shard = Shard(shape, tp, resolve_formats(NumberFormats(**formats), device)[0], True)
    layers = depths(shape, split_layers(shape.layers, pp))
    own = stack().model_copy(update={"whole_windows": whole_windows})
    return [footprint(shard, layers, stage, own, tokens, most, context) for stage in range(pp)]


def test_a_dense_model_on_one_device() -> None:
    (need,) = needs("llama-3-8b")
    attention = 4096 * (4096 + 2 * 1024) + 4096 * 4096  # 32 heads of 128, 8 of keys and values
    layer = attention + 3 * 4096 * 14336 + 2 * 4096
    assert 32 * layer + 2 * 128256 * 4096 == 8_030_257_152  # the 8.03 B of the model card, but for its last norm
    assert need.weights == 2 * 8_030_257_152
    assert need.kv_token == 2 * 2 * 32 * 8 * 128 == 131_072
    assert need.activations == 256 * 128256 * 10  # logits of every sequence
    assert needs("llama-3-8b", most=64)[0].activations == 2048 * (3 * 4096 + 3 * 14336) * 2  # rows of the MLP
    assert need.runtime == 1e9
    assert needs("llama-3-8b", kv="fp8")[0].kv_token == 65_536
    narrow = needs("llama-3-8b", weights="fp8")[0].weights
    assert narrow == 32 * (layer - 8192) + 2 * (32 * 8192 + 2 * 128256 * 4096)  # norms and tables keep 16 bits


def test_stages_hold_their_layers_and_the_outer_ones_the_tables() -> None:
    first, last = needs("llama-3-8b", pp=2)
    assert first.weights == last.weights == 8_030_257_152
    assert first.kv_token == 65_536
    assert (first.activations, last.activations) == (2048 * (3 * 4096 + 3 * 14336) * 2, 256 * 128256 * 10)
    _, middle, _ = needs("llama-3-8b", pp=3)
    assert middle.weights == 2 * 11 * (218_103_808 + 8192)


def test_tied_tables_are_held_once_where_one_stage_has_both() -> None:
    layer = 4 * 768 * 768 + 2 * 768 * 3072 + 4 * 768  # not gated; two layer norms with biases
    (need,) = needs("opt-125m", most=16)
    assert need.weights == 2 * (12 * layer + (50272 + 2048) * 768)  # positions are learned
    assert need.activations == 2048 * (3 * 768 + 2 * 3072) * 2
    first, last = needs("opt-125m", pp=2)
    assert (first.weights, last.weights) == (2 * (6 * layer + (50272 + 2048) * 768), 2 * (6 * layer + 50272 * 768))


def test_a_mixture_of_experts_on_two_by_two_devices() -> None:
    """Half of 32 heads, 8 heads of keys and values and 14,336 columns of each of 8 experts; norms and router whole."""
    layer = 4096 * (16 + 2 * 4 + 16) * 128 + 8 * 3 * 4096 * 7168 + 2 * 4096 + 8 * 4096
    for need in needs("mixtral-8x7b", tp=2, pp=2):
        assert need.weights == 2 * (16 * layer + 16000 * 4096)
        assert need.kv_token == 2 * 2 * 16 * 4 * 128
        assert need.activations == 2048 * (4 * 4096 + 2 * (3 * 7168 + 4096)) * 2  # two experts of a row, with results


def test_experts_hold_so_many_rows_at_once() -> None:
    """Iterations of more rows pass experts in parts (VLLM_FUSED_MOE_CHUNK_SIZE), until attention holds more."""
    held = [needs("mixtral-8x7b", tokens=tokens)[0].activations for tokens in (32_768, 65_536)]
    assert held[0] == 32_768 * (4 * 4096 + 2 * (3 * 14336 + 4096)) * 2
    assert held[1] - held[0] == 32_768 * 4 * 4096 * 2


def test_sglang_keeps_whole_sequences_in_layers_with_windows() -> None:
    shape, software = load_spec(Model, "gpt-oss-120b"), load_spec(ServingStack, "sglang")
    device = compile_device(load_spec(Cluster, "dgx-h200").node.accelerator)
    shard = Shard(shape, 2, resolve_formats(NumberFormats(), device)[0], True)
    need = footprint(shard, depths(shape, (36,)), 0, software, 8192, 256, context=34_832)
    assert need.kv_token == 36 * 2 * 4 * 64 * 2


def test_vllm_reports_as_much_cache() -> None:
    """Of DeepSeek-R1 on eight H200, by V0: 303,296 tokens (vllm-project/vllm pull request 14842)."""
    shape, machine = load_spec(Model, "deepseek-r1"), load_spec(Cluster, "dgx-h200")
    accelerator, software = machine.node.accelerator, load_spec(ServingStack, "vllm-v0-blocks")
    shard = Shard(shape, 8, resolve_formats(NumberFormats(weights="fp8"), compile_device(accelerator))[0], True)
    need = footprint(shard, depths(shape, (shape.layers,)), 0, software, 163_840, 256)
    cache = blocks_of([need], accelerator.memory.capacity.value, KvCache(), software, 4096)
    assert cache.blocks * cache.size == pytest.approx(303_296, rel=0.01)
    alone = footprint(replace(shard, tp=1), depths(shape, (shape.layers,)), 0, software, 163_840, 256)
    assert need.runtime - alone.runtime == pytest.approx(3 * 2.5e9)  # buffers of collectives


@pytest.mark.parametrize(
    ("cache", "software", "room"),
    [
        ({}, {"memory_share": 0.8}, 0.8 * 40 - 10),
        ({}, {"memory_share": None}, 0.9 * 40 - 10),
        ({}, {"memory_share": None, "free_share": 0.5}, 0.5 * 30),
        ({}, {"memory_share": 0.8, "free_share": 0.5}, 0.8 * 40 - 10),
        ({"free_share": 0.7}, {"memory_share": 0.8}, 0.7 * 30),
        ({"free_share": 0.7}, {"memory_share": None, "free_share": 0.5}, 0.7 * 30),
        ({"memory_share": 0.6}, {"memory_share": 0.8}, 0.6 * 40 - 10),
        ({"memory_share": 0.6, "free_share": 0.7}, {"memory_share": 0.8}, 0.6 * 40 - 10),
    ],
)
def test_the_share_of_the_memory_that_the_cache_gets(
    cache: dict[str, Any], software: dict[str, Any], room: float
) -> None:
    """40 GiB, of which weights take 8, activations and runtime 1 each; 16 tokens of 1 MiB are a block."""
    need = Footprint(8.0 * GIB, 1.0 * GIB, 1.0 * GIB, 1.0 * (1 << 20))
    found = blocks_of([need], 40.0 * GIB, KvCache.model_validate(cache), stack(**software), 4096)
    assert (found.fullest, found.blocks, found.size, found.warnings) == (need, int(room * 64), 16, ())


def test_the_tightest_stage_decides_and_blocks_may_be_asked_for() -> None:
    small, large = (Footprint(weights * GIB, 0.0, 0.0, 1.0 * (1 << 20)) for weights in (8.0, 12.0))
    tight = blocks_of([small, large], 40.0 * GIB, KvCache(memory_share=0.5), stack(), 4096)
    assert (tight.fullest, tight.blocks) == (large, 8 * 64)
    for asked, given in ((28 * 64, 28 * 64), (28 * 64 + 1, 0)):  # all that is left beside 12 GiB, and a block more
        assert blocks_of([small, large], 40.0 * GIB, KvCache(blocks=asked), stack(), 4096).blocks == given
    (warning,) = blocks_of([small], 40.0 * GIB, KvCache(blocks=255), stack(), 4096).warnings
    assert "4,080 tokens, less than one sequence of 4,096" in warning
    assert blocks_of([small], 40.0 * GIB, KvCache(blocks=256), stack(), 4096).warnings == ()
    assert blocks_of([small], 8.0 * GIB, KvCache(), stack(), 4096).blocks == 0
    smaller = blocks_of([small], 40.0 * GIB, KvCache(memory_share=0.5, block_size=8), stack(), 4096)
    assert smaller[1:3] == (12 * 128, 8)


def test_one_cache_for_all_layers_keeps_whole_sequences() -> None:
    own = needs("gpt-oss-120b", context=1024)[0].kv_token
    whole = needs("gpt-oss-120b", context=1024, whole_windows=True)[0].kv_token
    assert whole == 36 * 2 * 8 * 64 * 2  # 36 layers of 8 key heads of 64 in 16 bits
    assert own == whole * (0.5 + 0.5 * 128 / 1024)


def test_a_cache_takes_what_its_engine_was_seen_to_take() -> None:
    """219 KB a token of DeepSeek-V3's latents in 16 bits (NVIDIA/TensorRT-LLM issue 2683)."""
    shape = load_spec(Model, "deepseek-v3")
    device = compile_device(load_spec(Cluster, "dgx-h100").node.accelerator)
    shard = Shard(shape, 8, resolve_formats(NumberFormats(weights="fp8", kv="bf16"), device)[0], True)
    branch = load_spec(ServingStack, "tensorrt-llm-deepseek")
    plain = load_spec(ServingStack, "tensorrt-llm")
    ours, theirs = (
        footprint(shard, depths(shape, (shape.layers,)), 0, one, 2048, 64, 4096).kv_token for one in (plain, branch)
    )
    assert ours == 61 * 576 * 2
    assert theirs == pytest.approx(219e3, rel=0.01)


def test_layers_with_a_window_keep_no_more_than_it() -> None:
    """gpt-oss: half of the layers look back 128 tokens."""
    model = load_spec(Model, "gpt-oss-20b")
    assert cached_share(model, 128) == 1.0
    assert cached_share(model, 64) == 1.0
    assert cached_share(model, 1024) == 0.5 + 0.5 * 128 / 1024
    assert cached_share(load_spec(Model, "llama-3-8b"), 1024) == 1.0
    (short,), (long,) = needs("gpt-oss-20b", context=128), needs("gpt-oss-20b", context=12_800)
    assert long.kv_token == pytest.approx(short.kv_token * 0.505)


def test_states_of_a_sequence_take_whole_blocks_of_the_stage_where_they_weigh_most() -> None:
    """16 tokens of 1 MiB are a block; states of 40 MiB are three, and of a stage without keys a third of theirs is."""
    one = Footprint(8.0 * GIB, 0.0, 0.0, 1.0 * (1 << 20), 40.0 * (1 << 20))
    found = blocks_of([one], 40.0 * GIB, KvCache(memory_share=0.5), stack(), 4096)
    assert (found.state_blocks, found.blocks, found.block_bytes) == (3, 12 * 64, 16.0 * (1 << 20))
    only = Footprint(8.0 * GIB, 0.0, 0.0, 0.0, 96.0 * (1 << 20))
    both = blocks_of([one, only], 40.0 * GIB, KvCache(memory_share=0.5), stack(), 4096)
    assert (both.fullest, both.state_blocks, both.blocks) == (only, 3, 12 * 32)
    alone = blocks_of([only], 40.0 * GIB, KvCache(memory_share=0.5), stack(), 4096)
    assert (alone.size, alone.state_blocks, alone.blocks) == (4096, 0, 12 * 1024 // 96)


def test_the_runtime_of_an_engine_belongs_to_devices_that_it_has_kernels_for() -> None:
    """Context, libraries and graphs of CUDA are not charged to a board without them."""
    anywhere = stack(peer_memory={"value": "1 GB", "status": "estimate", "source": "test"})
    elsewhere = anywhere.model_copy(update={"device_kinds": ("gpu", "npu")})
    assert [runtime(anywhere, kind, tp=4) for kind in (None, "gpu", "fpga")] == [3e9, 3e9, 3e9]
    assert [runtime(elsewhere, kind, tp=4) for kind in (None, "gpu", "npu", "fpga")] == [3e9, 3e9, 3e9, 0.0]


def test_every_shipped_engine_says_for_which_devices_it_has_kernels() -> None:
    kinds = {name: load_spec(ServingStack, name).device_kinds for name in ROOMS["serving stacks"].names()}
    assert [name for name, known in kinds.items() if not known] == []
    assert "gpu" in kinds["vllm"] and "fpga" not in kinds["vllm"]
    assert "fpga" in kinds["bare-metal"]
