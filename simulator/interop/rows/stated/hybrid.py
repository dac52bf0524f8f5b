"""Attention of published training rows that no words build, and a shipped model of the row's name describes."""

from typing import TYPE_CHECKING, Literal

from simulator.interop.rows import training_names as names
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.serving_names import model as served_model
from simulator.specs.model import Model

if TYPE_CHECKING:
    from simulator.interop.rows.training import Row


def described(row: "Row") -> Model | None:
    """The shipped model of a row whose attention is none of those that words build; None for others."""
    try:
        names.attention(row.attention)
    except Refused:
        return _of_shape(row)
    return None


def _of_shape(row: "Row") -> Model | None:
    try:
        known = served_model(row.model)
    except Refused:
        return None
    shape = row.layers, row.hidden, row.heads, row.experts or None
    return known if (known.layers, known.hidden, known.heads, known.experts) == shape else None


def attention(row: "Row") -> Literal["fused", "unfused"] | None:
    """Kernels of attention, those of the stack for layers that a shipped model describes; raises Refused for words that
    neither knows."""
    said = row.attention if described(row) is None else None
    return names.attention(said, row.framework, row.flags)
