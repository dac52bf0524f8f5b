"""Rows in few bytes are the same rows."""

import pickle
from dataclasses import fields

import numpy as np
import pytest

from simulator.results.result import Iterations
from simulator.results.serving import iterations as of
from simulator.results.serving import packed
from simulator.results.serving.packed import PackedIterations, narrowed
from simulator.serving.replica import record
from simulator.serving.replica.record import COLUMNS, Record

RANDOM = np.random.default_rng(18)
NAMES = [column.name for column in fields(Iterations)]


def _rows(count: int) -> np.ndarray:
    """Rows of a log of which some numbers need 8, 16, 32 and 64 bits."""
    rows = RANDOM.integers(0, [200, 60000, 2**31, 2**40, 9, 70000, 2, 2**33, 300, 5, 3], (count, COLUMNS))
    rows[:, 0] = np.cumsum(rows[:, 2])
    rows[:, packed.COUNT] = RANDOM.integers(1, 4, count)
    return rows


def _plain(rows: np.ndarray, mean: np.ndarray, last: np.ndarray) -> Iterations:
    means, lasts = rows[:, 8].astype(np.float64), rows[:, 8].copy()
    means[rows[:, 1] > 1], lasts[rows[:, 1] > 1] = mean, last
    none = np.zeros(len(rows), np.int64)
    return Iterations(*rows.T[:10], none, means, lasts, none)


def _made(monkeypatch: pytest.MonkeyPatch, count: int, part: int) -> tuple[Iterations, PackedIterations]:
    monkeypatch.setattr(packed, "PACKED", part)
    rows = _rows(count)
    several = int((rows[:, 1] > 1).sum())
    mean, last = RANDOM.random(several) * 300, RANDOM.integers(0, 300, several)
    parts, before = [], 0
    for first in range(0, count, part):
        some = rows[first : first + part]
        after = before + int((some[:, 1] > 1).sum())
        parts.append(narrowed(some, mean[before:after], last[before:after]))
        before = after
    return _plain(rows, mean, last), PackedIterations(parts)


@pytest.mark.parametrize(("count", "part"), [(0, 8), (1, 8), (8, 8), (1000, 64), (1000, 1000)])
def test_columns_are_what_was_packed(monkeypatch: pytest.MonkeyPatch, count: int, part: int) -> None:
    """Every column, as 64 bits; so is what is pickled."""
    plain, rows = _made(monkeypatch, count, part)
    for made in (rows, pickle.loads(pickle.dumps(rows))):
        for name in NAMES:
            wanted, found = getattr(plain, name), getattr(made, name)
            assert found.dtype == wanted.dtype and np.array_equal(found, wanted), name


def test_figures_are_those_of_plain_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths, gaps and tokens, some rows at a time."""
    plain, rows = _made(monkeypatch, 1000, 64)
    monkeypatch.setattr(of, "PART", 256)
    assert [(here, len(some.count)) for here, some in of.pieces(rows)][-1] == (slice(768, 1000), 232)
    assert np.array_equal(of.lengths(plain), of.lengths(rows))
    says = RANDOM.random(1000) < 0.5
    none = of.TokenGaps(np.zeros(0, np.int64), np.zeros(0, np.int64))
    gaps = [of.RowGaps(none, [(one, says)]) for one in (plain, rows)]
    assert np.array_equal(gaps[0].gap, gaps[1].gap) and np.array_equal(gaps[0].count, gaps[1].count)
    bins = [of.tokens_per_bin(one, 0, 1 << 40, 9) for one in (plain, rows)]
    assert bins[0].any() and np.array_equal(*bins)


def test_numbers_take_the_bytes_that_they_need() -> None:
    """And those that need 64 bits have them, the least and the greatest too."""
    rows = np.zeros((2, COLUMNS), np.int64)
    rows[1] = [2**62, 1, 2**40, 2**31, 255, 256, -1, -(2**62), 2**16, 2**32 - 1, 0]
    part = narrowed(rows, np.zeros(0), np.zeros(0, np.int64))
    assert [column.dtype.itemsize for column in part.columns] == [8, 1, 8, 4, 1, 2, 1, 8, 4, 4, 1]
    assert np.array_equal(part.table(), rows.T)


def test_a_record_packs_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows go to parts as many at a time as a part has, the rest when it is asked for, each with its use of blocks."""
    monkeypatch.setattr(record, "PACKED", 10)
    own, rows = Record(16), _rows(25)
    several = rows[:, 1] > 1
    own.log.frombytes(rows.tobytes())
    own.usage.mean.extend((rows[several, 8] + 0.5).tolist())
    own.usage.last.extend((rows[several, 8] + 1).tolist())
    own.pack(True, 10)
    assert [len(part.columns[0]) for part in own.parts] == [10, 10] and len(own.log) == 5 * COLUMNS
    own.pack(True, 1)
    assert not own.log and not own.usage.mean and len(own.parts) == 3
    made = PackedIterations(own.parts)
    assert np.array_equal(made.start, rows[:, 0])
    assert np.array_equal(made.mean_blocks, rows[:, 8] + 0.5 * several)
    assert np.array_equal(made.last_blocks, rows[:, 8] + several)
