"""Parameters, kept tensors and cache of a layer, worked out by hand: 8 wide, 4 heads of 2 over 2 of keys, 16 inside."""

from simulator.axes import EP, TP
from simulator.model.blocks import ends
from simulator.model.cut import Cut
from simulator.model.layers import layer
from simulator.model.ops import LAYER, TABLE, WIDE
from simulator.model.tensors import BIAS, FACTOR, MASK, MATRIX, PLAIN, SCALE, cached, core, kept, multiplied, tensors
from tests import jobs

MODEL = jobs.model(hidden=8, heads=4, kv_heads=2, ffn=16, vocabulary=101, max_sequence=10)
SPARSE = jobs.model(
    hidden=8, heads=4, kv_heads=2, experts=4, top_k=2, expert_ffn=6, shared_experts=2, gated_ffn=True, biases=False
)


def test_tensors_name_the_axes_that_cut_them_and_those_that_have_to_sum_their_gradients() -> None:
    found = list(tensors(layer(MODEL, Cut({TP.name: 2}, scattered=True), MODEL.kinds[0])))
    matrices = {one.name: one.elements for one in found if one.kind == MATRIX}
    assert matrices == {"attention in": 8 * 8, "attention out": 4 * 8, "mlp in": 8 * 8, "mlp out": 8 * 8}
    assert all(one.cut == (TP,) and one.summed == () for one in found if one.kind == MATRIX)
    assert [(one.elements, one.cut) for one in found if one.kind == BIAS] == [
        (8, (TP,)),
        (8, ()),
        (8, (TP,)),
        (8, ()),
    ]
    scales = [one for one in found if one.kind == SCALE]
    assert [one.elements for one in scales] == [8] * 4  # two layer norms
    assert all(one.cut == () and one.summed == (TP,) for one in scales)


def test_gradients_of_copies_are_whole_where_no_axis_cuts_the_rows() -> None:
    assert all(one.summed == () for one in tensors(layer(MODEL, Cut({TP.name: 2}), MODEL.kinds[0])))


def test_tensors_of_a_mixture() -> None:
    """The router stays in 16 bits; experts are spread over their axis, shared ones are on every device of it."""
    found = {one.name: one for one in tensors(layer(SPARSE, Cut({EP.name: 2}), SPARSE.kinds[0])) if one.kind == MATRIX}
    assert (found["router"].elements, found["router"].format) == (8 * 4, WIDE)
    assert (found["experts"].elements, found["experts"].format) == (3 * 8 * 6 * 4 / 2, LAYER)
    assert found["experts"].cut == (EP,)
    assert found["mlp in"].elements + found["mlp out"].elements == 3 * 8 * 12


def test_the_ends() -> None:
    cut = Cut({TP.name: 2})
    assert [(one.elements, one.format) for one in tensors(ends.embedding(MODEL, cut))] == [
        (51 * 8, TABLE),
        (10 * 8, TABLE),
    ]
    assert [one.elements for one in tensors(ends.with_loss(MODEL, cut))] == [8, 8, 51 * 8]


def test_what_is_kept_of_a_row() -> None:
    """Inputs of norms and products, queries, keys, values, what the activation read, masks."""
    by_form = {FACTOR: 0.0, PLAIN: 0.0, MASK: 0.0}
    for one in kept(layer(MODEL, Cut(dropout=True), MODEL.kinds[0])):
        by_form[one.form] += one.elements
    assert by_form == {FACTOR: 8 + 8 + 8 + 16, PLAIN: 8 + 16 + 8 + 16, MASK: 8 + 8}
    scattered = list(kept(layer(MODEL, Cut({TP.name: 2}, scattered=True), MODEL.kinds[0])))
    assert [one.name for one in scattered if one.rows is TP] == ["norm", "attention in", "norm", "mlp in"]


def test_the_cache_and_the_work_of_a_row() -> None:
    ops = list(layer(MODEL, Cut({TP.name: 4}), MODEL.kinds[0]))
    assert cached(ops) == 2 * 1 * 2  # fewer key heads than devices: each has one
    found = core(ops)
    assert found is not None and (found.heads, found.kv_heads, found.attended) == (1, 1, 2)
    assert multiplied(layer(SPARSE, Cut(), SPARSE.kinds[0])) == 8 * 16 + 8 * 8 + 8 * 4 + (2 + 2) * 3 * 8 * 6
