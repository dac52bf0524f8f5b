"""Bubbles and activations of schedules in a V, against their papers: arXiv:2401.10241 section 6, arXiv:2405.15362."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from simulator.program.timing import Costs, least_makespan, time_schedule
from simulator.training.schedules import Maker, Pipeline, v_half, v_min, zb_v
from simulator.training.schedules.orders import wave_home


@pytest.mark.parametrize("factor", [2, 4])
@pytest.mark.parametrize("ranks", [2, 3, 4, 7, 12])
def test_zb_v(ranks: int, factor: int) -> None:
    """At F = I = W no rank idles between its first and last pass; each keeps p microbatches, 2 p chunks."""
    timing = time_schedule(zb_v(Pipeline(ranks, 2, factor * ranks)), Costs.equal(2 * ranks))
    assert timing.own_idle.tolist() == [0] * ranks
    assert timing.idle.tolist() == [ranks - 1] * ranks
    assert timing.peak.tolist() == [2 * ranks] * ranks


@pytest.mark.parametrize("ranks", range(3, 33))
def test_v_half(ranks: int) -> None:
    """Idle 3 p - 7 chunks for even p, 3 p - 4 for odd p, for any m of at least p; (p + 2) // 2 units kept."""
    for microbatches in (ranks, ranks + 1, ranks + 2, 2 * ranks, 4 * ranks):
        timing = time_schedule(v_half(Pipeline(ranks, 2, microbatches)), Costs.equal(2 * ranks))
        assert timing.idle.tolist() == [3 * ranks - (4 if ranks % 2 else 7)] * ranks
        assert timing.peak.max() <= 2 * ((ranks + 2) // 2)
    assert timing.peak.max() == 2 * ((ranks + 2) // 2)


@pytest.mark.parametrize("ranks", range(3, 33))
def test_v_min(ranks: int) -> None:
    """Idle 4 p - 5 chunks, 4 p - 7 where 3 divides p, as the authors' search; (p + 4) // 3 units kept."""
    for microbatches in (ranks, ranks + 1, ranks + 2, 2 * ranks, 4 * ranks):
        timing = time_schedule(v_min(Pipeline(ranks, 2, microbatches)), Costs.equal(2 * ranks))
        assert timing.idle.tolist() == [4 * ranks - (5 if ranks % 3 else 7)] * ranks
        assert timing.peak.max() <= 2 * ((ranks + 4) // 3)
    assert timing.peak.max() == 2 * ((ranks + 4) // 3)


@pytest.mark.parametrize(("maker", "most"), [(v_half, lambda p: (p + 2) // 2), (v_min, lambda p: (p + 4) // 3)])
@pytest.mark.parametrize("ranks", [2, 3, 5, 6, 9, 14])
def test_of_any_number_of_microbatches(ranks: int, maker: Maker, most: Callable[[int], int]) -> None:
    """What ranks keep is the same for few microbatches, which idle no longer than one that goes all the way alone."""
    for microbatches in range(1, ranks + 1):
        timing = time_schedule(maker(Pipeline(ranks, 2, microbatches)), Costs.equal(2 * ranks))
        assert timing.peak.max() <= 2 * most(ranks)
        assert timing.idle.max() <= 4 * ranks - 1


@pytest.mark.parametrize("ranks", [4, 5, 8, 14])
def test_the_last_stage_of_v_min_keeps_one_microbatch(ranks: int) -> None:
    """Logits and their gradient, as much as 100 chunks, of one microbatch from F to W."""
    kept = np.array([1.0] * (2 * ranks - 1) + [100])
    costs = replace(Costs.equal(2 * ranks), kept=kept, kept_for_weights=kept)
    assert 100 < time_schedule(v_min(Pipeline(ranks, 2, 4 * ranks)), costs).peak.max() < 200


@pytest.mark.parametrize("ranks", [4, 8, 9, 16])
@pytest.mark.parametrize("costs", [(3, 4, 2), (4, 4, 3), (10, 11, 7)])
def test_v_half_idles_as_long_with_more_microbatches(costs: tuple[int, int, int], ranks: int) -> None:
    """Where W + 2 I >= 2 F and W + 2 F >= 2 I there is no bubble in the steady state."""
    idle = set()
    for factor in (2, 4):
        ticks = Costs.equal(2 * ranks, *costs)
        made = v_half(Pipeline(ranks, 2, factor * ranks, costs=ticks))
        idle.add(int(time_schedule(made, ticks).idle.max()))
    assert len(idle) == 1


@pytest.mark.parametrize("costs", [(1, 1, 1), (2, 3, 1), (3, 4, 2), (4, 4, 3), (1, 2, 2)])
@pytest.mark.parametrize("maker", [zb_v, v_half, v_min])
def test_no_order_beats_the_bound(maker: Maker, costs: tuple[int, int, int]) -> None:
    ticks = Costs.equal(10, *costs)
    for microbatches in (1, 4, 10, 20):
        made = maker(Pipeline(5, 2, microbatches, costs=ticks))
        assert time_schedule(made, ticks).makespan >= least_makespan(ticks, wave_home(5, 2), microbatches)
