"""Prices of sibling groups: choice, sharing, errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import collectives
from simulator.errors import InputError
from simulator.fabric import build
from tests.effort import examples
from tests.machines import LEAF_SPINE, RAILS, V100_LINKS, cluster, figure, level, profile, scope, two_protocols


def test_small_messages_take_the_quick_protocol_and_large_ones_the_wide_one() -> None:
    fabric, library = build(cluster()), two_protocols()
    chosen = [collectives.cost_of("all_reduce", [range(8)], size, fabric, library).algorithms for size in (1e3, 1e9)]
    assert chosen == [("ring/quick",), ("ring/wide",)]


def test_the_link_that_decides_the_rate_is_named() -> None:
    fabric, library = build(cluster(nodes=2, network=RAILS)), two_protocols()
    inside = collectives.cost_of("all_reduce", [range(8)], 1e9, fabric, library)
    across = collectives.cost_of("all_reduce", [[0, 8], [1, 9]], 1e9, fabric, library)
    assert [fabric.kinds[kind] for kind in inside.bottleneck] == ["scale-up"]
    assert {fabric.kinds[kind] for kind in across.bottleneck} <= {"NIC up", "NIC down"}
    for cost in (inside, across):
        assert (0.9 * cost.ticks < cost.moving).all() and (cost.moving < cost.ticks).all()
    nothing = collectives.cost_of("all_reduce", [[0]], 1e9, fabric, library)
    assert (nothing.moving.tolist(), nothing.bottleneck.tolist()) == ([0], [-1])


def test_a_named_algorithm_and_protocol_are_taken() -> None:
    fabric, library = build(cluster()), two_protocols()
    cost = collectives.cost_of("all_reduce", [range(8)], 1e9, fabric, library, "halving_doubling/quick")
    assert cost.algorithms == ("halving_doubling/quick",)


@pytest.mark.parametrize(
    ("operation", "algorithm", "message"),
    [
        ("all_redcue", "auto", "unknown collective `all_redcue`; did you mean `all_reduce`"),
        ("all_reduce", "rnig", "unknown collective algorithm `rnig`; did you mean `ring`"),
        ("all_reduce", "ring/wdie", "unknown protocol `wdie`; did you mean `wide`"),
        ("all_reduce", "pairwise", "`pairwise` cannot do all_reduce of 8 ranks on 1 nodes"),
        ("all_reduce", "hierarchical", "`hierarchical` cannot do all_reduce of 8 ranks on 1 nodes"),
    ],
)
def test_what_cannot_be_done_is_said(operation: str, algorithm: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        collectives.cost_of(operation, [range(8)], 1e6, build(cluster()), two_protocols(), algorithm)


def test_a_library_without_a_fitting_algorithm_falls_back_to_a_ring() -> None:
    library = profile(algorithms={"all_reduce": ("hierarchical",)})
    assert collectives.cost_of("all_reduce", [range(8)], 1e6, build(cluster()), library).algorithms == ("ring/plain",)


def test_nothing_to_do_costs_nothing() -> None:
    fabric = build(cluster())
    for groups, size in (([[1], [2]], 1e6), ([[0, 1]], 0.0), (np.zeros((0, 2)), 1e6)):
        cost = collectives.cost_of("all_reduce", groups, size, fabric, two_protocols())
        assert cost.slowest == 0
        assert not cost.load.any()


def test_order_within_a_group_does_not_matter_except_for_a_send() -> None:
    fabric, library = build(cluster(nodes=2)), two_protocols()
    ranks = [5, 0, 11, 3, 8, 2]
    costs = [collectives.cost_of("all_reduce", [r], 1e7, fabric, library) for r in (ranks, sorted(ranks))]
    assert costs[0].ticks.tolist() == costs[1].ticks.tolist()
    there, back = (collectives.cost_of("send", [pair], 1e7, fabric, library).load for pair in ([1, 12], [12, 1]))
    assert there.sum() == back.sum()
    assert not np.array_equal(there, back)


def test_equal_local_ranks_on_cards_of_their_own_do_not_disturb_each_other() -> None:
    fabric, library = build(cluster(nodes=4)), two_protocols()
    groups = np.arange(32).reshape(4, 8).T
    every = collectives.cost_of("all_reduce", groups, 1e8, fabric, library)
    alone = collectives.cost_of("all_reduce", groups[:1], 1e8, fabric, library)
    assert set(every.ticks.tolist()) == {alone.slowest}


def test_groups_that_share_a_card_share_its_rate() -> None:
    ideal = profile({"plain": {"scale_up": scope(0, 0, 1.0), "scale_out": scope(0, 0, 1.0)}})
    fabric = build(cluster(nodes=4, nics=2))
    groups = np.arange(32).reshape(4, 8).T
    alone = collectives.cost_of("all_gather", groups[:1], 1e8, fabric, ideal)
    every = collectives.cost_of("all_gather", groups, 1e8, fabric, ideal)
    # Rounding to ticks happens in each of the three steps.
    assert every.slowest == pytest.approx(4 * alone.slowest, abs=20)


def test_oversubscribed_trunks_are_shared_by_all_siblings() -> None:
    ideal = profile({"plain": {"scale_up": scope(0, 0, 1.0), "scale_out": scope(0, 0, 1.0)}})
    levels = [level("leaf", 2, oversubscription=4)]
    fabric = build(cluster(nodes=4, network={"kind": "tree", "levels": levels}))
    near, far = (
        collectives.cost_of("send", np.stack([np.arange(8), np.arange(8) + 8 * nodes], axis=1), 1e9, fabric, ideal)
        for nodes in (1, 2)
    )
    assert near.slowest == 1e9 / 25e9 * 1e12
    assert far.slowest == 8 * 1e9 / (2 * 8 * 25e9 / 4) * 1e12


def test_groups_that_lie_differently_are_priced_each_by_its_own() -> None:
    fabric, library = build(cluster(nodes=2)), two_protocols()
    cost = collectives.cost_of("all_reduce", [[0, 1, 2, 3], [4, 5, 12, 13], [8, 9, 10, 11]], 1e8, fabric, library)
    assert cost.ticks[0] == cost.ticks[2] < cost.ticks[1]


def test_a_group_uses_the_cards_of_all_its_members() -> None:
    fabric, library = build(cluster(nodes=4)), two_protocols()
    full, half, one = (
        collectives.cost_of(
            "all_gather", [np.arange(32).reshape(4, 8)[:, :members].ravel()], 1e9, fabric, library, "ring/wide"
        )
        for members in (8, 4, 1)
    )
    used = [sum("NIC up" in fabric.links[link] for link in np.flatnonzero(cost.load)) for cost in (full, half, one)]
    assert used == [32, 16, 4]
    assert full.slowest < half.slowest < one.slowest


def test_wire_beyond_the_known_one_is_added_to_each_hop() -> None:
    levels = [level("leaf", 2, latency="1 us")]
    network = {"kind": "tree", "levels": levels}
    plain = {"plain": {"scale_up": scope(0, 0, 1.0), "scale_out": scope(0, "5 us", 1.0)}}
    short, long = (
        profile(plain, wire={"scale_up": figure(0), "scale_out": figure(known)}) for known in ("10 us", "2 us")
    )
    fabric = build(cluster(nodes=4, devices=1, nics=1, network=network, nic_latency="3 us"))
    times = [
        collectives.cost_of("send", [[0, 1], [0, 2]], 25e3, fabric, library).ticks / 1e6 for library in (short, long)
    ]
    # Both messages leave rank 0, so each takes 2 us; the ways are 4 us and 6 us long.
    assert times[0].tolist() == [7, 7]
    assert times[1].tolist() == [7 + 4 - 2, 7 + 6 - 2]


def test_load_counts_the_bytes_of_all_groups() -> None:
    fabric, library = build(cluster(nodes=2)), two_protocols()
    load = collectives.cost_of("all_gather", np.arange(16).reshape(4, 4), 4e6, fabric, library).load
    assert load[: fabric.first_outer].tolist() == pytest.approx([3e6] * 32)
    assert not load[fabric.first_outer :].any()


def test_uneven_links_do_not_multiply_the_layouts_of_lonely_members() -> None:
    machine = cluster(nodes=4, kind="links", bandwidth="25 GB/s", links=V100_LINKS, nics=4)
    cost = collectives.cost_of("all_reduce", np.arange(32).reshape(4, 8).T, 1e8, build(machine), two_protocols())
    assert len(set(cost.ticks.tolist())) == 1


@given(
    st.sampled_from(["all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"]),
    st.sampled_from([LEAF_SPINE, RAILS]),
    st.sampled_from([2, 4]),
    st.floats(1e2, 1e9),
    st.data(),
)
@examples(60)
def test_more_bandwidth_or_less_latency_never_hurts(
    operation: str, network: dict[str, object], nics: int, size: float, data: st.DataObject
) -> None:
    members = data.draw(st.sets(st.integers(0, 31), min_size=2, max_size=12))
    group = [sorted(members)]
    library = two_protocols()
    base = cluster(nodes=8, devices=4, nics=nics, network=network, nic_latency="3 us")
    better = [
        cluster(nodes=8, devices=4, nics=nics, network=network, nic_latency="1 us"),
        cluster(nodes=8, devices=4, nics=nics, network=network, nic_latency="3 us", nic="50 GB/s"),
        cluster(nodes=8, devices=4, nics=nics, network=network, nic_latency="3 us", bandwidth="450 GB/s"),
    ]
    ticks = collectives.cost_of(operation, group, size, build(base), library).slowest
    # A tick is lost or won by rounding in each of the steps.
    slack = 4 * len(members)
    assert all(collectives.cost_of(operation, group, size, build(b), library).slowest <= ticks + slack for b in better)
    assert collectives.cost_of(operation, group, size * 1.5, build(base), library).slowest >= ticks - slack


@pytest.mark.parametrize("pair", [(0, 1), (0, 8), (3, 25)])
def test_a_send_costs_as_much_back(pair: tuple[int, int]) -> None:
    """A pipeline's gradients go to nodes with lower numbers, which are other nodes as well."""
    fabric = build(cluster(4))
    for library in (profile(), two_protocols()):
        there, back = (collectives.cost_of("send", [way], 1e6, fabric, library) for way in (pair, pair[::-1]))
        assert (there.slowest, there.algorithms) == (back.slowest, back.algorithms)
