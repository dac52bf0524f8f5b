"""Bubbles and activations of schedules in which microbatches meet: DeepSeek's table for DualPipe, arXiv:2107.06925."""

import numpy as np
import pytest

from simulator.program.timing import Costs, least_makespan, time_schedule
from simulator.training.schedules import Maker, Pipeline, chimera, dualpipe, dualpipev


def costs_of(stages: int, forward: int, inputs: int, weights: int, pair: int | None = None) -> Costs:
    ones = np.ones(stages, np.int64)
    return Costs(forward * ones, inputs * ones, weights * ones, 1.0 * ones, 1.0 * ones, pair=pair)


@pytest.mark.parametrize("factor", [2, 3, 4])
@pytest.mark.parametrize("ranks", [2, 4, 6, 8, 16])
def test_dualpipe(ranks: int, factor: int) -> None:
    """Idle (p/2 - 1)(FB + B - 3 W) at F = I = W, the same for DualPipeV on p/2 ranks; p + 1 and 2 p' + 1 kept."""
    unit = 5
    two = time_schedule(dualpipe(Pipeline(ranks, 1, factor * ranks)), costs_of(ranks, unit, unit, unit))
    assert two.idle.max() == (ranks // 2 - 1) * (3 * unit + 2 * unit - 3 * unit)
    assert two.peak.tolist() == [ranks + 1] * ranks
    one = time_schedule(dualpipev(Pipeline(ranks // 2, 2, factor * ranks)), costs_of(ranks, unit, unit, unit))
    assert one.idle.max() == two.idle.max()
    assert one.peak.tolist() == [ranks + 1] * (ranks // 2)


@pytest.mark.parametrize("costs", [(2, 3, 1, None), (3, 4, 2, None), (5, 5, 5, 12), (4, 5, 3, 10)])
@pytest.mark.parametrize("ranks", [4, 8, 16])
def test_the_form_of_dualpipe_is_an_upper_estimate(ranks: int, costs: tuple[int, int, int, int | None]) -> None:
    forward, inputs, weights, pair = costs
    timing = time_schedule(dualpipe(Pipeline(ranks, 1, 3 * ranks)), costs_of(2 * ranks, *costs))
    side_by_side = forward + inputs + weights if pair is None else pair
    assert timing.idle.max() <= (ranks // 2 - 1) * (side_by_side + inputs - 2 * weights) + forward


@pytest.mark.parametrize("ranks", [4, 6, 8, 16])
@pytest.mark.parametrize("costs", [(2, 3, 1), (10, 10, 3), (5, 4, 4), (12, 4, 1), (4, 12, 4), (1000, 976, 504)])
def test_dualpipe_idles_no_longer_than_its_longer_pass_says(ranks: int, costs: tuple[int, int, int]) -> None:
    """At most (p/2 - 1)(FB + max(F, I) - 2 W) where W is the shortest: DeepSeek's form where I is no shorter than F."""
    forward, inputs, weights = costs
    for microbatches in (2 * ranks, 3 * ranks):
        timing = time_schedule(dualpipe(Pipeline(ranks, 1, microbatches)), costs_of(2 * ranks, *costs))
        assert timing.idle.max() <= (ranks // 2 - 1) * (sum(costs) + max(forward, inputs) - 2 * weights)


@pytest.mark.parametrize(("ranks", "idle"), [(4, 6), (8, 19), (16, 47)])
def test_dualpipe_at_other_costs(ranks: int, idle: int) -> None:
    """Two F, three I, one W: what DeepSeek's order takes in an independent solver."""
    assert time_schedule(dualpipe(Pipeline(ranks, 1, 3 * ranks)), costs_of(2 * ranks, 2, 3, 1)).idle.max() == idle


@pytest.mark.parametrize("units", [1, 2, 3])
@pytest.mark.parametrize("ranks", [2, 4, 6, 8])
def test_chimera(ranks: int, units: int) -> None:
    """Idle (p - 2) F where B lasts as long as F; p/2 + 1 microbatches kept at the ends, p in the middle."""
    ones = np.ones(2 * ranks, np.int64)
    costs = Costs(3 * ones, 2 * ones, ones, 1.0 * ones, 1.0 * ones)
    timing = time_schedule(chimera(Pipeline(ranks, 1, units * ranks)), costs)
    assert timing.idle.tolist() == [3 * (ranks - 2)] * ranks
    ends = [min(rank, ranks - 1 - rank) for rank in range(ranks)]
    if units > 1 or ranks == 2:
        assert timing.peak.tolist() == [min(ranks // 2 + 1 + end, ranks) for end in ends]


@pytest.mark.parametrize(("ranks", "units"), [(4, 1), (4, 3), (8, 2)])
def test_chimera_with_longer_backward_passes(ranks: int, units: int) -> None:
    """Idle (p - 2)(k + 1) F at B = 2 F and k units."""
    timing = time_schedule(chimera(Pipeline(ranks, 1, units * ranks)), costs_of(2 * ranks, 1, 1, 1))
    assert timing.idle.max() == (ranks - 2) * (units + 1)


@pytest.mark.parametrize("maker", [dualpipe, chimera])
@pytest.mark.parametrize("microbatches", [16, 32])
def test_no_order_beats_the_bound(maker: Maker, microbatches: int) -> None:
    """Each copy takes half of the microbatches, so that a rank works as much as it would with one."""
    costs = costs_of(16, 2, 3, 1)
    schedule = maker(Pipeline(8, 1, microbatches))
    made = time_schedule(schedule, costs)
    assert made.makespan >= least_makespan(costs, schedule.rank_of_stage(), microbatches, schedule.copies)
    assert made.work.tolist() == [microbatches * 6] * 8
