"""Runs of weeks against what is known of them: Daly's run time, time by cause, steps counted once, advice."""

from dataclasses import replace
from math import exp

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.run.long.advice import advise, young
from simulator.run.long.arrivals import Source, arrivals
from simulator.run.long.life import Life, Record, Rules, Slow
from simulator.run.long.segment import Segment

SECOND = 10**9
STEP = 10 * SECOND


def rules(goal: int | None = 1000, **changes: object) -> Rules:
    """A run of steps of 10 s on eight nodes with eight replicas."""
    known = Rules(
        goal=goal,
        horizon=None,
        every=30,
        stall=60 * SECOND,
        write=0,
        store=0,
        persist=0,
        load=0,
        load_memory=0,
        reshard=0,
        restart=400 * SECOND,
        swap=0,
        repair=None,
        spares=None,
        elastic=False,
        nodes=8,
        replicas=8,
        most=10**6,
    )
    return replace(known, **changes)  # type: ignore[arg-type]


def cause(mtbf_s: float, detection_s: float = 200, **changes: object) -> Source:
    """Something that stops the run, by default without taking a node out."""
    known = Source("any", "run", 1, 0, 1 / mtbf_s, 0, None, round(detection_s * SECOND), False)
    return known._replace(**changes)


def pace(replicas: int, slow: tuple[Slow, ...]) -> int:
    """Steps are longer by what is slow and by replicas that are missing."""
    return round(STEP * 8 / replicas / min([1.0, *(one.left for one in slow)]))


def lived(known: Rules, *causes: Source, seed: int = 0) -> Record:
    return Life(known, causes, arrivals(causes, [], seed, 0), pace).run()


def daly(mtbf: float, restart: float, interval: float, stall: float, work: float) -> float:
    """Mean run time where failures strike everything (Daly, FGCS 22(3), 2006, eq. 13)."""
    return mtbf * exp(restart / mtbf) * (exp((interval + stall) / mtbf) - 1) * work / interval


@pytest.mark.parametrize(("mtbf", "every", "stall"), [(7200.0, 100, 60.0), (3000.0, 60, 200.0), (20000.0, 300, 30.0)])
def test_the_mean_run_time_is_dalys(mtbf: float, every: int, stall: float) -> None:
    goal = every * round(2600 * mtbf / (every * 10))
    record = lived(rules(goal, every=every, stall=round(stall * SECOND), most=10**6), cause(mtbf))
    assert record.strikes[0] >= 2000
    expected = daly(mtbf, 600, every * 10, stall, goal * 10)
    assert record.end / SECOND == pytest.approx(expected, rel=0.02)
    assert record.steps == goal


@pytest.mark.parametrize(("mtbf", "stall"), [(7200.0, 60.0), (3000.0, 200.0), (30000.0, 20.0)])
def test_the_advised_interval_costs_less_than_half_a_percent_more_than_the_best(mtbf: float, stall: float) -> None:
    known = rules(round(1000 * mtbf / 10), stall=round(stall * SECOND))

    def ratio(every: int) -> float:
        record = lived(replace(known, every=every), cause(mtbf), seed=5)
        return record.ticks["training"] / record.end

    found = advise(ratio, round(young(stall, mtbf) / 10), 1, 10**6)
    times = {every: daly(mtbf, 600, every * 10, stall, 1e6) for every in range(1, 2000)}
    assert times[found.steps] <= 1.005 * min(times.values())


def test_advised_is_the_longest_that_costs_a_thousandth_more_however_far_from_the_best() -> None:
    """A share of 1 / (1 + n / 10^6) is best at the least number of steps, and a thousandth lower at a thousand."""
    found = advise(lambda steps: 1 / (1 + steps / 1e6), 10, 5, 10**6)
    assert 1000 / 2**0.5 <= found.steps <= 1005
    assert found.tried[-1].steps > 1005  # so that a page shows what more costs
    assert advise(lambda steps: 1 / (1 + steps / 1e6), 10, 5, 300).steps == 300


def test_where_nothing_fails_only_checkpoints_cost_time() -> None:
    record = lived(rules(1000, write=5 * SECOND, store=5 * SECOND))
    assert record.end == 1000 * STEP + 33 * 60 * SECOND + 65 * SECOND  # the last one is waited for
    assert record.ticks["lost work"] == record.ticks["restart"] == 0
    assert record.checkpoints == 34


def test_what_is_lost_is_what_was_done_since_the_last_whole_checkpoint() -> None:
    known = [cause(1e30, detection_s=50)]
    failure = next(arrivals([cause(1.0)], [], 0, 0))

    def after(seconds: float, write: float) -> Record:
        """One failure after so many seconds."""
        one = failure._replace(tick=round(seconds * SECOND))
        wait = round(write * SECOND)
        return Life(rules(100, write=wait, store=wait), known, iter([one]), pace).run()

    # Checkpoints begin after 300 s of steps and hold them for 60 s: the second step after it is under way at 375 s.
    assert after(375, write=0).ticks["lost work"] == 15 * SECOND
    assert after(375, write=14.9).ticks["lost work"] == 15 * SECOND
    assert after(375, write=15.1).ticks["lost work"] == 315 * SECOND
    assert after(359, write=0).ticks["lost work"] == 300 * SECOND
    assert after(359, write=0).ticks["checkpoint"] == (59 + 60 * 4) * SECOND


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(0, 40),
    st.integers(0, 3),
    st.sampled_from([0, 1, 3]),
    st.booleans(),
    st.sampled_from([None, 0, 2]),
)
def test_no_step_is_lost_or_counted_twice_and_time_sums_up(
    seed: int, every: int, write: int, persist: int, elastic: bool, spares: int | None
) -> None:
    wait = write * 50 * SECOND
    known = rules(
        400,
        every=every,
        write=wait,
        store=2 * wait,
        persist=persist,
        elastic=elastic,
        spares=spares,
        repair=3000 * SECOND,
        swap=SECOND,
        reshard=SECOND,
        load=7 * SECOND,
        load_memory=2 * SECOND,
    )
    node = cause(4000.0 if every else 8000.0, name="node", of="node", units=8, units_per_node=1)
    slow = cause(5000.0, name="slow", of="device", units=64, units_per_node=8, left=0.5)
    plan = cause(9000.0, name="plan", planned=True)
    record = lived(known, node, slow, plan, seed=seed)
    if not record.stuck:
        assert record.steps == 400  # that each is counted once is asserted where they are summed up
    assert record.ticks.total() == record.end
    assert all(ticks >= 0 for ticks in record.ticks.values())
    ends = [0, *(end for _, end, _ in record.bands)]
    assert [start for start, _, _ in record.bands] == ends[:-1]
    assert ends[-1] == record.end


def test_a_seed_decides_and_another_cause_changes_no_other() -> None:
    first, second = cause(5000.0), cause(9000.0, name="other")
    assert lived(rules(), first, seed=3).bands == lived(rules(), first, seed=3).bands
    assert lived(rules(), first, seed=3).bands != lived(rules(), first, seed=4).bands
    alone = [one.tick for one, _ in zip(arrivals([first], [], 3, 0), range(50), strict=False)]
    both = [one for one, _ in zip(arrivals([first, second], [], 3, 0), range(200), strict=False)]
    assert [one.tick for one in both if one.source == 0][:50] == alone


def test_a_slow_device_slows_every_step_until_it_is_detected() -> None:
    slow = cause(1e30, detection_s=1000, of="device", units=64, units_per_node=8, left=0.5)
    one = next(arrivals([cause(1.0)], [], 0, 0))._replace(tick=95 * SECOND, left=0.5, node=3, unit=30)
    record = Life(rules(1000, every=1000, stall=0), [slow], iter([one]), pace).run()
    # From the end of the tenth step on steps take 20 s, and one is under way when it is detected at 1,095 s.
    assert record.ticks["slow"] == 50 * 10 * SECOND
    assert record.ticks["restart"] == 400 * SECOND
    assert record.ticks["lost work"] == 0


def test_without_spares_a_run_waits_or_goes_on_with_fewer_replicas() -> None:
    node = cause(1e30, detection_s=0, of="node", units=8, units_per_node=1)
    one = next(arrivals([cause(1.0)], [], 0, 0))._replace(tick=0, node=3)
    known = rules(700, every=700, stall=0, spares=0, repair=3500 * SECOND)
    waits = Life(known, [node], iter([one]), pace).run()
    assert waits.ticks["idle"] == 3500 * SECOND
    assert waits.ticks["fewer nodes"] == 0
    elastic = Life(replace(known, elastic=True), [node], iter([one]), pace).run()
    assert elastic.ticks["idle"] == 0
    longer = round(STEP * 8 / 7) - STEP
    steps = -(-3100 * SECOND // (STEP + longer))  # until the node is back, from the end of the restart on
    assert elastic.ticks["fewer nodes"] == steps * longer
    assert elastic.ticks["restart"] == 2 * 400 * SECOND
    stuck = Life(replace(known, repair=None), [node], iter([one]), pace).run()
    assert "no spare node" in stuck.stuck


def test_checkpoints_in_memory_are_lost_with_both_hosts() -> None:
    node = cause(1e30, detection_s=10, of="node", units=8, units_per_node=1)
    first = next(arrivals([cause(1.0)], [], 0, 0))._replace(tick=3500 * SECOND, node=2)
    known = rules(700, every=10, stall=0, persist=30, store=SECOND, load=99 * SECOND, load_memory=9 * SECOND)

    def lost(*nodes: int) -> Record:
        failures = [first._replace(node=node, tick=first.tick + i * SECOND) for i, node in enumerate(nodes)]
        return Life(known, [node], iter(failures), pace).run()

    assert lost(2).ticks["lost work"] == lost(2, 5).ticks["lost work"] == 0
    assert lost(2).ticks["restart"] == 409 * SECOND
    assert lost(2, 3).ticks["lost work"] == 500 * SECOND  # the checkpoint of 3,000 s is on storage
    assert lost(2, 3).ticks["restart"] == 499 * SECOND


def test_failures_that_let_nothing_finish_are_given_up() -> None:
    record = lived(rules(1000, every=100, most=500), cause(100.0))
    assert record.stuck
    assert record.steps == 0


def test_a_run_that_its_clock_does_not_count_is_given_up_with_all_of_its_time() -> None:
    """230 million steps of 10 s are 73 years; the clock counts no further."""
    record = lived(rules(250_000_000, every=1_000_000), cause(3e7))
    assert "longer than the clock" in record.stuck
    assert record.ticks.total() == record.end > 0


@given(st.integers(1, 9), st.integers(0, 20), st.integers(0, 5), st.integers(1, 50), st.integers(0, 400))
def test_a_segment_in_closed_form_is_the_one_step_by_step(
    step: int, every: int, stall: int, count: int, elapsed: int
) -> None:
    into = count % (every + 1)
    segment = Segment(0, step, into, every, stall)
    now = steps = saves = waits = 0
    moments = [(0, 0, into)]
    while now <= elapsed or steps < count:
        if every and into == every:
            now, saves, waits, into = now + stall, saves + 1, waits + stall, 0
        else:
            now, steps, into = now + step, steps + 1, into + 1
        moments.append((now, steps, into))
        if steps == count and moments[-2][1] < count:
            assert segment.until(count) == now
    done = segment.after(elapsed)
    assert done.steps == max(many for moment, many, _ in moments if moment <= elapsed)
    assert done.steps * step + done.stall + done.partial == elapsed
    assert segment.boundary(elapsed) in {moment for moment, _, _ in moments}
    assert 0 <= segment.boundary(elapsed) - elapsed <= max(step, stall)
