"""All-gather: every rank gathers the keys and values of the whole sequence, then attends with its own queries.

Tokens are cut as zigzag rings cut them, in pieces r and 2 N - 1 - r of 2 N, so that every rank sees equally many pairs:
the queries of piece i see what comes before them. Nothing runs beside the gathers; backward keys and values are
gathered again, and their gradients are summed by a reduce-scatter (Llama 3, arXiv:2407.21783 section 3.3.2;
Transformer Engine's all_gather). PyTorch takes one gather where these take one for keys and one for values, and
backward passes gradients on block by block.
"""

from collections.abc import Iterator

from simulator.training.context.base import SCHEMES, Scheme, Sharing
from simulator.training.step import Step, Turn


def all_gather(sharing: Sharing) -> Iterator[Step]:
    """Gathers, attention over what came, and backward the sums of the gradients."""
    sizes = {"keys": sharing.ranks * sharing.key_bytes, "values": sharing.ranks * sharing.value_bytes}
    for name, full in sizes.items():
        yield sharing.send(f"gather {name}", "all_gather", full)
    s, n = sharing.tokens, sharing.ranks
    if sharing.core.causal:
        # The first rank: as many pairs as the others, and the longest single kernel.
        yield Turn("attention", ((sharing.block(s // 2, s // 2, True), sharing.block(s // 2, n * s, True)),))
    else:
        yield Turn("attention", ((sharing.block(s, n * s),),))
    if sharing.core.backward:
        for name, full in sizes.items():
            yield sharing.send(f"sum gradients of {name}", "reduce_scatter", full)


def in_flight(sharing: Sharing) -> float:
    """Keys and values of the whole sequence, backward with their gradients."""
    return sharing.ranks * sharing.block_bytes * (2 if sharing.core.backward else 1)


SCHEMES.add("all-gather")(Scheme(all_gather, in_flight, pieces=2))
