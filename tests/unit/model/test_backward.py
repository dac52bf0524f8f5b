"""The backward pass of a layer follows from its forward one, rule by rule."""

import pytest

from simulator.axes import EP, TP
from simulator.model.backward import DUAL, backward
from simulator.model.blocks import ends
from simulator.model.cut import Cut
from simulator.model.layers import layer
from simulator.model.ops import COPY, AttentionCore, Comm, Elementwise, Experts, Linear, Loss, Op, WeightGradient
from simulator.model.tensors import kept
from tests import jobs

MODEL = jobs.model(hidden=8, heads=4, kv_heads=2, ffn=16, biases=True)


def one_layer(cut: Cut) -> list[Op]:
    return list(layer(MODEL, cut, MODEL.kinds[0]))


def collectives(ops: list[Op]) -> list[str]:
    return [op.does.operation for op in ops if isinstance(op.does, Comm) and op.does.operation != COPY]


def test_a_product_has_two_in_the_backward_pass_and_each_half_as_many_as_both() -> None:
    forward = one_layer(Cut())
    back = list(backward(forward))
    products = [op.does for op in forward if isinstance(op.does, Linear)]
    to_input = [op.does for op in back if isinstance(op.does, Linear)]
    assert [(p.inputs, p.outputs) for p in to_input] == [(p.outputs, p.inputs) for p in reversed(products)]
    assert [op.does.of for op in back if isinstance(op.does, WeightGradient)] == products[::-1]
    assert all(op.gradient == isinstance(op.does, WeightGradient) for op in back)


def test_what_one_half_reduces_forward_the_other_reduces_backward() -> None:
    """Megatron's f and g: an all-reduce a half forward, one a half backward, after the gradient of its rows and before
    that of its weights."""
    cut = Cut({TP.name: 2})
    assert collectives(one_layer(cut)) == ["all_reduce"] * 2
    back = list(backward(one_layer(cut)))
    assert collectives(back) == ["all_reduce"] * 2
    kinds = [type(op.does) for op in back if op.name in ("mlp in", "gradient of gather mlp")]
    assert kinds == [Linear, Comm, WeightGradient]


def test_sequence_parallelism_gathers_again_for_the_gradients_of_weights() -> None:
    cut = Cut({TP.name: 2}, scattered=True)
    assert collectives(one_layer(cut)) == ["all_gather", "reduce_scatter"] * 2
    half = ["all_gather", "all_gather", "reduce_scatter"]  # the gradient, the rows again; the gradient of the rows
    assert collectives(list(backward(one_layer(cut)))) == half * 2
    assert collectives(list(backward(ends.with_loss(MODEL, cut)))) == ["all_gather", "reduce_scatter"]
    assert collectives(list(backward(ends.embedding(MODEL, cut)))) == ["all_gather"]


def test_matrices_that_gather_their_own_input_keep_it() -> None:
    """Queries, keys and values, and the matrix before the activation; each gradient of rows is reduced by itself."""
    cut = Cut({TP.name: 2}, scattered=True, gathers_each=True)
    assert collectives(one_layer(cut)) == ["all_gather"] * 3 + ["reduce_scatter", "all_gather", "reduce_scatter"]
    back = ["all_gather", "reduce_scatter", "all_gather"] + ["reduce_scatter"] * 3
    assert collectives(list(backward(one_layer(cut)))) == back
    rows = {one.name: one.rows for one in kept(one_layer(cut))}
    assert (rows["attention in"], rows["mlp in"]) == (None, None)
    assert collectives(one_layer(Cut({TP.name: 2}, gathers_each=True))) == collectives(one_layer(Cut({TP.name: 2})))


def test_logits_that_all_gather_leave_each_the_gradient_of_its_own() -> None:
    cut = Cut({TP.name: 2}, scattered=True, whole_logits=True)
    whole, parts = list(ends.with_loss(MODEL, cut)), list(ends.with_loss(MODEL, Cut({TP.name: 2}, scattered=True)))
    assert collectives(whole) == [*collectives(parts), "all_gather"]
    assert collectives(list(backward(whole))) == collectives(list(backward(parts)))
    width = [op.does.width for op in (*whole, *parts) if isinstance(op.does, Loss)]
    assert width == [MODEL.vocabulary, MODEL.vocabulary / 2]


def test_every_collective_has_a_dual_whose_dual_it_is() -> None:
    assert all(DUAL[dual] == operation for operation, dual in DUAL.items())


def test_dropout_and_attention_run_backward() -> None:
    back = list(backward(one_layer(Cut(dropout=True))))
    passes = [op.does for op in back if isinstance(op.does, Elementwise)]
    assert [one.forward.masks_read for one in passes if one.forward.masks_read] == [8, 8]
    assert [op.does.backward for op in back if isinstance(op.does, AttentionCore)] == [True]


def test_what_has_no_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="no rule for the backward pass of experts"):
        list(backward([Op("experts", Experts(4, 2, 8, 8, True, EP, 1))]))
