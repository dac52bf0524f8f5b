"""Encoding images on the devices of a replica: a vision transformer cut over tensor parallelism, in 16 bits.

All images that an iteration begins with pass the encoder together before its prompts: its layers work on the rows of
all their patches, attention on each image by itself, each patch seeing all of it; then the embedding of patches and the
projector. Captured graphs have no encoder, so the device waits for the host where kernels are shorter than launches.
Left out: windows of encoders, caches of encoded images that several requests share, resizing and normalising on the
host (a station, `serving.fleet.before`), encoders cut by images in place of heads.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from simulator.serving.costs.attention import Attention
from simulator.serving.costs.depth import depths
from simulator.serving.costs.footprint import Footprint
from simulator.serving.costs.formats import resolve_formats
from simulator.serving.costs.operators import Gemm, Shard
from simulator.serving.costs.pieces import Pieces, RowCosts, ticks
from simulator.specs.model import Model
from simulator.specs.model.vision import Vision
from simulator.specs.serving import NumberFormats

COLOURS = 3
"""Numbers of a pixel."""


@dataclass(frozen=True, slots=True)
class VisionCost:
    """The encoder on the devices of one stage."""

    body: RowCosts
    """Seconds of all but attention for so many patches, by part."""
    projector: RowCosts
    """Seconds of making so many tokens, by part."""
    attention: Attention
    weights_bytes: float
    """Weights on one device."""
    merge: int
    """Patches of a token."""
    _known: dict[tuple[int, ...], int] = field(default_factory=dict, compare=False)

    def ticks(self, images: Sequence[int]) -> int:
        """Ticks of encoding images of so many patches together."""
        key = tuple(sorted(images))
        if not key:
            return 0
        if key not in self._known:
            rows, tokens = sum(key), sum(-(-size // self.merge) for size in key)
            parts = (*self.body(np.array([rows])).values(), *self.projector(np.array([tokens])).values())
            self._known[key] = int(ticks(np.sum(parts, axis=0))[0]) + self.attention.both_ways(key)
        return self._known[key]


def vision_cost(model: Model, pieces: Pieces) -> VisionCost | None:
    """The encoder of a model on the devices of `pieces`, the first stage, with its software; None where it has none.
    InputError where the devices have no arithmetic in 16 bits."""
    vision = model.vision
    if vision is None:
        return None
    formats, _ = resolve_formats(NumberFormats(), pieces.device, pieces.stack.sums)
    encoder, stack = _as_model(vision), pieces.stack.model_copy(update={"graphs": None})
    shard = Shard(encoder, pieces.shard.tp, formats, stack.fused_elementwise)
    own = replace(pieces, shard=shard, stack=stack, sharers=(), everybody=(), in_step=False, graphs=None)
    own = replace(own, _sizes={})
    depth = depths(encoder, (encoder.layers,))[0]
    attention, tp = Attention(shard, depth, pieces.device, stack, 0.0), shard.tp
    embedding = Gemm("linear", vision.hidden, COLOURS * vision.frames * vision.patch**2)
    made = [piece for piece in projector(vision, model.hidden, tp) for _ in range(vision.projectors)]
    matrices = sum(piece.n * piece.k for piece in (embedding, *made)) + vision.positions * vision.hidden
    return VisionCost(
        body=own.encoder(depth, [embedding], attention.curve.launch),
        projector=lambda rows: own.total([(1, piece) for piece in made], rows),
        attention=attention,
        weights_bytes=encoder.layers * shard.layer_bytes(encoder.kinds[0]) + matrices * formats.plain_size,
        merge=vision.merge,
    )


def projector(vision: Vision, width: int, tp: int) -> list[Gemm]:
    """The matrices that make a token of a model of some width: pairs of them cut over tensor parallelism by columns and
    rows, one that is left whole on each device."""
    widths = (vision.joined, *vision.inner, width)
    found = []
    for place, (k, n) in enumerate(pairwise(widths)):
        cut_columns = place % 2 == 0 and place + 2 < len(widths)
        found.append(Gemm("linear", -(-n // tp) if cut_columns else n, -(-k // tp) if place % 2 else k))
    return found


def with_encoder(needs: list[Footprint], vision: VisionCost | None) -> tuple[list[Footprint], VisionCost | None]:
    """(memory of the stages with the weights of an encoder on the first, the encoder)."""
    if vision is None:
        return needs, None
    return [replace(needs[0], weights=needs[0].weights + vision.weights_bytes), *needs[1:]], vision


def _as_model(vision: Vision) -> Model:
    """The layers of an encoder as those of a model, without vocabulary."""
    return Model(
        name="vision encoder",
        layers=vision.layers,
        hidden=vision.hidden,
        heads=vision.heads,
        ffn=vision.ffn or 4 * vision.hidden,
        gated_ffn=vision.gated_ffn,
        vocabulary=1,
        position="none",
    )
