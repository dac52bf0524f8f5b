"""Programs under construction."""

import numpy as np

from simulator.engine.executor import execute
from simulator.engine.tape import Activity, Use
from simulator.fabric.sharing import max_min
from simulator.program.draft import SPREAD, Draft


def two_lanes() -> Draft:
    """Lane 0: 10 and 20 ticks; lane 1: 5 ticks after the first of them."""
    draft = Draft()
    first = draft.add(lane=0, key=np.arange(2) * SPREAD, kind=0, duration=np.array([10, 20]))
    second = draft.add(lane=1, kind=1, duration=5)
    draft.after(second, first[:1])
    return draft


def test_operations_are_sorted_by_lane_and_key() -> None:
    draft = two_lanes()
    draft.add(lane=0, key=SPREAD // 2, kind=2, duration=1)
    tape, order = draft.build(("a", "b"))
    assert draft["kind"][order].tolist() == [0, 2, 0, 1]
    assert tape.lane_start.tolist() == [0, 3, 4]
    timeline = execute(tape)
    assert timeline.end.tolist() == [10, 11, 31, 15]


def test_columns_that_are_not_given() -> None:
    draft = two_lanes()
    assert draft["rendezvous"].tolist() == [-1, -1, -1]
    assert draft["key"].tolist() == [0, SPREAD, 0]


def test_nothing_is_added_for_empty_columns() -> None:
    draft = two_lanes()
    assert not len(draft.add(lane=0, kind=0, key=np.zeros(0, np.int64)))
    assert len(draft) == 3


def test_additions_seldom_copy_what_is_there() -> None:
    """As lists grow: n operations that are added one by one are copied about twice in all, not n / 2 times."""
    draft = two_lanes()
    moved = 0
    for _ in range(1000):
        before = draft["key"]
        draft.add(lane=0, kind=0)
        moved += not np.shares_memory(before, draft["key"])
    assert len(draft) == 1003
    assert moved <= 10


def test_what_waited_for_an_operation_waits_for_its_last_piece() -> None:
    draft = two_lanes()
    draft.cut(np.array([3, 1, 1]))
    assert draft["piece"].tolist() == [0, 1, 2, -1, -1]
    assert draft.edges.tolist() == [[4, 2]]
    tape, _ = draft.build(("a", "b"))
    assert execute(tape).end[-1] == 10 * 3 + 5


def test_what_an_operation_waited_for_holds_up_its_first_piece() -> None:
    draft = two_lanes()
    draft.cut(np.array([1, 1, 4]))
    assert draft.edges.tolist() == [[2, 0]]
    tape, _ = draft.build(("a", "b"))
    assert execute(tape).start[2:].tolist() == [10, 15, 20, 25]


def test_activities_share_the_resources_of_a_draft() -> None:
    draft = Draft()
    resource = draft.resource()
    both = [draft.activity(Activity(0, 100, (Use(resource, rate, 1.0),))) for rate in (1.0, 0.5)]
    draft.add(lane=np.array([0, 1]), kind=0, activity=np.array(both))
    tape, _ = draft.build(("a", "b"))
    assert execute(tape, max_min).end.tolist() == [150, 100]
