"""HCCL's collectives in two levels: one step inside a server, and an algorithm of its own between servers.

Level 0 is a mesh: members of a server send each other their parts at once. Level 1 joins members of equal place:
`mesh_ring` in N - 1 steps; `mesh_halving` (H-D_R) in log2 N, where servers beyond a power of two give their data to one
below first and get the sum back; `mesh_nhr` (nonuniform hierarchical ring) in log2 N rounded up, whose far steps carry
least; `mesh_nb` (nonuniform Bruck) in as many, whose far steps carry most; `mesh_pipeline` a ring whose pieces are
handed round inside servers while the next ones come. `mesh_ahc` (asymmetric hierarchical concatenation) is for servers
or supernodes with unequally many members: what a server has summed is cut where parts of any server end, and members
that own the same cut, one of each server, sum it by nonuniform Bruck. Source: HCCL_ALGO and the chapters on algorithms,
hiascend.com documents of CANN 8 and 9. Left out: other pairs of algorithms in AHC, its gathers and scatters, and NHR of
the first version.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from simulator.collectives.algorithms.base import ALGORITHMS
from simulator.collectives.phase import Floats, Phase, phase
from simulator.collectives.placement import GroupPlacement, Ints, Transfers

Between = Callable[[GroupPlacement, bool], tuple[Phase, ...]]
"""Reduce-scatter, or all-gather, of each rail's part between servers."""


@ALGORITHMS.add("mesh_ring")
def mesh_ring(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduce, all-gather, reduce-scatter with rings between servers."""
    return _two_levels(operation, layout, _ring)


@ALGORITHMS.add("mesh_halving")
def mesh_halving(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """The same with halving and doubling; only all-reduces of servers that are no power of two."""
    if operation != "all_reduce" and layout.nodes & (layout.nodes - 1):
        return None
    return _two_levels(operation, layout, _halving)


@ALGORITHMS.add("mesh_nhr")
def mesh_nhr(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """The same with the nonuniform hierarchical ring."""
    return _two_levels(operation, layout, _nhr)


@ALGORITHMS.add("mesh_nb")
def mesh_nb(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """The same with nonuniform Bruck."""
    return _two_levels(operation, layout, _bruck)


@ALGORITHMS.add("mesh_ahc")
def mesh_ahc(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """All-reduces of servers with any numbers of members; of equal ones it is `mesh_nb`."""
    if operation != "all_reduce" or layout.nodes == 1 or layout.box:
        return None
    return _joined(operation, layout, _bruck)


@ALGORITHMS.add("mesh_pipeline")
def mesh_pipeline(operation: str, layout: GroupPlacement) -> tuple[Phase, ...] | None:
    """The same with both levels at once."""
    if not _able(layout):
        return None
    step, inside = _rails(layout, *_next(layout), 1 / layout.nodes), _exchange(layout, 1 / layout.nodes)
    both = tuple(np.concatenate(pair) for pair in zip(step, inside, strict=True))
    count, hop = layout.nodes - 1, float(layout.counts[0] > 1)

    def half(reduce: bool) -> tuple[Phase, ...]:
        streamed = phase(count, (both[0], both[1], both[2]), 0, 1, reduce=reduce)
        if not hop:
            return (streamed,)
        own = phase(1, inside, 1, 0, reduce=reduce)
        return (own, streamed) if reduce else (streamed, own)

    return _of(operation, half(True), half(False))


def _two_levels(operation: str, layout: GroupPlacement, between: Between) -> tuple[Phase, ...] | None:
    return _joined(operation, layout, between) if _able(layout) else None


def _joined(operation: str, layout: GroupPlacement, between: Between) -> tuple[Phase, ...] | None:
    exchange, several = _exchange(layout, 1.0), max(layout.counts) > 1
    inside = [(phase(1, exchange, 1, 0, reduce=reduce),) if several else () for reduce in (True, False)]
    return _of(operation, (*inside[0], *between(layout, True)), (*between(layout, False), *inside[1]))


def _able(layout: GroupPlacement) -> bool:
    return layout.even and layout.nodes > 1 and not layout.box


def _of(operation: str, scatter: tuple[Phase, ...], gather: tuple[Phase, ...]) -> tuple[Phase, ...] | None:
    return {"all_reduce": scatter + gather, "reduce_scatter": scatter, "all_gather": gather}.get(operation)


def _exchange(layout: GroupPlacement, share: float) -> Transfers:
    """Everyone sends everyone else of its server a share of what a member of it owns."""
    counts, found = np.asarray(layout.counts), []
    for count in sorted(set(layout.counts)):
        src, dst = np.nonzero(~np.eye(count, dtype=bool))
        first = layout.starts[:-1][counts == count][:, None]
        found.append(((first + src).ravel(), (first + dst).ravel(), np.full(len(src) * len(first), share / count)))
    src, dst, size = (np.concatenate(column) for column in zip(*found, strict=True))
    return src, dst, size


def _rails(layout: GroupPlacement, src: Ints, dst: Ints, share: float) -> Transfers:
    """Transfers between servers, of a share of each part, by the members that own it."""
    owners, size = _parts(layout)
    return owners[src].ravel(), owners[dst].ravel(), np.tile(share * size, len(src))


def _parts(layout: GroupPlacement) -> tuple[Ints, Floats]:
    """(owner of each part in each server (servers, parts), its share).

    Parts end where those of members of any server do; where servers have equally many members these are their rails.
    """
    kinds = sorted(set(layout.counts))
    ends = sorted({Fraction(place, count) for count in kinds for place in range(count + 1)})
    owner = {count: [int(end * count) for end in ends[:-1]] for count in kinds}
    owners = layout.starts[:-1][:, None] + np.array([owner[count] for count in layout.counts])
    return owners, np.diff(np.array(ends, np.float64))


def _next(layout: GroupPlacement) -> tuple[Ints, Ints]:
    here = np.arange(layout.nodes)
    return here, np.roll(here, -1)


def _ring(layout: GroupPlacement, reduce: bool) -> tuple[Phase, ...]:
    return (phase(layout.nodes - 1, _rails(layout, *_next(layout), 1 / layout.nodes), 0, 1, reduce=reduce),)


def _halving(layout: GroupPlacement, reduce: bool) -> tuple[Phase, ...]:
    power = 1 << (layout.nodes.bit_length() - 1)
    here, beyond = np.arange(power), np.arange(power, layout.nodes)
    steps = [
        phase(1, _rails(layout, here, here ^ (1 << bit), 1 / (2 << bit)), 0, 1, reduce=reduce)
        for bit in range(power.bit_length() - 1)
    ]
    if len(beyond):
        ends = (beyond, beyond - power) if reduce else (beyond - power, beyond)
        steps.insert(0, phase(1, _rails(layout, *ends, 1.0), 0, 1, reduce=reduce))
    if reduce:
        return tuple(steps)
    # Doubling goes the other way, and servers beyond get all at its end.
    return tuple(steps[::-1])


def _nhr(layout: GroupPlacement, reduce: bool) -> tuple[Phase, ...]:
    n = layout.nodes
    pieces = {1 << step: -(-(n - (1 << step)) // (2 << step)) for step in range((n - 1).bit_length())}
    return _steps(layout, pieces, reduce, nearest_first=reduce)


def _bruck(layout: GroupPlacement, reduce: bool) -> tuple[Phase, ...]:
    n = layout.nodes
    pieces = {1 << step: min(1 << step, n - (1 << step)) for step in range((n - 1).bit_length())}
    return _steps(layout, pieces, reduce, nearest_first=not reduce)


def _steps(layout: GroupPlacement, pieces: dict[int, int], reduce: bool, nearest_first: bool) -> tuple[Phase, ...]:
    """Everyone sends so many pieces to the server that far back (reducing) or ahead."""
    n = layout.nodes
    here = np.arange(n)
    order = sorted(pieces, reverse=not nearest_first)
    return tuple(
        phase(1, _rails(layout, here, (here + (n - d if reduce else d)) % n, pieces[d] / n), 0, 1, reduce=reduce)
        for d in order
    )
