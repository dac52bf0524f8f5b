"""Arguments of the Python interface in the form of the command line."""

from typing import Any

import numpy as np
import pytest

from simulator.api.arguments import flag, listed, whole
from simulator.errors import InputError

KEY = "training.micro_batch"


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ([1, 2], "1,2"),
        (np.array([1, 2]), "1,2"),
        (range(3), "0,1,2"),
        ("1,2", "1,2"),
        (["1 ms", "a: b"], '1 ms,"a: b"'),
        ([None, True], "null,true"),
        ([""], '""'),
    ],
)
def test_values_are_written_as_they_are_typed(row: Any, text: str) -> None:
    assert listed("axes", {KEY: row}) == (f"{KEY}={text}",)


@pytest.mark.parametrize("row", [3, np.array(3), np.int64(3), {"a": 1}, b"1", None])
def test_what_is_no_list_of_values_is_refused(row: Any) -> None:
    with pytest.raises(InputError, match="is no list of values") as caught:
        listed("axes", {KEY: row})
    assert "put it into a list" in str(caught.value)


def test_a_list_without_values_is_refused() -> None:
    with pytest.raises(InputError, match="lists no values"):
        listed("axes", {KEY: []})


@pytest.mark.parametrize("value", [0, -1, 1_000_001, True, 1.0, "2", None])
def test_whole_numbers_from_one_to_a_million(value: Any) -> None:
    assert (whole("jobs", 1), whole("jobs", np.int64(1_000_000))) == (1, 1_000_000)
    with pytest.raises(InputError, match="no whole number from 1 to 1,000,000"):
        whole("jobs", value)


def test_flags() -> None:
    flag("fold", None)
    flag("fold", False)
    with pytest.raises(InputError, match="neither true nor false"):
        flag("fold", 0)
