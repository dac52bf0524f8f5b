"""Attention over a cache as the larger of two lines."""

from dataclasses import replace

import pytest

from simulator.cost import Decode, compile_device, kernel_cost, seconds
from simulator.cost.decode import DecodeCurve, decode_lines, decode_seconds
from simulator.specs import load_spec, names
from simulator.specs.hardware import Accelerator

PLAIN = DecodeCurve(
    peak=1e12,
    arithmetic=1e15,
    bandwidth=0.8e12,
    narrow=0.6e12,
    core=1e10,
    cores=100,
    launch=1e-5,
    gather=5e-6,
    sequence=1e-8,
    block=2e-8,
    overlap=0.5,
    cuts_all=False,
    write=5e11,
    write_token=1e-9,
    query=5e11,
    reread=4e12,
)
TOKEN = 2 * 8 * 128 * 2.0
FLOPS = 4 * 32 * 128.0


def lines(
    sequences: int = 1, group: float = 4.0, grouped: bool = True, **changes: float
) -> tuple[tuple[float, float], ...]:
    return decode_lines(sequences, 8, group, TOKEN, FLOPS, False, grouped, replace(PLAIN, **changes))


def test_one_sequence_costs_launch_and_gathering() -> None:
    floor, stream = lines()
    assert floor == pytest.approx((1.501e-5, 0.0))
    assert stream == pytest.approx((1.5005e-5, TOKEN / 0.8e12))


def test_blocks_beyond_the_cores_wait() -> None:
    floor, stream = lines(sequences=100)
    assert floor[0] == pytest.approx(1.5e-5 + 100e-8 + 700 * 2e-8)
    assert stream[0] == pytest.approx(1.5e-5 + 0.5 * (100e-8 + 700 * 2e-8))


def test_heads_of_their_own_are_not_cut() -> None:
    _, (base, slope) = lines(group=1.0)
    assert base == pytest.approx(1e-5 + 0.5e-8)
    assert slope == pytest.approx(TOKEN / (8 * 1e10))
    assert lines(group=1.0, cuts_all=True)[1][1] == pytest.approx(TOKEN / 0.8e12)


def test_kernels_that_read_again_pay_for_it() -> None:
    assert lines(group=9.0, grouped=False, core=1e12)[1][1] == pytest.approx(9 / 4e12 * TOKEN)
    assert lines(group=9.0, grouped=False, core=1e12, reread=3e12)[1][1] == pytest.approx(9 / 3e12 * TOKEN)
    assert lines(group=2.0, grouped=False, core=1e12)[1][1] == pytest.approx(TOKEN / 0.8e12)


def test_slow_arithmetic_is_a_roof() -> None:
    assert lines(arithmetic=1e9)[1][1] == pytest.approx(FLOPS / 1e9)


def test_eight_bits_have_a_rate_of_their_own() -> None:
    time = decode_seconds(1, 1e6, 8, 4.0, TOKEN / 2, FLOPS, True, True, PLAIN)
    assert time == pytest.approx(1.5005e-5 + 1e6 * TOKEN / 2 / 0.6e12)


@pytest.mark.parametrize(("name", "milliseconds"), [("a100-sxm-80gb", 0.1927), ("h100-sxm", 0.1035)])
def test_near_what_was_measured(name: str, milliseconds: float) -> None:
    """64 sequences of 1,024 tokens, 32 (A100) and 8 (H100) heads, 8 key heads, in the fitted tables."""
    device = compile_device(load_spec(Accelerator, name))
    heads = 32 if name.startswith("a100") else 8
    assert seconds(Decode(64, 64 * 1024, heads, 8, 128), device) == pytest.approx(milliseconds * 1e-3, rel=0.12)


def test_the_price_says_what_binds() -> None:
    device = compile_device(load_spec(Accelerator, "h100-sxm"))
    assert kernel_cost(Decode(64, 64 * 4096, 32, 8, 128), device).bound == "memory"
    assert kernel_cost(Decode(1, 64, 32, 8, 128), device).bound == "latency"
    assert not kernel_cost(Decode(1, 64, 32, 8, 512), device).valid


def test_keys_are_read_again_at_the_rate_of_the_devices_own_cache() -> None:
    rates = {name: compile_device(load_spec(Accelerator, name)).decode.reread for name in names(Accelerator)}
    assert rates["a100-sxm-80gb"] == pytest.approx(4.5e12, rel=0.01)
    assert rates["h100-sxm"] == pytest.approx(4.5e12, rel=0.01)
    assert rates["a40"] < rates["a100-sxm-80gb"] < rates["b200"]
    for name, rate in rates.items():
        assert rate >= load_spec(Accelerator, name).memory.bandwidth.value, name
