"""The two ends of a model: the look-up of tokens and positions, and the head with its loss or its choice of a token."""

from collections.abc import Iterator
from dataclasses import replace

from simulator.axes import TP
from simulator.model.blocks.around import norm
from simulator.model.blocks.base import enter, leave
from simulator.model.cut import Cut
from simulator.model.ops import COLUMN, TABLE, TIED, Comm, Linear, Lookup, Loss, Op, Sample
from simulator.specs.model import Model

KERNEL = 3
"""Frames that a convolution over sound reads."""


def embedding(model: Model, cut: Cut, longest: int = 0) -> Iterator[Op]:
    """Looking up tokens and positions; `longest` sizes a learned table where the model does not say."""
    learned = model.position == "learned"
    positions = (model.max_sequence or longest) if learned else 0
    masked = float(model.hidden) if cut.dropout else 0.0
    table = Lookup(model.hidden, cut.share(model.vocabulary), learned, positions, masked, cut.rows, TP)
    yield Op("embedding", table)
    yield from leave(cut, "embedding", model.hidden)


def positions(model: Model, cut: Cut, longest: int = 0) -> Iterator[Op]:
    """What is left of the embedding where its table is elsewhere: adding positions, and dropout; nothing without."""
    table = next(embedding(model, cut, longest)).does
    if isinstance(table, Lookup) and (table.learned or table.masked):
        yield Op("positions", replace(table, entries=0))


def encoder_ends(model: Model, cut: Cut) -> Iterator[Op]:
    """Looking up the tokens of an encoder in the same table, or the convolutions that make rows of sound, positions of
    its own where they are learned, and the norm of its output."""
    longest = (model.encoder_rows or model.max_sequence or 0) if model.position == "learned" else 0
    if model.sound_bins is None:
        for op in embedding(model, cut):
            does = replace(op.does, learned=False) if longest and isinstance(op.does, Lookup) else op.does
            yield replace(op, does=does, owner=TIED)
    else:
        yield from convolutions(model, model.sound_bins)
    if longest:
        yield Op("encoder positions", Lookup(model.hidden, 0, True, longest, rows=cut.rows))
    yield norm(model, cut)


def convolutions(model: Model, bins: int) -> Iterator[Op]:
    """Two convolutions over three frames each, the second of every other frame (Whisper, arXiv:2212.04356, section
    2.2), as products that every device does whole."""
    frames = Linear(KERNEL * bins, model.hidden, bias=True, visits=2.0)
    yield Op("first convolution", frames)
    yield Op("second convolution", Linear(KERNEL * model.hidden, model.hidden, bias=True))


def head(model: Model, cut: Cut) -> Iterator[Op]:
    """Last norm and logits."""
    yield norm(model, cut)
    yield from enter(cut, "head", model.hidden)
    yield Op("head", Linear(model.hidden, cut.share(model.vocabulary), COLUMN, TP, TABLE))


def with_loss(model: Model, cut: Cut) -> Iterator[Op]:
    """The head of training, once for the next token and once for each token that a further module predicts."""
    for module in range(1 + model.mtp_layers):
        again = module > 0
        yield from (replace(op, owner=TIED) if again and op.name == "head" else op for op in head(model, cut))
        whole = cut.whole_logits and cut.over(TP) > 1
        if whole:
            yield Op("gather logits", Comm("all_gather", TP, model.vocabulary, whole=True))
        yield Op("loss", Loss(model.vocabulary if whole else cut.share(model.vocabulary)))


def with_choice(model: Model, cut: Cut) -> Iterator[Op]:
    """The head of serving: logits are gathered, and a token is chosen."""
    yield from head(model, cut)
    if cut.over(TP) > 1:
        yield Op("gather logits", Comm("all_gather", TP, cut.share(model.vocabulary) * cut.over(TP)))
    yield Op("sample", Sample(model.vocabulary))
