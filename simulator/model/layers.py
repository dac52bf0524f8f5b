"""Layers of a model: an attention block and an MLP block, one after the other or side by side, or only one of them.
Modules that predict further tokens are layers too, which begin by taking in the token before; layers of a decoder may
attend to an encoder between the two.

Which blocks a layer has is its kind, and a model is a pattern of kinds (`simulator.specs.model`).
"""

from collections.abc import Iterator

from simulator.model.blocks import ATTENTIONS, KEYS, MLPS, WHOLE
from simulator.model.blocks.around import branches, norm, residual
from simulator.model.blocks.cross import cross
from simulator.model.blocks.predicting import joined
from simulator.model.cut import Cut
from simulator.model.ops import Comm, Op
from simulator.specs.model import LayerKind, Model


def layer(
    model: Model, cut: Cut, kind: LayerKind, part: str = WHOLE, beside: bool = False, cached: bool = False
) -> Iterator[Op]:
    """One layer; with `beside`, models of which attention and MLP stand side by side have both read one norm and end in
    one sum; `cached`: keys and values of an encoder's output are there already. InputError for kinds of blocks that are
    not known."""
    if kind.predicts:
        yield from joined(model, cut)
    attention = list(attention_of(model, cut, kind, part))
    mlp = list(MLPS.get(kind.mlp, "model.pattern")(model.of(kind), cut))
    if beside and model.parallel_mlp:
        yield norm(model, cut)
        yield from attention[: len(attention) - isinstance(attention[-1].does, Comm)]
        yield branches(model)
        yield from mlp[isinstance(mlp[0].does, Comm) :]
        yield residual(model, cut)
        return
    for block in (attention, list(cross(model, cut, cached)) if kind.crosses else [], mlp):
        if block:
            yield norm(model, cut)
            yield from block
            yield residual(model, cut)


def attention_of(model: Model, cut: Cut, kind: LayerKind, part: str = WHOLE) -> Iterator[Op]:
    """The attention block of a layer."""
    return ATTENTIONS.get(kind.attention, "model.attention")(model.of(kind), cut, kind.window, part)


def keys(model: Model, cut: Cut, kind: LayerKind) -> Iterator[Op]:
    """The keys and values of a layer that its rows do not pass."""
    yield norm(model, cut)
    yield from attention_of(model, cut, kind, KEYS)
