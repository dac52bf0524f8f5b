"""Link load over time on results made by hand."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.results.link_rates import over_time, peak
from simulator.results.result import LinkLoad, Spans
from tests.factories import GB, training_result

END = training_result().spans.end.max()


def load(**by_operation: float) -> LinkLoad:
    """A link that stage 1 uses."""
    named = {name.replace("_", " "): size for name, size in by_operation.items()}
    return LinkLoad("NIC up", 1, 1e12, sum(named.values()), 0.1, named, (1,))


def test_bytes_are_spread_over_the_operations_of_the_devices_that_use_the_link() -> None:
    result = training_result(stages=2, microbatches=4)
    rates = over_time(result.spans, load(forward=4 * GB))
    spans = result.spans
    mine = (spans.name == 0) & (spans.stage == 1)
    busy = (spans.end - spans.start)[mine].sum() / 1e12
    assert all(rate in (0.0, pytest.approx(4 * GB / busy)) for rate in rates.rate.tolist())
    assert rates.time[0] == spans.start[mine].min()
    assert rates.time[-1] == spans.end[mine].max()
    assert rates.bytes == pytest.approx(4 * GB)


def test_what_runs_together_adds_up() -> None:
    result = training_result()
    one, other = load(forward=1 * GB), load(send_forward=3 * GB)
    both = over_time(result.spans, load(forward=1 * GB, send_forward=3 * GB))
    assert both.bytes == pytest.approx(4 * GB)
    assert both.rate.max() <= over_time(result.spans, one).rate.max() + over_time(result.spans, other).rate.max() + 1.0


def test_operations_that_only_others_have_are_theirs() -> None:
    rates = over_time(training_result().spans, load(reduce_gradients=2 * GB))  # on the lane of stage 0
    assert rates.bytes == pytest.approx(2 * GB)
    assert rates.time[-1] == END


def test_operations_that_nobody_runs_take_the_whole_step() -> None:
    rates = over_time(training_result().spans, load(gather_parameters=2 * GB))
    assert rates.time.tolist() == [0, END]
    assert rates.bytes == pytest.approx(2 * GB)


def test_split_backward_passes_carry_what_whole_ones_would() -> None:
    result = training_result()
    spans = replace(result.spans, names=("forward", "input gradient", *result.spans.names[2:]))
    rates = over_time(spans, load(backward=2 * GB))
    assert np.array_equal(rates.time, over_time(result.spans, load(backward=2 * GB)).time)


def test_nothing_carries_nothing() -> None:
    rates = over_time(training_result().spans, load())
    assert rates.bytes == 0.0
    assert rates.at_most(10) is rates


def test_fewer_steps_keep_the_peak() -> None:
    rates = over_time(training_result(microbatches=32).spans, load(forward=1 * GB, backward=2 * GB))
    few = rates.at_most(5)
    assert len(few.time) == 6 < len(rates.time)
    assert few.rate.max() == rates.rate.max()
    assert few.bytes >= rates.bytes


def test_the_peak_is_the_highest_rate_and_names_who_sends_then() -> None:
    spans = training_result(microbatches=32).spans
    both = load(forward=1 * GB, reduce_gradients=2 * GB)
    highest, names = peak(spans, both)
    assert highest == over_time(spans, both).rate.max()
    assert set(names) <= {"forward", "reduce gradients"}
    assert peak(spans, load()) == (0.0, ())


def test_copies_of_passes_that_are_cut_are_those_of_their_own_lane() -> None:
    """Kernels and copies of a forward pass side by side, the next pass whole: 3 GB in 1 s of copies and 2 s of pass."""
    spans = Spans(
        start=np.array([0, 0, 2], np.int64) * 10**12,
        end=np.array([2, 1, 4], np.int64) * 10**12,
        lane=np.array([0, 1, 0], np.int32),
        name=np.zeros(3, np.int32),
        stage=np.zeros(3, np.int32),
        microbatch=np.array([0, 0, 1], np.int32),
        lanes=((0, "compute"), (0, "copy")),
        names=("forward",),
    )
    of_host = replace(load(offload=3 * GB), users=(0,))
    found = over_time(spans, of_host)
    assert found.time.tolist() == [0, 10**12, 2 * 10**12, 4 * 10**12]
    assert found.rate.tolist() == [GB, 0.0, GB, 0.0]
    assert peak(spans, of_host) == (GB, ("offload",))
