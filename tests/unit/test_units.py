"""Quantities: what is read, what is refused and with which words, and what is printed."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from simulator import units


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("80 GB", "bytes", 80e9),
        ("80GB", "bytes", 80e9),
        ("  40 MiB ", "bytes", 40 * 2**20),
        ("16 KB", "bytes", 16e3),
        ("1e3 GiB", "bytes", 1e3 * 2**30),
        ("5EB", "bytes", 5e18),
        ("200 Gbit/s", "bandwidth", 25e9),
        ("200 Gbps", "bandwidth", 25e9),
        ("200 Gb/s", "bandwidth", 25e9),
        ("900 GB/s", "bandwidth", 900e9),
        ("1 GiB / s", "bandwidth", 2**30),
        ("312 TFLOP/s", "flop_rate", 312e12),
        ("312 TFLOPS", "flop_rate", 312e12),
        ("624 TOP/s", "flop_rate", 624e12),
        ("1.5 ZFLOP", "flops", 1.5e21),
        ("5 us", "time", 5e-6),
        ("5 \u00b5s", "time", 5e-6),
        ("5 \u03bcs", "time", 5e-6),
        ("-3 ms", "time", -3e-3),
        ("2 h", "time", 7200.0),
        ("1 d", "time", 86400.0),
        ("0.4 kW", "power", 400.0),
        ("2 kWh", "energy", 7.2e6),
        ("1.41 GHz", "frequency", 1.41e9),
        ("12 kUSD", "money", 12e3),
        ("3.6 USD/h", "money_rate", 1e-3),
        ("4 /s", "rate", 4.0),
        ("4/s", "rate", 4.0),
        ("120 requests/min", "rate", 2.0),
        ("45 %", "fraction", 0.45),
        ("0.45", "fraction", 0.45),
        (0.45, "fraction", 0.45),
        (1, "fraction", 1.0),
        (0, "bytes", 0.0),
        (0.0, "time", 0.0),
        ("0", "bandwidth", 0.0),
    ],
)
def test_reads(text: str | float, dimension: str, value: float) -> None:
    assert units.parse(text, dimension) == value


@pytest.mark.parametrize(
    ("text", "dimension", "message"),
    [
        (80, "bytes", "`80` has no unit: write a unit, for example `80 GB`"),
        ("80", "bytes", "`80` has no unit: write a unit, for example `80 GB`"),
        ("134217728", "bytes", "`134217728` has no unit: write a unit, for example `134217728 B`"),
        (2.5, "time", "`2.5` has no unit: write a unit, for example `2.5 ms`"),
        ("80 gb", "bytes", "unknown unit `gb` of bytes: did you mean `GB`?"),
        ("80 GBs", "bytes", "unknown unit `GBs` of bytes: did you mean `GB`?"),
        ("80 parsec", "bytes", "unknown unit `parsec` of bytes: write, for example, `80 GB`"),
        ("80 GB/s", "bytes", "`GB/s` is a unit of bandwidth, not of bytes: write, for example, `80 GB`"),
        ("5 GB", "flop_rate", "`GB` is a unit of bytes, not of flop rate: write, for example, `312 TFLOP/s`"),
        ("fast", "time", "`fast` is no quantity: write a number and a unit, for example `5 ms`"),
        ("", "time", "`` is no quantity: write a number and a unit, for example `5 ms`"),
        ("1,5 ms", "time", "`1,5 ms` is no quantity: write a number and a unit, for example `5 ms`"),
        (True, "fraction", "`True` is no quantity: write, for example, `0.45` or `45 %`"),
        ([1], "time", "`[1]` is no quantity: write, for example, `5 ms`"),
        (None, "time", "`None` is no quantity: write, for example, `5 ms`"),
        (float("nan"), "fraction", "`nan` is not a finite number"),
        ("1e999 s", "time", "`1e999 s` is not a finite number"),
        ("1e99999999999999999999 s", "time", "`1e99999999999999999999 s` is not a finite number"),
    ],
)
def test_refuses_and_says_what_to_write(text: object, dimension: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        units.parse(text, dimension)
    assert str(caught.value) == message


def test_a_message_stays_short() -> None:
    with pytest.raises(ValueError) as caught:
        units.parse("9" * 100_000, "bytes")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (80e9, "bytes", "80.0 GB"),
        (999.4, "bytes", "999 B"),
        (999.6, "bytes", "1.00 kB"),
        (25e9, "bandwidth", "25.0 GB/s"),
        (163e12, "flop_rate", "163 TFLOP/s"),
        (0.0123, "time", "12.3 ms"),
        (5e-6, "time", "5.00 us"),
        (1e-13, "time", "0.100 ps"),
        (0.92, "money", "0.920 USD"),
        (59.96, "time", "60.0 s"),
        (119, "time", "119 s"),
        (7200, "time", "2.00 h"),
        (3e5, "time", "3.47 d"),
        (400, "power", "400 W"),
        (7.2e6, "energy", "2.00 kWh"),
        (2.47e6, "energy", "2.47 MJ"),
        (1.41e9, "frequency", "1.41 GHz"),
        (4.6e6, "money", "4.60 MUSD"),
        (1e-3, "money_rate", "3.60 USD/h"),
        (0.4312, "fraction", "43.1 %"),
        (1234.0, "rate", "1230 /s"),
        (-0.0123, "time", "-12.3 ms"),
        (0, "time", "0 s"),
        (0, "bytes", "0 B"),
        (0, "fraction", "0 %"),
        (float("inf"), "time", "inf s"),
    ],
)
def test_prints_three_digits(value: float, dimension: str, text: str) -> None:
    assert units.format(value, dimension) == text


@given(st.sampled_from(units.DIMENSIONS), st.floats(1e-9, 1e21))
def test_what_is_printed_can_be_read(dimension: str, value: float) -> None:
    assert units.parse(units.format(value, dimension), dimension) == pytest.approx(value, rel=0.0051)


def test_ticks_are_picoseconds_rounded_to_the_nearest() -> None:
    assert units.TICKS_PER_SECOND == 10**12
    assert units.to_ticks(1.0) == 10**12
    assert units.to_ticks(1.4e-12) == 1
    assert units.to_ticks(1.6e-12) == 2
    assert [units.to_ticks(n * 0.5e-12) for n in (1, 3, 5)] == [0, 2, 2]
    assert units.to_seconds(2 * 10**12) == 2.0


@given(st.integers(0, 2**52))
@example(4_270_374_074_603_485)
def test_ticks_survive_seconds(ticks: int) -> None:
    """To 1,125 seconds all do; up to 4,503 s the two roundings of floats may be half a tick together, and lose one."""
    assert abs(units.to_ticks(units.to_seconds(ticks)) - ticks) <= (ticks > 2**50)


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (4_194_304, 6, "4,194,304"),
        (4_194_304, 3, "4,194,304"),
        (1234.5, 3, "1,234"),
        (999.6, 3, "1,000"),
        (-20_000.0, 3, "-20,000"),
        (99.96, 4, "99.96"),
        (0.001234, 3, "0.00123"),
        (1e-9, 6, "1e-09"),
        (1e18, 6, "1e+18"),
        (5, 3, "5"),
        (0.0, 3, "0"),
        (float("inf"), 3, "inf"),
    ],
)
def test_numbers_of_running_text_have_no_exponent_where_a_person_writes_none(
    value: float, digits: int, text: str
) -> None:
    assert units.plain(value, digits) == text


@given(st.floats(0.001, 1e14), st.integers(3, 6))
def test_running_text_is_as_exact_as_asked(value: float, digits: int) -> None:
    text = units.plain(value, digits)
    assert "e" not in text
    assert float(text.replace(",", "")) == pytest.approx(value, rel=10.0 ** (1 - digits))
