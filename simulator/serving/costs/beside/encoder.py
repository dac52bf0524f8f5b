"""An encoder before a decoder that is served (T5, arXiv:1910.10683; BART, arXiv:1910.13461; Whisper, arXiv:2212.04356).

Every request passes the encoder once, whole, as each of its rows sees all others: with what else begins in the same
iteration its layers work on the rows of all. A product of each layer of the decoder makes keys and values of what comes
out, which stay in the cache until the request leaves. Captured graphs have no encoder. Left out: rows of a batch that
are filled up to the longest, relative positions as an addition to scores, activations between convolutions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from simulator.model.blocks.cross import cross_keys
from simulator.model.blocks.ends import encoder_ends
from simulator.model.ops import Linear, Op
from simulator.model.tensors import BIAS, MATRIX, tensors
from simulator.serving.costs.attention import Attention
from simulator.serving.costs.beside.vision import VisionCost, vision_cost, with_encoder
from simulator.serving.costs.depth import depths
from simulator.serving.costs.footprint import Footprint
from simulator.serving.costs.operators import Piece, Shard, Write, pieces_of
from simulator.serving.costs.pieces import Pieces, RowCosts, ticks
from simulator.specs.model import Model


@dataclass(frozen=True, slots=True)
class EncoderCost:
    """The encoder on the devices of one stage."""

    body: RowCosts
    """Seconds of all but attention for so many rows, keys and values for the decoder among them, by part."""
    attention: Attention
    weights_bytes: float
    """Weights on one device."""
    _known: dict[tuple[int, ...], int] = field(default_factory=dict, compare=False)

    def ticks(self, rows: Sequence[int]) -> int:
        """Ticks of encoding requests of so many rows together."""
        key = tuple(sorted(rows))
        if not key:
            return 0
        if key not in self._known:
            parts = tuple(self.body(np.array([sum(key)])).values())
            self._known[key] = int(ticks(np.sum(parts, axis=0))[0]) + self.attention.both_ways(key)
        return self._known[key]


def encoder_cost(model: Model, pieces: Pieces) -> EncoderCost | None:
    """The encoder of a model on the devices of `pieces`, with its software; None where it has none."""
    if model.encoder_layers is None:
        return None
    stack = pieces.stack.model_copy(update={"graphs": None})
    encoder = model.model_copy(update={"layers": model.encoder_layers, "encoder_layers": None})
    shard = replace(pieces.shard, model=encoder)
    own = replace(pieces, shard=shard, stack=stack, graphs=None, _sizes={})
    depth = depths(encoder, (encoder.layers,))[0]
    attention, ends = Attention(shard, depth, pieces.device, stack), list(encoder_ends(model, shard.cut))
    made = [piece for op in ends for piece in _visited(shard, op)]
    made += model.layers * [*pieces_of(shard, [cross_keys(model, shard.cut)]), _written(shard)]
    formats, kept = shard.formats, [tensor for tensor in tensors(ends) if tensor.kind != BIAS]
    tables = sum(one.elements * (formats.weight_size if one.kind == MATRIX else formats.plain_size) for one in kept)
    return EncoderCost(
        body=own.encoder(depth, made, attention.curve.launch, len(made)),
        attention=attention,
        weights_bytes=encoder.layers * shard.layer_bytes(encoder.kinds[0]) + tables,
    )


def with_encoders(
    needs: list[Footprint], model: Model, pieces: Pieces
) -> tuple[list[Footprint], VisionCost | None, EncoderCost | None]:
    """(memory of the stages with the weights of encoders on the first, the one of images, the one of prompts)."""
    needs, vision = with_encoder(needs, vision_cost(model, pieces))
    encoder = encoder_cost(model, pieces)
    if encoder is not None:
        needs = [replace(needs[0], weights=needs[0].weights + encoder.weights_bytes), *needs[1:]]
    return needs, vision, encoder


def _visited(shard: Shard, op: Op) -> Iterable[Piece]:
    """Pieces of an operation, as often as rows pass it: a convolution twice where it takes two frames for each row."""
    pieces = list(pieces_of(shard, [op], joined=False))
    return pieces * (round(op.does.visits) if isinstance(op.does, Linear) else 1)


def _written(shard: Shard) -> Write:
    """Keys and values of a row into the cache of a layer."""
    elements = 2.0 * shard.kv_heads * shard.head_dim
    return Write("other", elements * shard.formats.kv_size, elements * shard.formats.plain_size)
