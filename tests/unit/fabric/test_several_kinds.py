"""Nodes of several kinds on one network."""

from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import collectives
from simulator.errors import InputError
from simulator.fabric import Fabric, build
from simulator.fabric.fabric import SWITCH
from simulator.specs.hardware import Cluster
from tests.effort import examples
from tests.machines import DRAGONFLY, LEAF_SPINE, RAILS, cluster, level, mixed, profile, torus
from tests.unit.fabric.test_networks import way
from tests.unit.fabric.test_scale_up import assert_way

SLOW = {"nic": "12.5 GB/s", "bandwidth": "150 GB/s"}
KINDS: dict[str, Cluster] = {
    "other devices": mixed((3, {"devices": 3, "nics": 3}), nodes=3, devices=4, nics=4),
    "shared cards": mixed((2, {"devices": 4, "nics": 2}), (1, {"devices": 2, "nics": 1}), nodes=2, devices=2, nics=2),
    "rails": mixed((4, {"devices": 4, "nics": 2} | SLOW), nodes=5, devices=2, nics=2, network=RAILS),
    "dragonfly": mixed((2, {"devices": 1, "nics": 1}), nodes=3, devices=4, nics=2, network=DRAGONFLY),
    "joined otherwise": mixed(
        (2, {"devices": 4, "kind": "ring"}),
        (2, {"devices": 3, "kind": "mesh"}),
        (1, {"devices": 1}),
        devices=4,
        nodes=2,
    ),
    "joined outside": mixed((2, {"devices": 4}), nodes=2, devices=2, kind="none"),
}


@pytest.mark.parametrize("name", KINDS)
def test_ways_are_shortest_paths_of_the_graph(name: str) -> None:
    fabric = build(KINDS[name])
    graph = fabric.graph()
    node = fabric.numbering.node_of
    free_of_switches = graph.copy()
    free_of_switches.remove_nodes_from([point for point in graph if point[0] == "switch"])
    outside = dict(networkx.all_pairs_dijkstra_path_length(free_of_switches, weight="weight"))
    for src in range(fabric.devices):
        for dst in range(fabric.devices):
            found = fabric.route(src, dst)
            assert_way(fabric, graph, found, src, dst)
            if node(src) != node(dst):
                assert len(found) == outside["device", src]["device", dst]
            else:
                joined = fabric.nodes[fabric.numbering.kind_of(src)].links.joined
                assert all((link < fabric.first_outer) == joined for link in found)
                assert fabric.tier(src, dst) == int(src != dst)


@pytest.mark.parametrize("name", KINDS)
def test_every_link_is_one_edge_and_is_found_by_its_name(name: str) -> None:
    fabric = build(KINDS[name])
    links = sorted(data["link"] for _, _, data in fabric.graph().edges(data=True) if data["link"] is not None)
    assert links == list(range(len(fabric.capacity))) == list(range(len(fabric.latency)))
    assert all(fabric.find(fabric.links[link]) == (link,) for link in links)
    assert fabric.find("node 99: 0 > switch") == fabric.find("node 0: 0 > nowhere") == ()


@given(st.sampled_from(sorted(KINDS)), st.data())
@examples(40)
def test_many_routes_at_once_are_the_routes_one_by_one(name: str, data: st.DataObject) -> None:
    fabric = build(KINDS[name])
    ranks = st.lists(st.integers(0, fabric.devices - 1), min_size=1, max_size=20)
    src = data.draw(ranks)
    dst = data.draw(st.lists(st.integers(0, fabric.devices - 1), min_size=len(src), max_size=len(src)))
    flow, link = fabric.routes(src, dst)
    for number, pair in enumerate(zip(src, dst, strict=True)):
        assert tuple(link[flow == number].tolist()) == fabric.route(*pair)


SAID = st.fixed_dictionaries(
    {
        "devices": st.sampled_from([2, 4]),
        "nics": st.sampled_from([1, 2, 4]),
        "kind": st.sampled_from(["switch", "ring"]),
    }
)


@given(SAID, st.integers(1, 6), st.integers(1, 6), st.sampled_from([LEAF_SPINE, RAILS, DRAGONFLY]), st.data())
@examples(40)
def test_kinds_that_are_equal_are_equal_nodes(
    said: dict[str, Any], some: int, more: int, network: dict[str, Any], data: st.DataObject
) -> None:
    """The same links with the same names and figures, and the same ways."""
    over = data.draw(st.sampled_from([1.0, 1.7, 3.0]))
    if network["kind"] == "tree":
        network = network | {"levels": [level("leaf", 2, oversubscription=over), level("spine", 8, oversubscription=3)]}
    one, two = (
        build(cluster(some + more, network, **said)),
        build(mixed((more, said), nodes=some, network=network, **said)),
    )
    assert one.capacity.tobytes() == two.capacity.tobytes()
    assert one.latency.tobytes() == two.latency.tobytes()
    assert (one.kinds, one.block_start, list(one.links)) == (two.kinds, two.block_start, list(two.links))
    pairs = np.indices((one.devices, one.devices)).reshape(2, -1)
    assert one.paths(*pairs).tolist() == two.paths(*pairs).tolist()
    assert one.tiers(*pairs).tolist() == two.tiers(*pairs).tolist()


def test_cards_and_trunks_are_those_of_the_nodes_below() -> None:
    """Leaves of two nodes: 2 x 8 x 25 GB/s, 200 + 100 GB/s, 2 x 100 GB/s, halved on the way up."""
    network = {"kind": "tree", "levels": [level("leaf", 2, oversubscription=2), level("spine", 8)]}
    fabric = build(mixed((3, SLOW), nodes=3, network=network))
    assert way(fabric, 16, 24) == ["NIC up 16", "NIC down 24"]
    assert way(fabric, 0, 47) == ["NIC up 0", "leaf up 0", "leaf down 2", "NIC down 47"]
    assert fabric.capacity[list(fabric.route(0, 47))].tolist() == [25e9, 200e9, 100e9, 12.5e9]
    assert fabric.capacity[fabric.find("leaf up 1")[0]] == 150e9
    # Of the eight places below the spine three are of the first kind and five, two of them empty, of the second.
    assert fabric.capacity[fabric.find("spine up 0")[0]] == (3 * 100 + 5 * 50) * 1e9
    assert fabric.capacity[fabric.route(24, 25)[0]] == 150e9


def test_a_name_counts_nodes_through() -> None:
    fabric = build(mixed((2, {"devices": 4, "nics": 4}), nodes=2))
    assert fabric.links[fabric.route(17, 18)[0]] == "node 2: 1 > switch"
    assert [fabric.links[link] for link in fabric.find("NIC 20")] == ["NIC up 20", "NIC down 20"]


def test_a_large_fabric_of_kinds_is_arrays_and_nothing_else() -> None:
    fabric = build(mixed((8192, {"devices": 4, "nics": 4}), nodes=8192))
    assert fabric.devices == 8192 * 12
    assert fabric.links[fabric.route(0, fabric.devices - 1)[-1]] == f"NIC down {8192 * 12 - 1}"


def test_the_slower_card_decides_a_send() -> None:
    """1 GB from a card of 25 GB/s to one of 12.5 GB/s: 80 ms and a step of 5 us; inside a node at 300 GB/s."""
    fabric = build(mixed((1, SLOW)))
    cost = collectives.cost_of("send", [[0, 8]], 1e9, fabric, profile())
    assert cost.slowest == 80_000_000_000 + 5_000_000
    assert fabric.kinds[cost.bottleneck[0]] == "NIC down"
    assert collectives.cost_of("send", [[1, 2]], 1e9, fabric, profile()).slowest < 4_000_000_000


def moved(fabric: Fabric, group: list[int]) -> float:
    return collectives.cost_of("all_reduce", [group], 1e9, fabric, profile()).slowest / 1e12


def test_a_collective_goes_through_the_links_that_each_node_has() -> None:
    """A ring over both nodes waits for the slowest of their links, in the order of the devices."""
    pair = mixed((1, {"devices": 4, "kind": "mesh", "bandwidth": "3 GB/s"}), devices=4, nics=4)
    fabric = build(pair)
    ring = moved(fabric, list(range(8)))
    assert ring == pytest.approx(
        moved(build(pair.only(1).model_copy(update={"nodes": 2, "network": pair.network})), list(range(8)))
    )
    assert ring > 5 * moved(build(cluster(2, devices=4, nics=4)), list(range(8)))
    assert moved(fabric, [4, 5, 6, 7]) == moved(build(pair.only(1)), [0, 1, 2, 3])
    assert moved(fabric, [0, 1, 2, 3]) == moved(build(pair.only(0)), [0, 1, 2, 3])


def test_a_switch_reduces_in_the_nodes_that_have_one() -> None:
    pair = mixed((1, {"devices": 4}), (1, {"devices": 4, "kind": "ring"}), devices=2)
    fabric = build(pair)
    library = profile(algorithms={"all_reduce": ("nvls",)})
    alone = collectives.cost_of("all_reduce", [range(4)], 1e9, build(pair.only(1)), library)
    found = collectives.cost_of("all_reduce", [[2, 3, 4, 5]], 1e9, fabric, library)
    assert (found.slowest, found.algorithms) == (alone.slowest, ("nvls/plain",))
    assert collectives.cost_of("all_reduce", [[6, 7, 8, 9]], 1e9, fabric, library).algorithms == ("ring/plain",)
    with pytest.raises(InputError, match="kind `ring` has no switch"):
        fabric.paths([0, 6], [SWITCH, SWITCH])
    assert fabric.route(SWITCH, 4) == fabric.find("node 1: switch > 2")


def test_what_joins_equal_nodes_only_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"cluster.more_nodes: a network of kind `torus` joins equal nodes only; leave"
    ):
        build(mixed((1, {"kind": "none"}), kind="none", network=torus(2, 8)))
    with pytest.raises(InputError, match=r"rail_optimised: planes of `leaf` join equal cards, and nodes have 2 and 4"):
        build(mixed((1, {"devices": 4, "nics": 4}), devices=4, nics=2, network=RAILS))
    with pytest.raises(InputError, match="needs nodes with `nics`"):
        build(mixed((1, {"nics": 0})))
