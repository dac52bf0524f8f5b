"""Schedules as columns."""

from simulator.program.actions import COMPUTE, Kind, parse
from simulator.program.schedule import from_actions

TWO_RANKS = [["0F0", "0SEND_F0", "0RECV_B0", "0B0"], ["1RECV_F0", "1F0", "1B0", "1SEND_B0", "1REDUCE_GRAD"]]
ACTIONS = [[parse(text) for text in row] for row in TWO_RANKS]


def test_round_trip() -> None:
    assert from_actions(ACTIONS).actions() == ACTIONS


def test_sizes() -> None:
    schedule = from_actions(ACTIONS)
    assert (len(schedule), schedule.ranks, schedule.stages, schedule.microbatches) == (9, 2, 2, 1)
    assert schedule.rank.tolist() == [0] * 4 + [1] * 5
    assert schedule.rank_of_stage().tolist() == [0, 1]


def test_nothing() -> None:
    schedule = from_actions([[], []])
    assert (len(schedule), schedule.ranks, schedule.stages, schedule.microbatches) == (0, 2, 0, 0)
    assert schedule.actions() == [[], []]


def test_only_some_kinds() -> None:
    schedule = from_actions(ACTIONS)
    assert [[str(a) for a in row] for row in schedule.passes().actions()] == [["0F0", "0B0"], ["1F0", "1B0"]]
    assert schedule.passes().actions() == schedule.only(COMPUTE).actions()
    assert [len(row) for row in schedule.only([Kind.REDUCE_GRAD]).actions()] == [0, 1]


def test_find() -> None:
    schedule = from_actions(ACTIONS)
    assert schedule.find([Kind.F]).tolist() == [[0], [5]]
    assert schedule.find([Kind.B, Kind.I]).tolist() == [[3], [6]]
    assert schedule.find([Kind.W]).tolist() == [[-1], [-1]]


def test_passes_side_by_side_stay_together() -> None:
    schedule = from_actions([[parse("(0F1;0B0)OVERLAP_F_B")]])
    assert [str(action) for action in schedule.actions()[0]] == ["(0F1;0B0)OVERLAP_F_B"]
