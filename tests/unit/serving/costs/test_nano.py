"""Nano-batches beside each other against times worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.serving.costs.lanes import COMPUTE, NETWORK, Placed
from simulator.serving.costs.nano import LAID_OUT, MEMORY, NanoBatch, Shares, laid_out, layers, shared_ends
from tests.unit.serving.costs.test_overlap import replica

SHARES = Shares(0.4, 0.2)
SECONDS = st.floats(0.0, 10.0)
NANO = st.builds(NanoBatch, SECONDS, SECONDS, SECONDS, SECONDS, st.tuples(st.tuples(SECONDS, SECONDS)))


def test_alone_a_kernel_has_the_device() -> None:
    assert shared_ends([Placed(MEMORY, 2.0), Placed(NETWORK, 3.0, (0,)), Placed(COMPUTE, 1.0, (1,))], SHARES) == [
        2,
        5,
        6,
    ]


def test_a_product_beside_decode_attention() -> None:
    """On 0.6 and 0.4 of the device: rates of 0.6 and of 0.3 + 0.55 / 3; then the longer one has all of it."""
    ends = shared_ends([Placed(COMPUTE, 1.0), Placed(MEMORY, 1.0)], SHARES)
    reading = 0.3 + 0.55 / 3
    assert ends[0] == pytest.approx(1 / 0.6)
    assert ends[1] == pytest.approx(1 / 0.6 + 1.0 - reading / 0.6)


def test_reading_beside_sending_takes_what_sending_leaves() -> None:
    assert SHARES.rates((MEMORY, NETWORK)) == pytest.approx({MEMORY: 0.85, NETWORK: 0.5})
    assert SHARES.rates((COMPUTE, MEMORY, NETWORK)) == pytest.approx(
        {COMPUTE: 0.4, MEMORY: 0.3 + 0.55 / 3, NETWORK: 0.5}
    )


def test_one_nano_batch_is_its_operations_one_by_one() -> None:
    alone = NanoBatch(1.0, 2.0, 3.0, 4.0, ((5.0, 6.0),))
    assert laid_out([alone], 1, SHARES) == pytest.approx(21.0)
    assert laid_out([alone], 80, SHARES) == pytest.approx(80 * 21.0)


def test_layers_that_are_not_laid_out_last_as_long_as_the_last_one() -> None:
    two = [NanoBatch(1.0, 2.0, 3.0, 1.0, ((5.0, 1.0),)), NanoBatch(1.5, 1.0, 3.0, 1.0, ((5.0, 1.0),))]
    assert laid_out(two, 30, SHARES) == pytest.approx(max(shared_ends(layers(two, 30), SHARES)), rel=1e-6)
    assert laid_out(two, LAID_OUT, SHARES) == max(shared_ends(layers(two, LAID_OUT), SHARES))


@given(NANO, NANO, st.integers(1, 6))
def test_never_below_the_work_of_a_lane_nor_above_one_by_one(first: NanoBatch, second: NanoBatch, count: int) -> None:
    placed = layers([first, second], count)
    lasts = max(shared_ends(placed, SHARES))
    lanes = [sum(one.seconds for one in placed if one.lane == lane) for lane in (COMPUTE, MEMORY, NETWORK)]
    assert max(lanes) * (1 - 1e-6) <= lasts <= count * (first.serial + second.serial) * (1 + 1e-6)


def test_a_large_batch_gains_and_a_small_one_reads_its_weights_twice() -> None:
    nano, serial = (replica(batches=name).stages[0] for name in ("nano", "nano-serial"))
    assert nano.saved(4096, 0) > 0 > serial.saved(4096, 0)
    assert nano.saved(16, 0) < 0
    attention = nano.parts(4096, 1)["linear"] // 4
    assert nano.saved(4096, attention, None, attention) > nano.saved(4096, 0)
    assert nano.overlap is not None and nano.overlap.saved(1, 0) == 0


def test_whose_rates_they_are_is_said() -> None:
    assert any("NanoFlow" in text for text in replica(batches="nano").assumptions)
    assert not any("NanoFlow" in text for text in replica(batches="nano-serial").assumptions)
