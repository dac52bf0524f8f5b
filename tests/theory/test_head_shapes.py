"""Serving of models whose layers have heads of different number or size: times and caches are sums over layers."""

from typing import Any

import pytest

from simulator.cost import compile_device
from simulator.errors import InputError
from simulator.run.dispatch import simulate
from simulator.serving.costs.attention import Attention, Segments
from simulator.serving.costs.depth import depths
from simulator.serving.costs.footprint import footprint
from simulator.serving.costs.formats import Formats
from simulator.serving.costs.head_shapes import MixedAttention, attention_of_stage
from simulator.serving.costs.operators import Shard
from simulator.specs import load_scenario, load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.model import Model
from tests.unit.serving.costs.test_iteration import stack

BF16 = Formats("bf16", 2.0, "bf16", 2.0, "bf16", 2.0, "bf16", 2.0, "bf16", whole=False)
H200 = compile_device(load_spec(Accelerator, "h200-sxm"))
PAGED = stack(attention_kernel="paged")
PLAIN: dict[str, Any] = {
    "name": "m",
    "hidden": 4096,
    "heads": 64,
    "kv_heads": 4,
    "head_dim": 192,
    "v_head_dim": 128,
    "ffn": 8192,
    "vocabulary": 32000,
    "position": "rotary",
    "biases": False,
    "norm": "rmsnorm",
    "max_sequence": 65536,
}
WINDOWED = {"window": 128, "kv_heads": 8}
MIXED = {"layers": [{}, {"repeat": 5, **WINDOWED}, {}]}


def attention(**given: Any) -> Attention | MixedAttention:
    model = Model.model_validate(PLAIN | given)
    return attention_of_stage(Shard(model, 4, BF16, True), depths(model, [model.layers])[0], H200, PAGED)


def apart() -> list[Attention | MixedAttention]:
    """Two models of layers that are alike: those with all tokens, and those with a window."""
    return [attention(layers=2), attention(layers=5, **WINDOWED)]


def ticks(lines: Segments, tokens: int) -> int:
    base, slope = next((base, slope) for end, base, slope in lines if tokens <= end)
    return base + slope * tokens


@pytest.mark.parametrize(("sequences", "each"), [(1, 50), (1, 20000), (32, 100), (32, 8192), (256, 4096)])
def test_decodes_take_what_layers_of_each_shape_take(sequences: int, each: int) -> None:
    mixed, alone = attention(**MIXED), apart()
    assert isinstance(mixed, MixedAttention) and all(isinstance(one, Attention) for one in alone)
    expected = [ticks(one.decode(sequences), sequences * each) for one in alone]
    assert ticks(mixed.decode(sequences), sequences * each) == sum(expected)
    assert expected[1] < 2.5 * max(expected[0], 1) or each < 1000, "windows bound what five layers read"


@pytest.mark.parametrize("pieces", [((1, 0),), ((512, 0),), ((4096, 16384),), ((512, 0), (300, 7000))])
def test_prompts_take_what_layers_of_each_shape_take(pieces: tuple[tuple[int, int], ...]) -> None:
    mixed, alone = attention(**MIXED), apart()
    assert mixed.prompts(pieces) == pytest.approx(sum(one.prompts(pieces) for one in alone), abs=2)
    assert mixed.prompt(*pieces[0]) == pytest.approx(sum(one.prompt(*pieces[0]) for one in alone), abs=2)


@pytest.mark.parametrize("context", [100, 4096])
def test_caches_are_the_sum_of_what_layers_keep(context: int) -> None:
    """On four devices each two layers keep a key head of 192 + 128 elements, five keep two, of 128 tokens at most."""
    model = Model.model_validate(PLAIN | MIXED)
    need = footprint(Shard(model, 4, BF16, True), depths(model, [7]), 0, PAGED, 2048, 16, context)
    head = (192 + 128) * 2.0
    assert need.kv_token == pytest.approx(2 * head + 5 * 2 * head * min(128, context) / context)


def test_heads_of_tensor_parallelism_divide_those_of_all_layers() -> None:
    """64 and 96 query heads: up to 32 devices."""
    changes = ["model=models/step-3.5-flash", "cluster.nodes=8", "serving.parallel.tp=64"]
    with pytest.raises(InputError, match="tp 64 does not divide the 32 heads"):
        simulate(load_scenario("scenarios/serving/quickstart.yaml", changes).scenario)


def test_devices_do_not_share_tokens_of_heads_of_several_shapes() -> None:
    changes = ["model=models/gemma-4-31b", "serving.parallel={tp: 8, dcp: 2}", "cluster.nodes=1"]
    with pytest.raises(InputError, match="no attention of all cached tokens in each layer, by as many heads"):
        simulate(load_scenario("scenarios/serving/quickstart.yaml", changes).scenario)


@pytest.mark.parametrize("name", ["gemma-4-31b", pytest.param("mimo-v2-flash", marks=pytest.mark.slow)])
def test_models_whose_layers_differ_are_served(name: str) -> None:
    changes = [
        f"model=models/{name}",
        "requests.count=20",
        "serving.parallel.tp=8",
        "cluster=clusters/dgx-h200",
        "+serving.precision.weights=fp8",
    ]
    result = simulate(load_scenario("scenarios/serving/quickstart.yaml", changes).scenario)
    assert result.feasible and result.metrics["unfinished"] == 0
