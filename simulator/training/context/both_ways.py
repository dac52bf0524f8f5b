"""TokenRing: keys and values stay, queries go one way around and results return the other way (arXiv:2412.20501).

Both directions of the links carry as much: queries to the next rank, and of the turn before the results with their
statistics (4 bytes a row and head) back. Where devices meet in a switch both leave through one port, and nothing is
won. Tokens are cut as zigzag rings cut them. What travels both ways is counted as equal halves, and results as going
back to the neighbour, where those of turn j go to their owner j ranks back.

Its authors measure forward passes; backward is that of a ring here.
"""

from collections.abc import Iterator

from simulator.training.context import ring
from simulator.training.context.base import SCHEMES, Scheme, Sharing
from simulator.training.step import Collective, Step, Turn


def both_ways(sharing: Sharing) -> Iterator[Step]:
    """All blocks, beside the queries of the next and the results of the last; the last results alone."""
    if sharing.core.backward:
        yield from ring.turns(sharing, ring.zigzag)
        return
    for turn in range(sharing.ranks):
        ranks = tuple((sharing.block(*share),) for share in ring.zigzag(sharing, turn))
        yield from sharing.turn(Turn("attention", ranks, tuple(_passed(sharing, turn))))
    if sharing.ranks > 1:
        yield sharing.send("results", "shift:-1", _results(sharing))
        # Results of all ranks are added up where their queries are from.
        yield Turn("attention", ((sharing.merge((sharing.ranks - 1) * sharing.tokens, 0),),))


def _results(sharing: Sharing) -> float:
    return sharing.result_bytes + 4.0 * sharing.batch * sharing.tokens * sharing.core.heads


def _passed(sharing: Sharing, turn: int) -> Iterator[Collective]:
    """The message beside a turn; the first results are the rank's own."""
    queries, results = turn < sharing.ranks - 1, turn > 1
    size = queries * sharing.query_bytes + results * _results(sharing)
    ways = ":1" * queries + ":-1" * results
    if size:
        names = ["queries"] * queries + ["results"] * results
        yield sharing.send(" and ".join(names), f"shift{ways}", size)


SCHEMES.add("tokenring")(Scheme(both_ways, ring.in_flight, pieces=2, windows=False))
