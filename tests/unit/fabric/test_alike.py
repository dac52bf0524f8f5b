"""Marks of links that are asked alike."""

import tracemalloc

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simulator.fabric.alike import first_alike, marks, numbers


@given(arrays(float, st.tuples(st.integers(1, 6), st.integers(1, 40)), elements=st.sampled_from([0.0, 0.5, 1.0, 7e9])))
def test_marks_tell_links_apart_as_a_table_of_all_values_does(table: np.ndarray) -> None:
    _, first, number = np.unique(table, axis=1, return_index=True, return_inverse=True)
    found = marks(table, table.shape[1])
    assert first_alike(found).tolist() == np.sort(first).tolist()
    assert (np.equal.outer(found, found) == np.equal.outer(number.ravel(), number.ravel())).all()
    assert (np.equal.outer(found, found) == np.equal.outer(numbers(found), numbers(found))).all()


def test_the_same_value_in_another_row_is_another_mark() -> None:
    assert len(set(marks([np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 2.0])], 3).tolist())) == 3


def test_rounding_errors_and_the_sign_of_zero_tell_nothing_apart() -> None:
    first, second = marks([np.array([1e9, 1e9 + 1e-6]), np.array([0.0, -0.0])], 2).tolist()
    assert first == second


def test_memory_does_not_grow_with_those_who_send() -> None:
    """A row of each of hundreds who send never stands beside those of the others."""
    links, senders = 20_000, 200
    tracemalloc.start()
    marks((np.full(links, float(number)) for number in range(senders)), links)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 * 8 * links < 8 * links * senders
