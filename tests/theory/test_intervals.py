"""Intervals from residuals of sources that err alike: what they hold of sources that nobody has seen."""

import numpy as np
import pytest

from simulator.results.spread import LEVEL
from simulator.run.spread.conformal import FAR, REACHES, Floats, Ints, Widening, calibrated, quantiles, widened

NONE: Ints = np.zeros(0, np.int64)


def _sources(rng: np.random.Generator, number: int, rows: int) -> tuple[Floats, Ints]:
    """Rows with a bias of their source (8 %) and noise of their own (4 %)."""
    bias = np.repeat(rng.normal(0.0, 0.08, number), rows)
    return bias + rng.normal(0.0, 0.04, number * rows), np.repeat(np.arange(number), rows)


def _held(seen: Floats, sources: Ints, by: Widening, unseen: Floats, distance: float = 0.0) -> float:
    found = quantiles(seen, np.full(len(seen), distance), sources, by.reach)
    low, high = widened(found, by)
    return float(((unseen >= low) & (unseen <= high)).mean())


def test_equal_rows_of_one_source_give_plain_quantiles() -> None:
    values = np.linspace(-1.0, 1.0, 2_001)
    found = quantiles(values, np.zeros(2_001), np.zeros(2_001, np.int64), 0.5)
    assert found.low == pytest.approx(-LEVEL, abs=1e-3)
    assert found.middle == pytest.approx(0.0, abs=1e-9)
    assert found.high == pytest.approx(LEVEL, abs=1e-3)


def test_unseen_sources_are_held_as_often_as_asked() -> None:
    rng = np.random.default_rng(7)
    shares = []
    for _ in range(12):
        seen, sources = _sources(rng, 24, 12)
        by = calibrated(seen, sources, lambda _: np.zeros(24 * 12))
        assert by is not None
        unseen, _ = _sources(rng, 200, 5)
        shares.append(_held(seen, sources, by, unseen))
    assert 0.75 < np.mean(shares) < 0.85


def test_five_sources_hold_as_much_on_average_but_not_each_time() -> None:
    """What peak memory has: one draw of five sources may hold far less of the next ones, or all of them."""
    rng = np.random.default_rng(7)
    shares = []
    for _ in range(20):
        seen, sources = _sources(rng, 5, 12)
        by = calibrated(seen, sources, lambda _: np.zeros(60))
        assert by is not None
        assert by.reach == REACHES[-1]
        shares.append(_held(seen, sources, by, _sources(rng, 100, 5)[0]))
    assert 0.72 < np.mean(shares) < 0.88
    assert np.std(shares) > 0.08


def test_a_large_source_counts_by_the_root_of_its_rows() -> None:
    """100 rows at 0.3 against 4 sources of one row at 0: weights 10 and 4, so the median is 0.3."""
    residuals = np.r_[np.full(100, 0.3), np.zeros(4)]
    sources = np.r_[np.zeros(100, np.int64), 1 + np.arange(4)]
    found = quantiles(residuals, np.zeros(104), sources, 1.0)
    assert found.middle == pytest.approx(0.3, abs=0.01)
    assert found.low == pytest.approx(0.0, abs=0.01)


def test_near_rows_decide() -> None:
    residuals, distances = np.array([0.0] * 10 + [1.0] * 10), np.array([0.0] * 10 + [3.0] * 10)
    found = quantiles(residuals, distances, np.repeat([0, 1], 10), 0.25)
    assert found.high < 0.1
    assert found.distance < 0.01


def test_distance_widens() -> None:
    residuals, sources = np.linspace(-0.1, 0.1, 20), np.repeat([0, 1], 10)
    by = Widening(0.25, 1.0, 1.0)
    near, far, farther = (widened(quantiles(residuals, np.full(20, d), sources, 0.25), by) for d in (0.0, FAR, 3.0))
    assert far[1] - far[0] == pytest.approx((1 + FAR) * (near[1] - near[0]))
    assert farther == pytest.approx(far)


def test_runs_that_nobody_had_seen_get_intervals_as_wide_as_they_err() -> None:
    """Known sources err by 3 %, those found later by 30 %: each is held by its own widening, not by the other's."""
    rng = np.random.default_rng(5)
    sources = np.repeat(np.arange(60), 10)
    unseen = sources >= 30
    residuals = np.where(unseen, 0.3, 0.03) * rng.normal(size=600)
    by = [calibrated(residuals, sources, lambda _: np.zeros(600), None, unseen, asked) for asked in (False, True)]
    known, found = by
    assert known is not None and found is not None
    ends = [
        widened(quantiles(residuals, np.zeros(600), sources, w.reach, unseen != u), w)
        for w, u in zip(by, (False, True), strict=True)
        if w
    ]
    (low, high), (lower, higher) = ends
    assert higher - lower > 3 * (high - low)
    fresh = rng.normal(size=4000)
    assert np.mean((0.03 * fresh >= low) & (0.03 * fresh <= high)) == pytest.approx(0.8, abs=0.07)
    assert np.mean((0.3 * fresh >= lower) & (0.3 * fresh <= higher)) == pytest.approx(0.8, abs=0.07)


def test_a_few_large_sources_do_not_stand_for_strangers() -> None:
    """Four sources of 20 rows err by 10 %, 20 of two by 30 %: a stranger is one of 24 sources, not of 120 rows."""
    rows = [20] * 4 + [2] * 20
    sources, scale = np.repeat(np.arange(24), rows), np.repeat([0.1] * 4 + [0.3] * 20, rows)
    shares = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        residuals, strangers = scale * rng.normal(size=120), 0.3 * rng.normal(size=4000)
        by_rows = calibrated(residuals, sources, lambda _: np.zeros(120))
        by_sources = calibrated(residuals, sources, lambda _: np.zeros(120), None, np.ones(120, bool), True)
        assert by_rows is not None and by_sources is not None
        assert 0.75 <= by_rows.coverage <= by_sources.coverage < 0.9
        shares.append([_held(residuals, sources, by, strangers) for by in (by_rows, by_sources)])
    few, most = np.mean(shares, axis=0)
    assert most > few + 0.08 and most > 0.55


def test_one_source_says_nothing_of_others() -> None:
    assert calibrated(np.zeros(20), np.zeros(20, np.int64), lambda _: np.zeros(20)) is None
