"""Collectives against the formulas of the literature, on ideal machines."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import collectives
from simulator.fabric import build
from tests.machines import cluster, figure, profile, scope, torus

S, B = 1e9, 300e9
STEP = 1e-6
LIBRARY = profile()
FLAT = build(cluster())


def seconds(operation: str, ranks: object, algorithm: str, fabric: object = FLAT, size: float = S) -> float:
    return collectives.cost_of(operation, ranks, size, fabric, LIBRARY, algorithm).slowest / 1e12  # type: ignore[arg-type]


@given(st.integers(2, 8), st.floats(1e3, 1e11))
def test_ring_all_reduce(n: int, size: float) -> None:
    expected = 2 * (n - 1) / n * size / B + 2 * (n - 1) * STEP
    assert seconds("all_reduce", [range(n)], "ring", size=size) == pytest.approx(expected, rel=1e-9, abs=n * 1e-12)


@pytest.mark.parametrize("operation", ["all_gather", "reduce_scatter"])
def test_half_of_a_ring_all_reduce(operation: str) -> None:
    assert seconds(operation, [range(8)], "ring") == pytest.approx(7 / 8 * S / B + 7 * STEP)


@pytest.mark.parametrize("algorithm", ["ring", "halving_doubling", "direct"])
def test_zero_sends_as_much_as_data_parallelism(algorithm: str) -> None:
    """Reduce-scatter of gradients and all-gather of parameters are an all-reduce (ZeRO, arXiv:1910.02054)."""
    load = {
        operation: collectives.cost_of(operation, [range(8)], S, FLAT, LIBRARY, algorithm).load
        for operation in ("all_reduce", "all_gather", "reduce_scatter")
    }
    np.testing.assert_allclose(load["all_gather"] + load["reduce_scatter"], load["all_reduce"])
    # Stage 3 gathers the parameters twice: one and a half times the volume.
    np.testing.assert_allclose(2 * load["all_gather"] + load["reduce_scatter"], 1.5 * load["all_reduce"])


def test_halving_and_doubling_has_the_volume_of_a_ring_and_logarithmic_latency() -> None:
    assert seconds("all_reduce", [range(8)], "halving_doubling") == pytest.approx(2 * 7 / 8 * S / B + 6 * STEP)


def test_direct_collectives_have_the_latency_of_their_steps() -> None:
    assert seconds("all_to_all", [range(8)], "direct") == pytest.approx(7 / 8 * S / B + STEP)
    assert seconds("all_to_all", [range(8)], "pairwise") == pytest.approx(7 / 8 * S / B + 7 * STEP)
    assert seconds("all_reduce", [range(8)], "direct") == pytest.approx(2 * 7 / 8 * S / B + 2 * STEP)
    assert seconds("send", [[0, 5]], "send") == pytest.approx(S / B + STEP)


def test_a_broadcast_streams_through_a_chain() -> None:
    assert seconds("broadcast", [range(8)], "ring") == pytest.approx(S / B + 7 * STEP)
    assert seconds("broadcast", [range(8)], "binary_tree") == pytest.approx(S / B + 3 * STEP)


def test_double_binary_trees_send_twice_the_data_in_logarithmic_steps() -> None:
    assert seconds("all_reduce", [range(8)], "binary_tree") == pytest.approx(2 * S / B + 2 * 3 * STEP)


def test_a_reducing_switch_takes_the_data_once_up_and_once_down() -> None:
    """Each of the eight parts is begun after the one before it."""
    assert seconds("all_reduce", [range(8)], "nvls") == pytest.approx((1 + 1 / 8) * S / B + 8 * STEP)


def test_a_hierarchical_all_reduce_is_the_sum_of_its_phases() -> None:
    fabric = build(cluster(nodes=4))
    everyone = np.arange(32)
    inside = everyone.reshape(4, 8)
    scatter = seconds("reduce_scatter", inside, "ring", fabric)
    between = seconds("all_reduce", inside.T, "ring", fabric, S / 8)
    gather = seconds("all_gather", inside, "ring", fabric)
    total = seconds("all_reduce", [everyone], "hierarchical", fabric)
    assert total == pytest.approx(scatter + between + gather, rel=1e-9)
    assert between == pytest.approx(2 * 3 / 4 * S / 8 / 25e9 + 2 * 3 * 5e-6)
    plan = collectives.plan("all_reduce", [everyone], S, fabric, LIBRARY, "hierarchical")
    assert len(plan.phases(0)) == 3


def test_a_ring_over_nodes_runs_at_the_rate_of_all_cards_of_a_node() -> None:
    fabric = build(cluster(nodes=4))
    n, hops = 32, 2 * 31
    step = (28 * STEP + 4 * 5e-6) / 32
    expected = hops * (S / n / (8 * 25e9) + step)
    assert seconds("all_reduce", [np.arange(n)], "ring", fabric) == pytest.approx(expected, rel=1e-9)


def test_a_ring_over_one_rank_a_node_runs_at_the_rate_of_one_card() -> None:
    fabric = build(cluster(nodes=4))
    assert seconds("all_gather", [np.arange(0, 32, 8)], "ring", fabric) == pytest.approx(3 / 4 * S / 25e9 + 3 * 5e-6)


def test_trees_on_two_nodes_send_less_between_them_than_a_ring() -> None:
    """A ring of n ranks sends 2 (n - 1) / n S over each node's cards, two trees of two nodes half of each way: S."""
    fabric = build(cluster(nodes=2))
    loads = [collectives.cost_of("all_reduce", [np.arange(16)], S, fabric, LIBRARY, a).load for a in ("ring", "tree")]
    cards = [load[fabric.first_outer : fabric.first_outer + 8].sum() for load in loads]
    assert cards == pytest.approx([2 * 15 / 16 * S, S])


@pytest.mark.parametrize("shape", [(4,), (4, 4), (2, 2, 2), (4, 4, 4)])
def test_a_torus_all_reduce_uses_every_link(shape: tuple[int, ...]) -> None:
    n, links = int(np.prod(shape)), 2 * len(shape)
    free = profile(
        {"plain": {"scale_up": scope(0, 0, 1.0), "scale_out": scope(0, 0, 1.0)}},
        wire={
            "scale_up": figure(0),
            "scale_out": figure("1 us"),
        },
    )
    fabric = build(cluster(nodes=n, devices=1, kind="none", nics=0, network=torus(*shape)))
    time = collectives.cost_of("all_reduce", [range(n)], S, fabric, free, "torus").slowest / 1e12
    # Each device sends 2 (n - 1) / n of the data over all its links; along two devices there is one link, not two.
    ideal = 2 * (n - 1) / n * S / (links * 50e9)
    assert time == pytest.approx(ideal * (2 if shape == (2, 2, 2) else 1), rel=1e-6)


def test_tensor_parallel_volume_of_a_megatron_layer() -> None:
    """Sequence parallelism turns an all-reduce into a reduce-scatter and an all-gather (arXiv:2205.05198)."""
    activation = 2.0 * 4096 * 8192
    reduced = collectives.cost_of("all_reduce", [range(8)], activation, FLAT, LIBRARY, "ring").load
    halves = [
        collectives.cost_of(o, [range(8)], activation, FLAT, LIBRARY, "ring").load
        for o in ("all_gather", "reduce_scatter")
    ]
    np.testing.assert_allclose(sum(halves), reduced)
