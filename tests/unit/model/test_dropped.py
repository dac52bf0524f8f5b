"""What selective recomputation drops of a layer, and runs again."""

import pytest

from simulator.axes import EP
from simulator.model.cut import SENT, Cut
from simulator.model.dropped import MODULES, computed_again, dropping
from simulator.model.layers import layer
from simulator.model.ops import Op
from simulator.model.tensors import kept
from simulator.specs import load_spec
from simulator.specs.model import Model

V3 = load_spec(Model, "deepseek-v3")


def ops(mlp: str = "moe") -> list[Op]:
    kind = next(kind for kind in V3.kinds if kind.mlp == mlp)
    return list(layer(V3, Cut({EP.name: 64}, dispatch=SENT), kind))


def elements(found: list[Op]) -> float:
    return sum(one.elements for one in kept(found))


def test_nothing_is_dropped_unless_it_is_named() -> None:
    assert list(dropping(ops(), ())) == ops()
    assert computed_again(ops(), ()) == []


def test_the_expansion_of_latents_is_dropped_and_run_again() -> None:
    spared = elements(ops()) - elements(list(dropping(ops(), ("latent",))))
    assert spared == pytest.approx(V3.heads * (2 * 192 + 128), rel=0.02)
    assert [op.name for op in computed_again(ops(), ("latent",))] == [
        "query up",
        "key and value up",
        "rotary",
        "keys of two parts",
    ]


def test_experts_do_not_keep_the_results_of_their_activation() -> None:
    spared = elements(ops()) - elements(list(dropping(ops(), ("activation",))))
    assert V3.top_k is not None and V3.expert_ffn is not None
    assert spared == (V3.top_k + 1) * V3.expert_ffn  # that of the shared expert too


def test_what_is_clamped_before_an_activation_is_dropped_with_it() -> None:
    """Before: gate and rows for the clamp, clamped ones for the nonlinearity, and its result, five widths of an expert;
    after: gate and rows."""
    oss = load_spec(Model, "gpt-oss-120b")
    listed = list(layer(oss, Cut({EP.name: 64}, dispatch=SENT), oss.kinds[0]))
    plain = list(layer(oss, Cut({EP.name: 64}, dispatch=SENT, fused=True), oss.kinds[0]))
    again = list(dropping(listed, ("activation",)))
    assert oss.top_k is not None and oss.expert_ffn is not None
    assert elements(listed) - elements(plain) == oss.top_k * 2 * oss.expert_ffn
    assert elements(listed) - elements(again) == oss.top_k * 3 * oss.expert_ffn
    assert [op.name for op in computed_again(listed, ("activation",))] == ["clamp", "activation"]


def test_norms_are_kept_by_nobody() -> None:
    dense = ops("dense")
    assert elements(dense) - elements(list(dropping(dense, ("norm",)))) == 2 * V3.hidden
    assert {op.name for op in computed_again(dense, MODULES)} >= {"norm", "activation", "query up"}


def test_a_mixture_that_is_run_again_keeps_its_input_alone() -> None:
    before = [op.name for op in ops()].index("router")
    whole = list(dropping(ops(), ("experts",)))
    assert elements(whole) == elements(ops()[: before - 3]) + V3.hidden
    assert elements(list(dropping(ops(), ("norm", "experts")))) == elements(whole) - 2 * V3.hidden
    again = [op.name for op in computed_again(ops(), ("experts",))]
    assert {"router", "dispatch", "experts in", "experts out", "combine", "mlp in"} <= set(again)
    assert "attention out" not in again and "norm" not in again
    assert list(dropping(ops("dense"), ("experts",))) == ops("dense")
