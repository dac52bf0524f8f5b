"""Layouts on lanes against times worked out by hand: never less than a lane's work, never more than one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.serving.costs.lanes import (
    COMPUTE,
    NETWORK,
    Placed,
    Segment,
    in_turns,
    makespan,
    one_late,
    sent_in_steps,
    taken_in_steps,
)

SECONDS = st.floats(0.0, 10.0)
SEGMENTS = st.lists(st.builds(Segment, SECONDS, SECONDS), min_size=1, max_size=6)


def test_a_lane_works_in_order_and_operations_wait_for_what_they_name() -> None:
    assert makespan([]) == 0.0
    assert makespan([Placed(COMPUTE, 2.0), Placed(NETWORK, 3.0), Placed(COMPUTE, 1.0)]) == 3.0
    assert makespan([Placed(COMPUTE, 2.0), Placed(NETWORK, 3.0, (0,)), Placed(COMPUTE, 1.0, (1,))]) == 6.0


@pytest.mark.parametrize(("kernels", "collective", "lasts"), [(4.0, 1.0, 17.0), (1.0, 4.0, 17.0), (3.0, 3.0, 15.0)])
def test_one_late(kernels: float, collective: float, lasts: float) -> None:
    """Four blocks: the longer of the two four times, and once the shorter, at one end or the other."""
    assert makespan(one_late([Segment(kernels, collective)] * 4)) == lasts


@pytest.mark.parametrize(("kernels", "collective", "lasts"), [(4.0, 1.0, 33.0), (1.0, 4.0, 33.0), (2.0, 2.0, 18.0)])
def test_halves_by_turns(kernels: float, collective: float, lasts: float) -> None:
    """Four segments of two halves: eight times the longer of the two, and once the shorter."""
    half = Segment(kernels, collective)
    assert makespan(in_turns([(half, half)] * 4)) == lasts


def test_a_half_waits_for_its_own_collective() -> None:
    long, short = Segment(1.0, 6.0), Segment(1.0, 0.0)
    assert makespan(in_turns([(long, short), (long, short)])) == 1.0 + 6.0 + 1.0 + 6.0


@pytest.mark.parametrize(
    ("product", "collective", "lasts"), [(8.0, 3.0, 8.0), (8.0, 6.0, 8.0), (8.0, 9.0, 11.0), (4.0, 12.0, 13.0)]
)
def test_a_product_in_four_steps(product: float, collective: float, lasts: float) -> None:
    """Three of four parts travel: hidden unless they take longer than three parts of the product."""
    assert makespan(sent_in_steps(product, collective, 4)) == lasts
    assert makespan(taken_in_steps(product, collective, 4)) == lasts


@given(SEGMENTS, SEGMENTS)
def test_no_layout_beats_a_lane_or_loses_to_one_by_one(first: list[Segment], second: list[Segment]) -> None:
    pairs = list(zip(first, second, strict=False))
    for segments, laid in ((first, one_late(first)), ([each for pair in pairs for each in pair], in_turns(pairs))):
        lasts = makespan(laid)
        least = max(sum(one.kernels for one in segments), sum(one.collective for one in segments))
        assert least - 1e-9 <= lasts <= sum(one.serial for one in segments) + 1e-9


@given(SECONDS, SECONDS, st.integers(2, 9))
def test_steps_hide_at_most_all_and_at_least_nothing(product: float, collective: float, steps: int) -> None:
    for layout in (sent_in_steps, taken_in_steps):
        lasts = makespan(layout(product, collective, steps))
        assert max(product, collective + product / steps) - 1e-9 <= lasts <= product + collective + 1e-9
