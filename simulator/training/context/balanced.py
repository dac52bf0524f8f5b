"""LightSeq (DistFlashAttention): consecutive tokens, and ranks that would idle work for those that see most.

In turn t = 1 .. N / 2 rank p attends to the keys and values of rank p - t; the first t ranks, which have none left,
take the queries of rank p - t + N instead, attend to their own keys, and send the results back (arXiv:2310.03294,
section 3.2, algorithm 2). All blocks are whole, so N / 2 + 1 turns do what a ring needs N for. What the next turn needs
is fetched beside this one, and results return beside the turn after.

Full recomputation begins after attention, whose results are kept: neither the kernel nor what it sends runs twice
(section 3.3).

Left out: in a turn some ranks receive keys and others queries, and few send results; all messages of a turn count as
long as the longest. Without a causal mask nothing idles, and it is a plain ring.
"""

from collections.abc import Iterator

from simulator.training.context import ring
from simulator.training.context.base import SCHEMES, Scheme, Sharing
from simulator.training.step import Collective, Step, Turn

STATISTICS = 4.0
"""Bytes of a row's largest score, and of its sum."""


def balanced(sharing: Sharing) -> Iterator[Step]:
    """Turns of whole blocks, each beside the fetch for the next and the return of the last."""
    if not sharing.core.causal:
        yield from ring.turns(sharing, ring.contiguous)
        return
    s, last = sharing.tokens, sharing.ranks // 2
    for turn in range(last + 1):
        block = sharing.block(s, s, turn == 0)
        works = (block, sharing.merge(s, s)) if turn else (block,)
        beside = (*_fetched(sharing, turn + 1), *_returned(sharing, turn - 1))
        yield from sharing.turn(Turn("attention", (works,), beside))
    yield from _returned(sharing, last)


def _fetched(sharing: Sharing, turn: int) -> Iterator[Collective]:
    """What a turn needs of other ranks: keys and values, or queries with what their gradients need."""
    if turn > sharing.ranks // 2:
        return
    statistics = 2 * STATISTICS * sharing.batch * sharing.tokens * sharing.core.heads
    queries = sharing.query_bytes
    if sharing.core.backward:
        queries += 2 * sharing.result_bytes + statistics / 2
    size = max(sharing.block_bytes, queries) if _helps(sharing, turn) else sharing.block_bytes
    yield sharing.send("keys and values, or queries", f"shift:{turn}", size)


def _returned(sharing: Sharing, turn: int) -> Iterator[Collective]:
    """What helpers of a turn give back; backward also the gradients of keys and values of ranks that were no
    helpers."""
    back = sharing.core.backward
    if turn < 1 or not (back or _helps(sharing, turn)):
        return
    statistics = 2 * STATISTICS * sharing.batch * sharing.tokens * sharing.core.heads
    size = sharing.result_bytes + statistics
    if back:
        size = max(sharing.block_bytes, sharing.query_bytes if _helps(sharing, turn) else 0.0)
    yield sharing.send("gradients" if back else "results", f"shift:{-turn}", size)


def _helps(sharing: Sharing, turn: int) -> bool:
    """Whether ranks work for others in a turn: in the last one of an even number no rank needs it."""
    return turn * 2 < sharing.ranks


SCHEMES.add("lightseq")(Scheme(balanced, ring.in_flight, windows=False, keeps_results=True))
