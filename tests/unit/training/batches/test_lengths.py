"""Lengths that are listed, read and drawn."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.specs.batching import Batching
from simulator.specs.training import Documents, Training
from simulator.training.batches import lengths
from simulator.training.batches.lengths import pairs, read_lengths

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> str:
        path = tmp_path / "lengths.csv"
        path.write_text(text)
        return str(path)

    return written


def training(documents: Any, policy: str = "pad", **more: Any) -> Training:
    given = Documents.model_validate(documents)
    batching = Batching.model_validate({"policy": policy, **more.pop("batching", {})})
    return Training(global_batch=4, sequence_length=100, documents=given, batching=batching, **more)


def test_lengths_of_a_file_come_in_their_order(write: Write) -> None:
    assert read_lengths(write("tokens\n5\n\n7\n"), False) == [(5, 0), (7, 0)]
    assert read_lengths(write("5,50\n7, 70\n"), True) == [(5, 50), (7, 70)]
    assert read_lengths(write("5,50\n"), False) == [(5, 0)]
    assert list(pairs(training({"trace": write("5\n7")}), 0)) == [(5, 0), (7, 0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no lengths"),
        ("tokens\n", "holds no lengths"),
        ("5\n-3\n", "line 2 `-3` is no number of tokens"),
        ("5\n0\n", "line 2 `0` is no number of tokens"),
        ("5\n7.5\n", "line 2 `7.5` is no number of tokens"),
    ],
)
def test_a_file_without_lengths_is_refused(write: Write, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_lengths(write(text), False)


def test_an_encoder_needs_two_numbers(write: Write) -> None:
    with pytest.raises(InputError, match="line 1 has one number"):
        read_lengths(write("5\n"), True)


def test_a_file_that_is_not_there_is_refused() -> None:
    with pytest.raises(InputError, match=r"there is no file `nowhere\.csv`"):
        read_lengths("nowhere.csv", False)


def test_a_sequence_longer_than_the_context_is_refused() -> None:
    with pytest.raises(InputError, match="a sequence of 101 tokens is longer than the context, `sequence_length` 100"):
        list(pairs(training([50, 101]), 0))
    assert list(pairs(training([50, 101], policy="cut"), 0)) == [(50, 0), (101, 0)]


def test_a_sequence_longer_than_the_encoders_context_is_refused() -> None:
    more = {"encoder_sequence_length": 10, "encoder_documents": Documents.model_validate(11)}
    with pytest.raises(InputError, match="11 tokens is longer than the context, `encoder_sequence_length` 10"):
        next(pairs(training({"fixed": 5}, **more), 0))


def test_drawing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lengths, "MOST", 10)
    with pytest.raises(InputError, match="more than 10 sequences for one step"):
        list(pairs(training({"fixed": 5}), 0))


def test_a_seed_draws_the_same_lengths() -> None:
    given = training({"uniform": [1, 100]})
    first, again, other = (list(islice(pairs(given, seed), 50)) for seed in (0, 0, 1))
    assert first == again != other
    assert all(1 <= length <= 100 for length, _ in first)


@pytest.mark.parametrize("correlation", [-0.8, 0.0, 0.9])
def test_lengths_of_encoder_and_decoder_are_tied_by_rank(correlation: float) -> None:
    more = {"encoder_sequence_length": 1000, "encoder_documents": Documents.model_validate({"uniform": [1, 1000]})}
    given = training({"uniform": [1, 100]}, batching={"correlation": correlation}, **more)
    found = np.array(list(islice(pairs(given, 0), 4000)), np.float64).argsort(axis=0).argsort(axis=0)
    assert np.corrcoef(found.T)[0, 1] == pytest.approx(correlation, abs=0.05)
