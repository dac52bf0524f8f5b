"""Several chunks a rank: breadth first, depth first, waves."""

import pytest

from simulator.errors import InputError
from simulator.program.timing import Costs, time_schedule
from simulator.program.validate import validate
from simulator.training.schedules import Pipeline, breadth_first, depth_first, hanayo, interleaved
from tests.orders import lines


def test_breadth_first() -> None:
    assert lines(breadth_first(Pipeline(2, 2, 2))) == [
        "0F0 0F1 2F0 2F1 2B1 2B0 0B1 0B0",
        "1F0 1F1 3F0 3F1 3B1 3B0 1B1 1B0",
    ]


@pytest.mark.parametrize(("ranks", "chunks", "microbatches"), [(4, 2, 8), (3, 4, 5), (8, 2, 9), (4, 1, 6)])
def test_breadth_first_keeps_all_and_idles_as_interleaving(ranks: int, chunks: int, microbatches: int) -> None:
    """(p - 1)(F + B) / v idle, v m chunks kept: PyTorch's ScheduleLoopedBFS at F 1 and B 2."""
    schedule = validate(breadth_first(Pipeline(ranks, chunks, microbatches)))
    timing = time_schedule(schedule, Costs.equal(ranks * chunks))
    if microbatches >= ranks:
        assert timing.idle.tolist() == [(ranks - 1) * 3] * ranks
    assert timing.peak.tolist() == [chunks * microbatches] * ranks


def test_depth_first_is_interleaving() -> None:
    assert lines(depth_first(Pipeline(4, 2, 8))) == lines(interleaved(Pipeline(4, 2, 8)))


@pytest.mark.parametrize("waves", [1, 2, 3])
@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_waves(ranks: int, waves: int) -> None:
    """At B = 2 F and m = p at most (2 p - 2) / (3 p w + p - 1) of the step is idle, arXiv:2308.15762; p are kept."""
    costs = Costs.equal(2 * waves * ranks)
    schedule = validate(hanayo(Pipeline(ranks, 2 * waves, ranks, costs=costs)))
    timing = time_schedule(schedule, costs)
    assert timing.bubble <= (2 * ranks - 2) / (3 * ranks * waves + ranks - 1)
    assert timing.peak.max() <= 2 * waves * ranks
    assert schedule.rank_of_stage().tolist()[: 2 * ranks] == [*range(ranks), *reversed(range(ranks))]


def test_waves_have_two_chunks() -> None:
    with pytest.raises(InputError, match="3 are no multiple of two; write `vpp: 2` for one wave"):
        hanayo(Pipeline(4, 3, 8))


@pytest.mark.parametrize(("ranks", "chunks"), [(2, 2), (2, 4), (3, 2), (4, 2), (4, 4), (6, 2), (8, 2)])
@pytest.mark.parametrize("unit", [(1, 1, 1), (2, 3, 1)])
def test_waves_are_idle_no_longer_than_1f1b(ranks: int, chunks: int, unit: tuple[int, int, int]) -> None:
    """At any number of microbatches from p on, also where groups of p follow each other; the idle time is (p - 1) times
    a microbatch's work."""
    costs = Costs.equal(ranks * chunks, *unit)
    for microbatches in (*range(ranks, 2 * ranks + 2), 3 * ranks, 4 * ranks - 1, 6 * ranks):
        timing = time_schedule(validate(hanayo(Pipeline(ranks, chunks, microbatches, costs=costs))), costs)
        assert timing.idle.max() <= (ranks - 1) * chunks * sum(unit)
        if microbatches <= ranks:
            assert timing.peak.max() <= ranks * chunks
