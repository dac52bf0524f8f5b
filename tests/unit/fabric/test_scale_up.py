"""Fabrics inside a node."""

import tracemalloc
from collections.abc import Sequence

import networkx
import numpy as np
import pytest

from simulator.errors import InputError
from simulator.fabric import build
from simulator.fabric.fabric import SWITCH, Fabric
from tests.machines import V100_LINKS, cluster


def names(fabric: Fabric, links: Sequence[int]) -> list[str]:
    return [fabric.links[link] for link in links]


def test_a_switch_gives_any_pair_the_full_rate() -> None:
    fabric = build(cluster(devices=4))
    assert names(fabric, fabric.route(1, 3)) == ["node 0: 1 > switch", "node 0: switch > 3"]
    assert (fabric.capacity[: fabric.first_outer] == 300e9).all()


def test_a_mesh_splits_a_device_over_its_links() -> None:
    fabric = build(cluster(devices=5, kind="mesh", bandwidth="448 GB/s"))
    assert names(fabric, fabric.route(4, 0)) == ["node 0: 4 > 0"]
    assert fabric.capacity[fabric.route(4, 0)[0]] == 112e9


def test_a_ring_goes_the_shorter_way_and_opposites_by_parity() -> None:
    fabric = build(cluster(devices=4, kind="ring"))
    assert names(fabric, fabric.route(3, 0)) == ["node 0: 3 > 0"]
    assert names(fabric, fabric.route(0, 2)) == ["node 0: 0 > 1", "node 0: 1 > 2"]
    assert names(fabric, fabric.route(1, 3)) == ["node 0: 1 > 0", "node 0: 0 > 3"]
    assert (fabric.capacity[: fabric.first_outer] == 150e9).all()


def test_a_ring_of_two_has_one_neighbour_and_the_whole_bandwidth() -> None:
    fabric = build(cluster(devices=2, kind="ring"))
    assert fabric.capacity[fabric.route(0, 1)[0]] == 300e9


def test_uneven_links_forward_over_the_widest_shortest_way() -> None:
    fabric = build(cluster(kind="links", bandwidth="25 GB/s", links=V100_LINKS))
    assert names(fabric, fabric.route(0, 4)) == ["node 0: 0 > 4"]
    assert fabric.capacity[fabric.route(0, 4)[0]] == 50e9
    # From 0 to 5 by way of 1 (25 and 50 GB/s) or 4 (50 and 25): equally wide, device 1 comes first.
    assert names(fabric, fabric.route(0, 5)) == ["node 0: 0 > 1", "node 0: 1 > 5"]
    # From 0 to 7 by way of 4 both links are double; by way of 3 the second one is single.
    assert names(fabric, fabric.route(0, 7)) == ["node 0: 0 > 4", "node 0: 4 > 7"]


def test_devices_without_a_way_are_an_error() -> None:
    with pytest.raises(InputError, match="not joined"):
        build(cluster(devices=2, kind="none")).route(0, 1)


def test_devices_without_a_scale_up_fabric_meet_over_their_cards() -> None:
    fabric = build(cluster(nodes=2, devices=2, kind="none", nics=2))
    assert names(fabric, fabric.route(0, 1)) == ["NIC up 0", "NIC down 1"]


def test_a_host_bus_is_one_link_for_all() -> None:
    fabric = build(cluster(devices=4, kind="host", bandwidth="30 GB/s"))
    assert fabric.route(0, 1) == fabric.route(3, 2) == (0,)
    assert fabric.capacity[0] == 30e9


def test_a_single_device_needs_no_links() -> None:
    fabric = build(cluster(devices=1, kind="switch", nics=1))
    assert fabric.first_outer == 0
    assert fabric.route(0, 0) == ()


def test_half_ways_to_and_from_the_switch() -> None:
    fabric = build(cluster(nodes=2, devices=4))
    paths = fabric.paths([5, SWITCH, 5], [SWITCH, 6, 6])
    assert [[fabric.links[link] for link in column if link >= 0] for column in paths.T] == [
        ["node 1: 1 > switch"],
        ["node 1: switch > 2"],
        ["node 1: 1 > switch", "node 1: switch > 2"],
    ]


def test_only_a_switch_can_be_half_way() -> None:
    with pytest.raises(InputError, match="`mesh` has no switch"):
        build(cluster(devices=4, kind="mesh")).paths([0], [SWITCH])


KINDS = {
    "switch": {"kind": "switch"},
    "mesh": {"kind": "mesh"},
    "ring": {"kind": "ring"},
    "host": {"kind": "host"},
    "links": {"kind": "links", "bandwidth": "25 GB/s", "links": V100_LINKS},
}


@pytest.mark.parametrize("kind", KINDS)
def test_ways_inside_a_node_are_shortest_paths_of_the_graph(kind: str) -> None:
    fabric = build(cluster(nodes=2, **KINDS[kind]))
    graph = fabric.graph()
    graph.remove_nodes_from([point for point in graph if point[0] in ("NIC", "leaf", "spine", "core")])
    for src in range(8, 16):
        for dst in range(8, 16):
            way = fabric.route(src, dst)
            shortest = networkx.shortest_path_length(graph, ("device", src), ("device", dst), weight="weight")
            assert len(way) == shortest
            assert_way(fabric, graph, way, src, dst)


def assert_way(fabric: Fabric, graph: networkx.DiGraph, way: Sequence[int], src: int, dst: int) -> None:
    """A way is a chain of edges from device to device, free ones left out, with the capacities of the graph."""
    by_link = {data["link"]: (start, stop, data) for start, stop, data in graph.edges(data=True)}
    here = {("device", src)}
    for link in way:
        start, stop, data = by_link[link]
        assert start in here | free(graph, here)
        assert data["capacity"] == fabric.capacity[link]
        assert data["latency"] == fabric.latency[link]
        here = {stop}
    assert ("device", dst) in here | free(graph, here)


def free(graph: networkx.DiGraph, here: set[tuple[str | int, ...]]) -> set[tuple[str | int, ...]]:
    """What costs nothing to reach."""
    return {stop for point in here for _, stop, data in graph.out_edges(point, data=True) if data["link"] is None}


def test_ways_use_both_directions_of_a_ring_alike() -> None:
    fabric = build(cluster(devices=8, kind="ring"))
    src, dst = np.divmod(np.arange(64), 8)
    _, link = fabric.routes(src, dst)
    assert len(set(np.bincount(link).tolist())) == 1


@pytest.mark.parametrize("kind", ["switch", "host"])
def test_a_large_node_takes_memory_by_its_links(kind: str) -> None:
    """16,384 devices took gigabytes when the way of every pair was written down."""
    tracemalloc.start()
    fabric = build(cluster(devices=16_384, kind=kind))
    assert len(fabric.route(0, 16_383)) == (2 if kind == "switch" else 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6


@pytest.mark.parametrize(("kind", "most"), [("mesh", 512), ("ring", 256)])
def test_nodes_that_grow_with_the_square_of_their_devices_are_bounded(kind: str, most: int) -> None:
    assert build(cluster(devices=most, kind=kind)).devices == most
    with pytest.raises(ValueError, match=f"{most + 1} devices joined as `{kind}` are not modelled: up to {most} are"):
        cluster(devices=most + 1, kind=kind)


@pytest.mark.parametrize(("devices", "apart"), [(4, 4), (9, 8)])
def test_links_of_other_devices_than_a_node_has_are_refused(devices: int, apart: int) -> None:
    """Fewer devices than links name ended with an internal error, and more had no way to each other, which took no
    time."""
    with pytest.raises(ValueError, match=f"links join devices 0 to {devices - 1} with each other.*see device {apart}"):
        cluster(devices=devices, kind="links", bandwidth="25 GB/s", links=V100_LINKS)
