"""Microbatches of different sizes: what each holds, which rank runs which, and what of it is padding."""

from collections import Counter
from dataclasses import dataclass

from simulator.cost.work import Document
from simulator.training.batches.documents import Packing


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """What the passes of a microbatch are priced by."""

    sequences: int
    """Sequences; of packed ones 1, which is all that is packed together, and 0 for nothing to do."""
    tokens: int
    """Tokens of each, padding included; of the decoder's where there is an encoder."""
    encoder: int = 0
    """Tokens of each of an encoder's sequences, padding included; 0 without one."""
    documents: tuple[int, ...] = ()
    """Lengths of the documents that are packed together, longest first; empty where a sequence is one."""
    ranks: int = 1
    """Data-parallel ranks that it is cut over, neighbours that begin together."""
    served: tuple[Document, ...] = ()
    """Where attention is spread over all data-parallel ranks, parts of documents that the rank attends to."""
    moved: tuple[int, int] = (0, 0)
    """Queries, and keys with values, that are moved for it."""

    @property
    def computed(self) -> int:
        """Tokens that are worked on, an encoder's among them."""
        return self.sequences * (self.tokens + self.encoder)

    @property
    def packing(self) -> Packing | None:
        """The documents as kernels take them."""
        filled = self.tokens - sum(self.documents)
        lengths = (*self.documents, *([filled] if filled else ()))
        return Packing(lengths, 1.0, served=self.served, moved=self.moved) if self.documents else None


NOTHING = Shape(0, 1)
"""The microbatch of a rank that has none at its turn."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The microbatches of one step."""

    shapes: tuple[Shape, ...]
    """The different ones."""
    rows: tuple[tuple[int, ...], ...]
    """Number of the shape of each microbatch of each data-parallel rank; (dp, microbatches)."""
    lengths: tuple[tuple[int, int, int], ...]
    """(tokens, those of the encoder's, how many) of the sequences or documents that were trained on."""
    delayed: int = 0
    """Sequences that were drawn and wait for another step."""

    @property
    def count(self) -> Counter[int]:
        """How many microbatches have each shape."""
        found = Counter(number for row in self.rows for number in row)
        return Counter({number: count // self.shapes[number].ranks for number, count in found.items()})

    @property
    def together(self) -> tuple[int, ...]:
        """Neighbouring ranks that begin a microbatch of each shape together."""
        return tuple(len(self.rows) if shape.served else shape.ranks for shape in self.shapes)

    @property
    def sequences(self) -> int:
        """Sequences, or documents, that the step trains on."""
        return sum(count for _, _, count in self.lengths)

    @property
    def tokens(self) -> int:
        """Their tokens; of the decoder's where there is an encoder."""
        return sum(length * count for length, _, count in self.lengths)

    @property
    def encoder_tokens(self) -> int:
        """Those of an encoder."""
        return sum(length * count for _, length, count in self.lengths)

    @property
    def padding(self) -> float:
        """Share of the tokens worked on that are padding."""
        computed = sum(self.shapes[number].computed * count for number, count in self.count.items())
        return 1.0 - (self.tokens + self.encoder_tokens) / computed


def batch_of(microbatches: list[list[Shape]], lengths: Counter[tuple[int, int]], delayed: int = 0) -> Batch:
    """The batch of the microbatches of each data-parallel rank."""
    shapes = sorted({shape for row in microbatches for shape in row})
    number = {shape: i for i, shape in enumerate(shapes)}
    rows = tuple(tuple(number[shape] for shape in row) for row in microbatches)
    return Batch(tuple(shapes), rows, tuple((*key, n) for key, n in sorted(lengths.items())), delayed)
