"""What each algorithm moves, from where to where."""

from typing import Any

import numpy as np
import pytest

from simulator.collectives import intra_node_rings
from simulator.collectives.algorithms import ALGORITHMS
from simulator.collectives.algorithms.ring import snake
from simulator.collectives.algorithms.tree import over, parents
from simulator.collectives.phase import Phase
from simulator.collectives.placement import GroupPlacement, placements
from simulator.fabric import build
from simulator.fabric.fabric import SWITCH
from tests.machines import V100_LINKS, cluster, torus


def layout(members: Any, **machine: Any) -> GroupPlacement:
    fabric = build(cluster(**machine))
    found, _ = next(placements(np.sort(np.array([members])), fabric))
    return found


def phases(name: str, operation: str, place: GroupPlacement) -> tuple[Phase, ...]:
    found = ALGORITHMS.get(name)(operation, place)
    assert found is not None
    return found


FLAT = layout(range(8))
TWO_LEVELS = layout(range(16), nodes=4, devices=4, nics=4)


def test_a_layout_knows_nodes_and_rails() -> None:
    uneven = layout([0, 1, 2, 8, 9, 17], nodes=3)
    assert (uneven.counts, uneven.rails, uneven.even) == ((3, 2, 1), 1, False)
    assert uneven.starts.tolist() == [0, 3, 5, 6]
    assert TWO_LEVELS.rail(1).tolist() == [1, 5, 9, 13]


def test_groups_alike_share_a_layout() -> None:
    fabric = build(cluster(nodes=4))
    groups = np.array([[0, 1, 8, 9], [2, 3, 10, 11], [4, 5, 6, 7]])
    assert [(found.counts, rows.tolist()) for found, rows in placements(groups, fabric)] == [
        ((2, 2), [0, 1]),
        ((4,), [2]),
    ]


@pytest.mark.parametrize(
    "place", [FLAT, TWO_LEVELS, layout([0, 1, 2, 8, 9, 17], nodes=3)], ids=["flat", "two", "uneven"]
)
@pytest.mark.parametrize("name", ["ring", "halving_doubling", "direct", "pat"])
@pytest.mark.parametrize(("operation", "passes"), [("all_reduce", 2), ("all_gather", 1), ("reduce_scatter", 1)])
def test_the_volume_is_the_least_there_is(name: str, operation: str, passes: int, place: GroupPlacement) -> None:
    if (name, operation) == ("pat", "all_reduce"):
        assert ALGORITHMS.get(name)(operation, place) is None
        return
    moved = sum(phase.volume for phase in phases(name, operation, place))
    assert moved == pytest.approx(passes * (place.members - 1))


@pytest.mark.parametrize("name", ["hierarchical", "hierarchical_tree", "tree"])
def test_two_level_all_reduces_move_as_much_as_a_ring(name: str) -> None:
    moved = sum(phase.volume for phase in phases(name, "all_reduce", TWO_LEVELS))
    # In nodes twice three quarters from each member; between nodes two trees or a ring of four nodes on four rails.
    assert moved == pytest.approx(16 * 2 * 3 / 4 + 2 * 3)


@pytest.mark.parametrize("name", ["direct", "pairwise"])
def test_an_all_to_all_moves_all_but_the_own_part(name: str) -> None:
    found = phases(name, "all_to_all", FLAT)
    assert sum(phase.volume for phase in found) == pytest.approx(7)


@pytest.mark.parametrize("place", [FLAT, TWO_LEVELS], ids=["flat", "two"])
def test_in_a_shift_every_member_sends_all_of_its_message_to_the_next(place: GroupPlacement) -> None:
    (phase,) = phases("send", "shift", place)
    assert ((phase.src + 1) % place.members == phase.dst).all()
    assert phase.size.tolist() == [1.0] * place.members
    assert (phase.inner, phase.outer) == (float(place.nodes == 1), float(place.nodes > 1))


def test_a_shift_says_how_far_and_both_ways_carry_half() -> None:
    (far,) = phases("send", "shift:3", FLAT)
    assert ((far.src + 3) % 8 == far.dst).all()
    (both,) = phases("send", "shift:1:-1", FLAT)
    assert sorted(zip(both.src.tolist(), both.dst.tolist(), strict=True)) == sorted(
        [(i, (i + 1) % 8) for i in range(8)] + [(i, (i - 1) % 8) for i in range(8)]
    )
    assert both.volume == 8


def test_a_ring_crosses_nodes_once_on_each_rail() -> None:
    (phase,) = phases("ring", "all_gather", TWO_LEVELS)
    node = np.arange(16) // 4
    crossing = node[phase.src] != node[phase.dst]
    assert (phase.src[crossing] % 4 == phase.dst[crossing] % 4).all()
    assert phase.size[crossing].tolist() == pytest.approx([1 / 16 / 4] * 16)
    assert (phase.inner, phase.outer) == (0.75, 0.25)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 8, 13])
def test_double_trees_span_everyone_and_are_fair(count: int) -> None:
    above = parents(count)
    for place in range(count):
        seen = set()
        while place >= 0:
            assert place not in seen
            seen.add(place)
            place = int(above[place])
        assert 0 in seen
    low, _, share = over(np.arange(count)[:, None], True)
    sent = np.bincount(low, share, count)
    assert sent.sum() == pytest.approx(2 * (count - 1))
    assert sent.max() <= 2  # nobody sends more than the whole data up and the whole data down


def test_halving_and_doubling_take_logarithmic_steps() -> None:
    assert [len(phases("halving_doubling", "all_gather", layout(range(n)))) for n in (2, 3, 5, 8)] == [1, 2, 3, 3]
    first, *_, last = phases("halving_doubling", "all_reduce", FLAT)
    assert first.size[0] == last.size[0] == 0.5
    assert (first.src ^ first.dst).tolist() == [1] * 8


@pytest.mark.parametrize("members", [2, 3, 5, 6, 8, 12, 13, 16])
def test_aggregated_trees_bring_every_piece_once_and_send_least_far(members: int) -> None:
    """Executed: a member keeps pieces by how far back they came from, and passes on those that the receiver lacks."""
    held = {0}
    steps = phases("pat", "all_gather", layout(range(members), devices=16))
    for step in steps:
        distance = int(step.dst[0] - step.src[0])
        arrived = {back + distance for back in held if back + distance < members}
        assert not arrived & held
        assert step.size[0] * members == pytest.approx(len(arrived))
        held |= arrived
    assert held == set(range(members))
    assert [step.size[0] for step in steps] == sorted(step.size[0] for step in steps)
    backwards = phases("pat", "reduce_scatter", layout(range(members), devices=16))
    assert [step.size[0] for step in backwards] == [step.size[0] for step in steps][::-1]
    assert all(step.reduce for step in backwards)


@pytest.mark.parametrize("members", [2, 3, 5, 6, 8, 13, 16])
def test_bruck_brings_every_block_to_its_owner_in_logarithmic_steps(members: int) -> None:
    """Executed: block (from, to) moves in each step whose distance is in its way around the group."""
    at = {(i, j): i for i in range(members) for j in range(members)}
    steps = phases("bruck", "all_to_all", layout(range(members), devices=16))
    for step in steps:
        distance = int(step.dst[0] - step.src[0]) % members
        moving = [block for block in at if (block[1] - block[0]) % members & distance]
        assert step.size[0] * members * members == pytest.approx(len(moving))
        for block in moving:
            at[block] = (at[block] + distance) % members
    assert all(owner == block[1] for block, owner in at.items())
    assert len(steps) == (members - 1).bit_length()


def test_a_switch_that_reduces_sees_each_byte_once() -> None:
    (phase,) = phases("nvls", "all_reduce", FLAT)
    up = phase.dst == SWITCH
    assert phase.size[up].sum() == phase.size[~up].sum() == 8 * (1 + 1 / 8)
    assert ALGORITHMS.get("nvls")("all_reduce", TWO_LEVELS) is None
    assert ALGORITHMS.get("nvls")("all_reduce", layout(range(4), devices=4, kind="mesh")) is None


def test_a_mesh_is_used_on_all_links() -> None:
    (phase,) = phases("ring", "all_gather", layout(range(4), devices=4, kind="mesh"))
    assert len(phase.src) == 12
    assert phase.size.tolist() == pytest.approx([1 / 4 / 3] * 12)


def test_rings_fill_the_uneven_links_of_the_cube_mesh() -> None:
    fabric = build(cluster(kind="links", bandwidth="25 GB/s", links=V100_LINKS))
    widths = {}
    for members in (2, 3, 4, 6, 7, 8):
        src, dst, share = intra_node_rings.around(fabric.nodes[0].links, tuple(range(members)))
        _, link = fabric.routes(src, dst)
        widths[members] = float((fabric.capacity[link] / np.bincount(link, share)[link]).min()) / 1e9
    # Rings of NVLinks that NCCL finds on a DGX-1 (vTrain's tables reach 0.85 to 0.92 of these).
    assert widths == pytest.approx({2: 25, 3: 50, 4: 100, 6: 50, 7: 100, 8: 150})


def test_members_without_a_ring_of_links_take_their_order() -> None:
    fabric = build(cluster(kind="links", bandwidth="25 GB/s", links=V100_LINKS))
    src, dst, share = intra_node_rings.around(fabric.nodes[0].links, (0, 1, 6))
    assert (src.tolist(), dst.tolist(), share.tolist()) == ([0, 1, 2], [1, 2, 0], [1, 1, 1])


def test_rings_of_nodes_that_are_alike_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table of collectives over 9,408 nodes looked for each node's at each size (30 CPU seconds in place of 4)."""
    asked, found = list[tuple[int, ...]](), intra_node_rings.around

    def counted(links: Any, local: tuple[int, ...]) -> Any:
        asked.append(local)
        return found(links, local)

    monkeypatch.setattr(intra_node_rings, "around", counted)
    place = layout([*range(24), 24, 26, 28], nodes=4, kind="links", bandwidth="25 GB/s", links=V100_LINKS)
    src, dst, _ = place.inside()
    assert asked == [(0, 2, 4), tuple(range(8))]
    own = place.starts.searchsorted(src, "right")
    assert (own == place.starts.searchsorted(dst, "right")).all() and set(own.tolist()) == {1, 2, 3, 4}


def test_many_members_take_both_ways_round() -> None:
    fabric = build(cluster(devices=12, kind="ring"))
    src, dst, share = intra_node_rings.around(fabric.nodes[0].links, tuple(range(12)))
    assert len(src) == 24
    assert set(share.tolist()) == {0.5}
    assert {abs(a - b) for a, b in zip(src.tolist(), dst.tolist(), strict=True)} == {1, 11}


def test_a_snake_visits_a_box_step_by_step() -> None:
    order = snake((2, 3, 4))
    places = np.stack(np.unravel_index(order, (2, 3, 4)), axis=1)
    assert sorted(order.tolist()) == list(range(24))
    assert (np.abs(np.diff(places, axis=0)).sum(axis=1) == 1).all()


def test_a_torus_uses_all_dimensions_at_once() -> None:
    machine = {"nodes": 16, "devices": 1, "kind": "none", "nics": 0, "network": torus(4, 4)}
    found = phases("torus", "all_reduce", layout(range(16), **machine))
    assert [phase.repeat for phase in found] == [3, 3, 3, 3]
    assert sum(phase.volume for phase in found) == pytest.approx(2 * 15)
    fabric = build(cluster(**machine))
    for phase in found:
        _, link = fabric.routes(phase.src, phase.dst)
        assert np.ptp(np.bincount(link, phase.size, 64)) < 1e-12
    assert ALGORITHMS.get("torus")("all_reduce", FLAT) is None


def test_a_group_in_a_torus_that_is_no_box_takes_a_ring() -> None:
    place = layout([0, 1, 5], nodes=16, devices=1, kind="none", nics=0, network=torus(4, 4))
    assert place.box == ()
    (phase,) = phases("ring", "all_gather", place)
    assert (phase.src.tolist(), phase.dst.tolist()) == ([0, 1, 2], [1, 2, 0])
