"""Attention of layers whose heads differ in number or size, such as windowed layers with more key heads than others.

Layers of one shape are one `Attention`; kernels of layers run one after the other, so that their times add up.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from simulator.cost import Device
from simulator.cost.attention import AttentionCurve
from simulator.serving.costs.attention import Attention, Segments, summed
from simulator.serving.costs.crossed import CrossedAttention
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.operators import Shard
from simulator.specs.model import LayerKind
from simulator.specs.serving import ServingStack

Shape = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class MixedAttention:
    """Attention of the layers of a stage, as `Attention`, one part for each shape of heads."""

    layers: Depth
    """All of them."""
    parts: tuple[Attention, ...]

    @property
    def curve(self) -> AttentionCurve:
        """Kernel of prompts."""
        return self.parts[0].curve

    @property
    def shard(self) -> Shard:
        """The model with the attention of its first layers."""
        return self.parts[0].shard

    @property
    def stack(self) -> ServingStack:
        """What runs it."""
        return self.parts[0].stack

    def decode(self, sequences: int, queries: int = 1) -> Segments:
        """See `Attention.decode`."""
        return summed([part.decode(sequences, queries) for part in self.parts])

    def shared(self, sequences: int) -> tuple[int, int]:
        """See `Attention.shared`."""
        bases, slopes = zip(*(part.shared(sequences) for part in self.parts), strict=True)
        return sum(bases), sum(slopes)

    def prompt(self, chunk: int, before: int) -> int:
        """See `Attention.prompt`."""
        return sum(part.prompt(chunk, before) for part in self.parts)

    def prompts(self, pieces: Iterable[tuple[int, int]]) -> int:
        """See `Attention.prompts`."""
        taken = tuple(pieces)
        return sum(part.prompts(taken) for part in self.parts)


AnyAttention = Attention | MixedAttention | CrossedAttention


def attention_of_stage(
    shard: Shard, layers: Depth, device: Device, stack: ServingStack, gather: float = 0.0
) -> AnyAttention:
    """The attention of the layers of a stage; arguments as of `Attention`."""
    if shard.model.encoder_layers is not None:
        return CrossedAttention(Attention(shard, layers, device, stack))
    if alike(shard):
        return Attention(shard, layers, device, stack, gather)
    kinds = layers.each(shard.model.kinds[0])
    parts: list[Attention] = []
    for meant in by_shape(shard, (kind for kind, _ in kinds if kind.attends)).values():
        mine = tuple((kind, n) for kind, n in kinds if kind in meant or not (kind.attends or parts))  # states once
        depth = Depth(sum(n for _, n in mine), 0, 0, mine)
        parts.append(Attention(replace(shard, of_kinds=meant), depth, device, stack, gather))
    return MixedAttention(layers, tuple(parts)) if parts else Attention(shard, layers, device, stack, gather)


def alike(shard: Shard) -> bool:
    """Whether all layers of attention have heads of one shape."""
    return len(by_shape(shard, shard.model.kinds)) < 2


def by_shape(shard: Shard, kinds: Iterable[LayerKind]) -> Mapping[Shape, tuple[LayerKind, ...]]:
    """Kinds of layers that attend by the shape of their heads on one device (`AttentionCore.shape`), in their order."""
    found: dict[Shape, tuple[LayerKind, ...]] = {}
    for kind in dict.fromkeys(kinds):
        if kind.attends:
            shape = shard.attends_as(kind).shape
            found[shape] = (*found.get(shape, ()), kind)
    return found


def cached_token(shard: Shard, kinds: Iterable[tuple[LayerKind, int]]) -> float:
    """Bytes of the keys and values of one token that a device keeps in so many layers of each kind."""
    attending = [(kind, count) for kind, count in kinds if kind.attends]
    if alike(shard):
        return sum(count for _, count in attending) * shard.held_bytes
    return sum(count * shard.cached_of(kind) for kind, count in attending)
