"""Algorithms in two levels, recursive doubling and stars: executed on small integers, and as libraries choose them."""

from typing import Any

import numpy as np
import pytest

from simulator import collectives
from simulator.collectives.algorithms import ALGORITHMS
from simulator.collectives.choice import ruled
from simulator.collectives.phase import Phase
from simulator.collectives.placement import GroupPlacement, placements
from simulator.fabric import build
from simulator.specs.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec
from tests.machines import cluster, profile

LEVELS = ("mesh_ring", "mesh_halving", "mesh_nhr", "mesh_nb", "mesh_pipeline")
SHAPES = [(2, 4), (3, 2), (4, 4), (5, 3), (6, 1), (8, 2), (4, 1)]


def layout(nodes: int, devices: int, kind: str = "mesh") -> GroupPlacement:
    fabric = build(cluster(nodes=nodes, devices=devices, kind=kind if devices > 1 else "switch", nics=devices))
    return next(placements(np.arange(nodes * devices)[None], fabric))[0]


def phases(name: str, operation: str, place: GroupPlacement) -> tuple[Phase, ...]:
    found = ALGORITHMS.get(name)(operation, place)
    assert found is not None
    return found


def gathered(steps: list[tuple[int, Any, Any, Any]], members: int, rails: int) -> Any:
    """Which pieces each member holds after transfers of (repeat, from, to, share); each brings only what is lacking.

    A member passes on pieces of its own rail that the receiver lacks, those first that come from nearest behind; one
    that came twice, or a share that is not lacking, fails.
    """
    own = np.arange(members)[:, None] % rails == np.arange(members) % rails
    held = np.eye(members, dtype=bool)
    for repeat, src, dst, share in steps:
        for _ in range(repeat):
            before, come = held.copy(), np.zeros((members, members), np.int64)
            for a, b, size in zip(src, dst, share, strict=True):
                count = round(size * members)
                assert count == pytest.approx(size * members)
                lacking = np.flatnonzero(before[a] & ~before[b] & own[a])
                assert len(lacking) >= count
                nearest = np.argsort((a - lacking) % members, kind="stable")[:count]
                come[b, lacking[nearest]] += 1
            assert come.max() <= 1
            held |= come > 0
    return held


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize(("nodes", "devices"), SHAPES)
def test_every_piece_arrives_once(name: str, nodes: int, devices: int) -> None:
    """Executed: a gather; a scatter that reduces is one whose transfers run backwards."""
    place = layout(nodes, devices)
    if name == "mesh_halving" and nodes & (nodes - 1):
        assert ALGORITHMS.get(name)("all_gather", place) is None
        return
    steps = [(one.repeat, one.src, one.dst, one.size) for one in phases(name, "all_gather", place)]
    assert gathered(steps, place.members, devices).all()
    back = [(one.repeat, one.dst, one.src, one.size) for one in phases(name, "reduce_scatter", place)[::-1]]
    assert gathered(back, place.members, devices).all()
    whole = phases(name, "all_reduce", place)
    assert [phase.reduce for phase in whole] == [True] * len(back) + [False] * len(steps)
    assert sum(phase.volume for phase in whole) == pytest.approx(2 * (place.members - 1))


def test_steps_are_those_of_the_algorithms() -> None:
    steps = {
        name: [sum(p.repeat for p in phases(name, "all_gather", layout(n, 2))) - 1 for n in (4, 8)] for name in LEVELS
    }
    assert steps == {
        "mesh_ring": [3, 7], "mesh_halving": [2, 3], "mesh_nhr": [2, 3], "mesh_nb": [2, 3], "mesh_pipeline": [3, 7],
    }  # fmt: skip
    first, *_, last = phases("mesh_nhr", "all_gather", layout(8, 1))
    assert first.size[0] < last.size[0] and abs(first.dst[0] - first.src[0]) > abs(last.dst[0] - last.src[0])
    first, *_, last = phases("mesh_nb", "all_gather", layout(8, 1))
    assert first.size[0] < last.size[0] and abs(first.dst[0] - first.src[0]) < abs(last.dst[0] - last.src[0])
    # Servers beyond a power of two send and have all that a rail carries.
    assert sum(p.volume for p in phases("mesh_halving", "all_reduce", layout(5, 1))) == pytest.approx(2 * 3 + 2)


@pytest.mark.parametrize("name", ["recursive_doubling", "star"])
@pytest.mark.parametrize("members", [2, 3, 4, 6, 8, 13])
def test_sums_of_whole_messages_count_every_input_once(name: str, members: int) -> None:
    """Executed: each transfer carries all that its sender has, to be added or kept."""
    inputs = np.random.default_rng(3).integers(0, 1 << 30, members)
    held = inputs.copy()
    for phase in phases(name, "all_reduce", layout(1, members, "switch")):
        assert (phase.repeat, set(phase.size.tolist())) == (1, {1.0})
        before = held.copy()
        for a, b in zip(phase.src, phase.dst, strict=True):
            held[b] = held[b] + before[a] if phase.reduce else before[a]
    assert (held == inputs.sum()).all()


@pytest.mark.parametrize(
    ("operation", "into", "out"), [("all_reduce", 1, 1), ("all_gather", 1 / 4, 3 / 4), ("reduce_scatter", 3 / 4, 1 / 4)]
)
def test_a_star_takes_two_hops_and_its_master_carries_all(operation: str, into: float, out: float) -> None:
    one, two = phases("star", operation, layout(4, 1))
    assert (one.dst.tolist(), one.size.tolist()) == ([0] * 3, [into] * 3)
    assert (two.src.tolist(), two.size.tolist()) == ([0] * 3, [out] * 3)
    assert one.outer + two.outer == 2
    fabric = build(cluster(nodes=4, devices=1, nics=1))
    cost = collectives.cost_of("all_reduce", range(4), 1e6, fabric, profile(), "star")
    ring = collectives.cost_of("all_reduce", range(4), 64, fabric, profile(), "ring")
    assert cost.load.max() == 3e6
    assert collectives.cost_of("all_reduce", range(4), 64, fabric, profile(), "star").slowest < ring.slowest / 2


@pytest.mark.parametrize(
    ("library", "operation", "nodes", "size", "algorithm"),
    [
        ("hccl-910", "all_reduce", 4, 1e8, "mesh_halving"),
        ("hccl-910", "all_reduce", 6, 64, "mesh_ring"),
        ("hccl-910", "all_gather", 6, 1e8, "mesh_ring"),
        ("gloo", "all_reduce", 8, 64, "ring"),
        ("gloo", "reduce_scatter", 8, 1e8, "halving_doubling"),
        ("oneccl-ofi", "all_reduce", 8, 32768, "recursive_doubling"),
        ("oneccl-ofi", "all_reduce", 8, 32769, "direct"),
        ("oneccl-ofi", "all_reduce", 8, 1e8, "ring"),
        ("rccl-mi355x", "all_reduce", 2, 64, "tree"),
        ("rccl-mi355x", "all_reduce", 3, 1e8, "ring"),
    ],
)
def test_libraries_choose_by_their_rules(library: str, operation: str, nodes: int, size: float, algorithm: str) -> None:
    fabric, rules = build(cluster(nodes=nodes, devices=2, nics=2)), load_spec(CollectiveProfile, library)
    cost = collectives.cost_of(operation, range(2 * nodes), size, fabric, rules)
    assert [name.partition("/")[0] for name in cost.algorithms] == [algorithm]
    # A rule whose algorithm cannot do it, or none: what is quickest; a named algorithm is taken all the same.
    named = collectives.cost_of("all_reduce", range(2 * nodes), size, fabric, rules, "star")
    assert named.algorithms[0].startswith("star/")


def test_a_rule_for_several_nodes_leaves_one_node_alone() -> None:
    library = load_spec(CollectiveProfile, "rccl-mi355x")
    for nodes, taken in ((1, ""), (2, "tree"), (3, "tree")):
        assert ruled("all_reduce", nodes, 64, library, ("ring", "tree")) == taken
    assert ruled("all_reduce", 2, 64, library, ("ring",)) == "ring"
    assert ruled("all_gather", 2, 64, library, ("ring",)) == ""


def test_the_adaptive_choice_of_hccl_is_the_quickest() -> None:
    fabric, library = build(cluster(nodes=8, devices=4, kind="mesh", nics=4)), load_spec(CollectiveProfile, "hccl-a2")
    own = collectives.cost_of("all_reduce", range(32), 1e6, fabric, library).slowest
    assert own == min(collectives.cost_of("all_reduce", range(32), 1e6, fabric, library, n).slowest for n in LEVELS)


@pytest.mark.parametrize("wrong", [{"algorithm": "star"}, {"nodes": "odd"}, {"below": "-1 B"}, {"operation": "sum"}])
def test_bad_rules_are_refused(wrong: dict[str, Any]) -> None:
    rule = {"operation": "all_reduce", "algorithm": "ring", "source": "this test"} | wrong
    with pytest.raises(ValueError, match="rule"):
        profile(rules=[rule])
