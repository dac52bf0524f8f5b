"""How sure it is that one run is faster than another."""

from itertools import permutations

import numpy as np
import pytest

from simulator.run.extent import Extent
from simulator.run.ground import Conditions
from simulator.run.spread.compared import MOST, held, of, stated
from simulator.run.spread.conformal import Widening, weighted
from simulator.run.spread.near import Alike, Like, distances
from simulator.run.spread.residuals import Residuals

OURS = Like(
    Conditions("training", "H100", "Megatron", "16 bits", "dense", "nccl"), Extent(8, ("ZeRO-1",)), "NVIDIA", 2022
)
OTHER = OURS._replace(conditions=OURS.conditions._replace(device="A100"), year=2020)


def _known(own_noise: float, bias: float) -> Residuals:
    """20 sources of 8 rows each with a bias of the source and noise of the row."""
    rng = np.random.default_rng(3)
    rows = [
        Alike(like, f"{i} {like.year}", np.full(8, 3.0), rng.normal(0, bias) + rng.normal(0, own_noise, 8))
        for i in range(20)
        for like in (OURS, OTHER)
    ]
    return Residuals(rows, Widening(0.2, 1.0, 0.0))


def test_what_both_runs_share_cancels_out() -> None:
    """Sources are 20 % apart, rows of one source 1 %: a difference of 5 % is sure within, not between devices."""
    known = _known(0.01, 0.2)
    within, between = held(known, OURS, OURS, np.log(0.95)), held(known, OURS, OTHER, np.log(0.95))
    assert within is not None and between is not None
    assert within > 0.97
    assert 0.5 < between < 0.75


def test_normal_errors_give_the_share_of_the_normal_distribution() -> None:
    """Errors of 5 % each: their difference has 7.1 %, so that 7.1 % faster holds in 84 % of pairs."""
    found = held(_known(0.05, 0.0), OURS, OURS, -0.05 * np.sqrt(2))
    assert found == pytest.approx(0.84, abs=0.05)


def test_slower_is_as_sure_as_faster_and_nothing_is_certain() -> None:
    known = _known(0.05, 0.0)
    faster, slower = held(known, OURS, OURS, -0.03), held(known, OURS, OURS, 0.03)
    assert faster == pytest.approx(slower, abs=0.02)
    assert held(known, OURS, OURS, 3.0) == MOST


@pytest.mark.parametrize("other", [OURS, OTHER])
@pytest.mark.parametrize("difference", [-0.07, 0.0, 0.031])
def test_pairs_are_summed_as_one_by_one(other: Like, difference: float) -> None:
    """All pairs of rows of a source for runs alike, of all sources for others; a row is no pair with itself."""
    known = _known(0.05, 0.1)
    first, second = (weighted(distances(run, known.rows), known.sources, 0.2) for run in (OURS, other))
    sign, whole, holds = (1 if difference > 0 else -1), 0.0, 0.0
    for i, j in permutations(range(len(known.residuals)), 2):
        weight = first[i] * second[j] * (other is not OURS or known.sources[i] == known.sources[j])
        whole += weight
        holds += weight * (sign * (known.residuals[j] - known.residuals[i] + difference) > 0)
    assert held(known, OURS, other, difference) == pytest.approx(min(holds / whole, MOST), rel=1e-9)


def test_few_rows_say_nothing() -> None:
    assert (
        held(Residuals([Alike(OURS, "a", np.full(3, 3.0), np.zeros(3))], Widening(0.2, 1.0, 0.0)), OURS, OURS, 0.1)
        is None
    )


def test_what_is_stated_is_read_back() -> None:
    assert of(stated(OURS)) == OURS
