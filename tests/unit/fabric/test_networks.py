"""Networks between nodes: trees of trunks, dragonflies, tori."""

from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from simulator.errors import InputError
from simulator.fabric import Fabric, build
from simulator.specs.hardware import Cluster
from simulator.specs.resolve import load_spec
from tests.effort import examples
from tests.machines import DRAGONFLY, LEAF_SPINE, RAILS, cluster, level, torus
from tests.unit.fabric.test_scale_up import assert_way


def way(fabric: Fabric, src: int, dst: int) -> list[str]:
    return [fabric.links[link] for link in fabric.route(src, dst)]


def test_equal_leaf_spine_and_beyond() -> None:
    fabric = build(cluster(nodes=16))
    assert way(fabric, 0, 8) == ["NIC up 0", "NIC down 8"]
    assert way(fabric, 3, 19) == ["NIC up 3", "leaf up 0", "leaf down 1", "NIC down 19"]
    assert way(fabric, 0, 64)[1:-1] == ["leaf up 0", "spine up 0", "spine down 1", "leaf down 4"]
    assert fabric.tiers([0, 0, 0, 0, 0], [0, 1, 8, 16, 64]).tolist() == [0, 1, 2, 3, 4]
    assert fabric.tier(16, 24) == 2


def test_trunks_carry_what_oversubscription_leaves() -> None:
    levels = [level("leaf", 2, oversubscription=2), level("spine", 8, oversubscription=4)]
    fabric = build(cluster(nodes=16, network={"kind": "tree", "levels": levels}))
    capacity = {
        kind: fabric.capacity[first] / 1e9 for kind, first in zip(fabric.kinds, fabric.block_start, strict=False)
    }
    assert capacity == {
        "scale-up": 300,
        "NIC up": 25,
        "NIC down": 25,
        "leaf up": 200,
        "leaf down": 200,
        "spine up": 200,
        "spine down": 200,
    }


def test_rails_meet_one_switch_earlier() -> None:
    fabric = build(cluster(nodes=16, network=RAILS))
    assert way(fabric, 3, 11) == ["NIC up 3", "NIC down 11"]
    assert way(fabric, 3, 12) == ["NIC up 3", "leaf up 3", "leaf down 4", "NIC down 12"]
    assert way(fabric, 3, 19)[1:-1] == ["leaf up 3", "leaf down 11"]
    assert fabric.capacity[fabric.route(3, 12)[1]] == 2 * 25e9


def test_fewer_cards_than_devices_are_shared_and_more_are_joined() -> None:
    shared = build(cluster(nodes=2, nics=4))
    assert way(shared, 0, 8) == way(shared, 1, 8) == ["NIC up 0", "NIC down 4"]
    owned = build(cluster(nodes=2, nics=32, nic="12.5 GB/s"))
    assert owned.capacity[owned.route(5, 13)[0]] == 50e9
    uneven = build(cluster(nodes=2, devices=2, nics=3))
    assert [uneven.capacity[uneven.route(i, 2 + i)[0]] for i in (0, 1)] == [25e9, 50e9]


def test_latency_adds_cards_and_switches() -> None:
    levels = [level("leaf", 2, latency="300 ns"), level("spine", 8, latency="500 ns")]
    fabric = build(cluster(nodes=16, network={"kind": "tree", "levels": levels}, nic_latency="2 us"))
    latency = fabric.path_latency(fabric.paths([0, 0, 0, 0], [0, 8, 16, 64])) * 1e9
    # Above the highest level the core is taken to be as quick as that level.
    assert latency == pytest.approx([0, 2000 + 300, 2000 + 2 * 300 + 500, 2000 + 2 * 300 + 2 * 500 + 500])


def test_a_dragonfly_leaves_a_group_through_all_its_global_links() -> None:
    fabric = build(cluster(nodes=6, network=DRAGONFLY))
    assert way(fabric, 0, 8) == ["NIC up 0", "NIC down 8"]
    assert way(fabric, 0, 40) == ["NIC up 0", "group up 0", "group down 2", "NIC down 40"]
    assert fabric.capacity[fabric.route(0, 40)[1]] == 100e9
    assert fabric.path_latency(fabric.paths([0, 0], [8, 40])) == pytest.approx([700e-9, 1400e-9])


def test_a_tree_needs_cards() -> None:
    with pytest.raises(InputError, match="needs nodes with `nics`"):
        build(cluster(nodes=2, nics=0))


def test_a_torus_goes_through_its_devices() -> None:
    fabric = build(cluster(nodes=2, devices=4, kind="none", network=torus(2, 4)))
    assert way(fabric, 0, 6) == ["torus 0+ 0", "torus 1+ 4", "torus 1+ 5"]
    assert way(fabric, 0, 3) == ["torus 1- 0"]
    assert way(fabric, 1, 3) == ["torus 1- 1", "torus 1- 0"]
    assert fabric.tiers([0, 0, 0], [0, 3, 6]).tolist() == [0, 1, 4]


def test_a_mesh_does_not_wrap() -> None:
    fabric = build(cluster(nodes=4, devices=1, kind="none", network=torus(4, wrap=False)))
    assert way(fabric, 0, 3) == ["torus 0+ 0", "torus 0+ 1", "torus 0+ 2"]
    assert len(fabric.graph().edges) == 6


def test_a_torus_holds_exactly_the_cluster() -> None:
    with pytest.raises(
        InputError, match=r"cluster.nodes: 2 nodes x 4 = 8 devices, but .* torus of 2 x 3 = 6 devices; write a"
    ):
        build(cluster(nodes=2, devices=4, kind="none", network=torus(2, 3)))


NETWORKS: dict[str, dict[str, Any]] = {
    "leaf-spine": {"nodes": 12, "devices": 2, "nics": 2, "network": LEAF_SPINE},
    "shared cards": {"nodes": 5, "devices": 4, "nics": 2, "network": LEAF_SPINE},
    "rails": {"nodes": 10, "devices": 2, "nics": 2, "network": RAILS},
    "dragonfly": {"nodes": 7, "devices": 2, "nics": 1, "network": DRAGONFLY},
    "torus": {"nodes": 24, "devices": 1, "kind": "none", "nics": 0, "network": torus(2, 3, 4)},
    "mesh": {"nodes": 12, "devices": 1, "kind": "none", "nics": 0, "network": torus(3, 4, wrap=False)},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_ways_between_nodes_are_shortest_paths_of_the_graph(name: str) -> None:
    fabric = build(cluster(**NETWORKS[name]))
    graph = fabric.graph()
    graph.remove_nodes_from([point for point in graph if point[0] == "switch"])
    distance = dict(networkx.all_pairs_dijkstra_path_length(graph, weight="weight"))
    for src in range(fabric.devices):
        for dst in range(fabric.devices):
            if src // fabric.nodes[0].per_node != dst // fabric.nodes[0].per_node:
                found = fabric.route(src, dst)
                assert len(found) == distance["device", src]["device", dst]
                assert_way(fabric, graph, found, src, dst)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_link_is_one_edge_of_the_graph(name: str) -> None:
    fabric = build(cluster(**NETWORKS[name]))
    links = sorted(data["link"] for _, _, data in fabric.graph().edges(data=True) if data["link"] is not None)
    assert len(set(links)) == len(links)
    if name not in ("mesh", "torus"):  # links over a seam that is open, or of two devices, exist only as numbers
        assert links == list(range(len(fabric.capacity))) == list(range(len(fabric.links)))


@given(st.sampled_from(sorted(NETWORKS)), st.data())
@examples(40)
def test_many_routes_at_once_are_the_routes_one_by_one(name: str, data: st.DataObject) -> None:
    fabric = build(cluster(**NETWORKS[name]))
    ranks = st.lists(st.integers(0, fabric.devices - 1), min_size=1, max_size=20)
    src = data.draw(ranks)
    dst = data.draw(st.lists(st.integers(0, fabric.devices - 1), min_size=len(src), max_size=len(src)))
    flow, link = fabric.routes(src, dst)
    for number, pair in enumerate(zip(src, dst, strict=True)):
        assert tuple(link[flow == number].tolist()) == fabric.route(*pair)


def test_a_large_fabric_is_arrays_and_nothing_else() -> None:
    fabric = build(cluster(nodes=16384))
    assert fabric.devices == 131072
    # Two links for each device in its node, two for its card, and two for each trunk.
    assert len(fabric.capacity) == 4 * 131072 + 2 * (8192 + 2048)
    assert fabric.links[fabric.route(0, 131071)[-1]] == "NIC down 131071"
    assert np.all(np.diff(fabric.block_start) >= 0)


def test_a_name_is_asked_for_by_a_number_that_exists() -> None:
    fabric = build(cluster())
    assert len(fabric.links) == 16
    with pytest.raises(IndexError):
        fabric.links[16]


def test_a_torus_of_several_slices_is_another_network() -> None:
    pod = load_spec(Cluster, "tpu-v5e-pod")
    build(pod)
    two = pod.model_copy(update={"nodes": 64, "network": pod.network.model_copy(update={"shape": (32, 16)})})
    with pytest.raises(InputError, match=r"one slice join at most 256 devices, not 512.*multislice"):
        build(two)
    with pytest.raises(ValidationError, match="multislice"):
        Cluster(name="two slices", node=pod.node, nodes=64, network=two.network)


@pytest.mark.parametrize(
    ("shape", "block", "apart", "closed"),
    [
        ((4, 4, 4), (4, 4, 4), False, (True, True, True)),
        ((4, 8, 12), (4, 4, 4), False, (True, True, True)),
        ((2, 4, 4), (4, 4, 4), False, (False, False, False)),
        ((8, 16), (16, 16), True, (False, True)),
        ((8, 8), (16, 16), True, (False, False)),
    ],
)
def test_slices_close_where_they_are_whole_blocks(
    shape: tuple[int, ...], block: tuple[int, ...], apart: bool, closed: tuple[bool, ...]
) -> None:
    network = torus(*shape) | {"slices": {"block": block, "apart": apart}}
    fabric = build(cluster(nodes=1, devices=int(np.prod(shape)), kind="none", nics=0, network=network))
    last = np.array(shape) - 1
    for dimension, ring in enumerate(closed):
        far = int(np.ravel_multi_index(tuple(np.where(np.arange(len(shape)) == dimension, last, 0)), shape))
        assert len(fabric.route(0, far)) == (1 if ring else shape[dimension] - 1)
    # Every link is on the way between its ends, and no way leads over a seam that is not there.
    seams = {(start, stop) for start, stop, data in fabric.graph().edges(data=True) if data["link"] is not None}
    assert len(seams) == sum(
        2 * (size if ring else size - 1) * np.prod(shape) // size for size, ring in zip(shape, closed, strict=True)
    )


def test_slices_of_other_dimensions_are_refused() -> None:
    with pytest.raises(ValueError, match="`slices` is for a torus, with a `block` of as many dimensions"):
        cluster(nodes=1, devices=16, kind="none", nics=0, network=torus(4, 4) | {"slices": {"block": [4]}})
    with pytest.raises(ValueError, match="twisted torus wraps"):
        cluster(
            nodes=1,
            devices=16,
            kind="none",
            nics=0,
            network=torus(2, 2, 4) | {"twist": True, "slices": {"block": [4, 4, 4]}},
        )
