"""Networks whose every switch and cable is there: shape in closed form, ways, loads and routing."""

from collections import Counter
from itertools import pairwise
from typing import Any

import networkx
import numpy as np
import pytest

from simulator.errors import InputError
from simulator.fabric import Fabric, build
from tests.machines import cluster, figure, level, torus

CABLE = figure("25 GB/s")
ONE_CARD: dict[str, Any] = {"devices": 1, "nics": 1}
EIGHT: dict[str, Any] = {"devices": 8, "nics": 8}


def leaf_spine(**more: Any) -> dict[str, Any]:
    return {"kind": "leaf-spine", "leaf_nodes": 4, "spines": 4} | more


def fat_tree(k: int, **more: Any) -> dict[str, Any]:
    """The three levels of switches with k ports of Al-Fares et al., one card a node."""
    levels = [level("leaf", k // 2), level("pod", k * k // 4)]
    return {"kind": "fat-tree", "levels": levels, "uplinks": [k // 2, k // 2]} | more


def dragonfly(a: int, p: int, h: int, **more: Any) -> dict[str, Any]:
    wide = {"group_switches": a, "switch_nodes": p, "global_links": h}
    return {"kind": "dragonfly-links", "bandwidth": CABLE} | wide | more


PLUS = {
    "kind": "dragonfly-plus",
    "leaves": 2,
    "spines": 2,
    "leaf_nodes": 2,
    "global_links": 2,
    "bandwidth": CABLE,
}
MESH = {"kind": "full-mesh", "shape": [4, 4], "bandwidth": CABLE, "switch_nodes": 2}
RING = {
    "kind": "graph",
    "hosts": [{"switches": [f"s{i}"]} for i in range(6)],
    "cables": [{"between": [f"s{i}", f"s{(i + 1) % 6}"], "bandwidth": "25 GB/s"} for i in range(6)],
}
WORLD = {
    "kind": "sites",
    "sites": [{"name": name, "nodes": 2} for name in ("Oregon", "Tokyo", "London")],
    "links": [
        {"between": ["Oregon", "Tokyo"], "delay": "48 ms", "flow_bandwidth": "0.523 Gbit/s"},
        {"between": ["Oregon", "London"], "delay": "68 ms", "flow_bandwidth": "0.42 Gbit/s"},
        {"between": ["Tokyo", "London"], "delay": "105 ms", "flow_bandwidth": "0.366 Gbit/s"},
    ],
}

# Name: (network, nodes, devices of each, links of the longest way, ports of switches by kind in use, cables each way
# between the halves of the nodes). k-ary trees: k^3 / 4 hosts, 5 k^2 / 4 switches, full bisection; a dragonfly has
# a h + 1 groups at most and g^2 / 4 cables between halves of g groups, one for each pair; a mesh of m x m has m^3 / 4.
SHAPES: dict[str, tuple[dict[str, Any], int, dict[str, Any], int, dict[str, int], int]] = {
    "leaf-spine 1:1": (leaf_spine(), 16, ONE_CARD, 4, {"leaf": 8, "spine": 4}, 8),
    "leaf-spine of rails": (leaf_spine(rail_optimised=True), 16, EIGHT, 4, {"leaf": 8, "spine": 32}, 64),
    "fat tree, k = 4": (fat_tree(4), 16, ONE_CARD, 6, {"leaf": 4, "pod": 4, "core": 4}, 8),
    "fat tree, k = 8": (fat_tree(8), 128, ONE_CARD, 6, {"leaf": 8, "pod": 8, "core": 8}, 64),
    "dragonfly, a = 4": (dragonfly(4, 2, 2), 64, ONE_CARD, 5, {"switch": 7}, 16),
    "dragonfly+": (PLUS, 20, ONE_CARD, 5, {"leaf": 4, "spine": 4}, 6),
    "full mesh of two dimensions": (MESH, 32, ONE_CARD, 4, {"switch": 8}, 16),
    "ring as a graph": (RING, 6, ONE_CARD, 5, {"switch": 3}, 2),
    "rail-only": ({"kind": "rail-only", "leaf_nodes": 4}, 4, EIGHT, 4, {"leaf": 4}, 16),
    "planes": ({"kind": "rail-only", "leaf_nodes": 4, "spines": 4}, 16, EIGHT, 6, {"leaf": 8, "spine": 4}, 64),
}
POLICIES = ("shortest", "ecmp", "planned", "spray", "adaptive")


def of(name: str, **routing: Any) -> Fabric:
    network, nodes, of_node, *_ = SHAPES[name]
    return build(cluster(nodes=nodes, network=network | ({"routing": routing} if routing else {}), **of_node))


def pairs(fabric: Fabric) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    src, dst = np.nonzero(~np.eye(fabric.devices, dtype=bool))
    return src, dst


@pytest.mark.parametrize("name", SHAPES)
def test_shape_in_closed_form(name: str) -> None:
    _, nodes, _, longest, ports, across = SHAPES[name]
    fabric = of(name)
    graph = fabric.graph()
    for kind, degree in ports.items():
        found = Counter(graph.out_degree(point) for point in graph if point[0] == kind)
        assert max(found) == degree, kind
    assert (fabric.paths(*pairs(fabric)) >= 0).sum(axis=0).max() == longest
    # Cables between two parts, each of which holds half of the nodes: a cut of the graph (max flow, min cut).
    half = networkx.DiGraph(graph)
    for link in list(half.edges):
        half.edges[link]["capacity"] = np.inf if half.edges[link]["link"] is None else 1.0
        if half.edges[link]["link"] is not None and half.edges[link]["link"] < fabric.first_outer:
            half.edges[link]["capacity"] = 0.0
    for rank in range(fabric.devices):
        near = rank * nodes // fabric.devices
        half.add_edge("here", ("device", rank)) if near < nodes // 2 else half.add_edge(("device", rank), "there")
    assert networkx.maximum_flow_value(half, "here", "there") == across


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SHAPES)
def test_ways_are_shortest_joined_and_free_of_loops(name: str, policy: str) -> None:
    fabric = of(name, policy=policy)
    graph = fabric.graph()
    ends = {data["link"]: (start, stop) for start, stop, data in graph.edges(data=True) if data["link"] is not None}
    several = networkx.MultiDiGraph()  # parallel cables are edges of their own
    several.add_edges_from((start, stop, data["weight"]) for start, stop, data in graph.edges(data=True))
    src, dst = pairs(fabric)
    draw = np.random.default_rng(0).choice(len(src), min(len(src), 200), replace=False)
    src, dst = src[draw], dst[draw]
    length = dict(networkx.all_pairs_dijkstra_path_length(graph)) if len(graph) < 300 else None
    for flow, way in enumerate(fabric.paths(src, dst).T):
        links = [int(link) for link in way if link >= 0]
        points = [fabric_end(fabric, link, ends) for link in links]
        assert all(a[1] == b[0] or a[1][0] in ("device", "NIC") for a, b in pairwise(points))
        assert len(links) == len(set(links))
        visited = [start for start, _ in points]
        assert len(visited) == len(set(visited))
        if length is not None and "rail" not in name and name not in ("planes", "dragonfly, a = 4", "dragonfly+"):
            assert len(links) == length[("device", int(src[flow]))][("device", int(dst[flow]))]


def fabric_end(fabric: Fabric, link: int, ends: dict[int, tuple[Any, Any]]) -> tuple[Any, Any]:
    """(from, to) of a link; of parallel cables the graph keeps one."""
    if link in ends:
        return ends[link]
    network: Any = fabric.network
    cable = link - fabric.first_outer - 2 * network.cards_in.count
    return network.points[network.cables.start[cable]], network.points[network.cables.stop[cable]]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SHAPES)
def test_parts_carry_the_whole_load_at_every_switch(name: str, policy: str) -> None:
    """What goes into a switch comes out of it, and cards carry what their devices send."""
    fabric = of(name, policy=policy)
    src, dst = pairs(fabric)
    src, dst = src[::7], dst[::7]
    parts = fabric.parts(len(src))
    ways = fabric.paths(np.repeat(src, parts), np.repeat(dst, parts), parts)
    load = np.bincount(ways[ways >= 0], minlength=len(fabric.capacity)) / parts
    network: Any = fabric.network
    cards, first = network.cards_in.count, fabric.first_outer
    into, out = np.zeros((2, len(network.points)))
    np.add.at(into, network.edge, load[first : first + cards])
    np.add.at(out, network.edge, load[first + cards : first + 2 * cards])
    np.add.at(into, network.cables.stop, load[first + 2 * cards :])
    np.add.at(out, network.cables.start, load[first + 2 * cards :])
    np.testing.assert_allclose(into, out)
    near, far = fabric.numbering.per_node[0], src // fabric.numbering.per_node[0]
    assert load[first : first + cards].sum() == pytest.approx((far != dst // near).sum())


@pytest.mark.parametrize("policy", ["spray", "planned"])
@pytest.mark.parametrize("k", [4, 8])
def test_a_shift_is_even_on_a_fat_tree(k: int, policy: str) -> None:
    """D-mod-k lays every shift without two flows on a cable (Zahavi 2012), as spraying does."""
    fabric = of(f"fat tree, k = {k}", policy=policy)
    ranks = np.arange(fabric.devices)
    for shift in (1, 3, k, fabric.devices // 2):
        parts = fabric.parts(len(ranks))
        ways = fabric.paths(np.repeat(ranks, parts), np.repeat((ranks + shift) % len(ranks), parts), parts)
        assert np.bincount(ways[ways >= 0]).max() == parts


def test_hashes_follow_the_seed_and_collide() -> None:
    loads = []
    for seed in range(20):
        fabric = of("fat tree, k = 8", policy="ecmp", seed=seed)
        ranks = np.arange(128)
        ways = fabric.paths(ranks, (ranks + 64) % 128)
        loads.append(int(np.bincount(ways[ways >= 0]).max()))
    again = of("fat tree, k = 8", policy="ecmp", seed=19).paths(np.arange(128), (np.arange(128) + 64) % 128)
    assert (again == ways).all()
    assert min(loads) >= 2 and len(set(loads)) > 1  # 16 leaves with 4 flows on 4 cables each do not stay even


def test_connections_make_hashes_even() -> None:
    def worst(connections: int) -> float:
        network = leaf_spine(leaf_nodes=16, spines=16, routing={"connections": connections, "seed": 3})
        fabric = build(cluster(nodes=32, network=network, **ONE_CARD))
        ranks = np.repeat(np.arange(16), connections)
        ways = fabric.paths(ranks, ranks + 16, connections)
        return float(np.bincount(ways[ways >= 0])[64 + fabric.first_outer :].max() / connections)

    # Sixteen flows on sixteen cables: the mean of the fullest is 1 / 0.35 = 2.9, with sixteen connections 1 / 0.69.
    assert worst(1) >= 2 > worst(64)


@pytest.mark.parametrize(("hosts", "spines", "parts"), [(4, 4, 1), (6, 4, 2), (5, 4, 4), (12, 8, 2), (7, 3, 3)])
def test_the_least_splitting_is_as_even_as_spraying(hosts: int, spines: int, parts: int) -> None:
    """r flows over s ways in s / gcd(r, s) parts each: none is fuller than r / s (Ethereal, arXiv:2407.00550)."""
    routing = {"policy": "planned", "connections": "even"}
    network = leaf_spine(leaf_nodes=hosts, spines=spines, routing=routing)
    fabric = build(cluster(nodes=2 * hosts, network=network, **ONE_CARD))
    assert fabric.parts(hosts) == parts
    ranks = np.repeat(np.arange(hosts), parts)
    ways = fabric.paths(ranks, ranks + hosts, parts)
    cables = np.bincount(ways[ways >= 0], minlength=len(fabric.capacity))[fabric.first_outer + 4 * hosts :]
    assert cables.max() / parts == pytest.approx(hosts / spines)


def test_valiant_leads_over_a_third_group_and_spreads_what_two_groups_send() -> None:
    def fullest(policy: str) -> float:
        fabric = build(cluster(nodes=72, network=dragonfly(4, 2, 2, routing={"policy": policy}), **ONE_CARD))
        ranks = np.arange(72)
        ways = fabric.paths(ranks, (ranks + 8) % 72)  # every group sends all that it has to the next one
        seen = [fabric.kinds[fabric.block_of(link)].startswith("global") for link in range(len(fabric.capacity))]
        crossed = np.array([*seen, False])[ways].sum(axis=0)
        assert set(crossed.tolist()) == ({1} if policy == "ecmp" else {2})
        return float(np.bincount(ways[ways >= 0], minlength=len(seen))[np.flatnonzero(seen)].max())

    assert fullest("ecmp") == 8  # eight nodes over the one cable between two groups
    assert fullest("valiant") <= 6


def shares(policy: str, far: int, connections: int = 1) -> tuple[float, set[int]]:
    """Of every node to the one `far` ahead in a dragonfly of 9 balanced groups: what the fullest cable leaves a flow of
    a card's rate, and how many global cables flows cross."""
    routing = {"policy": policy, "connections": connections}
    fabric = build(cluster(nodes=72, network=dragonfly(4, 2, 2, routing=routing), **ONE_CARD))
    ranks = np.repeat(np.arange(72), connections)
    ways = fabric.paths(ranks, (ranks + far) % 72, connections)
    kinds = [fabric.kinds[fabric.block_of(link)].partition(" ")[0] for link in range(len(fabric.capacity))]
    for way in ways.T:
        links = way[way >= 0].tolist()
        assert len(set(links)) == len(links)
    crossed = np.array([kind == "global" for kind in [*kinds, ""]])[ways].sum(axis=0)
    return connections / np.bincount(ways[ways >= 0]).max(), set(crossed.tolist())


def test_ugal_leaves_short_ways_only_where_they_are_full() -> None:
    """Kim et al. 2008: on the worst pattern short ways give 1 / (a h) of a card, others to a half."""
    worst, crossed = shares("ugal", 8)
    minimal, valiant = shares("ecmp", 8)[0], shares("valiant", 8)[0]
    assert minimal == pytest.approx(1 / (4 * 2))
    assert worst >= 1.5 * max(minimal, valiant) and crossed == {1, 2}
    many = shares("ugal", 8, 16)[0]
    assert 0.3 < many <= 0.5 + 1e-9  # every flow crosses two global cables, of which there is one a node
    assert shares("ugal", 1)[0] >= shares("ecmp", 1)[0]
    # Flows that meet no other stay on short ways.
    fabric = build(cluster(nodes=72, network=dragonfly(4, 2, 2, routing={"policy": "ugal"}), **ONE_CARD))
    few = fabric.paths([0, 20, 50], [8, 40, 70])
    assert (few >= 0).sum(axis=0).tolist() == [len(fabric.route(*pair)) for pair in ((0, 8), (20, 40), (50, 70))]


def test_every_way_that_ugal_may_take_is_known_beforehand() -> None:
    for connections in (1, 3):
        routing = {"policy": "ugal", "connections": connections}
        fabric = build(cluster(nodes=72, network=dragonfly(4, 2, 2, routing=routing), **ONE_CARD))
        src, dst = np.arange(72), (np.arange(72) + 8) % 72
        ways = fabric.paths(np.repeat(src, connections), np.repeat(dst, connections), connections)
        for rank in (0, 17, 71):
            mine = ways[:, rank * connections : (rank + 1) * connections]
            assert set(mine[mine >= 0].tolist()) <= fabric.between([rank], [(rank + 8) % 72])


def test_plans_leave_out_a_cable_that_is_gone_and_heed_one_that_is_slow() -> None:
    def on_cables(policy: str, left: float) -> list[int]:
        degraded = [{"link": "leaf 1", "left": left}]
        network = leaf_spine(leaf_nodes=12, spines=4, routing={"policy": policy}, degraded=degraded)
        fabric = build(cluster(nodes=24, network=network, **ONE_CARD))
        ways = fabric.paths(np.arange(12), np.arange(12, 24))
        first = fabric.first_outer + 48
        return np.bincount(ways[ways >= 0], minlength=len(fabric.capacity))[first : first + 4].tolist()

    assert on_cables("planned", 0.0) == [4, 0, 4, 4]
    assert on_cables("ecmp", 0.0)[1] == 0
    slow = on_cables("planned", 0.5)
    assert sum(slow) == 12 and slow[1] < min(slow[0], slow[2], slow[3])
    assert on_cables("spray", 0.5) == [3, 3, 3, 3]


def test_pxn_leaves_by_the_card_of_the_destination() -> None:
    plain = build(cluster(nodes=8, network=leaf_spine(leaf_nodes=4, rail_optimised=True)))
    pxn = build(cluster(nodes=8, network=leaf_spine(leaf_nodes=4, rail_optimised=True, pxn=True)))
    assert plain.links[plain.route(0, 11)[0]] == "NIC up 0"
    assert [pxn.links[link] for link in pxn.route(0, 11)] == [
        "node 0: 0 > switch",
        "node 0: switch > 3",
        "NIC up 3",
        "NIC down 11",
    ]
    assert pxn.route(3, 11) == pxn.route(3, 11) and len(pxn.route(3, 11)) == 2


def test_sites_have_the_delay_and_the_rate_of_a_connection() -> None:
    fabric = build(cluster(nodes=6, network=WORLD, **ONE_CARD))
    way = fabric.paths([0], [2])
    assert fabric.path_latency(way)[0] == pytest.approx(48e-3)
    assert min(fabric.capacity[link] for link in fabric.route(0, 2)) == pytest.approx(0.523e9 / 8)
    assert min(fabric.capacity[link] for link in fabric.route(0, 1)) == 25e9
    assert not set(fabric.route(0, 2)) & set(fabric.route(1, 2)) - {fabric.route(1, 2)[1], fabric.route(1, 2)[2]}
    four = build(cluster(nodes=6, network=WORLD | {"routing": {"connections": 4}}, **ONE_CARD))
    assert min(four.capacity[link] for link in four.route(0, 2)) == pytest.approx(4 * 0.523e9 / 8)
    window = build(cluster(nodes=6, network=WORLD | {"window": figure("64 KiB")}, **ONE_CARD))
    assert min(window.capacity[link] for link in window.route(0, 2)) == pytest.approx(65536 / 96e-3)


@pytest.mark.parametrize("shape", [(4, 4, 8), (4, 8, 8), (2, 4), (4, 8), (2, 2, 4)])
def test_a_twisted_torus_takes_shortest_ways(shape: tuple[int, ...]) -> None:
    devices = int(np.prod(shape))
    fabric = build(cluster(nodes=1, network=torus(*shape) | {"twist": True}, devices=devices, kind="none", nics=0))
    graph = fabric.graph()
    length = networkx.single_source_shortest_path_length(graph, ("device", 3))
    found = (fabric.paths(np.full(devices, 3), np.arange(devices)) >= 0).sum(axis=0)
    assert found.tolist() == [length["device", rank] for rank in range(devices)]


def test_a_twist_shortens_the_longest_way() -> None:
    """4 x 4 x 8: the diameter falls from 2 + 2 + 4 = 8 to 6 (Camarero, Martinez and Beivide 2010)."""

    def longest(**twist: Any) -> int:
        fabric = build(cluster(network=torus(4, 4, 8) | twist, devices=128, kind="none", nics=0))
        return int((fabric.paths(np.zeros(128, int), np.arange(128)) >= 0).sum(axis=0).max())

    assert (longest(), longest(twist=True)) == (8, 6)


BAD = {
    "in parts": ({"kind": "graph", "hosts": [{"switches": ["a"]}, {"nodes": 2, "switches": ["b"]}]}, "no way"),
    "a cable that is not there": (leaf_spine(degraded=[{"link": "leaf 99", "left": 0.5}]), "no cable `leaf 99`"),
    "too many groups": (dragonfly(1, 1, 1), "reach 1"),
    "a mesh too small": (MESH | {"shape": [1]}, "at most"),
    "no third group": (leaf_spine(routing={"policy": "valiant"}), "no way over a third group"),
    "no third group for ugal": (leaf_spine(routing={"policy": "ugal"}), "no way over a third group"),
    "levels that do not nest": (
        {"kind": "fat-tree", "levels": [level("leaf", 2), level("pod", 3)], "uplinks": [2, 2]},
        "no whole number",
    ),
    "uplinks of some levels": ({"kind": "fat-tree", "levels": [level("leaf", 2)], "uplinks": [2, 2]}, "`uplinks`"),
    "an unknown site": (
        WORLD | {"links": [{"between": ["Oregon", "Mars"], "delay": "1 ms"}]},
        "there is no site `Mars`",
    ),
    "too few sites": ({"kind": "sites", "sites": [{"name": "a", "nodes": 1}]}, "nodes at sites for 1"),
    "too few hosts": ({"kind": "graph", "hosts": [{"switches": ["a"]}]}, "`hosts` places 1"),
    "leaves apart": ({"kind": "rail-only", "leaf_nodes": 1}, "no spines"),
    "all cables gone": (
        leaf_spine(leaf_nodes=1, degraded=[{"link": f"leaf {i}", "left": 0} for i in range(4)]),
        "no way leads from",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_networks_that_cannot_be_say_why(name: str) -> None:
    network, words = BAD[name]
    with pytest.raises(InputError, match=words):
        build(cluster(nodes=3, network=network, **ONE_CARD))
