"""Algorithms executed on small integer arrays: every byte arrives once and is reduced once, and the plan holds it.

An element of a member's array counts how often it holds each member's input. The rule of an algorithm says which
elements a transfer carries; how many they are, from where to where and in which step is compared with the plan's
transfers. A plan holds no blocks, and some plans hold means over the channels of a library (rings over several nodes,
chains of a tree, what goes through a switch): there the channels are executed and what each member sends and receives
is compared, which the docstring of the test says.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, zip_longest
from typing import Any

import numpy as np
import pytest

from simulator.collectives.algorithms import ALGORITHMS
from simulator.collectives.phase import Phase
from simulator.collectives.placement import GroupPlacement, placements
from simulator.fabric import build
from simulator.fabric.fabric import SWITCH
from tests.machines import V100_LINKS, cluster, torus

Move = tuple[int, int, Any]
"""(sender, receiver, elements)."""
Steps = list[list[Move]]
"""Moves that run together, one step after the other."""
SIZES = range(2, 10)
NODES = [(2, 4), (3, 2), (2, 3), (4, 1), (5, 2)]
REDUCED = ("all_reduce", "all_gather", "reduce_scatter")


def layout(nodes: int, devices: int, kind: str = "switch", **machine: Any) -> GroupPlacement:
    fabric = build(cluster(nodes=nodes, devices=devices, kind=kind, nics=max(devices, 1), **machine))
    return next(placements(np.arange(nodes * devices)[None], fabric))[0]


def phases(name: str, operation: str, place: GroupPlacement) -> tuple[Phase, ...]:
    found = ALGORITHMS.get(name)(operation, place)
    assert found is not None
    return found


class Arrays:
    """What members hold: element e of member m holds the input of origin o so many times; (m, e, o)."""

    def __init__(self, operation: str, own: Sequence[Any], length: int) -> None:
        """`own[m]` are the elements that member m starts with (a gather) or ends with (a scatter)."""
        members = len(own)
        self.operation, self.own = operation, own
        self.held = np.zeros((members, length, members), np.int64)
        self.whole = np.zeros((members, length), bool)
        """Where the result stands already."""
        for member, mine in enumerate(own):
            self.held[member, mine if operation == "all_gather" else slice(None), member] = 1
            self.whole[member, mine] = operation == "all_gather"

    def add(self, steps: Steps) -> None:
        """Receivers add what comes to what they have."""
        for step in steps:
            before = self.held.copy()
            for a, b, elements in step:
                self.held[b, elements] += before[a, elements]

    def summed(self) -> None:
        """The scatter is over: what each owns holds every input once."""
        for member, mine in enumerate(self.own):
            assert (self.held[member, mine] == 1).all()
            self.whole[member, mine] = True

    def copy(self, steps: Steps) -> None:
        """Receivers keep what comes: results only, and none that stands there already."""
        for step in steps:
            before, ready = self.held.copy(), self.whole.copy()
            for a, b, elements in step:
                assert ready[a, elements].all() and not self.whole[b, elements].any()
                self.held[b, elements] = before[a, elements]
                self.whole[b, elements] = True

    def check(self) -> None:
        """The result is what the operation says."""
        if self.operation == "reduce_scatter":
            assert all((self.held[member, mine] == 1).all() for member, mine in enumerate(self.own))
        elif self.operation == "all_reduce":
            assert (self.held == 1).all()
        else:
            owned = np.zeros(self.held.shape[1:], np.int64)
            for member, mine in enumerate(self.own):
                owned[mine, member] = 1
            assert (self.held == owned).all()


def execute(operation: str, own: Sequence[Any], length: int, scatter: Steps, gather: Steps) -> Steps:
    """Run the halves that an operation has; returns the steps that ran."""
    arrays = Arrays(operation, own, length)
    if operation != "all_gather":
        arrays.add(scatter)
        arrays.summed()
    if operation != "reduce_scatter":
        arrays.copy(gather)
    arrays.check()
    return {"all_reduce": scatter + gather, "all_gather": gather, "reduce_scatter": scatter}[operation]


def cut(length: int, parts: int, first: int = 0) -> list[Any]:
    """Elements first .. first + length - 1 in equal parts."""
    assert length % parts == 0
    return list(first + np.arange(length).reshape(parts, -1))


def around(order: Sequence[int], pieces: Sequence[Any], reduce: bool) -> Steps:
    """A ring: in step s the member at p sends what came to it in the step before; piece i is that of place i."""
    n = len(order)
    return [
        [(order[p], order[(p + 1) % n], pieces[(p - s - reduce) % n]) for p in range(n)]  # one place back if reducing
        for s in range(n - 1)
    ]


def beside(parts: Iterable[Steps]) -> Steps:
    """Steps of several rings that run at once."""
    return [[move for moves in together for move in moves] for together in zip_longest(*parts, fillvalue=[])]


def flat(parts: Iterable[list[Any]]) -> list[Any]:
    return list(chain.from_iterable(parts))


def carried(moves: Iterable[Move], length: int) -> dict[tuple[int, int], float]:
    """Share of the data that each pair moves."""
    found: dict[tuple[int, int], float] = defaultdict(float)
    for a, b, elements in moves:
        found[a, b] += len(elements) / length
    return dict(found)


def planned(of: Iterable[Phase], repeated: bool = True) -> dict[tuple[int, int], float]:
    """The same in a plan, over all repetitions or in one."""
    found: dict[tuple[int, int], float] = defaultdict(float)
    for phase in of:
        for a, b, size in zip(phase.src.tolist(), phase.dst.tolist(), phase.size.tolist(), strict=True):
            found[a, b] += size * (phase.repeat if repeated else 1)
    return dict(found)


def ends(pairs: dict[tuple[int, int], float], members: int) -> Any:
    """What each member sends and receives; (2, members)."""
    found = np.zeros((2, members))
    for (a, b), size in pairs.items():
        if a >= 0:
            found[0, a] += size
        if b >= 0:
            found[1, b] += size
    return found


def agree(steps: Steps, plan: Sequence[Phase], length: int) -> None:
    """Each executed step moves between each pair what the plan's step does."""
    one_by_one = [planned([phase], False) for phase in plan for _ in range(phase.repeat)]
    assert len(one_by_one) == len(steps)
    for step, said in zip(steps, one_by_one, strict=True):
        assert carried(step, length) == pytest.approx(said)


# ---- rings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", REDUCED)
@pytest.mark.parametrize("members", SIZES)
def test_a_ring(members: int, operation: str) -> None:
    plan = phases("ring", operation, layout(1, members))
    after, order = dict(zip(plan[0].src.tolist(), plan[0].dst.tolist(), strict=True)), [0]
    while len(order) < members:
        order.append(after[order[-1]])
    assert sorted(order) == list(range(members)) and after[order[-1]] == 0
    own = cut(members, members)
    pieces = [own[member] for member in order]
    steps = execute(operation, own, members, around(order, pieces, True), around(order, pieces, False))
    agree(steps, plan, members)


@pytest.mark.parametrize("operation", REDUCED)
@pytest.mark.parametrize("members", [3, 5, 7])
def test_rings_of_a_mesh(members: int, operation: str) -> None:
    """Of a prime number of members ring d goes d places on, and all rings together use every link alike."""
    plan = phases("ring", operation, layout(1, members, "mesh"))
    orders = [[place * d % members for place in range(members)] for d in range(1, members)]
    steps, length = _channels(operation, orders, [1] * len(orders))
    agree(steps, plan, length)


@pytest.mark.parametrize("operation", REDUCED)
@pytest.mark.parametrize("members", [2, 3, 4, 6, 7, 8])
def test_rings_of_uneven_links(members: int, operation: str) -> None:
    """The cube mesh of eight V100: each ring carries its part of the data, by its width."""
    fabric = build(cluster(kind="links", bandwidth="25 GB/s", links=V100_LINKS))
    plan = phases("ring", operation, next(placements(np.arange(members)[None], fabric))[0])
    orders = plan[0].src.reshape(-1, members)
    assert (plan[0].dst.reshape(-1, members) == np.roll(orders, -1, axis=1)).all()
    weights = (plan[0].size.reshape(-1, members)[:, 0] * members * 60).round().astype(int)
    steps, length = _channels(operation, orders.tolist(), weights.tolist())
    agree(steps, plan, length)


@pytest.mark.parametrize("members", SIZES)
def test_a_broadcast_is_a_chain(members: int) -> None:
    """From the first member on, each passes on all of it. The plan holds the whole ring: its hop back to the first
    member, which is as wide and so no longer than the others, is the one that no chain has."""
    (phase,) = phases("ring", "broadcast", layout(1, members))
    said, has = planned([phase]), {0}
    for _ in range(members - 1):
        ((a, b),) = [(a, b) for a, b in said if a in has and b not in has]
        assert said.pop((a, b)) == 1.0
        has.add(b)
    assert said == {(b, 0): 1.0}


def _channels(operation: str, orders: Sequence[Sequence[int]], weights: Sequence[int]) -> tuple[Steps, int]:
    """Rings at once, each with its weight of every member's piece; (steps, elements)."""
    members, every = len(orders[0]), sum(weights)
    own = cut(members * every, members)
    rings: list[list[Steps]] = [[], []]
    first = np.cumsum([0, *weights])
    for order, low, high in zip(orders, first, first[1:], strict=False):
        pieces = [own[member][low:high] for member in order]
        for reduce in (True, False):
            rings[reduce].append(around(order, pieces, reduce))
    return execute(operation, own, members * every, beside(rings[True]), beside(rings[False])), members * every


@pytest.mark.parametrize("operation", REDUCED)
@pytest.mark.parametrize(("nodes", "devices"), NODES)
def test_rings_over_nodes(nodes: int, devices: int, operation: str) -> None:
    """Ring r enters each node at member r and leaves it after all others.

    Links inside nodes are compared one by one. Between nodes the plan names the card that a ring goes through, not the
    member that had it last: what each card of a node sends and receives is compared.
    """
    place = layout(nodes, devices)
    members, (phase,) = place.members, phases("ring", operation, place)
    orders = [[v * devices + (r + j) % devices for v in range(nodes) for j in range(devices)] for r in range(devices)]
    steps, length = _channels(operation, orders, [1] * devices)
    assert len(steps) == phase.repeat
    for step in steps:
        made, said = carried(step, length), planned([phase], False)
        assert _inside(made, devices) == pytest.approx(_inside(said, devices))
        assert ends(_between(made, devices), members) == pytest.approx(ends(_between(said, devices), members))
        assert all(a % devices == b % devices for a, b in _between(said, devices))


def _inside(pairs: dict[tuple[int, int], float], devices: int) -> dict[tuple[int, int], float]:
    return {pair: size for pair, size in pairs.items() if pair[0] // devices == pair[1] // devices}


def _between(pairs: dict[tuple[int, int], float], devices: int) -> dict[tuple[int, int], float]:
    return {pair: size for pair, size in pairs.items() if pair[0] // devices != pair[1] // devices}


# ---- halving and doubling ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", REDUCED)
@pytest.mark.parametrize(("nodes", "devices"), [*((1, n) for n in SIZES), (2, 4), (3, 2), (1, 16)])
def test_halving_and_doubling(nodes: int, devices: int, operation: str) -> None:
    """Powers of two swap halves with a partner; others take the circulant pattern, whose scatter is its gather
    backwards."""
    place = layout(nodes, devices)
    n, plan = place.members, phases("halving_doubling", operation, place)
    distances = [1 << bit for bit in range((n - 1).bit_length())]
    if n & (n - 1):
        gather = [
            [(m, (m - d) % n, (m + np.arange(min(d, n - d))) % n) for m in range(n)]  # holds m .. m + d - 1
            for d in distances
        ]
    else:
        blocks = np.arange(n)
        gather = [
            [(m, m ^ d, blocks[blocks % (2 * d) == m % (2 * d)]) for m in range(n)]  # of what agrees in lower bits
            for d in distances[::-1]
        ]
    scatter = [[(b, a, elements) for a, b, elements in step] for step in gather[::-1]]
    agree(execute(operation, cut(n, n), n, scatter, gather), plan, n)


# ---- two levels ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", REDUCED)
@pytest.mark.parametrize(("nodes", "devices"), [(2, 4), (3, 2), (2, 3), (5, 2), (4, 4)])
def test_hierarchical(nodes: int, devices: int, operation: str) -> None:
    """Rings in nodes over parts of the whole, rings along rails over pieces of a part."""
    place = layout(nodes, devices)
    n, plan = place.members, phases("hierarchical", operation, place)
    pieces = np.arange(n).reshape(devices, nodes)  # of (place in the node, node)
    own = [pieces[m % devices, m // devices : m // devices + 1] for m in range(n)]

    def within(reduce: bool) -> Steps:
        rings = (around(range(v * devices, (v + 1) * devices), list(pieces), reduce) for v in range(nodes))
        return beside(rings)

    def rails(reduce: bool) -> Steps:
        return beside(around(range(r, n, devices), [p[None] for p in pieces[r]], reduce) for r in range(devices))

    scatter, gather = within(True) + rails(True), rails(False) + within(False)
    agree(execute(operation, own, n, scatter, gather), plan, n)


@pytest.mark.parametrize("operation", REDUCED)
@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (2, 4), (4, 3), (2, 2, 2), (3, 2, 4), (5,), (1, 4, 2)])
def test_torus(shape: tuple[int, ...], operation: str) -> None:
    """Part c goes along dimension c first, half of it either way round.

    A phase of the plan spreads rings of all lengths over the steps of the longest, so the links are compared over
    whole phases.
    """
    n, dims = int(np.prod(shape)), [d for d, size in enumerate(shape) if size > 1]
    place = layout(n, 1, "none", network=torus(*shape))
    place_of, length = np.arange(n).reshape(shape), 2 * len(dims) * n
    rounds: list[list[list[Steps]]] = [[[], []] for _ in dims]
    own: list[list[Any]] = [[] for _ in range(n)]
    for flow, block in enumerate(cut(length, 2 * len(dims))):  # (part, way round)
        part, back = divmod(flow, 2)
        mine = dict.fromkeys(range(n), block)
        for number in range(len(dims)):
            dimension = dims[(part + number) % len(dims)]
            split = dict(mine)
            for line in np.moveaxis(place_of, dimension, -1).reshape(-1, shape[dimension]).tolist():
                pieces = np.array_split(mine[line[0]], len(line))
                split |= dict(zip(line, pieces, strict=True))
                order = line[::-1] if back else line
                for reduce in (True, False):
                    rounds[number][reduce].append(around(order, [split[member] for member in order], reduce))
            mine = split
        for member in range(n):
            own[member].append(mine[member])
    scatter = [beside(made[True]) for made in rounds]
    gather = [beside(made[False]) for made in rounds[::-1]]
    execute(operation, [np.concatenate(mine) for mine in own], length, flat(scatter), flat(gather))
    made = {"all_reduce": scatter + gather, "reduce_scatter": scatter, "all_gather": gather}[operation]
    for steps, phase in zip(made, phases("torus", operation, place), strict=True):
        assert len(steps) == phase.repeat
        assert carried(flat(steps), length) == pytest.approx(planned([phase]))


# ---- trees ---------------------------------------------------------------------------------------------------------


def _climb(arrays: Arrays, pairs: Sequence[tuple[int, int]], elements: Any) -> Steps:
    """(child, parent) pairs of a tree: sums go up to the root, and the result down again; the moves made."""
    parent = dict(pairs)
    assert len(parent) == len(pairs)

    def depth(member: int) -> int:
        return 1 + depth(parent[member]) if member in parent else 0

    up = [[(child, parent[child], elements)] for child in sorted(parent, key=depth, reverse=True)]
    arrays.add(up)
    (root,) = set(parent.values()) - set(parent)
    arrays.whole[root, elements] = True
    down = [[(b, a, elements) for a, b, _ in step] for step in up[::-1]]
    arrays.copy(down)
    return up + down


def _trees(low: Any, high: Any, rails: int) -> list[list[list[tuple[int, int]]]]:
    """(child, parent) pairs by rail and tree, from the first halves of a plan's transfers (up, then down)."""
    pairs = np.stack([low, high], axis=1).reshape(2, -1, rails, 2)
    return [[[(int(a), int(b)) for a, b in pairs[half, :, rail]] for half in (0, 1)] for rail in range(rails)]


@pytest.mark.parametrize(("nodes", "devices"), [*((1, n) for n in SIZES), (2, 4), (3, 3)])
def test_double_binary_trees(nodes: int, devices: int) -> None:
    """Half of the data through each tree of the plan's own pairs; where members are even, who is inside one tree is a
    leaf of the other."""
    place = layout(nodes, devices)
    n, (phase,) = place.members, phases("binary_tree", "all_reduce", place)
    up = len(phase.src) // 2
    (trees,) = _trees(phase.src[:up], phase.dst[:up], 1)
    assert planned([phase]) == pytest.approx({pair: 0.5 * count for pair, count in _counts(trees).items()})
    assert ends(planned([phase]), n).max() <= 2  # in either direction, as if a member were a leaf of both
    arrays = Arrays("all_reduce", [[]] * n, 2)
    for half, pairs in enumerate(trees):
        _climb(arrays, pairs, [half])
    arrays.check()
    if n % 2 == 0 and n > 2:
        inside = [{parent for _, parent in pairs} for pairs in trees]
        roots = [set(range(n)) - {child for child, _ in pairs} for pairs in trees]
        assert not (inside[0] - roots[0]) & (inside[1] - roots[1])
    (down,) = phases("binary_tree", "broadcast", place)
    assert planned([down]) == pytest.approx(
        {(b, a): 0.5 * sum((a, b) in pairs for pairs in trees) for pairs in trees for a, b in pairs}
    )


def _counts(trees: Sequence[Sequence[tuple[int, int]]]) -> dict[tuple[int, int], int]:
    """How often each pair is used, up and down."""
    found: dict[tuple[int, int], int] = defaultdict(int)
    for pairs in trees:
        for a, b in pairs:
            found[a, b] += 1
            found[b, a] += 1
    return dict(found)


@pytest.mark.parametrize("name", ["tree", "hierarchical_tree", "nvls_tree"])
@pytest.mark.parametrize(("nodes", "devices"), [(2, 4), (3, 2), (2, 3), (5, 2), (4, 4), (9, 2)])
def test_trees_over_nodes(name: str, nodes: int, devices: int) -> None:
    """Each rail's part is summed in every node, goes through two trees over the nodes, and is handed out again.

    Between nodes the pairs are the plan's. Inside nodes `tree` has chains, of which channel r begins at member r, and
    its plan holds their mean; `nvls_tree` goes through the switch: what each member sends and receives is compared.
    """
    place = layout(nodes, devices)
    n, plan = place.members, phases(name, "all_reduce", place)
    said = planned(plan)
    rails = {pair: size for pair, size in _between(said, devices).items() if min(pair) >= 0}
    phase = next(phase for phase in plan if phase.outer)
    crossing = np.array(
        [min(a, b) >= 0 and a // devices != b // devices for a, b in zip(phase.src, phase.dst, strict=True)]
    )
    src, dst = phase.src[crossing], phase.dst[crossing]
    trees = _trees(src[: len(src) // 2], dst[: len(dst) // 2], devices)
    made, moves = {"tree": _chains, "hierarchical_tree": _rings_inside, "nvls_tree": _through_switch}[name](
        place, trees
    )
    assert carried(moves, 2 * devices) == pytest.approx(rails)
    inside = {pair: size for pair, size in said.items() if pair not in rails}
    assert made == pytest.approx(ends(inside, n))


Trees = list[list[list[tuple[int, int]]]]


def _chains(place: GroupPlacement, trees: Trees) -> tuple[Any, list[Move]]:
    """Channels of `tree`; (what members send and receive inside nodes, moves between nodes)."""
    n, devices, length = place.members, place.counts[0], 2 * place.counts[0]
    arrays, inside, between = Arrays("all_reduce", [[]] * n, length), list[Move](), list[Move]()
    for r in range(devices):
        chains = [[v * devices + (r + j) % devices for j in range(devices)] for v in range(place.nodes)]
        elements = [2 * r, 2 * r + 1]
        up: Steps = [[(c[j + 1], c[j], elements)] for c in chains for j in reversed(range(devices - 1))]
        arrays.add(up)
        for half, pairs in enumerate(trees[r]):
            between += flat(_climb(arrays, pairs, [2 * r + half]))
        down: Steps = [[(c[j], c[j + 1], elements)] for c in chains for j in range(devices - 1)]
        arrays.copy(down)
        inside += flat(up + down)
    arrays.check()
    return ends(carried(inside, length), n), between


def _rings_inside(place: GroupPlacement, trees: Trees) -> tuple[Any, list[Move]]:
    """The same of `hierarchical_tree`: a ring in each node scatters before the trees and gathers after them."""
    n, devices, length = place.members, place.counts[0], 2 * place.counts[0]
    arrays, parts = Arrays("all_reduce", [[]] * n, length), cut(length, devices)
    nodes = [range(v * devices, (v + 1) * devices) for v in range(place.nodes)]
    scatter = beside(around(node, parts, True) for node in nodes)
    gather = beside(around(node, parts, False) for node in nodes)
    arrays.add(scatter)
    between = [
        move
        for r in range(devices)
        for half, pairs in enumerate(trees[r])
        for step in _climb(arrays, pairs, [2 * r + half])
        for move in step
    ]
    arrays.copy(gather)
    arrays.check()
    return ends(carried(flat(scatter + gather), length), n), between


def _through_switch(place: GroupPlacement, trees: Trees) -> tuple[Any, list[Move]]:
    """The same of `nvls` (no trees) and `nvls_tree`: the switch adds up what all send of a part, and copies it."""
    n, devices, length = place.members, place.counts[0], 2 * place.counts[0]
    arrays, moves, between = Arrays("all_reduce", [[]] * n, length), list[Move](), list[Move]()
    parts = cut(length, devices)
    nodes = [range(v * devices, (v + 1) * devices) for v in range(place.nodes)]
    for node in nodes:
        for owner, part in zip(node, parts, strict=True):
            # All of the node, the owner too, send the part up; the owner has the sum from the switch.
            arrays.held[owner, part] = arrays.held[list(node)][:, part].sum(axis=0)
            moves += [*((member, SWITCH, part) for member in node), (SWITCH, owner, part)]
    for r, two in enumerate(trees):
        for half, pairs in enumerate(two):
            between += flat(_climb(arrays, pairs, [2 * r + half]))
    for node in nodes:
        for owner, part in zip(node, parts, strict=True):
            assert (arrays.held[owner, part] == 1).all()
            arrays.held[np.ix_(list(node), part)] = arrays.held[owner, part]
            moves += [(owner, SWITCH, part), *((SWITCH, member, part) for member in node)]
    arrays.check()
    return ends(carried(moves, length), n), between


@pytest.mark.parametrize("members", SIZES)
def test_a_switch_that_reduces(members: int) -> None:
    """What each member sends up and receives: S and its own part, S / n, once more."""
    place = layout(1, members)
    made, _ = _through_switch(place, [])
    said = ends(planned(phases("nvls", "all_reduce", place)), members)
    assert made == pytest.approx(said) and (said == 1 + 1 / members).all()


@pytest.mark.parametrize("members", SIZES)
def test_a_tree_in_one_node_is_chains(members: int) -> None:
    """Channel r is a chain from member r; the plan holds their mean: what each member sends and receives."""
    place = layout(1, members)
    arrays, moves = Arrays("all_reduce", [[]] * members, members), list[Move]()
    for r in range(members):
        order = [(r + j) % members for j in range(members)]
        moves += flat(_climb(arrays, [(order[j + 1], order[j]) for j in range(members - 1)], [r]))
    arrays.check()
    said = ends(planned(phases("tree", "all_reduce", place)), members)
    assert ends(carried(moves, members), members) == pytest.approx(said)


# ---- direct transfers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", REDUCED)
@pytest.mark.parametrize("members", SIZES)
def test_direct_on_a_mesh(members: int, operation: str) -> None:
    """Every member sends every other one its own piece, or the piece that the other makes."""
    plan, own = phases("direct", operation, layout(1, members, "mesh")), cut(members, members)
    others = [(a, b) for a in range(members) for b in range(members) if a != b]
    scatter: Steps = [[(a, b, own[b]) for a, b in others]]
    gather: Steps = [[(a, b, own[a]) for a, b in others]]
    agree(execute(operation, own, members, scatter, gather), plan, members)


@pytest.mark.parametrize("name", ["direct", "pairwise"])
@pytest.mark.parametrize("members", SIZES)
def test_an_all_to_all_on_a_mesh(name: str, members: int) -> None:
    """Block (a, b) comes from a to b, in one transfer of its own."""
    blocks = np.arange(members * members).reshape(members, members)
    got = np.full((members, members), -1)
    got[np.diag_indices(members)] = np.diag(blocks)
    for phase in phases(name, "all_to_all", layout(1, members, "mesh")):
        assert phase.repeat == 1 and phase.size == pytest.approx(1 / members)
        for a, b in zip(phase.src, phase.dst, strict=True):
            assert got[b, a] == -1
            got[b, a] = blocks[a, b]
    assert (got == blocks.T).all()


@pytest.mark.parametrize("operation", [*REDUCED, "all_to_all"])
@pytest.mark.parametrize(("nodes", "devices"), [*((1, n) for n in SIZES), (2, 4), (3, 2), (4, 1)])
def test_direct_by_volumes(nodes: int, devices: int, operation: str) -> None:
    """Volumes only, for behind a switch the plan sums what a member sends: each sends and has n - 1 pieces of S / n.

    Between nodes what is for any member of a node goes to the member of the sender's place there, as much as that node
    has members; the way from there inside the node is not in the plan.
    """
    place = layout(nodes, devices)
    n, plan = place.members, phases("direct", operation, place)
    for phase in plan:
        said = planned([phase])
        assert ends(said, n) == pytest.approx(np.full((2, n), (n - 1) / n))
        assert _between(said, devices) == pytest.approx(
            {(a, b): devices / n for a in range(n) for b in range(a % devices, n, devices) if a != b}
        )
        assert ends(_inside(said, devices), n) == pytest.approx(np.full((2, n), (devices - 1) / n))
    assert len(plan) == (2 if operation == "all_reduce" else 1)


@pytest.mark.parametrize("members", SIZES)
def test_direct_broadcast(members: int) -> None:
    (phase,) = phases("direct", "broadcast", layout(1, members))
    assert planned([phase]) == {(0, b): 1.0 for b in range(1, members)}
