"""Kinds of layers, and the pattern that a model is of them."""

from itertools import groupby
from typing import Annotated, NamedTuple

from pydantic import Field

from simulator.specs.base import Count, Spec
from simulator.specs.model.linear import STATEFUL


class LayerKind(NamedTuple):
    """Which blocks a layer has."""

    attention: str
    mlp: str
    window: int | None = None
    """Tokens that its attention looks back to; None for all."""
    sizes: tuple[tuple[str, int | bool | None], ...] = ()
    """Fields of the model that are otherwise in this layer, by name."""
    predicts: bool = False
    """Whether it is a module after the last layer that predicts a further token, which also takes that token in."""
    encodes: bool = False
    """Whether it is a layer of an encoder, whose tokens all see each other."""
    crosses: bool = False
    """Whether it attends to the encoder's output besides, between its own attention and its MLP."""
    load: int = 0
    """Which of the loads of its experts it has, where these differ by layer."""

    @property
    def attends(self) -> bool:
        """Whether it looks back at keys and values in a cache, so that its cost grows with the tokens before."""
        return self.attention != "none" and self.attention not in STATEFUL

    @property
    def stateful(self) -> bool:
        """Whether it carries a state of constant size from token to token."""
        return self.attention in STATEFUL


class Layers(Spec):
    """Consecutive layers of one kind; what is left out is as the model says."""

    repeat: Annotated[int, Field(ge=1, le=10_000)] = 1
    """How many there are."""
    attention: str | None = None
    """Kind of attention, as that of the model; `none`: the layer has only an MLP."""
    mlp: str | None = None
    """Kind of MLP: `dense` (of width `ffn`), `moe` (experts of width `expert_ffn`), or one that a plug-in adds; `none`:
    the layer has only its attention or state."""
    window: Count | None = None
    """Tokens that their attention looks back to; the whole context where left out."""
    heads: Count | None = None
    """Query heads, where not as the model's."""
    kv_heads: Count | None = None
    """Key and value heads, where not as the model's."""
    head_dim: Count | None = None
    """Size of a head, where not as the model's."""
    ffn: Count | None = None
    """Inner width of a dense MLP, where not as the model's."""
    keys_as_values: bool | None = None
    """Whether values are the keys, where not as the model's."""

    @property
    def sizes(self) -> tuple[tuple[str, int | bool | None], ...]:
        """Fields that are otherwise than the model's."""
        named = ("heads", "kv_heads", "head_dim", "ffn", "keys_as_values")
        return tuple((name, getattr(self, name)) for name in named if getattr(self, name) is not None)


BLOCKS = {
    "M": {"mlp": "none"},
    "E": {"attention": "none", "mlp": "moe"},
    "*": {"attention": "grouped", "mlp": "none"},
    "-": {"attention": "none", "mlp": "dense"},
}
"""Layers of one block by the letters of Nemotron-H's configurations."""


def blocks(letters: str) -> list[dict[str, object]]:
    """The pattern of a text of letters, equal neighbours together; ValueError for other letters."""
    other = next((letter for letter in letters if letter not in BLOCKS), None)
    if other is not None or not letters:
        raise ValueError(f"a pattern in letters has {' '.join(BLOCKS)}, not {other!r}")
    return [{"repeat": len(list(alike)), **BLOCKS[letter]} for letter, alike in groupby(letters)]
