"""Ways of transfers hop by hop: found in parts or at once, shared while they are held, summed on one link or on all."""

import gc
from dataclasses import replace

import numpy as np
import pytest

from simulator import collectives
from simulator.collectives import ways
from simulator.collectives.link_range import LinkRange
from simulator.fabric import build
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

CLUSTER = load_spec(Cluster, "selene").model_copy(update={"nodes": 64})
LIBRARY = load_spec(CollectiveProfile, "nccl-a100")
PAIRS = np.stack([np.arange(512), (np.arange(512) + 73) % 512], axis=1)


@pytest.mark.parametrize("at_once", [1, 7, 100, 511])
def test_ways_found_in_parts_are_those_found_at_once(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    src, dst = PAIRS[:, :1], PAIRS[:, 1:]
    whole = ways.found_ways(src, dst, build(CLUSTER), 1, cards=False)
    monkeypatch.setattr(ways, "AT_ONCE", at_once)
    machine = build(CLUSTER)
    parts = ways.found_ways(src, dst, machine, 1, cards=False)
    plain = machine.paths(src.ravel(), dst.ravel())
    assert (parts.matrix == whole.matrix).all()
    assert [row.tolist() for row in parts.matrix] == [row.tolist() for row in plain if (row >= 0).any()]
    assert [wire.tolist() for wire in parts.wire] == [wire.tolist() for wire in whole.wire]
    assert parts.wire[1] == pytest.approx(machine.path_latency(plain))


@pytest.mark.parametrize(
    ("operation", "groups"),
    [("send", PAIRS), ("send", PAIRS[PAIRS[:, 1] % 8 > 5]), ("all_reduce", np.arange(96).reshape(8, 12))],
)
def test_ways_of_one_group_are_those_found_for_it(operation: str, groups: np.ndarray) -> None:
    machine = build(CLUSTER)
    plan = collectives.plan(operation, groups, 1e6, machine, LIBRARY)
    for choice in plan.choices:
        for demand in choice.demands:
            for row, ranks in enumerate(groups[choice.rows][:100]):
                phase = demand.phase.bind(ranks, 1.0)
                alone = ways.found_ways(phase.src[None], phase.dst[None], machine, phase.parts, phase.cards)
                own = demand.ways.only(row)
                assert own.matrix.tolist() == [way.tolist() for way in alone.matrix if (way >= 0).any()]
                assert [wire.tolist() for wire in own.wire] == [wire.tolist() for wire in alone.wire]


@pytest.mark.parametrize("takes", [None, [0, 2, 3, 7, 8], [3, 4, 5], [9], []])
@pytest.mark.parametrize("marked", [False, True])
def test_a_hop_of_some_transfers(takes: list[int] | None, marked: bool) -> None:
    links = np.arange(10) if takes is None else 10 + np.array([1, *takes])
    numbers = None if takes is None else np.array(sorted({1, *takes}))
    flow = np.isin(np.arange(10), numbers) if marked and numbers is not None else numbers
    hop = ways.Hop(flow, links)
    whole = ways.Ways((hop,), 10, (np.zeros(5), np.zeros(5))).matrix
    for group in range(5):
        only = hop.only(2 * group, 2 * group + 2)
        found = [-1, -1] if only is None else ways.Ways((only,), 2, (np.zeros(1), np.zeros(1))).matrix[0].tolist()
        assert found == whole[0, 2 * group : 2 * group + 2].tolist()


def test_equal_transfers_share_their_ways_while_these_are_held() -> None:
    machine = build(CLUSTER)
    sent = [collectives.plan("send", PAIRS, size, machine, LIBRARY, "direct/Simple") for size in (1e6, 2e6)]
    first, second = (plan.choices[0].demands[0].ways for plan in sent)
    assert first is second and len(machine.known) == 1
    del sent, first, second
    gc.collect()
    assert not machine.known


@pytest.mark.parametrize("operation", ["all_reduce", "all_to_all"])
def test_bytes_on_one_link_are_those_on_all(operation: str) -> None:
    machine = build(CLUSTER)
    groups = np.arange(256).reshape(2, 128)
    cost = collectives.cost_of(operation, groups, 1e8, machine, LIBRARY)
    for runs in (np.array([3.0, 3.0]), np.array([1.0, 2.5])):
        load = cost.carried(runs)
        for link in (0, machine.first_outer - 1, *range(machine.first_outer, len(machine.capacity), 37)):
            assert cost.carried_at(link, runs) == load.at(link)
        assert load.everywhere(len(machine.capacity)).max() > 0


def test_ranges_of_links_add_up_where_they_lie() -> None:
    some, other = LinkRange(3, np.array([1.0, 2.0])), LinkRange(4, np.array([4.0, 8.0]))
    total = LinkRange.total([some, LinkRange(0, np.zeros(0)), other])
    assert (total.first, total.stop, total.values.tolist()) == (3, 6, [1.0, 6.0, 8.0])
    assert [total.at(link) for link in (2, 3, 5, 6)] == [0.0, 1.0, 8.0, 0.0]
    assert total.everywhere(7).tolist() == [0, 0, 0, 1, 6, 8, 0]
    assert LinkRange.total([]).everywhere(2).tolist() == [0, 0]
    each = np.array([1.0, 1, 1, 2, 2, 2])
    assert total.over(each, 2.0).values.tolist() == [0.25, 1.5, 2.0]
    assert replace(total, first=0).times(3.0).values.tolist() == [3.0, 18.0, 24.0]
