"""Blocks in use over stretches, against every iteration on its own."""

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from simulator.serving.replica.caches import usage
from simulator.serving.replica.caches.usage import Usage

STRETCHES = st.lists(
    st.tuples(
        st.integers(2, 90),
        st.integers(1, 10**9),
        st.integers(0, 10**4),
        st.integers(0, 500),
        st.integers(0, 1000),
        st.lists(st.integers(0, 9), min_size=5, max_size=5),
    ),
    max_size=6,
)


def one_by_one(
    count: int, first: int, growth: int, used: int, iteration: int, counts: list[int]
) -> tuple[float, int, int]:
    """(blocks x ticks, ticks, blocks when the last iteration begins)."""
    area = ticks = 0
    for step in range(count):
        area += used * (first + step * growth)
        ticks += first + step * growth
        last = used
        used += counts[-(iteration + step) % len(counts)]
    return area, ticks, last


@given(STRETCHES)
def test_stretches_hold_what_their_iterations_hold(stretches: list[tuple[int, int, int, int, int, list[int]]]) -> None:
    found = Usage(5)
    for stretch in stretches:
        found.note(*stretch)
    found.settle()
    expected = [one_by_one(*stretch) for stretch in stretches]
    assert list(found.mean) == approx([area / ticks for area, ticks, _ in expected], rel=1e-12)
    assert list(found.last) == [last for *_, last in expected]


def test_many_stretches_are_summed_up_on_the_way() -> None:
    found = Usage(4)
    for _ in range(usage.MOST // 4 + 3):
        found.note(3, 10, 1, 7, 5, [1, 0, 2, 0])
    assert len(found.mean) == usage.MOST // 4
    found.settle()
    assert len(found.mean) == usage.MOST // 4 + 3 and len(set(found.mean)) == 1
