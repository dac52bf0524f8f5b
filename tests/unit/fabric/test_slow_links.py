"""Links by name, and links with a share of their bandwidth."""

import numpy as np
import pytest

from simulator import collectives
from simulator.fabric import build
from tests import machines

TREE = build(machines.cluster(4))
TORUS = build(machines.cluster(4, machines.torus(4, 8), kind="none"))


@pytest.mark.parametrize("fabric", [TREE, TORUS], ids=["tree", "torus"])
def test_every_name_finds_its_link(fabric) -> None:
    for link in range(0, len(fabric.capacity), 3):
        assert fabric.find(fabric.links[link]) == (link,)


def test_a_name_without_a_direction_is_both() -> None:
    assert [TREE.links[link] for link in TREE.find("leaf 1")] == ["leaf up 1", "leaf down 1"]
    assert TORUS.find("torus 0 3") == ()


@pytest.mark.parametrize("name", ["", "NIC", "NIC x", "NIC 99", "node 9: 0 > switch", "node 0: 0 > 1", "scale-up 3"])
def test_names_of_nothing(name: str) -> None:
    assert TREE.find(name) == ()


def test_a_slow_link_slows_the_group_that_uses_it_and_no_other() -> None:
    groups = np.array([[0, 8], [1, 9], [16, 24]])
    slow = TREE.slowed(TREE.find("NIC 8"), 0.5)
    clean, found = (
        collectives.cost_of("all_reduce", groups, 1e9, fabric, machines.profile()).ticks for fabric in (TREE, slow)
    )
    assert found[0] > 1.8 * clean[0]
    assert found[1:].tolist() == clean[1:].tolist()


def test_a_library_does_not_know_of_slow_links() -> None:
    """The algorithm is the one for the fabric as it should be."""
    profile = machines.two_protocols()
    for size in (1e3, 1e5, 1e7):
        clean = collectives.cost_of("all_reduce", [range(32)], size, TREE, profile)
        slow = collectives.cost_of(
            "all_reduce", [range(32)], size, TREE.slowed(range(len(TREE.capacity)), 0.01), profile
        )
        assert slow.algorithms == clean.algorithms
        assert slow.slowest > clean.slowest
