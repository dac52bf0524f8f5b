"""A stretch in closed form, against its iterations one by one."""

from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from simulator.serving.replica.fast_forward import DecodeLine, Stretch
from tests.replicas import Price


@given(st.integers(1, 40), st.integers(1, 9), st.integers(0, 4), st.integers(0, 500))
def test_boundaries_are_those_of_the_iterations(count: int, first: int, growth: int, later: int) -> None:
    stretch = Stretch()
    stretch.start, stretch.count, stretch.first, stretch.growth = 1000, count, first, growth
    ends = list(accumulate(first + i * growth for i in range(count)))
    assert [stretch.lasts(i + 1) for i in range(count)] == ends
    later = min(later, ends[-1])
    assert stretch.done_by(1000 + later) == sum(end <= later for end in ends)
    assert stretch.boundary(1000 + later) == max(1, sum(end < later for end in ends) + 1)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 9), st.integers(0, 500))
def test_boundaries_where_iterations_grow_unevenly(steps: list[int], first: int, later: int) -> None:
    stretch, more = Stretch(), list(accumulate([0, *steps[1:]]))
    stretch.begin(1000)
    stretch.first, stretch.count = first, len(more)
    stretch.bend(np.array(more))
    ends = list(accumulate(first + each for each in more))
    assert [stretch.lasts(i) for i in range(len(more) + 1)] == [0, *ends]
    assert [stretch.nth(i) for i in range(len(more))] == [first + each for each in more]
    later = min(later, ends[-1])
    assert stretch.done_by(1000 + later) == sum(end <= later for end in ends)
    assert stretch.boundary(1000 + later) == max(1, sum(end < later for end in ends) + 1)


def test_the_line_bends_where_the_curve_does() -> None:
    line = DecodeLine()
    curve = Price(read=2, edge=100, base=7)
    ticks = [line.at(curve, 3, context) for context in (50, 100, 101)]  # type: ignore[arg-type]
    assert ticks == [107, 207, 10 + 4 * 101]
    assert (line.sequences, line.base, line.slope) == (3, 10, 4)
