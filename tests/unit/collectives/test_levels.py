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
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec
from tests.machines import cluster, level, profile

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


def uneven(counts: tuple[int, ...]) -> GroupPlacement:
    """Members of servers with room for the most of them."""
    most = max(counts)
    fabric = build(cluster(nodes=len(counts), devices=most, kind="mesh" if most > 1 else "switch", nics=most))
    ranks = np.concatenate([node * most + np.arange(count) for node, count in enumerate(counts)])
    return next(placements(ranks[None], fabric))[0]


def together(step: Phase) -> dict[tuple[int, int], float]:
    """What each member sends another in a step."""
    found: dict[tuple[int, int], float] = {}
    for a, b, size in zip(step.src.tolist(), step.dst.tolist(), step.size.tolist(), strict=True):
        found[a, b] = found.get((a, b), 0.0) + size
    return found


@pytest.mark.parametrize("counts", [(2, 3), (4, 8), (1, 5, 2), (3, 3, 4, 8, 1), (4, 4, 4), (1, 1, 1)])
def test_uneven_servers_sum_every_input_once(counts: tuple[int, ...]) -> None:
    """AHC executed on integers: members of a server sum its parts, owners of a part those of all servers, then back.

    A part is cut into as many pieces as there are servers. The gather between servers is executed first, each piece
    coming from the nearest server behind that has it; the scatter that reduces is the same backwards.
    """
    place = uneven(counts)
    servers, lcm = len(counts), int(np.lcm.reduce(counts))
    length = lcm * servers
    inputs = np.random.default_rng(5).integers(-(1 << 40), 1 << 40, (place.members, length))
    first, *between, last = (
        phases("mesh_ahc", "all_reduce", place)
        if max(counts) > 1
        else (None, *phases("mesh_ahc", "all_reduce", place), None)
    )
    down, up = between[: len(between) // 2], between[len(between) // 2 :]
    server = np.repeat(np.arange(servers), counts)
    number = np.arange(place.members) - place.starts[server]
    own = [slice(n * length // counts[s], (n + 1) * length // counts[s]) for s, n in zip(server, number, strict=True)]
    held = inputs.copy()
    if first is not None:  # every member hands each other of its server the part that it owns
        assert sorted(zip(first.src.tolist(), first.dst.tolist(), strict=True)) == [
            (a, b) for a in range(place.members) for b in range(place.members) if a != b and server[a] == server[b]
        ]
        assert first.size == pytest.approx(1 / np.array(counts)[server[first.src]])
        for a, b in zip(first.src, first.dst, strict=True):
            held[b, own[b]] += inputs[a, own[b]]
    have = np.zeros((place.members, length), bool)
    for member, part in enumerate(own):
        have[member, part] = np.arange(length)[part] % servers == server[member]
    moves = []
    for step in up:
        before, moved = have.copy(), []
        for (a, b), size in together(step).items():
            common = np.arange(max(own[a].start, own[b].start), min(own[a].stop, own[b].stop))
            pieces = round(size * servers / (len(common) / length))
            assert pieces * len(common) / length / servers == pytest.approx(size)
            origin = (common % servers)[before[a, common] & ~before[b, common]]
            nearest = sorted(set(origin.tolist()), key=lambda one: (server[a] - one) % servers)[:pieces]
            assert len(nearest) == pieces
            places = common[np.isin(common % servers, nearest)]
            assert not have[b, places].any()  # nothing comes twice
            have[b, places] = True
            moved.append((a, b, places))
        moves.append(moved)
    assert all(have[member, part].all() for member, part in enumerate(own))
    for step, back, moved in zip(down, up[::-1], moves[::-1], strict=True):
        assert step.reduce and together(step) == pytest.approx(
            {(b, a): size for (a, b), size in together(back).items()}
        )
        before = held.copy()
        for a, b, places in moved:
            held[a, places] += before[b, places]
    for moved in moves:
        for a, b, places in moved:
            held[b, places] = held[a, places]
    total = inputs.sum(axis=0)
    assert all((held[member, part] == total[part]).all() for member, part in enumerate(own))
    if last is not None:
        assert (last.src.tolist(), last.dst.tolist()) == (first.src.tolist(), first.dst.tolist()) and not last.reduce


def test_equal_servers_run_nonuniform_bruck() -> None:
    place = layout(4, 4)
    for one, two in zip(phases("mesh_ahc", "all_reduce", place), phases("mesh_nb", "all_reduce", place), strict=True):
        assert (one.src.tolist(), one.dst.tolist(), one.size.tolist()) == (
            two.src.tolist(),
            two.dst.tolist(),
            two.size.tolist(),
        )
    assert ALGORITHMS.get("mesh_ahc")("all_gather", place) is None
    assert ALGORITHMS.get("mesh_nb")("all_reduce", uneven((2, 3))) is None


def test_uneven_supernodes_send_less_between_them_than_a_ring() -> None:
    """Two of 4 and 8 members whose uplinks are an eighth of their cards: S each way, where a ring sends 2 S 11 / 12."""
    thin = {"kind": "tree", "levels": [level("leaf", 1, 8), level("spine", 2)]}
    fabric, ranks = build(cluster(nodes=2, devices=8, kind="mesh", nics=8, network=thin)), [*range(4), *range(8, 16)]
    ahc, ring = (
        collectives.cost_of("all_reduce", ranks, 1 << 30, fabric, profile(), name) for name in ("mesh_ahc", "ring")
    )
    up = slice(*(fabric.block_start[fabric.kinds.index("leaf up") + place] for place in (0, 1)))
    assert ahc.load[up] == pytest.approx(1 << 30)
    assert ring.load[up] == pytest.approx((1 << 30) * 2 * 11 / 12)
    assert ahc.slowest < 0.75 * ring.slowest  # inside the servers it sends more


def test_steps_are_those_of_the_algorithms() -> None:
    steps = {
        name: [sum(p.repeat for p in phases(name, "all_gather", layout(n, 2))) - 1 for n in (4, 8)] for name in LEVELS
    }
    assert steps == {
        "mesh_ring": [3, 7],
        "mesh_halving": [2, 3],
        "mesh_nhr": [2, 3],
        "mesh_nb": [2, 3],
        "mesh_pipeline": [3, 7],
    }
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
        assert ruled("all_reduce", 8 * nodes, nodes, 64, library, ("ring", "tree")) == taken
    assert ruled("all_reduce", 16, 2, 64, library, ("ring",)) == "ring"
    assert ruled("all_gather", 16, 2, 64, library, ("ring",)) == ""


@pytest.mark.parametrize("ranks", [4, 64])
def test_a_rule_may_count_the_bytes_of_each_member_and_name_a_protocol(ranks: int) -> None:
    """NCCL sends under LL up to 16 KiB a channel and peer: 32 channels, so 512 KiB a peer, however many peers."""
    rack, library = build(cluster(devices=64, kind="switch")), load_spec(CollectiveProfile, "nccl-b300")
    for each, protocol in ((512 << 10, "copy LL"), (513 << 10, "copy")):
        cost = collectives.cost_of("all_to_all", range(ranks), float(each * ranks), rack, library)
        assert cost.algorithms == (f"direct/{protocol}",)


def test_an_exchange_with_many_peers_pays_a_round_for_every_eight() -> None:
    """Inside a node a round for 7 peers, two for 15; between nodes the peers of other nodes count."""
    inside, between = build(cluster(devices=16, kind="switch")), build(cluster(nodes=4, devices=8, nics=8))
    for fabric, ranks, hops in (
        (inside, 8, (1, 0)),
        (inside, 16, (2, 0)),
        (between, 16, (0, 1)),
        (between, 32, (0, 3)),
    ):
        layout, _ = next(placements(np.arange(ranks)[None], fabric))
        (phase,) = ALGORITHMS.get("direct")("all_to_all", layout) or ()
        assert (phase.inner, phase.outer) == hops


def test_the_adaptive_choice_of_hccl_is_the_quickest() -> None:
    fabric, library = build(cluster(nodes=8, devices=4, kind="mesh", nics=4)), load_spec(CollectiveProfile, "hccl-a2")
    own = collectives.cost_of("all_reduce", range(32), 1e6, fabric, library).slowest
    assert own == min(collectives.cost_of("all_reduce", range(32), 1e6, fabric, library, n).slowest for n in LEVELS)


@pytest.mark.parametrize("wrong", [{"algorithm": "star"}, {"nodes": "odd"}, {"below": "-1 B"}, {"operation": "sum"}])
def test_bad_rules_are_refused(wrong: dict[str, Any]) -> None:
    rule = {"operation": "all_reduce", "algorithm": "ring", "source": "this test"} | wrong
    with pytest.raises(ValueError, match="rule"):
        profile(rules=[rule])
