"""Documents that sequences are packed of: what is drawn, and which of the drawn sequences a step is priced with.

Documents follow one another through all sequences of a batch, and the end of a sequence cuts the one that lies across
it, as pre-training packs them. A variable-length kernel works on the pairs within documents, the sum of the squares of
their lengths. Data-parallel ranks draw different documents and wait for each other once a step: the rank whose
sequences have most pairs decides, and every microbatch is priced as the one of its sequences that is nearest to its
mean. Left out: that microbatches of a rank differ (bubbles between stages), and padding.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.cost.work import Document
from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.specs.distributions import sample
from simulator.specs.training import Documents, Training

PATH = "training.documents"
AT_ONCE = 65_536
"""Documents that are drawn together."""
MOST_DRAWN = 4_000_000
"""Documents above which not all sequences of a batch are drawn."""


@dataclass(frozen=True, slots=True)
class Packing:
    """The documents of the sequence that a step is priced with."""

    lengths: tuple[int, ...]
    """Tokens of each, in their order; they sum to the sequence."""
    mean_share: float
    """Pairs of the mean sequence of the batch, over those of this one."""
    drawn: int = 0
    """Sequences that were drawn; 0 where all are alike."""
    served: tuple[Document, ...] = ()
    """Parts of documents, its own or of other ranks, that the rank attends to in their place; empty for its own."""
    moved: tuple[int, int] = (0, 0)
    """Queries, and keys with values, that the busiest of the ranks sends or takes in for it."""

    @property
    def worked(self) -> tuple[Document, ...]:
        """What the rank's kernel attends to."""
        return self.served or self.alike

    @property
    def alike(self) -> tuple[Document, ...]:
        """Documents of the same length together."""
        return tuple(Document(count, length, length) for length, count in sorted(Counter(self.lengths).items()))

    def shared(self, ranks: int) -> Counter[int]:
        """How many documents have so many tokens on each of the ranks that they are cut over, two pieces a rank."""
        return Counter(2 * -(-length // (2 * ranks)) for length in self.lengths)


def packing(training: Training, ranks: int, seed: int) -> Packing | None:
    """The documents of a training run with so many data-parallel ranks; None where sequences are one document each.

    Raises InputError for listed documents that do not fill the sequence.
    """
    given, length = training.documents, training.sequence_length
    if given is None:
        return None
    if given.listed is not None:
        if sum(given.listed) != length:
            message = f"documents of {sum(given.listed):,} tokens do not fill a sequence_length of {length:,}"
            hint = "write lengths that sum to it, or a number or distribution, which is cut at its end"
            raise InputError(Problem(message, path=PATH, hint=hint))
        return Packing(given.listed, 1.0)
    return _slowest(_drawn(given, length, training.global_batch, seed), min(ranks, training.global_batch))


def _drawn(given: Documents, length: int, sequences: int, seed: int) -> list[NDArray[np.int64]]:
    """Lengths of the documents of each sequence; InputError where one sequence takes more than are drawn."""
    random, reached = stream(seed, "documents"), 0
    ends: list[NDArray[np.int64]] = []
    while reached < sequences * length and len(ends) * AT_ONCE < MOST_DRAWN:
        found = np.maximum(np.rint(sample(given, random, AT_ONCE, step=1)), 1).astype(np.int64)
        ends.append(reached + np.cumsum(np.minimum(found, length * sequences)))
        reached = int(ends[-1][-1])
    if reached < length:
        message = f"more than {len(ends) * AT_ONCE:,} documents in a sequence of {length:,} tokens"
        raise InputError(Problem(message, path=PATH, hint="write longer documents, or shorter sequences"))
    sequences = min(sequences, reached // length)
    cuts = np.union1d(np.concatenate(ends), np.arange(1, sequences + 1) * length)
    cuts = cuts[cuts <= sequences * length]
    lengths = np.diff(cuts, prepend=0)
    return np.split(lengths, np.flatnonzero(cuts % length == 0)[:-1] + 1)


def _slowest(sequences: list[NDArray[np.int64]], ranks: int) -> Packing:
    """The sequence that is nearest to the mean of the rank with most pairs, of which each has every so many-th."""
    pairs = np.array([float(np.sum(one.astype(np.float64) ** 2)) for one in sequences])
    most = max(float(np.mean(pairs[rank::ranks])) for rank in range(min(ranks, len(pairs))))
    nearest = int(np.argmin(np.abs(pairs - most)))
    share = float(np.mean(pairs)) / float(pairs[nearest])
    return Packing(tuple(sequences[nearest].tolist()), share, len(sequences))
