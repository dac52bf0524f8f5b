"""Passes that go on together with another microbatch's, and those that have none."""

import numpy as np
import pytest

from simulator.program import codes as d
from simulator.program.actions import COMPUTE, parse
from simulator.program.schedule import Schedule, from_actions
from simulator.run.simulate import Run, run
from simulator.training.overlap.partners import stretches, together, without_partner
from simulator.training.step import Collective
from tests import jobs

DISPATCH, COMBINE, BACK, FORTH = (
    Collective(name, "dispatch", 1.0, "ep")
    for name in ("dispatch", "combine", "gradient of combine", "gradient of dispatch")
)
A, B, C = (Collective(name, "all_gather", 1.0, "tp") for name in "abc")


def test_each_stretch_of_a_pass_stands_beside_an_exchange_of_the_other() -> None:
    """attention | experts | rest forward; rest | experts | attention backward."""
    forth, back = [A, DISPATCH, B, COMBINE, C], [C, BACK, B, FORTH, A]
    assert stretches(forth, [BACK, FORTH]) == [((A,), (BACK,)), ((B,), (FORTH,)), ((C,), ())]
    assert stretches(back, [DISPATCH, COMBINE], backward=True) == [((C,), ()), ((B,), (DISPATCH,)), ((A,), (COMBINE,))]


def test_a_pass_without_exchanges_is_one_stretch() -> None:
    assert stretches([A, B], []) == stretches([A, B], [], backward=True) == [((A, B), ())]


def alone(schedule: Schedule) -> list[str]:
    found = without_partner(schedule)
    return sorted(f"{stage}{COMPUTE[kind].name}{batch}" for stage, kind, batch in np.argwhere(found).tolist())


def scheduled(*ranks: str) -> Schedule:
    return from_actions([[parse(word) for word in rank.split()] for rank in ranks])


def test_passes_forward_before_the_first_backward_and_backward_after_the_last_forward_have_no_partner() -> None:
    one = scheduled("0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3", "1F0 1B0 1F1 1B1 1F2 1B2 1F3 1B3")
    assert alone(one) == ["0B1", "0B2", "0B3", "0F0", "0F1", "0F2", "1B3", "1F0"]
    split = scheduled("0F0 0I0 0F1 0W0 0I1 0W1")
    assert alone(split) == ["0F0", "0I1"]
    assert alone(scheduled("0F0 0F1 0B0 0B1")) == ["0B0", "0B1", "0F0", "0F1"]


def test_a_backward_pass_goes_on_with_the_forward_pass_behind_it() -> None:
    made = together(scheduled("0F0 0F1 0B0 0F2 0B1 0B2", "1F0 1B0 1F1 1B1 1F2 1B2"))
    first, last = made.groups()
    assert np.flatnonzero(first < last).tolist() == [2, 3, 7, 8, 9, 10]
    assert first[[2, 3, 7, 8, 9, 10]].tolist() == [2, 2, 7, 7, 9, 9]
    assert together(scheduled("0F0 0F1 0B0 0B1")).beside is None


def ran(batch: int, overlap: bool = True, pp: int = 1, zero: int = 0, vpp: int = 1) -> Run:
    training = {"overlap_experts": overlap, "overlap_gradients": zero > 0}
    shape = jobs.model(experts=8, top_k=2, expert_ffn=512)
    sizes = {"pp": pp, "vpp": vpp, "dp": 4, "ep": 4, "zero": zero}
    software, devices = jobs.stack("megatron-core"), 4 * pp
    return run(
        jobs.scenario(software=software, shape=shape, devices=devices, batch=batch, training=training, **sizes),
        fold="exact",
    )


def lasted(found: Run, kind: int, stage: int = 0) -> list[int]:
    columns, line = found.program.columns, found.timeline
    rows = np.flatnonzero((columns.kind == kind) & (columns.stage == stage) & (columns.piece < 0))
    rows = rows[np.argsort(columns.microbatch[rows], kind="stable")]
    return (line.end - line.start)[rows].tolist()


@pytest.mark.parametrize("pp", [1, 2])
def test_ends_of_a_step_wait_for_their_exchanges(pp: int) -> None:
    hidden, serial = (ran(4 * 6, overlap, pp) for overlap in (True, False))
    for stage in range(pp):
        lone = pp - stage
        forward, backward = (lasted(hidden, kind, stage) for kind in (d.FORWARD, d.BACKWARD))
        plain = [lasted(serial, kind, stage) for kind in (d.FORWARD, d.BACKWARD)]
        assert forward[:lone] == plain[0][:lone] and backward[-lone:] == plain[1][-lone:]
        assert set(forward[lone:]) == {forward[-1]} and forward[-1] < forward[0]
        assert set(backward[:-lone]) == {backward[0]} and backward[0] < backward[-1]


@pytest.mark.parametrize("pp", [2, 4])
@pytest.mark.parametrize("microbatches", [4, 8, 12])
def test_pairs_of_an_interleaved_pipeline_send_when_both_have_ended(pp: int, microbatches: int) -> None:
    found = ran(4 * microbatches, pp=pp, vpp=2)
    columns, line = found.program.columns, found.timeline
    ends = {
        (int(kind), int(stage), int(batch)): int(end)
        for kind, stage, batch, end in zip(columns.kind, columns.stage, columns.microbatch, line.end, strict=True)
        if kind in (d.FORWARD, d.BACKWARD)
    }
    schedule = found.job.schedule
    sends = {d.FORWARD: d.SEND_FORWARD, d.BACKWARD: d.SEND_BACKWARD}
    first, last = schedule.groups()
    names = [tuple(map(int, row)) for row in zip(schedule.kind, schedule.stage, schedule.microbatch, strict=True)]
    pairs = np.flatnonzero(first < last)
    assert len(pairs)
    for row in pairs.tolist():
        kind, stage, batch = names[row]
        sent = (columns.kind == sends[kind]) & (columns.stage == stage) & (columns.microbatch == batch)
        assert (line.start[sent] >= ends[names[last[row]]]).all()


def test_a_step_of_one_microbatch_hides_nothing() -> None:
    assert ran(4).timeline.makespan == ran(4, overlap=False).timeline.makespan


def spanned(found: Run, kind: int, microbatch: int) -> int:
    """Ticks from the first operation of a pass to its last."""
    columns, line = found.program.columns, found.timeline
    rows = (columns.kind == kind) & (columns.microbatch == microbatch) & (columns.piece >= 0)
    return int(line.end[rows].max() - line.start[rows].min())


def test_a_pass_that_runs_part_by_part_and_stands_alone_waits_for_its_exchanges() -> None:
    """Reductions run beside the last backward pass."""
    hidden, serial = (ran(4 * 6, overlap, zero=1) for overlap in (True, False))
    assert spanned(hidden, d.BACKWARD, 5) == spanned(serial, d.BACKWARD, 5)
    assert hidden.timeline.makespan < serial.timeline.makespan
