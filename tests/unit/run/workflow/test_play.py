"""Stages on their pools: the longest path where nothing is shared, one run at a time where a pool is."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.run.workflow.play import Played, Step, critical, longest_path, play


@st.composite
def graphs(draw: st.DrawFn, pools: int = 0) -> tuple[list[Step], int, dict[tuple[str, int], int]]:
    """Stages that wait for earlier ones of the list, or for any of earlier iterations."""
    count, iterations = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    steps = []
    for i in range(count):
        waits = [(f"s{j}", 0) for j in range(i) if draw(st.booleans())]
        waits += [(f"s{j}", draw(st.integers(1, 3))) for j in range(count) if draw(st.integers(0, 3)) == 0]
        own = tuple(f"p{p}" for p in range(pools) if draw(st.booleans()))
        steps.append(Step(f"s{i}", own, tuple(dict.fromkeys(waits))))
    durations = {(step.name, i): draw(st.integers(0, 50)) for step in steps for i in range(iterations)}
    return steps, iterations, durations


def makespan(runs: Sequence[Played]) -> int:
    """When the last one ends."""
    return max(run.end for run in runs)


@given(graphs())
def test_where_nothing_is_shared_the_makespan_is_the_longest_path(
    graph: tuple[list[Step], int, dict[tuple[str, int], int]],
) -> None:
    steps, iterations, durations = graph
    runs = play(steps, iterations, lambda name, i: durations[name, i])
    assert len(runs) == len(steps) * iterations
    assert makespan(runs) == longest_path(steps, iterations, durations)
    assert all(run.begin == run.ready for run in runs)


@given(graphs(pools=2))
def test_a_pool_serves_one_run_at_a_time_and_all_wait_for_what_they_say(
    graph: tuple[list[Step], int, dict[tuple[str, int], int]],
) -> None:
    steps, iterations, durations = graph
    runs = {(run.stage, run.iteration): run for run in play(steps, iterations, lambda name, i: durations[name, i])}
    for step in steps:
        for i in range(iterations):
            run = runs[step.name, i]
            assert run.end - run.begin == durations[step.name, i]
            assert all(runs[name, i - lag].end <= run.begin for name, lag in step.waits if i >= lag)
    for pool in ("p0", "p1"):
        used = [
            (run.begin, run.end)
            for step in steps
            if pool in step.pools
            for run in runs.values()
            if run.stage == step.name
        ]
        used.sort()
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(used))
    every = list(runs.values())
    assert longest_path(steps, iterations, durations) <= makespan(every)
    assert makespan(every) <= sum(durations.values())


@given(graphs(pools=1))
def test_the_critical_chain_has_no_gaps(graph: tuple[list[Step], int, dict[tuple[str, int], int]]) -> None:
    steps, iterations, durations = graph
    runs = play(steps, iterations, lambda name, i: durations[name, i])
    chain = critical(runs)
    assert chain[0].begin == 0
    assert all(a.end == b.begin for a, b in itertools.pairwise(chain))
    assert chain[-1].end == makespan(runs)


COLOCATED = [
    Step("generate", ("all",), (("hand over", 1),)),
    Step("train", ("all",), (("generate", 0),)),
    Step("hand over", ("all",), (("train", 0),)),
]
SPLIT = [
    Step("generate", ("a",), (("hand over", 2),)),
    Step("train", ("b",), (("generate", 0),)),
    Step("hand over", ("a", "b"), (("train", 0),)),
]
TIMES = {"generate": 70, "train": 40, "hand over": 5}


def ends(steps: list[Step], times: dict[str, int], iterations: int) -> list[int]:
    """When each iteration hands over."""
    runs = play(steps, iterations, lambda name, _: times[name])
    return [run.end for run in runs if run.stage == "hand over"]


def test_an_iteration_is_the_sum_where_stages_share_their_devices() -> None:
    assert ends(COLOCATED, TIMES, 3) == [115, 230, 345]


@pytest.mark.parametrize("train", [40, 90])
def test_an_iteration_is_the_longer_stage_and_the_hand_over_where_they_are_split(train: int) -> None:
    found = ends(SPLIT, {**TIMES, "train": train}, 6)
    gaps = {b - a for a, b in itertools.pairwise(found[1:-1])}
    assert gaps == {max(70, train) + 5}


def test_a_run_that_waits_keeps_its_place() -> None:
    """The hand-over needs both pools; generation that becomes ready later does not overtake it."""
    steps = [Step("long", ("a",), ()), Step("both", ("a", "b"), ()), Step("short", ("b",), ())]
    runs = {run.stage: run for run in play(steps, 1, lambda name, _: {"long": 10, "both": 5, "short": 1}[name])}
    assert (runs["both"].begin, runs["short"].begin) == (10, 15)
