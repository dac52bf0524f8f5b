"""Attention of the layers of a decoder behind an encoder: to its own tokens, then to the rows of the encoder.

Two kernels a layer, one after the other, of heads alike: the second reads in every step the same keys and values, which
came into the cache with the prompt. A request that begins has rows of its own in both, causal in the first alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from simulator.cost.attention import AttentionCurve
from simulator.serving.costs.attention import Attention, Segments
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.operators import Shard
from simulator.specs.serving import ServingStack


@dataclass(frozen=True, slots=True)
class CrossedAttention:
    """Attention of a decoder's layers, as `Attention`: to its own tokens, then to the rows of the encoder."""

    own: Attention
    """Kernels of either, whose heads are alike."""

    @property
    def curve(self) -> AttentionCurve:
        """Kernel of prompts."""
        return self.own.curve

    @property
    def shard(self) -> Shard:
        """The model on one device."""
        return self.own.shard

    @property
    def stack(self) -> ServingStack:
        """What runs it."""
        return self.own.stack

    @property
    def layers(self) -> Depth:
        """Layers of the decoder."""
        return self.own.layers

    def decode(self, sequences: int, queries: int = 1) -> Segments:
        """See `Attention.decode`, of tokens and rows of the encoder together, as many of either."""
        lines = self.own.decode(sequences, queries)
        return tuple((2 * end, 2 * base, slope) for end, base, slope in lines)

    def beside(self, sequences: int, encoded: int) -> Segments:
        """Segments (up to this many cached tokens and rows of the encoder, base, slope): ticks of `sequences` decodes
        that read `encoded` rows of the encoder together, and tokens of their own."""
        lines = self.own.decode(sequences)
        crossed = next(base + slope * encoded for end, base, slope in lines if encoded <= end)
        return tuple((end + encoded, base + crossed - slope * encoded, slope) for end, base, slope in lines)

    def shared(self, sequences: int) -> tuple[int, int]:
        """Nothing is read once for several sequences: an encoder sees whole prompts."""
        raise NotImplementedError("decoders behind an encoder share no prefixes")

    def prompt(self, chunk: int, before: int) -> int:
        """Ticks of `chunk` rows of the decoder that is about to begin, and of `before` rows of the encoder."""
        return self.prompts(((chunk, before),))

    def prompts(self, pieces: Iterable[tuple[int, int]]) -> int:
        """The same of several requests in one kernel each."""
        taken = tuple(pieces)
        return self.own.prompts((rows, 0) for rows, _ in taken) + self.own.across(taken)
