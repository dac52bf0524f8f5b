"""Zero bubble with one copy of the model: orders by hand, and what is refused."""

import pytest

from simulator.errors import InputError
from simulator.program.validate import validate
from simulator.training.schedules import Maker, Pipeline, zb_h1, zb_h2
from tests.orders import lines


def test_zb_h1_delays_weights_by_the_rank() -> None:
    assert lines(zb_h1(Pipeline(3, 1, 4))) == [
        "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3",
        "1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1I3 1W2 1W3",
        "2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2W2 2W3",
    ]


def test_zb_h2_delays_weights_by_twice_the_rank() -> None:
    assert lines(zb_h2(Pipeline(2, 1, 4))) == [
        "0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3",
        "1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3",
    ]


def test_interleaved_zero_bubble() -> None:
    assert lines(zb_h1(Pipeline(2, 2, 2))) == [
        "0F0 0F1 2F0 2F1 2I0 2W0 2I1 2W1 0I0 0W0 0I1 0W1",
        "1F0 1F1 3F0 3I0 3F1 3I1 3W0 1I0 3W1 1I1 1W0 1W1",
    ]


@pytest.mark.parametrize("maker", [zb_h1, zb_h2])
@pytest.mark.parametrize(("ranks", "microbatches"), [(1, 1), (1, 5), (4, 1), (4, 3), (5, 9), (8, 7)])
def test_sound_with_few_microbatches_too(maker: Maker, ranks: int, microbatches: int) -> None:
    validate(maker(Pipeline(ranks, 1, microbatches)))


@pytest.mark.parametrize(("ranks", "chunks", "microbatches"), [(2, 2, 4), (4, 3, 8), (3, 2, 9)])
def test_sound_with_several_chunks(ranks: int, chunks: int, microbatches: int) -> None:
    validate(zb_h1(Pipeline(ranks, chunks, microbatches)))


def test_refusals() -> None:
    with pytest.raises(InputError, match="`zb-h2` runs one chunk a rank, not 2; write `zb-h1`"):
        zb_h2(Pipeline(4, 2, 8))
    with pytest.raises(InputError, match="`zb-h1` moves microbatches in groups of 4"):
        zb_h1(Pipeline(4, 2, 9))
