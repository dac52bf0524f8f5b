"""Fleets in arrays, as Python reads the function that is compiled: the same as the clock, event by event."""

from dataclasses import replace
from random import Random

import pytest

from simulator.run.serve import run_serving
from simulator.serving import compiled
from simulator.serving.compiled import layout, machine, takeover
from simulator.serving.compiled.kernel import advance
from simulator.serving.costs.attention import Attention
from simulator.specs import load_scenario
from simulator.specs.scenario import ServingScenario
from tests.replicas import ENDLESS, Price, Setting, System, asked, check, gaps, run, system

COLUMNS = (
    "scheduled",
    "first_token",
    "finish",
    "remaining_tokens",
    "done",
    "preemptions",
    "replica",
    "status",
    "pauses",
)
QUICKSTART = "scenarios/serving/quickstart.yaml"


def in_arrays(made: System, step: takeover.Advance = advance) -> System:
    """A system that has run in arrays."""
    fleet = takeover.taken(made.replicas, made.agenda)
    assert fleet is not None
    takeover.run(fleet, made.replicas, made.agenda, None, step)
    return made


def assert_same(long: System, short: System) -> None:
    """Everything that anybody reads of two systems is equal."""
    for name in COLUMNS:
        assert list(getattr(long.ledger, name)) == list(getattr(short.ledger, name)), name
    assert (long.agenda.events, long.agenda.now) == (short.agenda.events, short.agenda.now)
    assert gaps(long) == gaps(short)
    for number, (one, other) in enumerate(zip(long.replicas, short.replicas, strict=True)):
        assert long.log(number).tolist() == short.log(number).tolist()
        assert (one.blocks.free, one.preempted, one.outstanding) == (
            other.blocks.free,
            other.preempted,
            other.outstanding,
        )
        assert one.record.busy == other.record.busy and one.record.apart == other.record.apart
        for record in (one.record, other.record):
            record.usage.settle()
        assert one.record.usage.mean == other.record.usage.mean and one.record.usage.last == other.record.usage.last


def drawn(random: Random) -> tuple[list[tuple[int, int, int]], Setting]:
    """Requests and a system, any that can be taken over; memory is often short."""
    gap, longest, answer = random.choice([0, 10, 200, 3000]), random.choice([10, 100, 300]), random.choice([2, 20, 150])
    rows, now = [], 0
    for _ in range(random.choice([1, 5, 30, 60])):
        now += random.choice([0, 1, 1, 1]) * random.randint(0, gap)
        rows.append((now, random.randint(1, longest), random.randint(1, answer)))
    edge, pair = random.choice([500, 50, ENDLESS]), random.choice([0, 1])
    return rows, Setting(
        policy=random.choice(["vllm-v1", "sarathi"]),
        budget=random.choice([4, 16, 64, 256]),
        most=random.choice([1, 2, 4, 16]),
        tile=random.choice([1, 4, 16]),
        blocks=random.choice([30, 120, 1000]),
        block_size=random.choice([1, 2, 4, 16]),
        watermark=random.choice([0, 1, 3]),
        context=random.choice([ENDLESS, 200]),
        state=random.choice([0, 0, 1, 3]),
        replicas=random.choice([1, 1, 2, 3, 25]),
        router=random.choice(["round-robin", "least-outstanding"]),
        price=Price(row=random.choice([10, 1]), edge=edge, pair=pair, base=random.choice([7, 1000])),
    )


def random_systems(seed: int, count: int, step: takeover.Advance) -> int:
    """Compare so many random systems; preemptions that there were."""
    random, preempted = Random(seed), 0
    for _ in range(count):
        rows, setting = drawn(random)
        fast_forward = random.random() < 0.8
        long = run(asked(rows), setting, fast_forward)
        short = in_arrays(system(asked(rows), setting, fast_forward), step)
        assert_same(long, short)
        preempted += sum(one.preempted for one in long.replicas)
    return preempted


def test_arrays_and_clock_give_the_same() -> None:
    assert random_systems(1, 12, advance) > 0


@pytest.mark.slow
def test_compiled_and_read_give_the_same() -> None:
    step = machine.compiled()
    assert step is not None
    assert random_systems(2, 400, step) > 0


def test_a_tick_more_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison can fail."""
    rows, setting = [(0, 20, 5), (300, 10, 5)], Setting()
    long = run(asked(rows), setting)
    assert_same(long, in_arrays(system(asked(rows), setting)))
    slower = system(asked(rows), replace(setting, price=replace(setting.price, overhead=setting.price.overhead + 1)))
    with pytest.raises(AssertionError):
        assert_same(long, in_arrays(slower))


def test_full_buffers_and_heaps_are_emptied(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, setting = [(40 * i, 20, 9) for i in range(80)], Setting(replicas=2)
    monkeypatch.setattr(takeover, "BUFFER", 20)
    assert_same(run(asked(rows), setting), in_arrays(system(asked(rows), setting)))


def test_a_long_run_without_others_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = run(asked([(0, 20, 50)]), Setting(), fast_forward=False)
    monkeypatch.setattr(layout, "IN_A_ROW", 8)
    assert_same(whole, in_arrays(system(asked([(0, 20, 50)]), Setting(), fast_forward=False)))


def test_rows_are_handed_over_where_the_clock_would() -> None:
    """A replica that gives its rows away has given as many at each time."""
    rows, given = [(40 * i, 20, 9) for i in range(30)], []
    for ran in (lambda made: made.agenda.run(), in_arrays):
        made, taken = system(asked(rows), Setting(blocks=40)), []
        record = made.replicas[0].record
        record.most = 11 * 8

        def take(record=record, taken=taken) -> None:  # type: ignore[no-untyped-def]
            taken.append((list(record.log), list(record.gap_ticks), list(record.apart)))
            record.clear()

        record.full = take
        ran(made)
        given.append((taken, list(record.log), list(record.gap_ticks)))
    assert len(given[0][0]) > 1
    assert given[0] == given[1]


@pytest.mark.parametrize(
    "setting",
    [
        Setting(policy="prefill-first"),
        Setting(policy="static"),
        Setting(swap=100),
        Setting(stages=2),
        Setting(decoders=1),
        Setting(replicas=3, router="power-of-two"),
        Setting(price=Price(beside=(5, 0))),
        Setting(ahead=True),
    ],
)
def test_other_fleets_are_left_to_the_clock(setting: Setting) -> None:
    made = system(asked([(0, 20, 5)]), setting)
    assert takeover.taken(made.replicas, made.agenda) is None


def test_users_who_wait_and_what_else_is_due_are_left_to_the_clock() -> None:
    waits = asked([(0, 20, 5), (-1, 20, 5)], follows=[-1, 0], delay=[0, 3])
    made = system(waits, Setting())
    assert takeover.taken(made.replicas, made.agenda) is None
    made = system(asked([(0, 20, 5)]), Setting())
    made.agenda.at(50, lambda _: None)
    assert takeover.taken(made.replicas, made.agenda) is None


def test_a_run_past_the_last_tick_is_refused() -> None:
    made = system(asked([(0, 20, 5)]), Setting(price=Price(overhead=1 << 61)))
    with pytest.raises(OverflowError):
        in_arrays(made)


def scenario(*overrides: str) -> ServingScenario:
    found = load_scenario(QUICKSTART, ("requests.count=60", *overrides)).spec
    assert isinstance(found, ServingScenario)
    return found


@pytest.mark.parametrize("overrides", [(), ("model=models/mistral-7b",), ("requests.arrivals.poisson=40 /s",)])
def test_a_scenario_is_the_same_either_way(overrides: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """With attention of prompts in closed form, and with windows, where Python is asked."""
    long = run_serving(scenario(*overrides))
    closed = long.replicas[0].stages.costs[0].attention
    assert isinstance(closed, Attention)
    monkeypatch.setattr(compiled, "LEAST", 0)
    monkeypatch.setattr(machine, "compiled", lambda: advance)
    short = run_serving(scenario(*overrides))
    assert long.events == short.events and long.replicas[0].record.log == short.replicas[0].record.log
    assert all(getattr(long.ledger, name) == getattr(short.ledger, name) for name in COLUMNS)


def test_few_requests_and_no_numba_are_left_to_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    made = system(asked([(0, 20, 5)]), Setting())
    assert not compiled.ran(made.replicas, made.agenda, None)
    monkeypatch.setattr(compiled, "LEAST", 0)
    monkeypatch.setattr(machine, "compiled", lambda: None)
    assert not compiled.ran(made.replicas, made.agenda, None)
    made.agenda.run()
    check(made)


@pytest.mark.parametrize(("least", "kept", "taken"), [(0, False, True), (2, True, True), (2, False, False)])
def test_code_that_is_kept_is_loaded_for_fewer_requests(
    least: int, kept: bool, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = system(asked([(0, 20, 5)]), Setting())
    monkeypatch.setattr(compiled, "LEAST", least)
    monkeypatch.setattr(compiled, "LEAST_KEPT", 1)
    monkeypatch.setattr(compiled, "is_kept", lambda _: kept)
    monkeypatch.setattr(machine, "compiled", lambda: advance)
    assert compiled.ran(made.replicas, made.agenda, None) == taken
