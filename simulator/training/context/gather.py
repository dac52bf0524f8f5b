"""All-gather: every rank gathers the keys and values of the whole sequence, then attends with its own queries.

Tokens are cut as zigzag rings cut them, in pieces r and 2 N - 1 - r of 2 N, so that every rank sees equally many pairs:
the queries of piece i see what comes before them. Nothing runs beside the gathers; backward keys and values are
gathered again, and their gradients are summed by a reduce-scatter (Llama 3, arXiv:2407.21783 section 3.3.2;
Transformer Engine's all_gather). PyTorch takes one gather where these take one for keys and one for values, and
backward passes gradients on block by block.

Packed documents lie where they fall: pieces of some ranks have more pairs than those of others, and all wait for the
slowest.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate

from simulator.cost.work import Document
from simulator.training.batches.documents import Packing
from simulator.training.context.base import SCHEMES, Scheme, Sharing
from simulator.training.step import Step, Turn, Work


def all_gather(sharing: Sharing) -> Iterator[Step]:
    """Gathers, attention over what came, and backward the sums of the gradients."""
    sizes = {"keys": sharing.ranks * sharing.key_bytes, "values": sharing.ranks * sharing.value_bytes}
    for name, full in sizes.items():
        yield sharing.send(f"gather {name}", "all_gather", full)
    s, n = sharing.tokens, sharing.ranks
    if sharing.packing is not None:
        yield Turn("attention", tuple(_within(sharing, sharing.packing, rank) for rank in range(n)))
    elif sharing.core.causal:
        # The first rank: as many pairs as the others, and the longest single kernel.
        yield Turn("attention", ((sharing.block(s // 2, s // 2, True), sharing.block(s // 2, n * s, True)),))
    else:
        yield Turn("attention", ((sharing.block(s, n * s),),))
    if sharing.core.backward:
        for name, full in sizes.items():
            yield sharing.send(f"sum gradients of {name}", "reduce_scatter", full)


def _within(sharing: Sharing, packing: Packing, rank: int) -> tuple[Work, ...]:
    """The kernels of a rank, one for each of its pieces."""
    piece = sharing.tokens // 2
    starts = (rank * piece, (2 * sharing.ranks - 1 - rank) * piece)
    causal = sharing.core.causal
    found = (seen(packing.lengths, start, start + piece, causal) for start in starts)
    return tuple(
        replace(sharing.over(piece, max(part.context for part in parts), causal), documents=parts) for parts in found
    )


def seen(lengths: tuple[int, ...], start: int, stop: int, causal: bool) -> tuple[Document, ...]:
    """The queries of positions from `start` on and before `stop`, with the keys of their documents up to the last one
    where causal."""
    parts: Counter[tuple[int, int]] = Counter()
    for end, length in zip(accumulate(lengths), lengths, strict=True):
        first, last = max(end - length, start), min(end, stop)
        if first < last:
            parts[last - first, (last if causal else end) - (end - length)] += 1
    return tuple(Document(count, *shape) for shape, count in sorted(parts.items()))


def in_flight(sharing: Sharing) -> float:
    """Keys and values of the whole sequence, backward with their gradients."""
    return sharing.ranks * sharing.block_bytes * (2 if sharing.core.backward else 1)


SCHEMES.add("all-gather")(Scheme(all_gather, in_flight, pieces=2, documents=True))
