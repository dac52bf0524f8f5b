"""Decode context parallelism: devices that would hold copies of the same cached tokens hold parts of them."""

from typing import Any

import pytest
from pydantic import ValidationError

from simulator import fabric
from simulator.collectives.closed_form import cost_of
from simulator.cost import compile_device
from simulator.errors import InputError
from simulator.serving.costs.iteration import ReplicaCost, compile_costs
from simulator.serving.costs.operators import Collective, Elementwise, Gemm, context_parts
from simulator.serving.costs.overlap import check_overlap
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.model import Model
from simulator.specs.serving import KvCache, Layout, NumberFormats, Overlap
from simulator.units import TICKS_PER_SECOND
from tests.unit.serving.costs.test_iteration import stack


def compiled(
    model: str, tp: int, dcp: int = 1, exchange: Any = "gather", beside: Any = "none", **cache: Any
) -> ReplicaCost:
    return compile_costs(
        load_spec(Model, model),
        Layout(tp=tp, dcp=dcp, dcp_exchange=exchange),
        NumberFormats(weights="fp8", kv="bf16"),
        stack(),
        load_spec(Cluster, "dgx-h200"),
        32_768,
        KvCache.model_validate(cache),
        2048,
        64,
        overlap=Overlap(context=beside),
    )


def reading(cost: ReplicaCost, sequences: int, context: int) -> int:
    """Ticks of the attention of decodes."""
    lines = cost.stages[0].decode(sequences)
    return next(base + slope * context for end, base, slope in lines if context <= end)


@pytest.mark.parametrize(
    ("model", "tp", "dcp"), [("deepseek-r1", 8, 2), ("deepseek-r1", 8, 8), ("qwen3-235b-a22b", 8, 2)]
)
def test_a_device_keeps_its_part_of_the_tokens(model: str, tp: int, dcp: int) -> None:
    """The memory that is left holds as many times the tokens."""
    copies, parts = compiled(model, tp), compiled(model, tp, dcp)
    assert parts.kv_token_bytes == pytest.approx(copies.kv_token_bytes / dcp)
    assert parts.blocks == pytest.approx(copies.blocks * dcp, abs=dcp)
    assert parts.weights_bytes == copies.weights_bytes


def test_a_device_reads_its_part_of_the_tokens_for_the_heads_of_all() -> None:
    """Half of the bytes where the memory binds; multiplications stay, which bind where there are many heads: a latent
    has 16 of 128 heads on each of eight devices, and all of them on an eighth of the tokens."""
    dense, halves = compiled("qwen3-235b-a22b", 8), compiled("qwen3-235b-a22b", 8, 2)
    slope, half = (cost.stages[0].decode(64)[-1][2] for cost in (dense, halves))
    assert half == pytest.approx(slope / 2, rel=1e-3)
    latent, eighths = (compiled("deepseek-r1", 8, dcp).stages[0].attention for dcp in (1, 8))
    flops = latent.shard.decode_flops
    assert eighths.shard.decode_flops == flops
    slopes = [one.decode(64)[-1][2] for one in (latent, eighths)]
    bound = flops / latent.device.latent.arithmetic * latent.scale
    assert slopes[1] == pytest.approx(max(slopes[0] / 8, bound), rel=1e-2)


def test_queries_are_gathered_and_what_each_found_is_combined() -> None:
    """Bytes of a row of a layer: queries of the heads of all (576 wide), fp32 logarithms from each, results (512)."""
    cost = compiled("deepseek-r1", 8, 4)
    parts = list(context_parts(cost.stages[0].attention.shard))
    heads = 128 // 8 * 4
    assert [part.row_bytes for part in parts if isinstance(part, Collective)] == [
        heads * 576 * 2,
        heads * 4 * 4.0,
        heads * 512 * 2,
    ]
    assert [part.operation for part in parts if isinstance(part, Collective)] == [
        "all_gather",
        "all_gather",
        "reduce_scatter",
    ]
    found = cost.stages[0].parts(32, 32)
    machine = load_spec(Cluster, "dgx-h200")
    library = load_spec(CollectiveProfile, machine.collectives), fabric.build(machine)
    each = [cost_of(p.operation, [range(4)], 32 * p.row_bytes, library[1], library[0]).slowest for p in parts]
    assert found["cp"] == pytest.approx(61 * sum(each), rel=0.05)  # sizes in between are interpolated
    assert "cp" not in compiled("deepseek-r1", 8).stages[0].parts(32, 32)
    calls = [call for call in cost.stages[0].calls(32, 32) if call.comm.axis == "cp"]
    assert sum(call.comm.size for call in calls) == 32 * sum(part.row_bytes for part in parts)


def test_a_chunk_after_cached_tokens_gathers_them() -> None:
    whole, parts = compiled("deepseek-r1", 8).stages[0], compiled("deepseek-r1", 8, 8).stages[0]
    assert parts.prompt(1024, 0) == whole.prompt(1024, 0)
    first, second = (parts.prompt(1024, before) - whole.prompt(1024, before) for before in (8192, 16_384))
    assert second == pytest.approx(2 * first, rel=1e-3)
    token = first / 8192 / 61 / TICKS_PER_SECOND
    bandwidth = 576 * 2 * 7 / 8 / token
    assert 100e9 < bandwidth < 450e9  # an all-gather over NVLink


@pytest.mark.parametrize(
    ("model", "tp", "dcp", "words"),
    [
        ("llama-3.1-70b", 8, 2, "dcp 2 does not divide the 1 copies that tp 8 makes of each of 8 key heads"),
        ("qwen3-235b-a22b", 8, 4, "does not divide the 2 copies .* write one of 1, 2"),
        ("deepseek-v3.2", 8, 2, "no attention of all cached tokens in each layer"),
    ],
)
def test_tokens_that_have_no_copies_are_not_parted(model: str, tp: int, dcp: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        compiled(model, tp, dcp)


def test_it_divides_the_devices_of_a_group() -> None:
    with pytest.raises(
        ValidationError, match="dcp 3 does not divide tp 8, whose devices it takes: write one of 1, 2, 4, 8"
    ):
        Layout(tp=8, dcp=3)


@pytest.mark.parametrize(
    ("model", "dcp", "made", "kept"),
    [("deepseek-r1", 4, [(1536, 16 * 192 * 3)], 512), ("qwen3-235b-a22b", 2, [(4096, 8 * 128)], 128)],
)
def test_one_exchange_where_each_device_makes_the_queries_of_all(
    model: str, dcp: int, made: list[tuple[int, int]], kept: int
) -> None:
    """Helix: more columns of the query product, an all-to-all of partial results and two fp32 numbers a head."""
    plain, cost = compiled(model, 8, dcp), compiled(model, 8, dcp, "all-to-all")
    shard = cost.stages[0].attention.shard
    gemm, exchange, combine = context_parts(shard)
    assert isinstance(gemm, Gemm) and isinstance(exchange, Collective) and isinstance(combine, Elementwise)
    assert [(gemm.k, gemm.n)] == made
    heads = shard.core.heads * dcp
    assert (exchange.operation, exchange.row_bytes) == ("all_to_all", heads * (kept * 2 + 8))
    assert combine.row_bytes == (heads + shard.core.heads) * kept * 2
    layers = load_spec(Model, model).layers
    assert cost.weights_bytes - plain.weights_bytes == pytest.approx(layers * gemm.k * gemm.n)  # 8 bits
    assert reading(cost, 32, 10**6) == reading(plain, 32, 10**6)
    own, gathered = (one.stages[0].parts(32, 32) for one in (cost, plain))
    assert own["cp"] < gathered["cp"] and own["linear"] > gathered["linear"]


def test_exchanges_beside_attention_save_what_two_lanes_hide() -> None:
    """Of p parts a layer takes a / p + (p - 1) (max(a / p, c) + launch) + c; the best p of powers of two."""
    plain, cost = (
        compiled("qwen3-235b-a22b", 8, 2, "all-to-all", beside).stages[0] for beside in ("none", "sequences")
    )
    rows, context, layers = 4096, 4096 * 20_000, 94
    ticks = next(base + slope * context for end, base, slope in cost.decode(rows) if context <= end)
    assert plain.saved(rows, ticks, None, ticks) == 0
    exchange = next(part for part in context_parts(cost.attention.shard) if isinstance(part, Collective))
    machine = load_spec(Cluster, "dgx-h200")
    library = load_spec(CollectiveProfile, machine.collectives), fabric.build(machine)

    def sent(part: int) -> float:
        made = cost_of("all_to_all", [range(2)], part * exchange.row_bytes, library[1], library[0])
        return made.slowest / TICKS_PER_SECOND

    a, launch = ticks / layers / TICKS_PER_SECOND, compile_device(machine.node.accelerator).decode.launch
    lasts = {
        p: a / p + (p - 1) * (max(a / p, sent(rows // p)) + launch) + sent(rows // p) for p in (1, 2, 4, 8, 16, 32, 64)
    }
    saved = layers * (lasts[1] - min(lasts.values()))
    assert min(lasts, key=lasts.__getitem__) > 1
    assert cost.saved(rows, ticks, None, ticks) / TICKS_PER_SECOND == pytest.approx(saved, rel=0.1)
    assert cost.saved(rows, ticks, None, ticks) < layers * sent(rows) * TICKS_PER_SECOND * 1.05
    assert cost.saved(rows, ticks + 1, None, ticks) == 0  # prompts are among them
    assert cost.saved(1, ticks, None, ticks) == 0


def test_what_goes_together_with_exchanges() -> None:
    with pytest.raises(ValidationError, match="`dcp_exchange` is for devices that share cached tokens"):
        Layout(tp=8, dcp_exchange="all-to-all")
    with pytest.raises(InputError, match="queries that are gathered are there before attention begins"):
        compiled("qwen3-235b-a22b", 8, 2, "gather", "sequences")
    with pytest.raises(InputError, match="`batches: two` and `context: sequences` hide collectives of the same layers"):
        check_overlap(
            load_spec(Model, "qwen3-235b-a22b"),
            Overlap(batches="two", context="sequences"),
            Layout(tp=8, dcp=2, dcp_exchange="all-to-all"),
        )
