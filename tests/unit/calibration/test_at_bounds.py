"""Numbers at a bound of their search."""

import pytest

from benchmarks.bounds import MARKS, lines, why
from benchmarks.validation import PAGE, written
from simulator.calibration.at_bounds import AtBound, at_bounds, near
from simulator.calibration.fitting import Parameter


@pytest.mark.parametrize(
    ("value", "found"), [(1e-6, True), (1.02e-6, True), (2e-6, False), (9.9e-5, True), (1e-3, True), (0.0, True)]
)
def test_near_in_the_scale_of_the_fit(value: float, found: bool) -> None:
    assert near(value, Parameter(1e-5, 1e-6, 1e-4)) == found


def test_every_number_at_a_bound_is_listed_once_and_explained() -> None:
    found = at_bounds()
    names = [(one.profile, one.coefficient) for one in found]
    assert len(set(names)) == len(names)
    assert ("tensorrt-llm", "iteration_overhead") in names
    assert ("h100-sxm", "gemm.bf16.launch") not in names
    assert [one for one in found if not why(one)] == []
    assert len(lines()) == len(found) + 5


def test_the_page_lists_the_numbers_as_they_are_shipped() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert written(page, *MARKS, lines()) == page, "run `python -m benchmarks.bounds`"


def test_ends() -> None:
    assert AtBound("a", "b", 0.99, 0.0, 1.0).end == "upper"
    assert AtBound("a", "b", 0.0, 0.0, 1.0).end == "lower"
