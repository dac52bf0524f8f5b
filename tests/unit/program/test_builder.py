"""Programs under construction."""

import numpy as np

from simulator.engine.executor import execute
from simulator.engine.tape import Activity, Use
from simulator.fabric.sharing import max_min
from simulator.program.builder import Builder
from simulator.program.content import Content
from simulator.program.piece import single


def lasting(builder: Builder, ticks: int) -> int:
    return builder.piece(single(Content(ticks)))


def two_lanes() -> Builder:
    """Lane 0: 10 and 20 ticks; lane 1: 5 ticks after the first of them."""
    builder = Builder()
    content = np.array([lasting(builder, 10), lasting(builder, 20)])
    first = builder.append(0, np.arange(2), content, kind=0)
    builder.append(1, 0, lasting(builder, 5), after=first[:1], kind=1)
    return builder


def test_a_lane_runs_its_turns_and_within_them_what_came_first() -> None:
    builder = two_lanes()
    builder.append(0, 0, lasting(builder, 1), kind=2)
    builder.append(0, 0, lasting(builder, 2), kind=3)
    tape, columns = builder.build(("a", "b"))
    assert columns["kind"].tolist() == [0, 2, 3, 0, 1]
    assert tape.lane_start.tolist() == [0, 4, 5]
    assert execute(tape).end.tolist() == [10, 11, 13, 33, 15]


def test_columns_that_are_not_given() -> None:
    _, columns = two_lanes().build(("a", "b"))
    assert columns["meeting"].tolist() == columns["activity"].tolist() == [-1, -1, -1]


def test_nothing_is_appended_for_empty_columns() -> None:
    builder = two_lanes()
    assert not len(builder.append(0, np.zeros(0, np.int64), lasting(builder, 3)))
    assert len(builder.build(("a", "b"))[0]) == 3


def test_who_asks_under_one_name_meets() -> None:
    builder = Builder()
    first, second = builder.meetings("reductions", 3), builder.meetings("reductions", 3)
    other = builder.meetings("gathers", 2)
    assert first.tolist() == second.tolist() == [0, 1, 2]
    assert other.tolist() == [3, 4]
    builder.append(np.array([0, 1]), 0, np.array([lasting(builder, 7), lasting(builder, 9)]), meeting=first[:1])
    assert execute(builder.build(("a", "b"))[0]).end.tolist() == [9, 9]


def test_the_same_pieces_have_one_content_however_many_chains_run_them() -> None:
    builder, pieces = Builder(), [single(Content(3)), single(Content(4))]
    assert builder.content(pieces) == builder.content(list(pieces)) != builder.content(pieces[::-1])
    assert len(builder.contents) == 2


def test_only_contents_that_are_asked_for_are_worked_out() -> None:
    builder = Builder()
    asked, other = builder.content([single(Content(3))]), builder.content([single(Content(4))])
    assert builder.ticks(np.array([[asked, asked]])).tolist() == [[3, 3]]
    assert "ticks" not in vars(builder.contents[other])


def test_equal_contents_and_activities_have_one_number() -> None:
    builder = Builder()
    assert lasting(builder, 5) == lasting(builder, 5) != lasting(builder, 6)
    uses = (Use(builder.resource(), 1.0, 1.0),)
    assert builder.activity(Activity(0, 5, uses)) == builder.activity(Activity(0, 5, uses))


def test_activities_share_the_resources_of_a_program() -> None:
    builder = Builder()
    resource = builder.resource()
    both = [builder.activity(Activity(0, 100, (Use(resource, rate, 1.0),))) for rate in (1.0, 0.5)]
    builder.append(np.array([0, 1]), 0, lasting(builder, 100), kind=0, activity=np.array(both))
    assert execute(builder.build(("a", "b"))[0], max_min).end.tolist() == [150, 100]
