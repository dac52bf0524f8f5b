"""The pieces of a layer of a small model, worked out by hand: 8 wide, 4 heads of 2 over 2 of keys, 100 words."""

from dataclasses import replace
from typing import Any

import pytest

from simulator.serving.costs.formats import Formats
from simulator.serving.costs.operators import (
    Collective,
    Elementwise,
    Experts,
    Gemm,
    Piece,
    Shard,
    Write,
    embedding,
    head,
    keys,
    launched,
    layer,
    together,
)
from simulator.specs import load_spec
from simulator.specs.base import Figure
from simulator.specs.model import Model
from simulator.specs.serving import ServingStack

BF16 = Formats("bf16", 2.0, "bf16", 2.0, "bf16", 2.0, "bf16", 2.0, "bf16", whole=False)
FP8 = Formats("fp8", 1.0, "fp8", 1.0, "fp8", 1.0, "bf16", 2.0, "bf16", whole=False)
DENSE: dict[str, Any] = {
    "name": "small",
    "layers": 1,
    "hidden": 8,
    "heads": 4,
    "kv_heads": 2,
    "ffn": 16,
    "gated_ffn": True,
    "vocabulary": 100,
    "position": "rotary",
    "norm": "rmsnorm",
}
SPARSE = DENSE | {"experts": 4, "top_k": 2, "expert_ffn": 6, "shared_experts": 2}


def launches(**seconds: float) -> ServingStack:
    """A stack with launches of so many seconds."""
    figures = {name: Figure(value=value, status="estimate", source="a test") for name, value in seconds.items()}
    return load_spec(ServingStack, "vllm").model_copy(update=figures)


def shard(tp: int = 2, formats: Formats = BF16, sharers: int = 1, fused: bool = True, **model: Any) -> Shard:
    return Shard(Model.model_validate(DENSE | model), tp, formats, fused, sharers)


ATTENTION: list[Piece] = [
    Elementwise("other", 4 * 8 * 2),
    Gemm("linear", (2 + 2 * 1) * 2, 8),
    Elementwise("other", 2 * (2 + 1) * 2 * 2),
    Write("other", 2 * 1 * 2 * 2, 8),
    Gemm("linear", 8, 2 * 2),
    Collective("tp", "all_reduce", 8 * 2),
    Elementwise("other", 4 * 8 * 2),
]
"""Of one of two devices: 2 heads, 1 of keys."""


def test_a_layer_on_one_of_two_devices() -> None:
    mlp: list[Piece] = [Gemm("linear", 2 * 8, 8), Elementwise("other", (2 + 1) * 8 * 2), Gemm("linear", 8, 8)]
    found = list(layer(shard()))
    assert found == [*ATTENTION, *mlp, Collective("tp", "all_reduce", 16)]
    assert launched(found, launches(kernel_launch=1.0)) == 11
    assert [piece for piece in layer(shard(tp=1)) if isinstance(piece, Collective)] == []


def test_an_mlp_without_gates() -> None:
    mlp = list(layer(shard(gated_ffn=False)))[7:10]
    assert mlp == [Gemm("linear", 8, 8), Elementwise("other", 2 * 8 * 2), Gemm("linear", 8, 8)]


def test_attention_and_mlp_side_by_side_end_in_one_sum() -> None:
    mlp: list[Piece] = [Gemm("linear", 2 * 8, 8), Elementwise("other", (2 + 1) * 8 * 2), Gemm("linear", 8, 8)]
    found = list(layer(shard(parallel_mlp=True)))
    assert found == [*ATTENTION[:-2], Elementwise("other", 3 * 8 * 2), *mlp, Collective("tp", "all_reduce", 8 * 2)]
    assert sum(isinstance(piece, Collective) for piece in layer(shard(parallel_mlp=True))) == 1


@pytest.mark.parametrize("name", ["gpt-j-6b", "gpt-neox-20b", "falcon-40b"])
def test_models_whose_attention_and_mlp_stand_side_by_side(name: str) -> None:
    assert load_spec(Model, name).parallel_mlp


def test_unfused_passes_move_twice_as_much_in_twice_as_many_kernels() -> None:
    first, *_ = layer(shard(fused=False))
    assert first == Elementwise("other", 128, 2)


def test_products_in_eight_bits_round_their_input_first() -> None:
    """Read in 16 bits and written in 8, in one kernel: of 8 inputs, of the 4 that attention gives, of 8 inner ones."""
    found = list(layer(shard(formats=FP8)))
    before = [found[i - 1] for i, piece in enumerate(found) if isinstance(piece, Gemm)]
    assert before == [
        Elementwise("other", 24),
        Elementwise("other", 12),
        Elementwise("other", 24),
        Elementwise("other", 24),
    ]
    assert Write("other", 2 * 1 * 2 * 1, 8) in found


def test_layers_that_prompts_do_not_pass() -> None:
    """Their keys and values come apart, and the layer has only its queries."""
    assert list(keys(shard())) == [
        Elementwise("other", 2 * 8 * 2),
        Gemm("linear", 2 * 1 * 2, 8),
        Elementwise("other", 2 * 1 * 2 * 2),
        Write("other", 8, 8),
    ]
    assert Write("other", 4, 8) in list(keys(shard(formats=FP8)))
    late = list(layer(shard(), late=True))
    assert late[:4] == [
        Elementwise("other", 64),
        Gemm("linear", 2 * 2, 8),
        Elementwise("other", 2 * 2 * 2 * 2),
        Gemm("linear", 8, 4),
    ]


def test_experts_that_replicas_share() -> None:
    """Rows of both replicas are gathered, each 8 wide, and counted once; the shared experts are one MLP of 12."""
    found = list(layer(shard(tp=1, sharers=2, **SPARSE)))
    assert found[6:] == [
        Gemm("linear", 4, 8, plain=True),
        Elementwise("other", 8 * 4),
        Collective("ep", "all_gather", 8 * 2, among=True),
        Experts("linear", 4, 2, 8, 6, True, 2, among=True),
        Collective("ep", "reduce_scatter", 8 * 2, among=True),
        Gemm("linear", 24, 8),
        Elementwise("other", 3 * 12 * 2),
        Gemm("linear", 8, 12),
    ]
    assert [piece for piece in found if together(piece)] == found[8:11]
    assert launched(found[6:], launches(kernel_launch=1.0)) == 12
    assert launched(found[6:], launches(kernel_launch=1.0, experts_launch=9.0)) == 12 - 5 + 9
    assert not any(isinstance(piece, Collective) for piece in layer(shard(tp=1, **SPARSE)))


def test_the_ends_of_the_model() -> None:
    assert list(embedding(shard())) == [Elementwise("other", 2 * 8 * 2), Collective("tp", "all_reduce", 16)]
    assert next(embedding(shard(position="learned", max_sequence=10))) == Elementwise("other", 3 * 8 * 2)
    assert list(head(shard())) == [
        Elementwise("other", 64),
        Gemm("head", 50, 8, plain=True),
        Collective("tp", "all_gather", 100 * 2),
        Elementwise("head", 100 * (2 + 4 + 4), 3),
    ]
    whole = list(head(shard(tp=1, formats=replace(BF16, whole=True))))
    assert whole == [Elementwise("other", 64), Gemm("head", 100, 8), Elementwise("head", 1000, 3)]


def test_weights() -> None:
    dense, sparse = shard(), shard(tp=1, sharers=2, **SPARSE)
    (kind,) = dense.model.kinds
    assert dense.layer_bytes(kind) == 2 * (8 * (8 + 4) + 3 * 8 * 8 + 2 * 8)
    narrow = shard(formats=FP8, gated_ffn=False)
    assert narrow.layer_bytes(kind) == 8 * (8 + 4) + 2 * 8 * 8 + 2 * 2 * 8  # norms keep 16 bits
    mixture = kind._replace(mlp="moe")
    assert sparse.layer_bytes(mixture) == 2 * (8 * (16 + 8) + 3 * 8 * 6 * (4 / 2 + 2) + 2 * 8 + 8 * 4)
    assert shard(norm="layernorm").layer_bytes(kind) - dense.layer_bytes(kind) == 2 * 2 * 8
    assert (dense.embedding_weights(), dense.head_weights()) == (400, 400)
    assert shard(position="learned", max_sequence=10).embedding_weights() == (50 + 10) * 8


@pytest.mark.parametrize(("tp", "heads", "kv_heads", "inner", "words"), [(3, 2, 1, 6, 34), (8, 1, 1, 2, 13)])
def test_what_does_not_divide_is_rounded_up(tp: int, heads: int, kv_heads: int, inner: int, words: int) -> None:
    part = shard(tp=tp)
    last = [piece for piece in layer(part) if isinstance(piece, Gemm)][-1]
    logits = next(piece for piece in head(part) if isinstance(piece, Gemm))
    assert (part.heads, part.kv_heads, last.k, logits.n) == (heads, kv_heads, inner, words)


def test_norms_and_activations_round_what_they_write_where_an_engine_fuses_that() -> None:
    """The result of attention alone is rounded by a kernel of its own."""
    plain, apart = list(layer(shard())), list(layer(shard(formats=FP8)))
    fused = list(layer(shard(formats=replace(FP8, fused_casts=True))))
    assert [len(found) - len(plain) for found in (apart, fused)] == [4, 1]
    out = fused.index(Gemm("linear", 8, 2 * 2))
    assert fused[out - 1] == Elementwise("other", 2 * 2 * (2 + 1))
