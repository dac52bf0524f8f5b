"""Reduction in the switches between nodes: every byte once up and once down each link, executed on integers."""

from typing import Any

import numpy as np
import pytest

from simulator import collectives
from simulator.collectives.algorithms import ALGORITHMS
from simulator.collectives.phase import Phase
from simulator.collectives.placement import placements
from simulator.errors import InputError
from simulator.fabric import Fabric, build
from simulator.fabric.fabric import NETWORK
from tests.machines import LEAF_SPINE, RAILS, cluster, figure, level, profile

NAMES = ("collnet_direct", "collnet_chain", "nvls_sharp")
REDUCING = {"switch_reduction": {"latency": figure("0.4 us"), "largest": figure("1 GB")}}
NETWORKS: dict[str, dict[str, Any]] = {
    "tree": LEAF_SPINE | REDUCING,
    "rails": RAILS | REDUCING,
    "leaf-spine": {"kind": "leaf-spine", "leaf_nodes": 2, "spines": 4} | REDUCING,
    "fat-tree": {"kind": "fat-tree", "levels": [level("leaf", 2), level("pod", 4)], "uplinks": [2, 2]} | REDUCING,
}
S = 1e6


def machine(network: str = "tree", nodes: int = 8, devices: int = 4) -> Fabric:
    return build(cluster(nodes=nodes, devices=devices, nics=devices, network=NETWORKS[network]))


def planned(fabric: Fabric, name: str) -> Phase:
    layout, _ = next(placements(np.arange(fabric.devices)[None], fabric))
    found = ALGORITHMS.get(name)("all_reduce", layout)
    assert found is not None
    return found[0]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("nodes", "devices"), [(2, 4), (3, 2), (8, 4)])
def test_every_input_is_added_once_and_every_member_has_the_sum(name: str, nodes: int, devices: int) -> None:
    """Executed: the r-th part of all is added up in the node, up the tree of its rail, and goes back the same way."""
    inputs = np.random.default_rng(7).integers(0, 1000, (nodes * devices, devices))
    phase = planned(machine(nodes=nodes, devices=devices), name)
    rising, falling = phase.dst <= NETWORK, phase.src <= NETWORK
    result = np.zeros_like(inputs)
    for rail in range(devices):
        sends, has = (
            phase.src[rising & (phase.dst == NETWORK - rail)],
            phase.dst[falling & (phase.src == NETWORK - rail)],
        )
        assert sorted(sends) == sorted(has)
        # A member speaks for its node, where its neighbours' parts come to it.
        total = sum(int(inputs[member // devices * devices :][:devices, rail].sum()) for member in sends)
        for member in has:
            result[member // devices * devices :][:devices, rail] += total
    assert (result == inputs.sum(axis=0)).all()
    assert phase.size[rising] == pytest.approx(1 / devices) and phase.size[falling] == pytest.approx(1 / devices)
    if name != "nvls_sharp":
        within = phase.size[~rising & ~falling].sum()
        assert within == pytest.approx(nodes * 2 * (devices - 1))  # parts to those who add them up, and sums back


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("name", NAMES)
def test_switches_send_on_what_they_added_up_once(network: str, name: str) -> None:
    fabric = machine(network)
    cost = collectives.cost_of("all_reduce", range(32), S, fabric, profile(), name)
    outer = cost.load[fabric.first_outer :]
    assert outer[:64] == pytest.approx(S / 4)  # every card, up and down
    ends = [*fabric.block_start[1:], len(fabric.capacity)]
    for kind, first, end in zip(fabric.kinds, fabric.block_start, ends, strict=True):
        if kind in ("leaf up", "leaf down"):
            # Four leaves, each of which sends on one sum of each of four parts, over whatever cables.
            assert cost.load[first:end].sum() == pytest.approx(4 * S)


@pytest.mark.parametrize("network", NETWORKS)
def test_trees_join_all_nodes(network: str) -> None:
    """Every switch but the one where a tree's ways meet sends up once, over one cable."""
    fabric = machine(network)
    ranks, trees = np.arange(0, 32, 4), np.zeros(8, np.int64)
    up, _ = fabric.reduced(ranks, trees, False)
    down, _ = fabric.reduced(ranks, trees, True)
    assert sorted(up[1:][up[1:] >= 0]) == sorted(set(up[1:][up[1:] >= 0]))
    assert (up >= 0).sum() == (down >= 0).sum()


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("tree", [0, 3])
def test_switches_of_a_tree_add_every_input_once_and_copy_the_sum(network: str, tree: int) -> None:
    """Executed switch by switch: each adds up what comes in over its cables and sends it on over one, then copies."""
    fabric = machine(network)
    ranks, trees = np.arange(tree, 32, 4), np.full(8, tree)
    inputs = np.random.default_rng(11).integers(-(1 << 40), 1 << 40, len(ranks))
    ends = {link: (start, stop) for start, stop, link in fabric.network.edges() if link is not None}
    held: dict[Any, int] = {}
    sent: set[int] = set()
    ways = fabric.reduced(ranks, trees, False)[0] - fabric.first_outer
    levels = int((ways >= 0).sum(axis=0).max())
    for level_of_way in range(levels):
        for flow, link in enumerate(ways[level_of_way].tolist()):
            if link < 0 or link in sent:
                continue
            sent.add(link)
            start, stop = ends[link]
            value = int(inputs[flow]) if level_of_way == 0 else held.pop(start)
            held[stop] = held.get(stop, 0) + value
    assert list(held.values()) == [inputs.sum()]  # all of it stands at one switch
    copies, seen = dict(held), set()
    back = fabric.reduced(ranks, trees, True)[0] - fabric.first_outer
    pending = {link for link in back.ravel().tolist() if link >= 0}
    while ready := [link for link in pending if ends[link][0] in copies]:
        for link in ready:
            start, stop = ends[link]
            assert stop not in seen  # nothing comes twice
            seen.add(stop)
            copies[stop] = copies[start]
            pending.remove(link)
    assert not pending
    cards = [value for point, value in copies.items() if point[0] == "NIC"]
    assert cards == [inputs.sum()] * len(ranks)


def test_a_ring_is_half_as_fast_and_never_below_the_cards() -> None:
    fabric, big = machine(), 1e9
    bound = big / 4 / 25e9
    ring = collectives.cost_of("all_reduce", range(32), big, fabric, profile(), "ring").slowest / 1e12
    for name in NAMES:
        seconds = collectives.cost_of("all_reduce", range(32), big, fabric, profile(), name).slowest / 1e12
        assert bound <= seconds < 1.01 * bound
        assert ring == pytest.approx(2 * 31 / 32 * bound, rel=0.05)


def test_hops_grow_with_levels_and_operations_but_not_with_nodes() -> None:
    def seconds(nodes: int, size: float = 64.0, largest: str = "1 GB", *levels: dict[str, Any]) -> float:
        said = {"latency": figure("1 us"), "largest": figure(largest)}
        network = {"kind": "tree", "levels": levels or [level("leaf", 8, latency="200 ns")], "switch_reduction": said}
        fabric = build(cluster(nodes=nodes, devices=4, nics=4, network=network))
        library = profile(wire={"scale_up": figure(0), "scale_out": figure(0)})
        cost = collectives.cost_of("all_reduce", range(4 * nodes), size, fabric, library, "nvls_sharp")
        return (cost.slowest - int(cost.moving.max())) / 1e12

    assert seconds(8) == pytest.approx(seconds(2))
    two = [level("leaf", 4, latency="200 ns"), level("spine", 64, latency="200 ns")]
    # One switch more adds up, and is passed on the way up; on the way down the leaf is passed too.
    assert seconds(8, 64.0, "1 GB", *two) == pytest.approx(seconds(8) + 1e-6 + 2 * 200e-9)
    once = seconds(8, 1e6)
    assert seconds(8, 1e6, "100 kB") > once + 2 * 5e-6


def test_only_switches_that_reduce_do() -> None:
    fabric = build(cluster(nodes=2))
    for name in NAMES:
        with pytest.raises(InputError, match="cannot do all_reduce"):
            collectives.plan("all_reduce", range(16), S, fabric, profile(), name)
    with pytest.raises(ValueError, match=r"`switch_reduction` is for trees of switches"):
        cluster(
            nodes=4,
            devices=1,
            kind="none",
            nics=0,
            network={"kind": "torus", "shape": [4], "bandwidth": figure("1 GB/s")} | REDUCING,
        )


@pytest.mark.parametrize(
    "wrong", [{"latency": figure("0.4 us")}, REDUCING["switch_reduction"] | {"largest": figure("-1 GB")}]
)
def test_bad_words_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="largest"):
        cluster(nodes=2, network=LEAF_SPINE | {"switch_reduction": wrong})


def test_the_library_takes_it_where_the_cluster_has_it() -> None:
    from simulator.specs.hardware import Cluster
    from simulator.specs.libraries.collectives import CollectiveProfile
    from simulator.specs.resolve import load_spec

    library = load_spec(CollectiveProfile, "nccl-h100")
    rates = []
    for name in ("dgx-h100-superpod", "dgx-h100-sharp"):
        machine = build(load_spec(Cluster, name).model_copy(update={"nodes": 8}))
        cost = collectives.cost_of("all_reduce", range(64), 16 * 2**30, machine, library)
        rates.append(2 * 63 / 64 * 16 * 2**30 / cost.slowest * 1e12)
    # NVIDIA (GTC 2024): 380 and 480 GB/s of bus bandwidth.
    assert rates == pytest.approx([380e9, 480e9], rel=0.1)
    assert cost.algorithms == ("nvls_sharp/NVLS SHARP",)
