"""What pipeline schedules cost and keep in memory, against the formulas of the papers that proposed them."""

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from simulator.engine.executor import execute
from simulator.engine.tape import Timeline
from simulator.program.actions import Kind
from simulator.program.lowering import lower
from simulator.program.maxplus import sweep
from simulator.program.schedule import Schedule
from simulator.training.schedules import SCHEDULES, Pipeline, gpipe, interleaved, one_f_one_b

FORWARD, BACKWARD = 1_000_003, 2_000_029
"""Ticks of a microbatch through all chunks of a rank."""
SIZES = [(1, 1), (2, 1), (2, 7), (4, 2), (4, 4), (4, 16), (8, 24), (13, 5)]


def run(schedule: Schedule, chunks: int = 1, send: int = 0, overlap: bool = True) -> Timeline:
    """Equal stages; both executors, which must agree."""
    durations = np.zeros((schedule.stages, len(Kind)), np.int64)
    durations[:, Kind.F], durations[:, Kind.B] = FORWARD * 12 // chunks, BACKWARD * 12 // chunks
    sends = np.full((max(schedule.stages - 1, 0), 2), send, np.int64)
    tape = lower(schedule, durations, sends, overlap).tape
    timeline = execute(tape)
    assert np.array_equal(timeline.end, sweep(tape).end)
    return timeline


def ideal(microbatches: int) -> int:
    return microbatches * (FORWARD + BACKWARD) * 12


@pytest.mark.parametrize("name", ["gpipe", "1f1b"])
@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
def test_bubble_of_gpipe_and_1f1b(name: str, ranks: int, microbatches: int) -> None:
    """(p - 1) / (m + p - 1) of the step: arXiv:1811.06965 section 2.3, arXiv:2104.04473 section 2.2.1."""
    step = run(SCHEDULES.get(name)(Pipeline(ranks, 1, microbatches))).makespan
    assert 1 - Fraction(ideal(microbatches), step) == Fraction(ranks - 1, microbatches + ranks - 1)


@pytest.mark.parametrize("chunks", [2, 3, 4])
@pytest.mark.parametrize(("ranks", "groups"), [(1, 3), (2, 1), (2, 4), (4, 1), (4, 5), (8, 2)])
def test_bubble_of_interleaving(ranks: int, groups: int, chunks: int) -> None:
    """(p - 1) / (v m) of the ideal where p divides m: arXiv:2104.04473 section 2.2.2."""
    microbatches = ranks * groups
    step = run(interleaved(Pipeline(ranks, chunks, microbatches)), chunks).makespan
    assert Fraction(step, ideal(microbatches)) - 1 == Fraction(ranks - 1, chunks * microbatches)


def in_flight(schedule: Schedule, rank: int) -> int:
    """Most forward passes whose backward pass has not run."""
    first, stop = schedule.rank_start[rank : rank + 2]
    return int(np.cumsum(np.where(schedule.kind[first:stop] == Kind.F, 1, -1)).max())


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
def test_activations_in_flight(ranks: int, microbatches: int) -> None:
    """1F1B keeps at most p - r microbatches on rank r, GPipe all of them: arXiv:2104.04473 section 2.2.1."""
    for rank in range(ranks):
        assert in_flight(one_f_one_b(Pipeline(ranks, 1, microbatches)), rank) == min(microbatches, ranks - rank)
        assert in_flight(gpipe(Pipeline(ranks, 1, microbatches)), rank) == microbatches


def test_activations_in_flight_of_interleaving() -> None:
    """At most 1 + (p - 1) / (p v) times those of 1F1B on the first rank: arXiv:2205.05198 section 4.2.3."""
    ranks, chunks = 8, 4
    assert in_flight(interleaved(Pipeline(ranks, chunks, 64)), 0) == ranks * chunks + ranks - 1


@pytest.mark.parametrize("ranks", [2, 4, 9])
def test_a_send_delays_the_pipeline_once_each_way_where_microbatches_are_few(ranks: int) -> None:
    """One microbatch passes every boundary twice."""
    send = 777
    assert run(one_f_one_b(Pipeline(ranks, 1, 1)), send=send).makespan == ranks * ideal(1) + 2 * (ranks - 1) * send


@pytest.mark.parametrize("microbatches", [4, 16])
def test_sends_that_block_cost_their_time_on_every_microbatch(microbatches: int) -> None:
    """The middle ranks send both ways for each microbatch."""
    send = 777
    schedule = one_f_one_b(Pipeline(4, 1, microbatches))
    blocked = run(schedule, send=send, overlap=False).makespan
    assert blocked >= ideal(microbatches) + 2 * send * microbatches
    assert run(schedule, send=send).makespan < blocked


def test_gpipe_and_1f1b_take_the_same_time() -> None:
    assert run(gpipe(Pipeline(6, 1, 9))).makespan == run(one_f_one_b(Pipeline(6, 1, 9))).makespan


@pytest.mark.parametrize("overlap", [True, False])
def test_a_rank_does_one_thing_at_a_time(overlap: bool) -> None:
    schedule = interleaved(Pipeline(4, 2, 8))
    timeline = run(schedule, 2, send=999, overlap=overlap)
    starts = lower(schedule, np.ones((8, len(Kind)), np.int64), np.ones((7, 2), np.int64), overlap).tape.lane_start
    for first, stop in pairwise(starts.tolist()):
        assert np.all(timeline.start[first + 1 : stop] >= timeline.end[first : stop - 1])


def test_the_step_of_gpt_1t_costs_one_event_an_operation() -> None:
    """64 stages x 512 microbatches: 65,536 passes and 64,512 sends on 190 lanes."""
    timeline = run(one_f_one_b(Pipeline(64, 1, 512)), send=12_345)
    assert len(timeline.end) == 65_536 + 64_512
    assert timeline.events == 65_536 + 64_512 + 2 * 190 + 1
