"""The library's own choice, by its published tables."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import collectives
from simulator.collectives.tuner import Group, expected
from simulator.errors import InputError
from simulator.fabric import build
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile, Environment
from simulator.specs.resolve import load_spec
from tests.effort import simulations
from tests.machines import profile


def taken(machine: str, nodes: int, members: int, size: float, operation: str = "all_reduce", **change: object) -> str:
    """What a group of some members on each of some nodes runs."""
    cluster = load_spec(Cluster, machine).model_copy(update={"nodes": nodes})
    fabric = build(cluster)
    group = (np.arange(nodes)[:, None] * fabric.nodes[0].per_node + np.arange(members)).ravel()
    library = load_spec(CollectiveProfile, cluster.collectives).model_copy(update=change)
    [name] = collectives.cost_of(operation, group, size, fabric, library).algorithms
    return name.partition("/")[0]


@pytest.mark.parametrize(
    ("machine", "nodes", "members", "size", "algorithm"),
    [
        # A channel of a tree carries 23.6 GB/s at most on two nodes of A100, and half of it is the tree's rate.
        ("dgx-a100", 2, 4, 8e9, "ring"),
        ("dgx-a100", 2, 8, 8e9, "ring"),
        ("dgx-a100", 16, 8, 64e3, "tree"),
        ("dgx-h100", 1, 8, 1e9, "nvls"),
        ("dgx-h100", 1, 4, 1e9, "ring"),
        # Switches double what two nodes exchange; four nodes of H200 run rings by default (ml-engineering).
        ("dgx-h100", 2, 8, 8e9, "nvls_tree"),
        ("dgx-h100", 4, 8, 4e9, "ring"),
        ("dgx-h100", 8, 8, 8e9, "ring"),
        # 32 rings over two racks of 72 get 22 GB/s each of the NVLinks, not the 48 of a card.
        ("gb200-nvl72", 2, 72, 4e9, "nvls_tree"),
    ],
)
def test_a_library_takes_what_its_tables_say(
    machine: str, nodes: int, members: int, size: float, algorithm: str
) -> None:
    assert taken(machine, nodes, members, size) == algorithm


@pytest.mark.parametrize(
    ("release", "nodes", "size", "algorithm"),
    [
        # Where times under 2.26 jump (NVIDIA/nccl-tests issue 309, two clusters); 2.28 expects hops to take longer.
        ("2.26.2", 2, 256 << 10, "tree"),
        ("2.26.2", 2, 512 << 10, "nvls_tree"),
        ("2.26.2", 4, 1 << 20, "tree"),
        ("2.26.2", 4, 2 << 20, "nvls_tree"),
        ("2.26.2", 8, 4 << 20, "tree"),
        ("2.26.2", 8, 8 << 20, "nvls_tree"),
        ("2.26.2", 4, 256 << 20, "ring"),
        ("2.28.3", 2, 1 << 20, "tree"),
        ("2.28.3", 4, 4 << 20, "tree"),
        ("", 4, 4 << 20, "tree"),
    ],
)
def test_a_release_takes_what_its_own_tables_say(release: str, nodes: int, size: float, algorithm: str) -> None:
    assert taken("dgx-h100", nodes, 8, size, environment=Environment(release=release)) == algorithm


@pytest.mark.parametrize(
    ("release", "holds"),
    [("", False), ("2.9", True), ("2.27.7", True), ("2.28", False), ("2.28.3", False), ("3.0", False)],
)
def test_options_hold_until_a_release_changes_them(release: str, holds: bool) -> None:
    tuner = load_spec(CollectiveProfile, "nccl-h100").tuner
    assert tuner is not None
    trees = [option for option in tuner.options if option.algorithm == "nvls_tree"]
    [earlier] = [option for option in trees if option.before]
    [later] = [option for option in trees if option.since]
    assert earlier.holds(release) == holds
    assert later.holds(release) != holds


def test_two_nodes_reach_no_more_than_the_cards_of_a_ring() -> None:
    cluster = load_spec(Cluster, "dgx-a100").model_copy(update={"nodes": 2})
    group, size = [*range(4), *range(8, 12)], 8e9
    cost = collectives.cost_of("all_reduce", group, size, build(cluster), load_spec(CollectiveProfile, "nccl-a100"))
    assert 2 * 7 / 8 * size / (cost.slowest / 1e12) < 4 * 25e9


def test_a_library_without_tables_takes_what_is_quickest() -> None:
    assert taken("dgx-a100", 2, 4, 8e9, tuner=None) == "tree"


def test_a_plugin_that_chooses_across_nodes_leaves_the_choice_to_the_modelled_time() -> None:
    assert taken("efa-p4de", 2, 8, 8e9) == "tree"
    assert taken("efa-p5", 1, 8, 1e9) == taken("dgx-h100", 1, 8, 1e9)


@given(st.sampled_from(["dgx-a100", "dgx-h100"]), st.sampled_from([2, 4]), st.floats(1e3, 1e9), st.floats(0.3, 3))
@simulations(30)
def test_more_bandwidth_is_never_slower(machine: str, nodes: int, size: float, change: float) -> None:
    """What is chosen does not depend on the bandwidth of the links, so more of it only helps."""
    cluster = load_spec(Cluster, machine).model_copy(update={"nodes": nodes})
    library = load_spec(CollectiveProfile, cluster.collectives)
    fabric = build(cluster)
    groups = np.arange(fabric.devices).reshape(nodes, 8)[:, [0, 1, 2, 3]].reshape(2, -1)
    wider = replace(fabric, capacity=fabric.capacity * (1 + change), rated=fabric.rated * (1 + change))
    before, after = (collectives.cost_of("all_reduce", groups, size, f, library) for f in (fabric, wider))
    assert before.algorithms == after.algorithms
    assert (after.ticks <= before.ticks).all()


def test_the_expected_time_is_latency_and_size_over_bandwidth() -> None:
    """Ring LL128 of eight A100: 12 channels of 20 GB/s, 0.92 of it for data, 14 hops of 1.9 us after 14 us."""
    tuner = load_spec(CollectiveProfile, "nccl-a100").tuner
    assert tuner is not None
    [ring] = [o for o in tuner.options if (o.algorithm, o.protocol) == ("ring", "LL128")]
    seconds = expected(tuner, ring, "all_reduce", Group(8, 1, 8), 1e6)
    assert seconds == pytest.approx(14e-6 + 14 * 1.9e-6 + 1e6 / (0.92 * 240e9 * 8 / 14))
    [tree] = [o for o in tuner.options if (o.algorithm, o.protocol) == ("tree", "Simple tree")]
    # Four nodes of eight cards of 24 GB/s, 17.8 GB/s of which a tree takes; 1 MiB is corrected by 0.5.
    seconds = expected(tuner, tree, "all_reduce", Group(32, 4, 8), 2.0**20)
    assert seconds == pytest.approx(8.4e-6 + 2 * (7 * 4e-6 + 2 * 14e-6) + 2**20 / (8 * 17.8e9 / 2 * 0.5))


@pytest.mark.parametrize(
    ("profile_name", "group", "channels", "speed"),
    [
        ("nccl-h100", Group(16, 2, 8), 8, 48e9),  # seven of eight pass a device
        ("nccl-h800", Group(16, 2, 8), 8, 22e9),
        ("nccl-b200", Group(144, 2, 72), 32, 22e9),
    ],
)
def test_rings_share_the_links_inside_nodes(profile_name: str, group: Group, channels: int, speed: float) -> None:
    """The search finds speeds at which a device passes on all channels but the one that leaves through its card."""
    tuner = load_spec(CollectiveProfile, profile_name).tuner
    assert tuner is not None
    [ring] = [o for o in tuner.options if (o.algorithm, o.protocol) == ("ring", "Simple")]
    one, two = (expected(tuner, ring, "all_gather", group, size) for size in (1e9, 2e9))
    assert two - one == pytest.approx(1e9 * (group.members - 1) / group.members / (channels * speed))


@pytest.mark.parametrize(
    ("machine", "nodes", "members", "mib", "protocol"),
    [
        # Where times of all-gathers jump: AIConfigurator's eight B200, two nodes of B200, two hosts of GB300.
        ("dgx-b200", 1, 8, 8, "LL"),
        ("dgx-b200", 1, 8, 16, "Simple"),
        ("dgx-b200", 2, 8, 16, "LL128"),
        ("dgx-b200", 2, 8, 32, "Simple"),
        ("gb300-nvl72", 2, 4, 8, "LL128"),
        ("gb300-nvl72", 2, 4, 16, "Simple"),
    ],
)
def test_blackwell_leaves_a_protocol_where_measured_times_jump(
    machine: str, nodes: int, members: int, mib: int, protocol: str
) -> None:
    cluster = load_spec(Cluster, machine).model_copy(update={"nodes": nodes})
    fabric, library = build(cluster), load_spec(CollectiveProfile, cluster.collectives)
    group = (np.arange(nodes)[:, None] * fabric.nodes[0].per_node + np.arange(members)).ravel()
    assert collectives.cost_of("all_gather", group, mib * 2.0**20, fabric, library).algorithms == (f"ring/{protocol}",)


@pytest.mark.parametrize("operation", ["all_gather", "reduce_scatter", "broadcast"])
@pytest.mark.parametrize("nodes", [1, 2, 8, 32])
def test_twice_the_bytes_take_no_less_and_hardly_twice_as_long(operation: str, nodes: int) -> None:
    """From 1 KiB to 8 GiB on H100, also where the library changes its protocol: hops under LL128 that hid behind bytes
    left a step of 2.7 at Simple, LL at the rate of its trees one backwards, a broadcast at that of LL128's another."""
    cluster = load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": nodes})
    fabric, library = build(cluster), load_spec(CollectiveProfile, cluster.collectives)
    sizes = 2.0 ** np.arange(10, 34)
    times = [collectives.cost_of(operation, range(8 * nodes), size, fabric, library).slowest for size in sizes]
    steps = np.array(times[1:]) / times[:-1]
    assert steps.min() >= 1 and steps.max() < 2.1


def test_a_switch_needs_two_heads_to_reduce() -> None:
    tuner = load_spec(CollectiveProfile, "nccl-h100").tuner
    assert tuner is not None
    for tree in (option for option in tuner.options if option.algorithm == "nvls_tree"):
        assert expected(tuner, tree, "all_reduce", Group(8, 2, 1), 1e9) == float("inf")


def test_a_tuner_speaks_of_protocols_that_there_are() -> None:
    tuner = load_spec(CollectiveProfile, "nccl-h100").tuner
    assert tuner is not None
    with pytest.raises(ValueError, match="no protocol LL serves the tuner's algorithm ring"):
        profile(tuner=tuner)


def test_a_named_algorithm_is_taken_whatever_the_tables_say() -> None:
    cluster = load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": 2})
    fabric, library = build(cluster), load_spec(CollectiveProfile, "nccl-h100")
    assert collectives.cost_of("all_reduce", range(16), 1e9, fabric, library, "tree").algorithms == ("tree/Simple",)
    with pytest.raises(InputError, match="cannot do"):
        collectives.cost_of("all_reduce", range(16), 1e9, fabric, library, "nvls")


def test_nccl_takes_aggregated_trees_for_nodes_with_one_member() -> None:
    """Up to messages that fill the cards, since 2.23, and never where nodes have several members."""
    lone = {size: taken("dgx-h100", 16, 1, size, "all_gather") for size in (64e3, 1e6, 1e9)}
    assert lone == {64e3: "pat", 1e6: "pat", 1e9: "ring"}
    assert taken("dgx-h100", 16, 1, 1e6, "reduce_scatter") == "pat"
    by_release = [
        taken("dgx-h100", 16, 1, 1e6, "all_gather", environment=Environment(release=one)) for one in ("2.20", "2.23")
    ]
    assert by_release == ["ring", "pat"]
    assert taken("dgx-h100", 16, 8, 1e6, "all_gather") == "ring"
    assert taken("dgx-h100", 1, 8, 1e6, "all_gather") == "ring"
