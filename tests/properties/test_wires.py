"""Replicas, moved caches and others on one link, whatever comes: no link carries more than it has, fast-forward changes
nothing, and nobody is faster than alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.fluid import Fluid, Running
from simulator.engine.tape import Activity, Use
from simulator.engine.wires import Wires
from simulator.serving.policies import POLICIES
from simulator.serving.replica.wires import Moves, ReplicaWires
from simulator.serving.workload.generate import Workload
from tests.effort import simulations
from tests.properties.test_serving import same, systems, workloads
from tests.replicas import Setting, System, check, gaps, system

CAPACITY = 1e-9
"""Rounding, relative to a capacity."""


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever shares are given, no resource gives more than it has."""
    solve = Fluid._solve

    def checked(fluid: Fluid, component: list[Running], scarce: set[int]) -> None:
        solve(fluid, component, scarce)
        for member in component:
            for use in member.needs.uses:
                given = sum(rate * one.speed for one, rate in fluid.users[use.resource].items())
                assert given <= fluid.capacity[use.resource] * (1 + CAPACITY)

    monkeypatch.setattr(Fluid, "_solve", checked)


def shared(workload: Workload, setting: Setting, visits: list[tuple[int, int]], fast_forward: bool) -> System:
    """A system in which all bytes of all replicas, moved caches and others who visit pass one link."""
    ran = system(workload, setting, fast_forward)
    transfer, agenda = ran.fleet.kv_transfer, ran.agenda
    link = 0
    if transfer is not None:
        ((link, *_), *_) = transfer._route(ran.replicas[0], ran.replicas[-1]).uses
    uses = (Use(link, agenda.fluid.capacity[link], 1.0),)
    for replica in ran.replicas:
        replica.wires = ReplicaWires(replica.batches[0], moves(setting, uses))
    ways = []
    for one in ran.replicas if transfer is not None else ():
        for other in transfer.decoders if transfer is not None and one.role == "prefill" else ():
            ways.append(transfer.wires.setdefault((one.number, other.number), Wires()))
    others = [(Wires(), start, Activity(0, work, uses)) for start, work in visits]
    users = [replica.wires for replica in ran.replicas if replica.wires is not None]
    for user in users:
        user.neighbours = [*(other for other in users if other is not user), *ways, *(wires for wires, *_ in others)]
    for wires in (*ways, *(wires for wires, *_ in others)):
        wires.neighbours = list(users)
    for visit in others:
        agenda.at(visit[1], lambda _, visit=visit: begin(ran, *visit))  # type: ignore[misc]
    agenda.run()
    check(ran)
    return ran


def begin(ran: System, wires: Wires, _: int, activity: Activity) -> None:
    wires.enter()
    ran.agenda.start(activity, wires.leave)


def moves(setting: Setting, uses: tuple[Use, ...]) -> Moves:
    """Half of what rows cost, in two parts."""
    each = setting.price.row // 2

    def found(rows: int, sampled: int) -> list[Activity]:
        parts = each * rows, sampled * (setting.price.sample // 2)
        return [Activity(0, work, uses) for work in parts if work]

    return found


@pytest.mark.parametrize("policy", POLICIES.names())
@simulations(25)
@given(data=st.data())
def test_fast_forward_changes_nothing_with_others_on_the_links(policy: str, data: st.DataObject) -> None:
    workload, setting = data.draw(workloads()), data.draw(systems([policy], stages=1, instances=1, serial=False))
    setting = Setting(**{**vars(setting), "sharers": 1})
    visit = st.tuples(st.integers(0, 6000) | st.integers(0, 60).map(lambda n: 100 * n), st.integers(1, 3000))
    visits = data.draw(st.lists(visit, max_size=4))
    forwarded, stepping = (shared(workload, setting, visits, fast_forward) for fast_forward in (True, False))
    same(forwarded, stepping)
    assert gaps(forwarded) == gaps(stepping)
    for one, other in zip(forwarded.replicas, stepping.replicas, strict=True):
        assert (one.record.busy, one.record.stalled) == (other.record.busy, other.record.stalled)


@simulations(50)
@given(data=st.data())
def test_an_iteration_is_never_faster_than_alone(data: st.DataObject) -> None:
    setting = data.draw(systems(["vllm-v1"], stages=1, instances=1, serial=False, decoders=0))
    setting = Setting(**{**vars(setting), "sharers": 1})
    ran = shared(data.draw(workloads()), setting, [(500, 2000)], fast_forward=False)
    for number, replica in enumerate(ran.replicas):
        assert replica.record.stalled >= 0
        rows: Any = ran.log(number)
        assert replica.record.busy == (rows[:, 1] * rows[:, 2]).sum()
