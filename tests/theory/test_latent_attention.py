"""Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1) against numbers worked out by hand."""

import pytest

from simulator.axes import TP
from simulator.cost import Attention, Decode, compile_device, seconds
from simulator.cost.kernel import kernel_cost
from simulator.model.cut import Cut
from simulator.model.layers import attention_of
from simulator.model.ops import Linear, Op
from simulator.model.tensors import cached, cached_bytes, core, kept, multiplied, tensors
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator
from simulator.specs.model import Model

V3 = {
    "hidden": 7168,
    "heads": 128,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
}


def model(**changes: object) -> Model:
    fields = {"name": "latent", "layers": 61, "vocabulary": 129_280, "position": "rotary", "biases": False}
    return Model(**(fields | V3 | changes))  # type: ignore[arg-type]


def block(of: Model, tp: int = 1, scattered: bool = False) -> list[Op]:
    return list(attention_of(of, Cut({TP.name: tp}, scattered), of.kinds[0]))


@pytest.mark.parametrize("tp", [1, 2, 8])
def test_the_cache_is_a_latent_and_a_rotated_key_on_every_device(tp: int) -> None:
    """576 elements a token and layer, 70,272 bytes over the 61 layers in 16 bits, whatever the tensor parallelism."""
    assert cached(block(model(), tp)) == 512 + 64
    assert cached(block(model(), tp)) * 2 * 61 == 70_272


def test_parameters_are_those_of_the_low_rank_matrices() -> None:
    """h q + q H (dn + dr) + h (c + dr) + c H (dn + dv) + H dv h, and the norms of both latents."""
    matrices = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
    assert multiplied(block(model())) == matrices
    assert sum(one.elements for one in tensors(block(model()))) == matrices + 1536 + 512
    whole = multiplied(block(model(q_lora_rank=None)))
    assert whole == matrices - 7168 * 1536 - 1536 * 128 * 192 + 7168 * 128 * 192


def test_up_projections_are_cut_by_heads_and_down_projections_are_whole() -> None:
    one, eight = ({op.name: op.does for op in block(model(), tp) if isinstance(op.does, Linear)} for tp in (1, 8))
    assert eight["attention down"] == one["attention down"]
    for name in ("query up", "key and value up"):
        assert eight[name].outputs == one[name].outputs / 8
        assert eight[name].inputs == one[name].inputs


def test_rows_of_a_scattered_residual_stream_are_projected_down_before_they_are_gathered() -> None:
    """Each device has some of the rows; latents move, and gradients of whole matrices have to be summed."""
    ops = block(model(), 8, scattered=True)
    names = [op.name for op in ops]
    assert names.index("attention down") < names.index("gather query latent") < names.index("query up")
    assert [op.does.width for op in ops if op.name.startswith("gather")] == [1536, 576]
    assert [one.name for one in tensors(ops) if one.summed] == ["attention down", "latent norm", "latent norm"]


def test_attention_of_prompts_and_training_is_expanded_and_that_of_decodes_absorbed() -> None:
    """FLOP of a query and a key of DeepSeek-V3: 2 H (dn + dr + dv) = 81,920, and 2 H (2 c + dr) = 278,528."""
    found = core(block(model()))
    assert found is not None and found.latent is not None
    expanded = Attention(
        1, found.heads, found.kv_heads, 64, 64, found.head_dim, causal=False, value_dim=found.value_dim
    )
    assert expanded.flops / 64**2 == 81_920
    absorbed = Decode(1, 1, found.heads, 1, found.latent.width, latent=found.latent.values)
    assert (absorbed.flops, absorbed.bytes) == (278_528, 1152)


def test_the_backward_pass_has_three_products_of_the_keys_size_and_two_of_the_values() -> None:
    forward, backward = (Attention(1, 1, 1, 8, 8, 192, False, backward=b, value_dim=128) for b in (False, True))
    assert forward.flops == 2 * 64 * (192 + 128)
    assert backward.flops == 2 * 64 * (3 * 192 + 2 * 128)


def test_what_is_kept_of_a_row() -> None:
    """2 (h + q + c + dr + 2 H (dn + dr) + 2 H dv) = 182,400 bytes if norms keep what they read and products take it
    from there; ours keep both sides of the norms, and rotated keys with their heads."""
    found = 2 * sum(one.elements for one in kept(block(model())))
    assert found == 182_400 + 2 * (1536 + 512) - 2 * 64
    assert sum(one.elements for one in kept(block(model(q_lora_rank=None)))) == found / 2 - 2 * 1536


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"v_head_dim": None}, "latent attention needs `v_head_dim`"),
        ({"kv_heads": 8}, "leave kv_heads 8 out"),
        ({"kv_lora_rank": None, "attention": "mla"}, "latent attention needs `kv_lora_rank`"),
        ({"kv_lora_rank": None, "attention": "grouped", "head_dim": 128}, "are about `attention: mla`"),
        ({"prompt_layers": 3}, "`prompt_layers` or `window` is not described"),
        ({"index_heads": 64}, "go together"),
        ({"shared_ffn": 64}, "are about experts"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        model(**changes)


SPARSE = {"index_heads": 64, "index_head_dim": 128, "index_top_k": 2048}


def test_an_indexer_has_three_matrices_and_a_cached_key_of_its_own() -> None:
    """q nI dI + h dI + h nI parameters; 128 elements in 8 bits and a scale, beside the latent: V3.2 caches 48,068 bytes
    a token where its latents are in 8 bits with their rotated keys in 16 (656 bytes)."""
    dense, sparse = (sum(one.elements for one in tensors(block(model(**more)))) for more in ({}, SPARSE))
    assert sparse - dense == 1536 * 64 * 128 + 7168 * 128 + 7168 * 64
    assert cached_bytes(block(model(**SPARSE)), 2.0) == 2 * 576 + 132
    assert 61 * (cached_bytes(block(model(**SPARSE)), 2.0) - 2 * 576 + 656) == 48_068


def test_layers_without_an_indexer_of_their_own_take_what_the_one_before_chose() -> None:
    shared = model(layers=8, index_layers=2, **SPARSE)
    found = [core(attention_of(shared, Cut(), kind)) for kind in shared.kinds]
    assert [one is not None and one.indexer is not None for one in found] == [True, False, False, False] * 2
    assert all(one is not None and one.chosen == 2048 for one in found)


def test_chosen_tokens_cost_less_than_all_beyond_2176_keys() -> None:
    """Of a decode: 2 H (2 c + dr) k over what is chosen and 2 nI dI over all, against 2 H (2 c + dr) over all."""
    found = core(block(model(**SPARSE)))
    assert found is not None and found.indexer is not None and found.latent is not None and found.chosen is not None
    absorbed = 2 * found.heads * (found.latent.width + found.latent.values)
    index = 2 * found.indexer.heads * found.indexer.head_dim
    even = absorbed * found.chosen / (absorbed - index)
    assert even == pytest.approx(2176, abs=1)


@pytest.mark.parametrize(
    ("name", "heads", "sequences", "each", "microseconds"),
    [
        ("h200-sxm", 16, 128, 8192, 286),
        ("h200-sxm", 128, 128, 8192, 486),
        ("h200-sxm", 64, 16, 32768, 165),
        ("a100-sxm-80gb", 16, 1, 8192, 946),
        ("a100-sxm-80gb", 16, 16, 8192, 1015),
        ("l40s", 128, 128, 8192, 2773),
    ],
)
def test_decodes_over_latents_take_what_was_measured(
    name: str, heads: int, sequences: int, each: int, microseconds: float
) -> None:
    """Kernels of TensorRT-LLM (ai-dynamo/aiconfigurator, `mla`): bytes decide up to 64 heads, arithmetic beyond; those
    of Ampere and Ada walk over a sequence on one core."""
    device = compile_device(load_spec(Accelerator, name))
    work = Decode(sequences, sequences * each, heads, 1, 576, latent=512)
    assert seconds(work, device) * 1e6 == pytest.approx(microseconds, rel=0.25)
    assert kernel_cost(work, device).valid
