"""Tapes in arrays, as Python reads the function that is compiled: the same as the clock, operation by operation."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings

from simulator.engine import compiled, executor
from simulator.engine.compiled import columns, machine, takeover
from simulator.engine.compiled.kernel import advance
from simulator.engine.executor import execute, execute_recorded
from simulator.engine.score import score
from simulator.engine.tape import NEVER, Activity, Tape, Use, chain
from simulator.errors import DeadlockError, InputError
from simulator.fabric.sharing import max_min
from tests.properties.test_executors import BIG, CAPACITY
from tests.tapes import tapes

NAMES = ("all-reduce", "send", "compute")
LINKS = 6


def crowd(lanes: int, turns: int, seed: int) -> Tape:
    """Lanes that run activities of one to three phases over some of six links, without waiting for each other."""
    draw = np.random.default_rng(seed)

    def phase() -> Activity:
        links = draw.choice(LINKS, draw.integers(1, 4), replace=False).tolist()
        uses = tuple(Use(link, float(draw.uniform(0.1, 1.0)), float(draw.integers(1, 4))) for link in links)
        return Activity(int(draw.integers(0, 3)), int(draw.integers(1, 40)), uses)

    activities = tuple(chain([phase() for _ in range(draw.integers(1, 4))]) for _ in range(12))
    n = lanes * turns
    return Tape(
        lane_start=np.arange(0, n + 1, turns),
        duration=draw.integers(0, 9, n),
        after_start=np.zeros(n + 1, np.int64),
        after=np.zeros(0, np.int64),
        rendezvous=np.full(n, -1),
        activity=draw.integers(-1, len(activities), n),
        activities=activities,
        capacity=np.ones(LINKS),
    )


def assert_same(made: Tape) -> None:
    """Times and events in arrays are those of the clock; a deadlock is left to it."""
    found = takeover.run(score(made), max_min, None, advance)
    try:
        expected = execute(made, max_min)
    except DeadlockError:
        assert found is None
        return
    assert found is not None
    assert found.start.tolist() == expected.start.tolist()
    assert found.end.tolist() == expected.end.tolist()
    assert found.events == expected.events


@settings(max_examples=30)
@given(tapes(activities=BIG, capacity=CAPACITY))
def test_tapes_of_any_kind_end_as_on_the_clock(made: Tape) -> None:
    assert_same(made)


@pytest.mark.parametrize("seed", range(3))
def test_a_crowd_on_links_ends_as_on_the_clock(seed: int) -> None:
    assert_same(crowd(7, 10, seed))


def test_what_links_carry_is_recorded_as_by_the_clock() -> None:
    made = crowd(6, 12, 4)
    names = [NAMES[op % 3] for op in range(len(made))]
    for most in (8, 512):
        timeline, load = execute_recorded(made, max_min, None, range(1, LINKS), names, most)
        recording = takeover.Recording(made.capacity.tolist(), range(1, LINKS), most, names)
        found = takeover.run(score(made), max_min, None, advance, recording)
        assert found is not None and found.end.tolist() == timeline.end.tolist()
        for link in range(LINKS):
            assert recording.load.of(link) == load.of(link)
    assert load.of(1) and not load.of(0)


def test_short_columns_grow_and_known_components_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = execute(crowd(9, 8, 1), max_min)
    monkeypatch.setattr(columns, "KEPT", 80)
    whole = columns.state

    def small(*arguments: object) -> object:
        made, needs = whole(*arguments)  # type: ignore[arg-type]
        return made._replace(heap=made.heap[:64], timers=made.timers[:44]), needs

    monkeypatch.setattr(takeover, "state", small)
    found = takeover.run(score(crowd(9, 8, 1)), max_min, None, advance)
    assert found is not None and found.end.tolist() == expected.end.tolist()


def test_small_tapes_and_machines_without_numba_stay_with_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    made = crowd(3, 4, 2)
    assert not compiled.large(score(made))
    expected = execute(made, max_min)
    monkeypatch.setattr(compiled, "LEAST", 1)
    monkeypatch.setattr(machine, "compiled", lambda: None)
    assert compiled.large(score(made))
    assert execute(made, max_min).end.tolist() == expected.end.tolist()
    monkeypatch.setattr(machine, "compiled", lambda: advance)
    calls: list[int] = []
    monkeypatch.setattr(takeover, "STRIDE", 5)
    assert execute(made, max_min, calls.append).end.tolist() == expected.end.tolist()
    assert calls[:2] == [5, 10]
    assert execute_recorded(made, max_min, None, [0], ["send"] * len(made), 9)[0].end.tolist() == expected.end.tolist()


@pytest.mark.parametrize(
    ("operations", "kept", "loaded", "expected"),
    [
        (999, True, True, False),
        (1_000, False, True, True),
        (9_999, True, False, False),
        (10_000, True, False, True),
        (49_999, False, False, False),
        (50_000, False, False, True),
    ],
)
def test_code_that_is_there_runs_smaller_tapes(
    operations: int, kept: bool, loaded: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    @cache
    def loads() -> None:
        return None

    if loaded:
        loads()
    monkeypatch.setattr(machine, "compiled", loads)
    monkeypatch.setattr(compiled, "is_kept", lambda _: kept)
    assert compiled.is_worth(operations) is expected


def test_a_tape_that_lasts_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LEAST", 1)
    monkeypatch.setattr(machine, "compiled", lambda: advance)
    two = (Activity(0, NEVER - 5, (Use(0, 1.0, 1.0),)),)
    none = np.zeros(0, np.int64)
    lasts, runs = np.array([0, 100]), np.array([0, -1])
    made = Tape(np.array([0, 2]), lasts, np.zeros(3, np.int64), none, np.full(2, -1), runs, two, np.ones(1))
    with pytest.raises(InputError, match="53 days"):
        executor.execute(made, max_min)
