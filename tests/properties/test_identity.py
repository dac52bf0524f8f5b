"""Operations keep what they communicate: bytes by axis and link, and time by axis, are those of what ran."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from simulator.axes import AXES
from simulator.program.content import OWN, Comm
from simulator.run.gather import Run
from simulator.run.links.carried import sent
from simulator.run.parts import busy
from simulator.run.simulate import run
from simulator.specs.scenario import Scenario
from tests import jobs
from tests.effort import simulations

CHOICES = {
    "tp": st.sampled_from([1, 2, 4]),
    "pp": st.sampled_from([1, 2]),
    "zero": st.sampled_from([0, 1, 2, 3]),
    "software": st.sampled_from(["megatron-lm-2021", "megatron-core", "fsdp", "deepspeed"]),
    "tied": st.booleans(),
}


def build(tp: int, pp: int, zero: int, software: str, tied: bool) -> Scenario:
    dp = 16 // (tp * pp)
    shape = jobs.model(tied_embeddings=tied)
    return jobs.scenario(
        nodes=2, batch=2 * dp, tp=tp, pp=pp, zero=zero if dp > 1 else None, shape=shape, software=jobs.stack(software)
    )


def by_axis(found: Run) -> dict[str, NDArray[np.float64]]:
    """Bytes on each link by axis, from what the instructions sent."""
    loads: dict[str, NDArray[np.float64]] = {}
    for flow in sent(found.program, found.classes):
        load = found.classes.priced[flow.comm].cost.carried(flow.runs).everywhere(len(found.network.fabric.capacity))
        loads[flow.comm.axis] = loads.get(flow.comm.axis, np.zeros(len(load))) + load
    return loads


def counted(found: Run) -> dict[str, NDArray[np.float64]]:
    """The same of an unfolded run, operation by operation and transfer by transfer."""
    ran: Counter[tuple[Comm, int]] = Counter()
    columns, pp = found.program.columns, found.job.pp
    for lane, content in zip(columns.lane.tolist(), columns.content.tolist(), strict=True):
        chain, rank = divmod(lane // len(found.program.names), pp)
        for call in found.program.contents[content].whole.calls:
            rows = found.classes.priced[call.comm].rows
            ran[call.comm, int(rows[found.classes.members[chain][0], rank if call.place == OWN else call.place])] += (
                call.runs
            )
    loads: dict[str, NDArray[np.float64]] = {}
    for (comm, group), runs in ran.items():
        priced = found.classes.priced[comm]
        load = loads.setdefault(comm.axis, np.zeros(len(priced.cost.load)))
        for phase in priced.cost.plan.phases(group):
            for path in priced.cost.plan.fabric.paths(phase.src, phase.dst):
                np.add.at(load, path[path >= 0], phase.size[path >= 0] * phase.repeat * runs / priced.members)
    return loads


@simulations(20)
@given(**CHOICES)
def test_bytes_by_axis_and_link_are_those_of_what_ran(**choices: object) -> None:
    scenario = build(**choices)  # type: ignore[arg-type]
    unfolded, folded = (run(scenario, fold=fold) for fold in ("none", "exact"))  # type: ignore[arg-type]
    expected = counted(unfolded)
    for found in (by_axis(unfolded), by_axis(folded)):
        assert set(found) == set(expected)
        for axis, load in expected.items():
            np.testing.assert_allclose(found[axis], load, rtol=1e-9, atol=1e-3)


@simulations(20)
@given(**CHOICES)
def test_every_operation_lasts_what_it_consists_of_and_stall(**choices: object) -> None:
    found = run(build(**choices))  # type: ignore[arg-type]
    lasted = found.timeline.end - found.timeline.start
    parts = busy(found.program, found.timeline, slice(None))
    assert sum(parts.values()) == int(lasted.sum())
    assert {name.removeprefix("exposed_") for name in parts if name.startswith("exposed")} <= set(AXES.names())
    if (found.program.tape.activity < 0).all():
        alone = np.array([lump.ticks for lump in found.program.contents])
        np.testing.assert_array_equal(alone[found.program.columns.content], found.program.tape.duration)
        assert parts["stall"] == pytest.approx(0.0)
