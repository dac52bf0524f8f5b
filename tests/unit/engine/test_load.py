"""What resources carry over time, and for whom."""

from itertools import pairwise

import pytest

from simulator.engine.clock import Clock
from simulator.engine.load import Span
from simulator.engine.player import Player
from simulator.engine.tape import RESERVED, Activity, Use, chain
from simulator.fabric.sharing import max_min
from tests.tapes import tape


def flow(units: int, *links: int) -> Activity:
    return Activity(0, units, tuple(Use(link, 1.0, 1.0) for link in links))


def nothing() -> None:
    """Nobody waits for the end."""


def test_intervals_and_who_is_in_them() -> None:
    clock = Clock([1.0, 4.0], max_min)
    load = clock.record()
    clock.at(5, lambda _: clock.start(flow(20, 0, 1), nothing, "a"))
    clock.at(15, lambda _: clock.start(flow(5, 0), nothing, "b"))
    clock.at(40, lambda _: clock.start(flow(5, 0), nothing, "a"))
    clock.run()
    assert load.of(0) == [
        Span(5, 15, 1.0, {"a": 1.0}),
        Span(15, 25, 1.0, {"a": 0.5, "b": 0.5}),
        Span(25, 30, 1.0, {"a": 1.0}),
        Span(30, 40, 1.0, {}),
        Span(40, 45, 1.0, {"a": 1.0}),
    ]
    assert [(span.start, span.stop, span.load) for span in load.of(1)][:2] == [(5, 15, 1.0), (15, 25, 0.5)]


def test_those_of_one_label_add_up() -> None:
    clock = Clock([1.0], max_min)
    load = clock.record()
    for _ in range(4):
        clock.start(flow(10, 0), nothing, "a")
    clock.run()
    assert load.of(0) == [Span(0, 40, 1.0, {"a": 1.0})]


def test_it_can_be_read_on_the_way() -> None:
    clock = Clock([1.0], max_min)
    load, seen = clock.record(), []
    clock.start(flow(10, 0), nothing, "a")
    for tick in (0, 4, 10):
        clock.at(tick, lambda _: seen.append(load.of(0)))
    clock.run()
    assert seen == [[], [Span(0, 4, 1.0, {"a": 1.0})], [Span(0, 10, 1.0, {"a": 1.0})]]


def test_it_may_begin_in_the_middle() -> None:
    clock = Clock([1.0], max_min)
    clock.start(flow(10, 0), nothing, "a")
    clock.at(6, lambda _: clock.record())
    clock.run()
    assert clock.fluid.record is not None
    assert clock.fluid.record.of(0) == [Span(6, 10, 1.0, {"a": 1.0})]


def test_a_change_of_capacity_is_recorded() -> None:
    clock = Clock([1.0], max_min)
    load = clock.record()
    clock.start(flow(10, 0), nothing, "a")
    clock.at(4, lambda _: clock.change(0, 0.5))
    clock.at(8, lambda _: clock.change(0, 0.0))
    clock.at(9, lambda _: clock.change(0, 2.0))
    clock.run()
    assert load.of(0) == [
        Span(0, 4, 1.0, {"a": 1.0}),
        Span(4, 8, 0.5, {"a": 0.5}),
        Span(8, 9, 0.0, {}),
        Span(9, 13, 2.0, {"a": 1.0}),
    ]


def test_what_is_reserved_is_taken_at_any_speed() -> None:
    clock = Clock([1.0, 1.0], max_min)
    load = clock.record()
    collective = Activity(0, 10, (Use(0, 0.25, RESERVED), Use(1, 1.0, 1.0)))
    for activity, name in ((collective, "a"), (flow(15, 0), "b"), (flow(10, 1), "c")):
        clock.start(activity, nothing, name)
    clock.run()
    assert load.of(0) == [Span(0, 20, 1.0, {"a": 0.25, "b": 0.75})]
    assert load.of(1) == [Span(0, 20, 1.0, {"a": 0.5, "c": 0.5})]


def test_only_what_was_asked_for() -> None:
    clock = Clock([1.0, 1.0], max_min)
    load = clock.record([1])
    clock.start(chain([flow(5, 0), flow(5, 1)]), nothing, "a")
    clock.run()
    assert load.of(0) == []
    assert load.of(1) == [Span(5, 10, 1.0, {"a": 1.0})]


def test_players_are_recorded_by_name_or_by_operation() -> None:
    made = tape([0, 3, 0], runs={0: 0, 2: 0}, activities=[flow(5, 0)], capacity=[1.0])
    clock = Clock([1.0, 1.0], max_min)
    load = clock.record()
    Player(clock, made, resources=[0], name="job")
    Player(clock, made, resources=[1], label=("first", "", "last").__getitem__)
    clock.run()
    assert [set(span.by) for span in load.of(0)] == [{"job"}, set(), {"job"}]
    assert [set(span.by) for span in load.of(1)] == [{"first"}, set(), {"last"}]


@pytest.mark.parametrize("most", [8, 50])
def test_memory_is_bounded_and_nothing_is_lost(most: int) -> None:
    clock = Clock([1.0], max_min)
    load = clock.record(most=most)
    for number in range(300):
        begin = number * 10 if number < 290 else 2_900 + 500 * (number - 290)
        clock.at(begin, lambda _, n=number: clock.start(flow(5, 0), nothing, n % 3))
    clock.run()
    spans = load.of(0)
    assert most // 3 <= len(spans) <= most
    assert all(one.stop == two.start for one, two in pairwise(spans))
    assert spans[-1].stop - spans[-1].start == 5, "the few long intervals at the end stay as they are"
    assert all(0 <= span.load <= 1.0 for span in spans)
    for label in range(3):
        assert sum((s.stop - s.start) * s.by.get(label, 0.0) for s in spans) == pytest.approx(500)


def test_recording_changes_nothing() -> None:
    made = tape(*[[0, 3, 0]] * 3, runs={0: 0, 2: 0, 3: 0, 5: 0, 8: 0}, activities=[flow(5, 0)], capacity=[1.0])
    timelines = []
    for recorded in (False, True):
        clock = Clock(solver=max_min)
        if recorded:
            clock.record()
        player = Player(clock, made)
        clock.run()
        timelines.append((player.timeline().end.tolist(), clock.events))
    assert timelines[0] == timelines[1]


def test_intervals_are_counted_before_they_are_merged() -> None:
    clock, counted = Clock([1.0], max_min), []
    load = clock.record(most=4, counts=lambda resource, span: counted.append((resource, span)))
    for number in range(40):
        clock.at(number * 10, lambda _, n=number: clock.start(flow(5, 0), nothing, n % 3))
    clock.run()
    load.finish()
    assert len(load.of(0)) <= 4
    assert [span for _, span in counted if span.by] == [Span(10 * n, 10 * n + 5, 1.0, {n % 3: 1.0}) for n in range(40)]
    assert {resource for resource, _ in counted} == {0}
    assert all(one.stop == two.start for (_, one), (_, two) in pairwise(counted))
