"""Prices of iterations."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from simulator import collectives, fabric
from simulator.cost import compile_device
from simulator.cost.stream import stream_rows
from simulator.errors import InputError
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.formats import resolve_formats
from simulator.serving.costs.iteration import ReplicaCost, compile_costs, split_layers
from simulator.serving.costs.operators import Shard
from simulator.serving.costs.pieces import Pieces
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.model import Model
from simulator.specs.serving import KvCache, Layout, NumberFormats, ServingStack
from simulator.units import TICKS_PER_SECOND

MIXTRAL = Model.model_validate(
    {
        "name": "Mixtral 8x7B",
        "layers": 32,
        "hidden": 4096,
        "heads": 32,
        "kv_heads": 8,
        "ffn": 14336,
        "gated_ffn": True,
        "experts": 8,
        "top_k": 2,
        "vocabulary": 32000,
        "position": "rotary",
        "norm": "rmsnorm",
        "biases": False,
        "tied_embeddings": False,
    }
)


def stack(**changes: Any) -> ServingStack:
    def figure(value: Any) -> dict[str, Any]:
        return {"value": value, "status": "estimate", "source": "test"}

    data: dict[str, Any] = {
        "name": "test engine",
        "kind": "serving",
        "policy": "vllm-v1",
        "token_budget": 2048,
        "max_sequences": 256,
        "memory_share": 0.9,
        "attention_kernel": "paged",
        "graphs": 512,
        "iteration_overhead": figure("1 ms"),
        "sequence_overhead": figure("10 us"),
        "kernel_efficiency": figure(1.0),
        "memory_overhead": figure("1 GB"),
    }
    return ServingStack.model_validate(data | changes)


def compiled(
    model: str | Model = "llama-2-7b",
    cluster: str = "dgx-h100",
    tp: int = 1,
    pp: int = 1,
    *,
    formats: dict[str, Any] | None = None,
    cache: dict[str, Any] | None = None,
    budget: int = 2048,
    **changes: Any,
) -> ReplicaCost:
    shape = load_spec(Model, model) if isinstance(model, str) else model
    return compile_costs(
        shape,
        Layout(tp=tp, pp=pp),
        NumberFormats.model_validate(formats or {}),
        stack(**changes),
        load_spec(Cluster, cluster),
        4096,
        KvCache.model_validate(cache or {}),
        budget,
        256,
    )


def decode(price: ReplicaCost, sequences: int, context: int) -> int:
    """Ticks of decode attention on the first stage."""
    for bound, base, slope in price.stages[0].decode(sequences):
        if context <= bound:
            return base + slope * context
    raise AssertionError("no segment")


def test_rows_are_the_sum_of_their_parts_and_remembered() -> None:
    stage = compiled("llama-2-70b", tp=4).stages[0]
    for tokens, sampled in ((1, 1), (255, 3), (256, 256), (2048, 1), (64, 0)):
        assert stage.rows(tokens, sampled) == sum(stage.parts(tokens, sampled).values())
    again = compiled("llama-2-70b", tp=4).stages[0]
    asked = np.random.default_rng(1).permutation(np.arange(1, 700)).tolist()
    assert {t: again.rows(t, 1) for t in asked} == {t: stage.rows(t, 1) for t in sorted(asked)}


def test_a_step_of_one_sequence_reads_the_weights_once() -> None:
    price = compiled("llama-2-7b", "dgx-a100")
    seconds = price.stages[0].rows(1, 1) / TICKS_PER_SECOND
    assert price.weights_bytes == pytest.approx(2 * 6.738e9, rel=1e-3)
    assert price.weights_bytes / 2.039e12 < seconds < 1.6 * price.weights_bytes / 2.039e12


def test_kernels_that_load_little_at_once_leave_the_memory_idle() -> None:
    def linear(**changes: Any) -> float:
        return compiled(**changes).stages[0].parts(1, 1)["linear"] / TICKS_PER_SECOND

    def read(value: float) -> dict[str, Any]:
        return {"value": value, "status": "estimate", "source": "test"}

    accelerator = load_spec(Cluster, "dgx-h100").node.accelerator
    cycles = accelerator.cores.value * accelerator.clock.value  # type: ignore[union-attr]
    weights = 2.0 * 32 * (4 * 4096**2 + 3 * 4096 * 11008)
    assert linear(core_read=read(2.0)) == pytest.approx(weights / (2.0 * cycles), rel=0.05)
    assert linear(core_read=read(1000.0)) == linear()


def test_more_tokens_take_longer() -> None:
    stage = compiled("llama-2-7b", "dgx-a100").stages[0]
    times = [stage.rows(tokens, 1) for tokens in range(1, 2048, 64)]
    assert all(later > 0.97 * earlier for earlier, later in pairwise(times))
    assert times[-1] > 8 * times[0]


def test_two_devices_halve_the_linear_layers_within_limits() -> None:
    one, two = (compiled("llama-2-7b", tp=tp).stages[0] for tp in (1, 2))
    for tokens in (1, 64, 1024):
        ratio = one.parts(tokens, 1)["linear"] / two.parts(tokens, 1)["linear"]
        assert 1.5 < ratio < 2.2
    assert one.parts(64, 1)["tp"] == 0 < two.parts(64, 1)["tp"]


def test_decode_segments_join_and_rise() -> None:
    price = compiled("llama-3.1-8b", cluster="dgx-a100")
    for sequences in (1, 7, 64, 256):
        contexts = np.unique(np.geomspace(sequences, 4096 * sequences, 50).astype(int)).tolist()
        times = [decode(price, sequences, context) for context in contexts]
        assert times == sorted(times)
        assert price.stages[0].decode(sequences)[-1][0] == 1 << 62
    assert decode(price, 0, 0) == 0


def test_the_slope_of_decoding_is_bytes_over_bandwidth() -> None:
    price = compiled("llama-3.1-8b")
    base, slope = price.stages[0].decode(64)[-1][1:]
    assert price.kv_token_bytes == 32 * 2 * 8 * 128 * 2
    least = price.kv_token_bytes / 3.35e12 * TICKS_PER_SECOND
    assert least < slope < 1.25 * least
    assert base > 0


def test_prompts_share_a_kernel() -> None:
    stage = compiled("llama-2-70b", tp=8).stages[0]
    pieces = [(128, 0), (256, 0), (64, 1000)]
    together = stage.prompts(pieces)
    assert max(stage.prompt(*piece) for piece in pieces) <= together <= sum(stage.prompt(*piece) for piece in pieces)
    assert stage.prompts([(512, 100)]) == stage.prompt(512, 100)
    assert stage.prompt(512, 4000) > stage.prompt(512, 0)


def test_a_chunked_prompt_costs_at_least_the_whole_one() -> None:
    stage = compiled("llama-2-7b").stages[0]
    whole = stage.prompt(2048, 0)
    chunks = sum(stage.prompt(512, before) for before in range(0, 2048, 512))
    assert whole <= chunks < 2.5 * whole


def test_host_and_sends_belong_to_their_stages() -> None:
    price = compiled("llama-2-70b", tp=2, pp=4)
    assert [stage.host(10) for stage in price.stages] == [1_100_000_000, 0, 0, 0]
    sends = [stage.send(256) for stage in price.stages]
    assert sends[-1] == 0 < sends[0] == sends[1]
    assert price.stages[0].parts(1, 1)["head"] == 0 < price.stages[-1].parts(1, 1)["head"]


def test_layers_are_spread_evenly() -> None:
    assert split_layers(10, 4) == (3, 3, 2, 2)
    serial = compiled("llama-2-7b", tp=4, split="layer")
    assert serial.serial and len(serial.stages) == 4
    assert all(stage.parts(8, 0)["tp"] == 0 for stage in serial.stages)


def test_without_graphs_the_device_waits_for_the_host() -> None:
    fast, slow = compiled(), compiled(graphs=None, kernel_launch="20 us")
    assert slow.stages[0].rows(1, 0) > 1.15 * fast.stages[0].rows(1, 0)
    assert slow.stages[0].rows(2048, 0) == fast.stages[0].rows(2048, 0)


def test_kernel_efficiency_divides_kernel_times() -> None:
    figure = {"value": 0.5, "status": "estimate", "source": "test"}
    plain, half = compiled(), compiled(kernel_efficiency=figure)
    assert half.stages[0].rows(16, 16) == pytest.approx(2 * plain.stages[0].rows(16, 16), abs=10)
    assert decode(half, 8, 80_000) == pytest.approx(2 * decode(plain, 8, 80_000), rel=1e-6)


def test_engine_sums_are_faster_for_small_messages() -> None:
    own, library = (compiled("llama-2-70b", tp=8, all_reduce=kind).stages[0] for kind in ("vllm", "library"))
    assert own.parts(8, 0)["tp"] < 0.6 * library.parts(8, 0)["tp"]
    assert own.parts(2048, 0)["tp"] == library.parts(2048, 0)["tp"]


class TestFormats:
    def test_four_bit_weights_speed_up_decoding(self) -> None:
        wide, narrow = compiled(cluster="dgx-a100"), compiled(cluster="dgx-a100", formats={"weights": "int4"})
        assert 2.0 < wide.stages[0].parts(1, 0)["linear"] / narrow.stages[0].parts(1, 0)["linear"] < 3.8
        assert narrow.stages[0].parts(2048, 0)["linear"] > wide.stages[0].parts(2048, 0)["linear"]
        assert narrow.weights_bytes < 0.32 * wide.weights_bytes
        assert narrow.assumptions

    def test_eight_bits_multiply_in_eight_bits_where_the_device_can(self) -> None:
        wide, narrow = compiled(), compiled(formats={"weights": "fp8"})
        assert 1.4 < wide.stages[0].parts(2048, 0)["linear"] / narrow.stages[0].parts(2048, 0)["linear"] < 2.2
        assert narrow.stages[0].parts(2048, 0)["other"] > wide.stages[0].parts(2048, 0)["other"]
        dequantised = compiled(cluster="dgx-a100", formats={"weights": "fp8"})
        plain = compiled(cluster="dgx-a100")
        assert dequantised.stages[0].parts(2048, 0)["linear"] > plain.stages[0].parts(2048, 0)["linear"]

    def test_an_eight_bit_cache_holds_twice_the_tokens(self) -> None:
        wide, narrow = compiled(), compiled(formats={"kv": "fp8"})
        assert narrow.kv_token_bytes == wide.kv_token_bytes / 2
        assert narrow.blocks == pytest.approx(2 * wide.blocks, abs=2)
        assert decode(narrow, 64, 64 * 2048) < decode(wide, 64, 64 * 2048)

    def test_bits_of_a_weight_may_be_given(self) -> None:
        price = compiled(formats={"weights": "int4", "weight_bits": 4.85, "activations": "fp16"})
        assert price.weights_bytes == pytest.approx(6.738e9 * 4.85 / 8, rel=1e-3)

    def test_ternary_factors_are_refused(self) -> None:
        with pytest.raises(InputError, match="activations cannot be ternary"):
            compiled(formats={"activations": "ternary"})


class TestExperts:
    def test_decoding_reads_the_experts_it_hits(self) -> None:
        stage = compiled(MIXTRAL, "dgx-h100", tp=2).stages[0]
        one, many = stage.parts(1, 0)["linear"], stage.parts(64, 0)["linear"]
        assert 2.5 < many / one < 4.0

    def test_shared_experts_are_read_besides(self) -> None:
        shared = MIXTRAL.model_copy(update={"shared_experts": 1})
        plain, more = (compiled(model, "dgx-h100", tp=2) for model in (MIXTRAL, shared))
        assert more.stages[0].parts(1, 0)["linear"] > plain.stages[0].parts(1, 0)["linear"]
        extra = 32 * 3 * 4096 * 14336 * 2 / 2
        assert more.weights_bytes - plain.weights_bytes == pytest.approx(extra)


class TestMemory:
    def test_blocks_are_what_is_left_of_the_share(self) -> None:
        price = compiled("llama-2-7b")
        capacity = 81559 * 2**20
        left = capacity * 0.9 - price.weights_bytes - price.ledger["activations"] - 1e9
        assert price.blocks == int(left // (price.kv_token_bytes * 16))
        assert price.ledger["kv cache"] == price.blocks * 16 * price.kv_token_bytes
        assert sum(price.ledger.values()) <= 0.9 * capacity

    def test_a_share_of_the_free_memory(self) -> None:
        price = compiled("llama-2-7b", memory_share=None, free_share=0.5)
        free = price.capacity - sum(price.ledger[kind] for kind in ("weights", "activations", "runtime"))
        assert price.ledger["kv cache"] == pytest.approx(0.5 * free, rel=1e-3)

    def test_a_model_that_does_not_fit_has_no_blocks_and_a_ledger(self) -> None:
        price = compiled("llama-2-70b")
        assert price.blocks == 0 and not price.fits
        assert sum(price.ledger.values()) > price.capacity

    def test_blocks_may_be_given(self) -> None:
        assert compiled(cache={"blocks": 100, "block_size": 32}).blocks == 100
        assert compiled(cache={"blocks": 100, "block_size": 32}).warnings
        assert compiled(cache={"blocks": 1_000_000}).blocks == 0

    def test_more_devices_hold_more(self) -> None:
        four, eight = (compiled("llama-2-70b", tp=tp) for tp in (4, 8))
        assert eight.blocks > 2 * four.blocks
        assert eight.kv_token_bytes == four.kv_token_bytes / 2
        assert eight.kv_replica_bytes == four.kv_replica_bytes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tp": 16}, "16 devices, the cluster has 8"),
        ({"model": "llama-2-7b", "pp": 8, "tp": 8}, "64 devices"),
        ({"model": "gpt3-125m", "cluster": "dgx-a100-superpod", "tp": 16}, "does not divide the 12 heads"),
        ({"model": "gpt3-125m", "cluster": "dgx-a100-superpod", "pp": 16}, "16 stages for 12 layers"),
    ],
)
def test_layouts_that_cannot_be_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        compiled(**changes)


def test_the_next_stage_gets_the_stream_and_what_is_added_to_it() -> None:
    """Two vectors of 4096 in 16 bits a row, from a device to the next."""
    machine = load_spec(Cluster, "dgx-h100")
    library = load_spec(CollectiveProfile, machine.collectives)
    first, second = compiled("llama-2-7b", pp=2).stages
    for tokens in (1, 64, 4096):
        alone = collectives.cost_of("send", [[0, 1]], tokens * 2 * 4096 * 2.0, fabric.build(machine), library).slowest
        assert first.send(tokens) == pytest.approx(alone, rel=0.02)
    assert (first.send(0), second.send(64)) == (0, 0)


def test_the_fullest_stage_has_one_layer_more_and_the_embedding() -> None:
    """Of 32 layers 11, 11 and 10, of 202,383,360 weights each; the embedding and the head have 32,000 x 4096."""
    assert compiled("llama-2-7b", pp=3).weights_bytes == 2 * (11 * 202_383_360 + 32_000 * 4096)


def test_the_head_is_the_last_stage_s_and_is_read_once() -> None:
    """32,000 x 4096 x 2 bytes are 78 us at 3.35 TB/s."""
    first, second = (stage.parts(8, 8) for stage in compiled("llama-2-7b", pp=2).stages)
    assert first["head"] == 0
    assert 78e6 < second["head"] < 1.3 * 78e6
    assert first["linear"] == second["linear"]


def pieces_of(model: Model, weights: str, **changes: Any) -> Pieces:
    """On one device of a DGX H100."""
    device = compile_device(load_spec(Cluster, "dgx-h100").node.accelerator)
    formats, _ = resolve_formats(NumberFormats(weights=weights), device, "fp32")
    return Pieces(Shard(model, 1, formats, True), device, stack(**changes), None, (0,))  # type: ignore[arg-type]


def test_the_first_stage_looks_its_rows_up() -> None:
    """A row of 4096 in 16 bits read and written, in one kernel."""
    pieces, rows = pieces_of(load_spec(Model, "llama-2-7b"), "bf16"), np.array([1, 100, 2000])
    first, later = (pieces.body(Depth(1, 0, 0), is_first, 0.0)(rows)["other"] for is_first in (True, False))
    assert first - later == pytest.approx(stream_rows(rows * 16_384.0, 1, pieces.device.stream))


def test_without_a_graph_every_kernel_takes_its_launch_from_the_host() -> None:
    """9 kernels and attention in each of 32 layers: 320 launches of 1 ms, far more than any of them lasts."""
    stage = compiled("llama-2-7b", graphs=4, kernel_launch="1 ms").stages[0]
    assert stage.rows(4, 0) < 0.02 * TICKS_PER_SECOND
    assert stage.rows(5, 0) == pytest.approx(0.320 * TICKS_PER_SECOND, abs=8)
    bare = compiled("llama-2-7b", graphs=None, kernel_launch="1 ms").stages[0]
    assert bare.rows(1, 0) == pytest.approx(0.320 * TICKS_PER_SECOND, abs=8)


def test_matrices_that_stay_in_16_bits_are_multiplied_in_16_bits() -> None:
    """A router beside experts in 8 bits: both factors have 2 bytes, where those of linear layers have 1."""
    pieces = pieces_of(MIXTRAL, "fp8")
    formats = pieces.shard.formats
    (wide, of_wide), (narrow, of_narrow) = pieces.product(formats, plain=True), pieces.product(formats)
    assert (wide.size, wide.result_size, of_wide.size) == (2.0, 2.0, 2.0)
    assert (narrow.size, narrow.result_size, of_narrow.size) == (1.0, 2.0, 1.0)
    assert narrow.peak == pytest.approx(2 * wide.peak, rel=0.01)


@pytest.mark.parametrize(("model", "grouped"), [("llama-2-70b", True), ("llama-3-8b", False)])
def test_keys_are_read_once_a_group_only_where_there_is_a_kernel(model: str, grouped: bool) -> None:
    """Groups of 8 and of 4 query heads on kernels for 1 and 8."""
    table = {"groups": [1, 8], "head_sizes": [128], "source": "by hand"}
    found, other = (decode(compiled(model, tp=8, grouped_decode=one), 64, 200_000) for one in (table, not grouped))
    assert found == decode(compiled(model, tp=8, grouped_decode=grouped), 64, 200_000) != other
    smaller = {**table, "head_sizes": 64}
    assert decode(compiled(model, tp=8, grouped_decode=smaller), 64, 200_000) == max(found, other)
