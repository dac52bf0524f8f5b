"""Streams of random numbers: named, reproducible, independent of each other."""

import numpy as np
import pytest

from simulator.random import stream


def test_a_name_and_a_seed_give_the_same_numbers() -> None:
    assert stream(7, "arrivals").random(5).tolist() == stream(7, "arrivals").random(5).tolist()


@pytest.mark.parametrize(("seed", "name"), [(8, "arrivals"), (7, "arrival"), (7, "prompts"), (7, "")])
def test_another_name_or_seed_gives_other_numbers(seed: int, name: str) -> None:
    first, other = stream(7, "arrivals").random(10_000), stream(seed, name).random(10_000)
    assert not np.isin(first, other).any()
    assert abs(np.corrcoef(first, other)[0, 1]) < 0.04


def test_it_is_a_child_of_the_seed_sequence_with_the_name_as_its_key() -> None:
    child = np.random.SeedSequence(3, spawn_key=tuple(b"think"))
    assert stream(3, "think").random() == np.random.Generator(np.random.PCG64(child)).random()
