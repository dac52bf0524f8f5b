"""Recurrences: linear in the rows of a sequence, in whole waves where one core walks a head, steps by their states."""

from dataclasses import replace

import pytest

from simulator.cost import Device, Scan, compile_device, kernel_cost
from simulator.cost.scan import ScanCurve, scan_seconds, step_seconds
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator

CURVE = ScanCurve(
    bandwidth=3e12,
    cores=100,
    peak=1e13,
    core=1e11,
    launch=1e-5,
    block=1e-5,
    chain=0.0,
    whole=True,
    backward=3.0,
    step_launch=4e-6,
    step_bandwidth=3e12,
    known=True,
)
STATE, FLOPS = 128 * 128, 8.0 * 128 * 128


@pytest.fixture(scope="module")
def h100() -> Device:
    return compile_device(load_spec(Accelerator, "h100-sxm"))


def seconds(lengths: tuple[int, ...], heads: int, curve: ScanCurve = CURVE, backward: bool = False) -> float:
    return scan_seconds(lengths, heads, STATE, FLOPS, 0.0, curve, backward)[0]


def test_time_is_linear_in_the_rows_and_so_is_its_slope_in_the_backward_pass() -> None:
    step = FLOPS / CURVE.core
    assert seconds((1000,), 100) == pytest.approx(1e-5 + 1e-5 + 1000 * step)
    assert seconds((4000,), 100) - seconds((2000,), 100) == pytest.approx(2000 * step)
    assert seconds((2000,), 100, backward=True) - seconds((1000,), 100, backward=True) == pytest.approx(3000 * step)


def test_a_core_walks_a_whole_head_and_a_started_wave_is_a_whole_one() -> None:
    assert seconds((1000,), 1) == seconds((1000,), 100)
    assert seconds((1000,), 101) == seconds((1000,), 200) == pytest.approx(2 * seconds((1000,), 100) - 1e-5)
    spread = replace(CURVE, whole=False)
    assert seconds((1000,), 200, spread) == pytest.approx(2 * seconds((1000,), 100, spread) - 1e-5)
    assert seconds((1000,), 1, spread) < seconds((1000,), 100, spread)


def test_sequences_are_walked_beside_each_other_and_the_longest_ends_last() -> None:
    together = seconds((1000, 10), 10)
    assert seconds((1000,), 10) <= together < seconds((1000,), 10) + seconds((10,), 10)


def test_a_step_reads_and_writes_the_whole_state_of_each_sequence() -> None:
    assert step_seconds(8, 1e6, CURVE) == pytest.approx(4e-6 + 2 * 8 * 1e6 / 3e12)


def test_measured_scans_are_met(h100: Device) -> None:
    """FlashInfer's gated delta net, 64 heads x 32,768 rows: 1.522 ms; of 8 heads as long, as cores stay idle."""
    curve = h100.scan(("fused", "triton"), "delta")
    long, _, _ = scan_seconds((32_768,), 64, STATE, FLOPS, 0.0, curve)
    assert long == pytest.approx(1.522e-3, rel=0.1)
    assert scan_seconds((32_768,), 8, STATE, FLOPS, 0.0, curve)[0] == pytest.approx(1.567e-3, rel=0.1)
    assert step_seconds(512, 64 * STATE * 4.0, curve) == pytest.approx(1.4378e-3, rel=0.05)


def test_training_takes_kernels_that_have_a_backward_pass_and_estimates_say_so(h100: Device) -> None:
    work = Scan("delta", 1, 8192, 32, STATE, 32 * FLOPS, 4e4)
    fused = h100.scan(("fused",), "delta")
    assert fused.known
    assert kernel_cost(work, h100).seconds > 2 * scan_seconds((8192,), 32, STATE, FLOPS, 4e4, fused)[0]
    assert not kernel_cost(work, h100).valid
    assert kernel_cost(replace(work, kind="kda"), h100).valid
    assert not kernel_cost(replace(work, kind="kda", backward=True), h100).valid
    assert kernel_cost(replace(work, length=16384), h100).seconds < 2 * kernel_cost(work, h100).seconds
