"""The choice between algorithms and protocols by modelled time, beside siblings."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator import collectives
from simulator.fabric import build
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec
from tests.effort import examples
from tests.machines import cluster, two_protocols


def ticks(gigabytes: float, size: float, pairs: int, library: CollectiveProfile) -> int:
    """Of all-reduces of pairs that share the bus of a node."""
    fabric = build(cluster(kind="host", bandwidth=f"{gigabytes} GB/s", nics=0))
    return collectives.cost_of("all_reduce", np.arange(2 * pairs).reshape(-1, 2), size, fabric, library).slowest


@given(st.floats(5, 200), st.floats(1.001, 1.5), st.floats(1e4, 1e8), st.integers(1, 4))
@example(100, 1.1, 1e6, 4)
@examples(100)
def test_more_bandwidth_is_never_slower_where_siblings_share_a_bus(
    gigabytes: float, factor: float, size: float, pairs: int
) -> None:
    library = two_protocols()
    assert ticks(gigabytes * factor, size, pairs, library) <= ticks(gigabytes, size, pairs, library) + 8


@pytest.mark.parametrize("size", [1e6, 2e6, 4e6, 8e6])
def test_no_step_of_bandwidth_makes_the_shipped_library_for_cards_on_a_bus_slower(size: float) -> None:
    library = load_spec(CollectiveProfile, "nccl-generic")
    found = [ticks(gigabytes, size, 4, library) for gigabytes in range(10, 200, 5)]
    assert found == sorted(found, reverse=True)


def test_groups_beside_others_take_what_is_quickest_beside_them() -> None:
    fabric, library = build(cluster(kind="host", bandwidth="124 GB/s", nics=0)), two_protocols()
    pairs = np.arange(8).reshape(-1, 2)
    for size in 10.0 ** np.arange(4, 9):
        taken = collectives.cost_of("all_reduce", pairs, size, fabric, library).slowest
        forced = [
            collectives.cost_of("all_reduce", pairs, size, fabric, library, name).slowest
            for name in ("ring/quick", "ring/wide")
        ]
        assert taken == min(forced)


def test_layouts_that_share_links_are_chosen_for_together() -> None:
    fabric, library = build(cluster(nodes=2)), two_protocols()
    groups = [[0, 1, 2, 3], [4, 5, 12, 13], [8, 9, 10, 11]]
    for size in 10.0 ** np.arange(4, 9):
        taken = collectives.cost_of("all_reduce", groups, size, fabric, library).slowest
        forced = [
            collectives.cost_of("all_reduce", groups, size, fabric, library, name).slowest
            for name in ("ring/quick", "ring/wide")
        ]
        assert taken == min(forced)


def test_a_shift_takes_its_own_rate_where_a_library_has_one() -> None:
    """Eight A100 that pass 512 MB on while as much comes in: 193 of 300 GB/s (li-plus/playground, cuda/nccl.md)."""
    fabric, library = build(cluster()), load_spec(CollectiveProfile, "nccl-a100")
    for operation in ("shift", "shift:3"):
        passed = collectives.cost_of(operation, range(8), 512 * 2.0**20, fabric, library)
        assert passed.algorithms == ("shift/send and receive",)
        assert 512 * 2.0**20 / (passed.slowest / 1e12) == pytest.approx(193e9, rel=0.03)
    one_way = collectives.cost_of("send", [0, 1], 512 * 2.0**20, fabric, library)
    assert one_way.slowest < passed.slowest
    assert collectives.cost_of(
        "shift", range(8), 1e8, fabric, load_spec(CollectiveProfile, "nccl-h100")
    ).algorithms != ("shift/send and receive",)


def test_sends_are_priced_as_they_were_measured() -> None:
    """36 of 50 GB/s between two H100 on two nodes and around 16, where an exchange with all peers reaches 40."""
    machine = load_spec(Cluster, "dgx-h100").model_copy(update={"nodes": 2})
    fabric, library = build(machine), load_spec(CollectiveProfile, "nccl-h100")
    for operation, group in (("send", [0, 8]), ("shift", range(16))):
        cost = collectives.cost_of(operation, group, 1e9, fabric, library)
        assert cost.algorithms == ("send/send",)
        assert 1e9 / (cost.slowest / 1e12) == pytest.approx(0.715 * 50e9, rel=0.01)
