"""One plan, three ways to run it: closed form, fluid and step by step."""

from collections.abc import Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator import collectives
from simulator.collectives import Routing
from simulator.collectives.algorithms import ALGORITHMS, EXCHANGES
from simulator.engine.executor import execute
from simulator.engine.tape import Activity
from simulator.errors import InputError
from simulator.fabric import Fabric, build, max_min
from tests.machines import DRAGONFLY, LEAF_SPINE, RAILS, V100_LINKS, cluster, figure, torus, two_protocols
from tests.tapes import tape

REDUCING = {"switch_reduction": {"latency": figure("0.4 us"), "largest": figure("1 MB")}}
MACHINES: dict[str, dict[str, Any]] = {
    "switch": {"devices": 8},
    "mesh": {"devices": 5, "kind": "mesh"},
    "ring": {"devices": 6, "kind": "ring"},
    "links": {"devices": 8, "kind": "links", "bandwidth": "25 GB/s", "links": V100_LINKS},
    "host": {"devices": 4, "kind": "host"},
    "leaf-spine": {"nodes": 4, "devices": 4, "nics": 4},
    "shared cards": {"nodes": 3, "devices": 4, "nics": 2, "network": RAILS},
    "dragonfly of meshes": {"nodes": 3, "devices": 3, "kind": "mesh", "nics": 1, "network": DRAGONFLY},
    "switches that reduce": {"nodes": 4, "devices": 2, "nics": 2, "network": LEAF_SPINE | REDUCING},
    "torus": {"nodes": 12, "devices": 1, "kind": "none", "nics": 0, "network": torus(3, 4)},
    "slices": {"nodes": 4, "devices": 2, "kind": "none", "nics": 1, "network": torus(2, 2) | {"kind": "multislice"}},
}
SIZE = 3_000_017.0


@cache
def machine_of(name: str) -> Fabric:
    """A machine, built once."""
    return build(cluster(**MACHINES[name]))


@cache
def planned(machine: str, operation: str, algorithm: str) -> tuple[Fabric, collectives.Plan] | None:
    """The plan of all devices, or of the first and the last; None where the algorithm cannot do it."""
    fabric = machine_of(machine)
    group = [0, fabric.devices - 1] if operation == "send" else range(fabric.devices)
    try:
        return fabric, collectives.plan(operation, group, SIZE, fabric, two_protocols(), algorithm)
    except InputError as error:
        assert "cannot do" in str(error)
        return None


def fluid(activities: Sequence[Activity], fabric: Fabric) -> int:
    """Ticks of activities one after the other."""
    lane = tape(
        [0] * len(activities),
        runs={i: i for i in range(len(activities))},
        activities=activities,
        capacity=(fabric.capacity / 1e12).tolist(),
    )
    return execute(lane, max_min).makespan


def step_by_step(steps: Sequence[Sequence[Activity]], fabric: Fabric) -> int:
    """Ticks of steps, a lane for each transfer."""
    lanes, count = max(len(step) for step in steps), len(steps)
    runs, activities, after = {}, [], {}
    for number, step in enumerate(steps):
        for lane, activity in enumerate(step):
            runs[lane * count + number] = len(activities)
            activities.append(activity)
        if number:
            before = [lane * count + number - 1 for lane in range(lanes)]
            after |= {lane * count + number: before for lane in range(lanes)}
    made = tape(
        *[[0] * count for _ in range(lanes)],
        after=after,
        runs=runs,
        activities=activities,
        capacity=(fabric.capacity / 1e12).tolist(),
    )
    return execute(made, max_min).makespan


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("operation", collectives.OPERATIONS)
def test_alone_all_three_agree_to_the_tick(machine: str, operation: str) -> None:
    library = two_protocols()
    for algorithm in ALGORITHMS.names():
        found = planned(machine, operation, algorithm)
        if found is not None:
            fabric, plan = found
            closed = collectives.duration(plan)
            assert closed > 0
            assert fluid(collectives.activities(plan), fabric) == closed
            assert step_by_step(list(collectives.steps(plan)), fabric) == closed
            cost = collectives.cost_of(
                operation, plan.groups, SIZE, fabric, library, f"{algorithm}/{plan.choices[0].protocol}"
            )
            assert cost.ticks.tolist() == [closed]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("operation", collectives.EXCHANGED)
@pytest.mark.parametrize("hot", [False, True])
def test_exchanges_agree_to_the_tick(machine: str, operation: str, hot: bool) -> None:
    fabric, library = build(cluster(**MACHINES[machine])), two_protocols()
    ranks = range(fabric.devices)
    routing = Routing(64, 4, load=tuple(1.0 + rank for rank in ranks) if hot else ())
    for algorithm in EXCHANGES.names():
        if algorithm == "low_latency_cards" and fabric.devices == fabric.numbering.per_node[0]:
            continue  # one node alone has no cards here
        plan = collectives.plan(operation, ranks, SIZE, fabric, library, algorithm, routing)
        closed = collectives.duration(plan)
        assert closed > 0
        assert fluid(collectives.activities(plan), fabric) == closed
        assert step_by_step(list(collectives.steps(plan)), fabric) == closed
        named = f"{algorithm}/{plan.choices[0].protocol}"
        cost = collectives.cost_of(operation, plan.groups, SIZE, fabric, library, named, routing)
        assert cost.ticks.tolist() == [closed]


@pytest.mark.parametrize("operation", collectives.OPERATIONS)
def test_what_auto_chooses_agrees_too(operation: str) -> None:
    fabric, library = build(cluster(nodes=4, devices=4, nics=4)), two_protocols()
    group = [1, 14] if operation == "send" else range(16)
    for size in (64.0, 1e5, 1e9):
        plan = collectives.plan(operation, group, size, fabric, library)
        ticks = collectives.duration(plan)
        assert collectives.cost_of(operation, plan.groups, size, fabric, library).slowest == ticks
        assert fluid(collectives.activities(plan), fabric) == ticks


def test_every_algorithm_was_tried_somewhere() -> None:
    every = product(MACHINES, collectives.OPERATIONS, ALGORITHMS.names())
    done = {algorithm for machine, operation, algorithm in every if planned(machine, operation, algorithm)}
    assert done == set(ALGORITHMS.names())


def test_siblings_on_shared_cards_take_as_long_as_the_fluid_says() -> None:
    fabric, library = build(cluster(nodes=4, devices=4, nics=2)), two_protocols()
    groups = np.arange(16).reshape(4, 4).T
    cost = collectives.cost_of("all_gather", groups, 1e8, fabric, library, "ring/wide")
    plan = collectives.plan("all_gather", groups, 1e8, fabric, library, "ring/wide")
    found = [collectives.activities(plan, group) for group in range(len(groups))]
    together = tape(
        *[[0]] * 4,
        runs={i: i for i in range(4)},
        activities=[a for (a,) in found],
        capacity=(fabric.capacity / 1e12).tolist(),
    )
    ends = execute(together, max_min).end
    assert np.abs(ends - cost.ticks).max() <= 3  # three steps in the closed form, one activity in the fluid
    alone = collectives.cost_of("all_gather", groups[:1], 1e8, fabric, library, "ring/wide")
    assert cost.slowest > 1.9 * alone.slowest


def test_a_group_of_one_or_no_bytes_makes_no_phases() -> None:
    fabric, library = build(cluster()), two_protocols()
    for group, size in (([3], 1e6), ([0, 1], 0.0)):
        plan = collectives.plan("all_reduce", group, size, fabric, library)
        assert plan.phases(0) == ()
        assert collectives.duration(plan) == 0
        assert collectives.activities(plan) == ()
        assert list(collectives.steps(plan)) == []


def test_the_plan_holds_ranks_and_bytes() -> None:
    fabric = build(cluster())
    plan = collectives.plan("all_gather", [6, 2, 4], 3e6, fabric, two_protocols(), "ring/wide")
    (phase,) = plan.phases(0)
    assert plan.groups.tolist() == [[2, 4, 6]]
    assert (phase.repeat, phase.src.tolist(), phase.dst.tolist(), phase.size.tolist()) == (
        2,
        [2, 4, 6],
        [4, 6, 2],
        [1e6] * 3,
    )
    assert phase.volume == 6e6


def test_the_own_piece_counts_as_a_share_of_a_step() -> None:
    fabric = build(cluster())
    plain, copying = two_protocols().model_copy(update={"own_piece": None}), two_protocols()
    assert copying.own_piece == type(copying.own_piece).model_validate(figure(0.4))
    times = [
        collectives.cost_of("all_gather", [[0, 1, 2]], 1e9, fabric, p, "ring/wide").slowest for p in (plain, copying)
    ]
    latency = 20e6 + 2 * 2e6
    assert (times[1] - latency) / (times[0] - latency) == pytest.approx(1 + 0.4 / 2)


@pytest.mark.parametrize("machine", MACHINES)
def test_bytes_by_group_sum_to_those_of_all(machine: str) -> None:
    """Groups that run a collective so often carry the sum of what each carries alone, and use just these links."""
    fabric = build(cluster(**MACHINES[machine]))
    groups = np.arange(fabric.devices)[: fabric.devices // 2 * 2].reshape(2, -1).T
    cost = collectives.cost_of("all_reduce", groups, SIZE, fabric, two_protocols())
    runs = np.arange(1.0, len(groups) + 1)
    single = np.eye(len(groups))

    def carried(often: NDArray[np.float64]) -> NDArray[np.float64]:
        return cost.carried(often).everywhere(len(fabric.capacity))

    assert carried(np.ones(len(groups))) == pytest.approx(cost.load)
    assert carried(runs) == pytest.approx(sum(n * carried(one) for n, one in zip(runs, single, strict=True)))
    for group, one in enumerate(single):
        load = carried(one)
        assert load.sum() == pytest.approx(sum(hops(cost.plan, group)))
        assert [group in cost.plan.users(link) for link in np.flatnonzero(load)] == [True] * int((load > 0).sum())


def hops(plan: collectives.Plan, group: int) -> list[float]:
    """Bytes of each phase of a group times the links that they travel over."""
    found = []
    for phase in plan.phases(group):
        paths = plan.fabric.paths(phase.src, phase.dst)
        found.append(phase.repeat * float((phase.size * (paths >= 0).sum(axis=0)).sum()))
    return found
