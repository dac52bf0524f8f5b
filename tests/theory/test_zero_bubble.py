"""Bubbles and activations of zero-bubble schedules against their papers: arXiv:2401.10241."""

from fractions import Fraction

import numpy as np
import pytest

from simulator.program.timing import Costs, Timing, least_makespan, time_schedule
from simulator.training.schedules import Pipeline, one_f_one_b, zb_h1, zb_h2
from simulator.training.schedules.base import Maker

SIZES = [(p, m) for p in (2, 3, 4, 8, 13) for m in (2 * p - 1, 2 * p, 4 * p)]
COSTS = [(1, 1, 1), (2, 3, 1), (3, 4, 2), (2, 2, 1), (5, 4, 4), (3, 3, 2), (100, 98, 50)]


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
@pytest.mark.parametrize("costs", COSTS)
def test_zb_h1(ranks: int, microbatches: int, costs: tuple[int, int, int]) -> None:
    """Idle (p - 1) (F + I - W) where W is the shortest pass, else the longer of F and I; p microbatches everywhere."""
    forward, inputs, weights = costs
    timing = time_schedule(zb_h1(Pipeline(ranks, 1, microbatches)), Costs.equal(ranks, *costs))
    assert timing.idle.tolist() == [(ranks - 1) * max(forward + inputs - weights, forward, inputs)] * ranks
    assert timing.peak.tolist() == [ranks] * ranks


@pytest.mark.parametrize(("ranks", "microbatches"), SIZES)
@pytest.mark.parametrize("costs", COSTS)
def test_zb_h2(ranks: int, microbatches: int, costs: tuple[int, int, int]) -> None:
    """Idle between first and last pass of rank r (p - 1 - r) (F + I - 2 W), none at equal costs; 2 p - 1 microbatches.

    The paper's table says what the first rank idles.
    """
    forward, inputs, weights = costs
    timing = time_schedule(zb_h2(Pipeline(ranks, 1, microbatches)), Costs.equal(ranks, *costs))
    each = max(forward + inputs - 2 * weights, 0)
    assert timing.own_idle.tolist() == [each * (ranks - 1 - rank) for rank in range(ranks)]
    assert timing.peak.tolist() == [2 * ranks - 1] * ranks


def test_memory_by_pass() -> None:
    """Worker i of p keeps (p - i + 1) M_B + (i - 1) M_W under H1, (2 p - 2 i + 1) M_B + (2 i - 2) M_W under H2."""
    ranks, whole, rest = 6, 34.0, 32.0
    ones, worker = np.ones(ranks, np.int64), np.arange(1, ranks + 1)
    costs = Costs(ones, ones, ones, whole * ones, rest * ones)
    h1, h2 = (time_schedule(maker(Pipeline(ranks, 1, 30)), costs).peak for maker in (zb_h1, zb_h2))
    assert h1.tolist() == ((ranks - worker + 1) * whole + (worker - 1) * rest).tolist()
    assert h2.tolist() == ((2 * ranks - 2 * worker + 1) * whole + (2 * worker - 2) * rest).tolist()


def timed(
    maker: Maker, ranks: int, microbatches: int, inputs: float, weights: float, send: float
) -> tuple[Timing, int]:
    """A schedule at measured costs relative to F, and the work of a rank."""
    unit, ones = 10_000, np.ones(ranks, np.int64)
    costs = Costs(
        unit * ones,
        round(inputs * unit) * ones,
        round(weights * unit) * ones,
        1.0 * ones,
        1.0 * ones,
        round(send * unit),
    )
    timing = time_schedule(maker(Pipeline(ranks, 1, microbatches)), costs)
    assert timing.makespan >= least_makespan(costs, np.arange(ranks), microbatches)
    return timing, int(timing.work[0])


@pytest.mark.parametrize(
    ("ranks", "microbatches", "inputs", "weights", "send", "plain", "h1", "h2"),
    [
        (8, 24, 0.9765, 0.5041, 0.0324, 0.2431, 0.1585, 0.1083),
        (8, 32, 0.9769, 0.5040, 0.0338, 0.1985, 0.1242, 0.0837),
        (8, 64, 0.9758, 0.5026, 0.0411, 0.1240, 0.0674, 0.0444),
        (8, 24, 0.9908, 0.6705, 0.0177, 0.2347, 0.1323, 0.0698),
        (8, 64, 0.9895, 0.6477, 0.0179, 0.1091, 0.0554, 0.0294),
        (16, 48, 0.9913, 0.7167, 0.0332, 0.2552, 0.1397, 0.0672),
        (32, 96, 0.9797, 0.7405, 0.0392, 0.2646, 0.1421, 0.0641),
        (32, 256, 0.9852, 0.7400, 0.0442, 0.1352, 0.0594, 0.0257),
    ],
)
def test_published_bubbles(
    ranks: int, microbatches: int, inputs: float, weights: float, send: float, plain: float, h1: float, h2: float
) -> None:
    """Bubble rates of the paper's Table 5 from the measured times of its Table 9, within their last digit.

    ZB-H2 needs no barrier before the optimizer, so that its rate counts each rank from its own first pass.
    """
    sizes = ranks, microbatches, inputs, weights, send
    for maker, published in ((one_f_one_b, plain), (zb_h1, h1)):
        timing, work = timed(maker, *sizes)
        assert float(1 - Fraction(work, timing.makespan)) == pytest.approx(published, abs=1.01e-4)
    timing, work = timed(zb_h2, *sizes)
    idle = int(timing.own_idle.max())
    assert idle / (idle + work) == pytest.approx(h2, abs=1.01e-4)
