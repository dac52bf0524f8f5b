"""Cards of different kinds: those that cannot talk RDMA with each other fall back to sockets."""

from typing import Any

import pytest

from simulator.collectives import cost_of
from simulator.fabric import Fabric, build
from simulator.specs.hardware import Cluster, Nics, Node
from tests.machines import LEAF_SPINE, figure, node, profile


def cards(rdma: str | None) -> Node:
    """A node of eight devices and cards of 25 GB/s that speak `rdma`."""
    spoken = {} if rdma is None else {"rdma": rdma, "sockets": figure("1 GB/s")}
    nics = Nics.model_validate({"count": 8, "bandwidth": figure("25 GB/s")} | spoken)
    return node().model_copy(update={"nics": nics})


def machine(first: str | None, second: str | None, network: dict[str, Any] = LEAF_SPINE) -> Fabric:
    more = [{"name": "second", "node": cards(second), "nodes": 2}]
    return build(
        Cluster.model_validate(
            {
                "name": "c",
                "node": cards(first),
                "nodes": 2,
                "partition": "first",
                "more_nodes": more,
                "network": network,
            }
        )
    )


def slowest(fabric: Fabric, src: int, dst: int) -> float:
    return float(min(fabric.capacity[link] for link in fabric.route(src, dst)))


def test_cards_of_one_kind_talk_rdma_and_others_sockets() -> None:
    fabric = machine("infiniband", "roce")
    assert [fabric.links[link] for link in fabric.route(0, 16)][-2:] == ["sockets up 0", "sockets down 16"]
    assert (slowest(fabric, 0, 8), slowest(fabric, 16, 24), slowest(fabric, 0, 16)) == (25e9, 25e9, 1e9)
    assert slowest(machine("infiniband", "infiniband"), 0, 16) == 25e9
    assert slowest(machine("none", "roce"), 0, 8) == 1e9
    plain = machine(None, None)
    assert slowest(plain, 0, 16) == 25e9 and "sockets up" not in plain.kinds


def test_groups_of_one_kind_are_fast_and_mixed_ones_slow() -> None:
    """What Holmes (arXiv:2312.03549) builds its groups for: a ring over both kinds is as slow as sockets."""
    fabric = machine("infiniband", "roce")
    alike, mixed = ([[0, 8], [16, 24]], [[0, 16], [8, 24]])
    fast, slow = (cost_of("all_reduce", groups, 1e9, fabric, profile(), "ring").slowest for groups in (alike, mixed))
    assert slow / fast == pytest.approx(25, rel=0.01)


@pytest.mark.parametrize(
    ("first", "second", "network", "words"),
    [
        ("infiniband", None, LEAF_SPINE, "of all kinds of nodes"),
        ("infiniband", "token-ring", LEAF_SPINE, "rdma"),
        ("infiniband", "roce", {"kind": "leaf-spine", "leaf_nodes": 2, "spines": 2}, "has no effect on a network"),
    ],
)
def test_what_is_not_said_or_not_modelled_is_refused(
    first: str | None, second: str | None, network: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        machine(first, second, network)


def test_cards_say_what_they_reach_without() -> None:
    with pytest.raises(ValueError, match="need each other"):
        Nics.model_validate({"count": 8, "bandwidth": figure("25 GB/s"), "rdma": "roce"})
