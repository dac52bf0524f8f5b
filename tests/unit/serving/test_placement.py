"""Which devices replicas take, and what they pay for where they lie."""

import pytest

from simulator.errors import InputError
from simulator.run.dispatch import simulate
from simulator.serving.fleet.system import System, resolve
from simulator.serving.placement import FreeDevices, ReplicaPlacement, notes, placements
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario
from simulator.specs.serving import Layout, Pool
from simulator.specs.text.numbering import Numbering


def scenario(*layouts: dict[str, int], nodes: int = 2, **changes: str) -> ServingScenario:
    """Pools of one replica each, or of as many as share experts, on machines of eight devices."""
    asked = [f"cluster={{extends: clusters/dgx-h100, nodes: {nodes}}}", "requests.count=8"]
    asked += [f"{key.replace('__', '.')}={value}" for key, value in changes.items()]
    loaded = load_scenario("serving/quickstart", asked).scenario
    assert isinstance(loaded, ServingScenario)
    pools = tuple(
        Pool(
            name=f"p{i}",
            replicas=layout.get("replicas", 1),
            parallel=Layout(**{k: v for k, v in layout.items() if k != "replicas"}),
        )
        for i, layout in enumerate(layouts)
    )
    return loaded.model_copy(update={"serving": loaded.serving.model_copy(update={"pools": pools})})


def placed(*layouts: dict[str, int], nodes: int = 2) -> tuple[System, ...]:
    return resolve(scenario(*layouts, nodes=nodes, model="models/llama-3-70b"))


def test_a_replica_that_fits_into_a_node_lies_in_one() -> None:
    small, large = placed({"tp": 2}, {"tp": 8})
    assert small.devices(0) == (0, 1)
    assert large.devices(0) == tuple(range(8, 16))
    assert not large.cost.warnings and not large.elsewhere
    alone = placed({"tp": 8})[0]
    assert large.stages(0)[0].rows(512, 1) == alone.stages(0)[0].rows(512, 1)


def test_gaps_are_filled_before_anything_straddles() -> None:
    systems = placed({"tp": 2}, {"tp": 8}, {"tp": 4}, {"tp": 2})
    assert [system.devices(0) for system in systems[2:]] == [(2, 3, 4, 5), (6, 7)]
    assert not any(system.cost.warnings for system in systems)


def test_what_must_straddle_pays_for_the_network_and_says_so() -> None:
    *_, apart = placed({"tp": 4, "replicas": 1}, {"tp": 4, "pp": 1}, {"tp": 4}, {"tp": 2}, {"tp": 2}, nodes=2)
    assert not apart.cost.warnings
    first, second, third = placed({"tp": 2, "pp": 3}, {"tp": 2, "pp": 3}, {"tp": 4})
    assert (first.devices(0), second.devices(0)) == (tuple(range(6)), tuple(range(8, 14)))
    assert third.devices(0) == (6, 7, 14, 15)
    assert third.cost.warnings == (
        "tensor-parallel groups that straddle nodes of 8: 1 of 1, the first on devices 6 to 7 and 14 to 15; "
        "they pay for the network",
    )
    here, there = third.cost.stages[0], third.stages(0)[0]
    assert there.parts(512, 1)["tp"] > 2 * here.parts(512, 1)["tp"] > 0
    assert there.parts(512, 1)["linear"] == here.parts(512, 1)["linear"]


def test_a_group_larger_than_a_node_begins_with_one_and_is_told() -> None:
    _, system = placed({"tp": 1}, {"tp": 16}, nodes=3)
    assert system.devices(0) == tuple(range(8, 24))
    assert system.cost.warnings == ()
    assert any("each tensor-parallel group lies on 2 nodes of 8 devices" in text for text in system.cost.assumptions)


def test_replicas_of_the_same_place_in_their_nodes_share_prices() -> None:
    (system,) = placed({"tp": 2, "replicas": 8})
    assert system.elsewhere == {}
    assert len({system.devices(i) for i in range(8)}) == 8


def test_replicas_that_share_experts_lie_side_by_side() -> None:
    asked = scenario({"tp": 4}, {"ep": 8, "replicas": 8}, model="models/qwen3-30b-a3b")
    dense, shared = resolve(asked)
    assert dense.devices(0) == (0, 1, 2, 3)
    assert [shared.devices(i) for i in range(8)] == [(rank,) for rank in range(8, 16)]
    assert all(place.sharers(0, 1) == tuple(range(8, 16)) for place in shared.placements)


def test_too_many_devices_are_refused() -> None:
    said = "pool `p2`: the replicas take 18 devices, 16 of them those of pools before it, the cluster has 16"
    with pytest.raises(InputError, match=said):
        placed({"tp": 8}, {"tp": 8}, {"tp": 2})


def test_the_result_names_real_devices_and_what_straddles() -> None:
    result = simulate(scenario({"tp": 2, "pp": 3}, {"tp": 2, "pp": 3}, {"tp": 4}, model="models/llama-2-7b"))
    assert [one.example for one in result.classes] == [0, 8, 6]
    assert any(text.startswith("p2: tensor-parallel groups that straddle nodes") for text in result.warnings)


def test_what_is_left_is_given() -> None:
    free = FreeDevices.of(Numbering((3,), (4,)))
    assert free.take(3) == (0, 1, 2)
    assert free.take(8) == tuple(range(4, 12))
    assert free.take(3) == (3,)
    assert free.take(1) == ()


def test_only_some_devices_may_be_free() -> None:
    free = FreeDevices.of(Numbering((3,), (4,)), devices=[9, 8, 2])
    assert free.take(2) == (9, 8)
    assert free.count == 1
    assert free.take(1) == (2,)


NODES = Numbering((4,), (8,))


def test_the_same_place_in_another_node() -> None:
    one, other = placements(range(10, 14), 2)
    assert one.in_first_node(NODES) == ReplicaPlacement((2, 3), ((2, 3), (4, 5)))
    assert placements((6, 7, 8), 3)[0].in_first_node(NODES) == ReplicaPlacement((6, 7, 8), ((6, 7, 8),))
    assert other.sharers(0, 2) == (10, 12)


def test_groups_that_share_experts_are_told_once() -> None:
    warnings, _ = notes(placements((6, 7, 8, 9), 1), 1, NODES)
    assert warnings == (
        "expert-parallel groups that straddle nodes of 8: 1 of 1, the first on devices 6 to 9; "
        "they pay for the network",
    )
    warnings, _ = notes((*placements((6, 7, 8, 9), 1), *placements((0, 1, 2, 3), 1)), 1, NODES)
    assert warnings[0].startswith("expert-parallel groups that straddle nodes of 8: 1 of 2")
