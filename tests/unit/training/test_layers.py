"""The split of layers over chunks."""

import pytest

from simulator.errors import InputError
from simulator.training.layers import split_layers


def test_layers() -> None:
    assert split_layers(96, 4, 2, None) == (12,) * 8
    assert split_layers(10, 4, 1, (2, 3, 3, 2)) == (2, 3, 3, 2)


@pytest.mark.parametrize(
    ("stages", "words"),
    [
        (None, "10 layers do not divide"),
        ((5, 5), "2 numbers"),
        ((4, 4, 1, 2), "sum to 11"),
        ((-1, 4, 4, 3), "-1 layers: a stage has 0 layers or more"),
    ],
)
def test_layers_that_do_not_divide_name_stages(stages: tuple[int, ...] | None, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        split_layers(10, 4, 1, stages)
    assert caught.value.problems[0].path == "training.stages"
    assert "write 4 numbers" in caught.value.problems[0].hint
