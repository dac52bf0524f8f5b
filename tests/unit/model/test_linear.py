"""Layers with a state: what blocks state of projections, convolution, recurrence, kept elements, backward pass."""

from typing import Any

import pytest

from simulator.axes import TP
from simulator.model.backward import backward
from simulator.model.cut import Cut
from simulator.model.layers import layer
from simulator.model.ops import COPY, Comm, Elementwise, Linear, Op, StateScan
from simulator.model.tensors import cached, core, kept, scan, tensors
from simulator.specs.model import STATEFUL, Model

SIZES = {"key_heads": 2, "value_heads": 4, "key_dim": 8, "value_dim": 16, "conv": 4, "chunk": 32}
SHAPE: dict[str, Any] = {"name": "small", "layers": 4, "hidden": 64, "heads": 4, "vocabulary": 100, "biases": False}


def model(kind: str, **changes: Any) -> Model:
    return Model.model_validate(SHAPE | {"attention": kind, "linear": SIZES} | changes)


def mixer(kind: str, cut: Cut = Cut(), **changes: Any) -> list[Op]:  # noqa: B008 - frozen
    found = model(kind, pattern=[{"mlp": "none"}], **changes)
    return list(layer(found, cut, found.kinds[0]))


def parameters(ops: list[Op]) -> float:
    return sum(tensor.elements for tensor in tensors(ops))


NORM = 64 * 2  # layer norm


def test_parameters_of_each_kind_are_those_of_its_paper() -> None:
    keys, values, h = 2 * 8, 4 * 16, 64
    delta = h * (2 * keys + 2 * values + 2 * 4) + 4 * (2 * keys + values) + values * h + 16 + 2 * 4
    assert parameters(mixer("delta")) == NORM + delta
    kda = h * (2 * keys + values + 4) + 8 * (h + keys) + 6 * (h + values) + 4 * (2 * keys + values) + values * h
    own = SIZES | {"gate_rank": 6}
    assert parameters(mixer("kda", linear=own)) == NORM + kda + 16 + 4 + keys
    gla = h * (2 * keys + 2 * values) + 5 * (h + keys) + keys + values * h + 16
    assert parameters(mixer("gla", linear=SIZES | {"conv": 0, "decay_rank": 5})) == NORM + gla
    mamba2 = h * (2 * values + 2 * keys + 4) + 5 * (values + 2 * keys) + values * h + values + 3 * 4
    assert parameters(mixer("mamba2")) == NORM + mamba2
    one = {"value_heads": 128, "key_dim": 16, "decay_rank": 4}
    inner = 128
    mamba1 = h * 2 * inner + 5 * inner + inner * (4 + 32) + 4 * inner + inner + inner * 16 + inner + inner * h
    assert parameters(mixer("mamba1", linear=one)) == NORM + mamba1


@pytest.mark.parametrize("kind", STATEFUL)
def test_a_state_stands_for_all_tokens_before_and_nothing_is_cached_for_each(kind: str) -> None:
    ops = mixer(kind)
    found = scan(ops)
    assert found is not None and found.kind == kind
    assert (found.state, found.tail) == (4 * 8 * 16, 3 * (64 if kind == "mamba1" else 64 + 32))
    assert core(ops) is None
    assert cached(ops) == 0


@pytest.mark.parametrize("kind", STATEFUL)
def test_devices_share_the_heads_and_the_backward_pass_follows(kind: str) -> None:
    whole, half = scan(mixer(kind)), scan(mixer(kind, Cut({TP.name: 2})))
    assert whole is not None and half is not None
    assert half.state * 2 == whole.state
    forward = mixer(kind, Cut({TP.name: 2}))
    back = list(backward(forward))
    scans = [op.does for op in back if isinstance(op.does, StateScan)]
    assert [does.backward for does in scans] == [True]
    sums = [op for op in back if isinstance(op.does, Comm) and op.does.operation == "all_reduce"]
    assert len(sums) == (2 if kind == "mamba1" else 1)
    assert not any(op.does.operation == COPY for op in sums if isinstance(op.does, Comm))


def test_groups_of_fewer_heads_than_devices_are_copied() -> None:
    found = scan(mixer("mamba2", Cut({TP.name: 4})))
    assert found is not None
    assert (found.heads, found.key_heads) == (1, 1)


def test_the_chunks_of_training_are_kept_with_queries_keys_and_values() -> None:
    ops = mixer("delta")
    state = next(one for one in kept(ops) if one.name == "state")
    assert state.elements == 2 * 16 + 64 + 4 * (2 + 2 + 32)
    inputs = sum(one.elements for one in kept(ops) if one.name in ("attention in", "attention out"))
    assert inputs == 64 + 64


def test_a_convolution_of_no_width_is_none() -> None:
    ops = mixer("gla", linear=SIZES | {"conv": 0})
    assert not any(isinstance(op.does, Elementwise) and op.does.kind == "convolution" for op in ops)
    found = scan(ops)
    assert found is not None and found.tail == 0


def test_letters_are_layers_of_one_block() -> None:
    found = model("mamba2", layers=6, pattern="MM*-M-")
    kinds = [(kind.attention, kind.mlp) for kind in found.kinds]
    assert kinds == [
        ("mamba2", "none"),
        ("mamba2", "none"),
        ("grouped", "none"),
        ("none", "dense"),
        ("mamba2", "none"),
        ("none", "dense"),
    ]
    assert [kind.stateful for kind in found.kinds] == [True, True, False, False, True, False]
    assert [kind.attends for kind in found.kinds] == [False, False, True, False, False, False]
    products = [op.name for op in layer(found, Cut(), found.kinds[3]) if isinstance(op.does, Linear)]
    assert products == ["mlp in", "mlp out"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"linear": None}, "write `linear`"),
        ({"pattern": "M?"}, "a pattern in letters has M E"),
        ({"pattern": [{"attention": "none", "mlp": "none"}]}, "neither attention nor MLP"),
        ({"prompt_layers": 2}, "not described together"),
    ],
)
def test_what_does_not_add_up_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said.replace("?", r"\?")):
        model("mamba2", **changes)
