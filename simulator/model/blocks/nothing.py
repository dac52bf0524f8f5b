"""No block: layers of a hybrid that have only a mixer, or only an MLP (Nemotron-H, arXiv:2504.03624)."""

from collections.abc import Iterator

from simulator.model.blocks.base import ATTENTIONS, MLPS, WHOLE
from simulator.model.cut import Cut
from simulator.model.ops import Op
from simulator.specs.model import Model


@ATTENTIONS.add("none")
def no_attention(model: Model, cut: Cut, window: int | None, part: str = WHOLE) -> Iterator[Op]:
    """Nothing mixes tokens in the layer."""
    yield from ()


@MLPS.add("none")
def no_mlp(model: Model, cut: Cut) -> Iterator[Op]:
    """The layer has no MLP."""
    yield from ()
