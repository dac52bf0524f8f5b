"""Quantities: read `80 GB`, print `80.0 GB`, and turn seconds into the clock's ticks.

Everything is kept as a float in SI base units: seconds, bytes, bytes per second, FLOP, FLOP per second, watts,
joules, hertz, US dollars, US dollars per second, kilograms (of carbon), kilograms per joule, events per second. Decimal
prefixes are powers of ten (`GB` is 1e9 bytes) and binary prefixes powers of 1024 (`GiB` is 2**30 bytes); `bit` is an
eighth of a byte.
"""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from math import isfinite
from typing import NamedTuple

TICKS_PER_SECOND = 10**12
"""The engine counts integer picoseconds."""

_DECIMAL = {
    "p": -12,
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
    "Z": 21,
    "Y": 24,
}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*((?:[^\d.,_\s].*)?)", re.DOTALL)
_LONGEST = 64
_COUNTED = 1e5
"""From here on a number without a unit is likelier to count bytes than gigabytes."""
_FAR = 1000.0  # times the smallest from which on one unit for both has too many digits


class _Dimension(NamedTuple):
    """How one kind of quantity is written."""

    example: str
    parts: tuple[tuple[str, str, str], ...]
    """(unit, its size in base units, prefixes it takes: letters of `_DECIMAL`, `i` for the binary, `.` for none)."""
    shown: tuple[str, ...]
    """Units that `format` chooses from, by rising size."""
    bare: bool = False
    """Whether a number without a unit is accepted."""


_BIT = "0.125"
_DIMENSIONS = {
    "time": _Dimension(
        "5 ms",
        (("s", "1", "pnum."), ("min", "60", "."), ("h", "3600", "."), ("d", "86400", ".")),
        ("ps", "ns", "us", "ms", "s", "min", "h", "d"),
    ),
    "bytes": _Dimension("80 GB", (("B", "1", "kMGTPEi."),), ("B", "kB", "MB", "GB", "TB", "PB", "EB")),
    "bandwidth": _Dimension(
        "200 Gbit/s",
        (("B/s", "1", "kMGTPEi."), ("bit/s", _BIT, "kMGTPi."), ("bps", _BIT, "kMGTP."), ("b/s", _BIT, "kMGTP.")),
        ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"),
    ),
    "flop_rate": _Dimension(
        "312 TFLOP/s",
        tuple((name, "1", "kMGTPEZ.") for name in ("FLOP/s", "OP/s", "FLOPS", "OPS")),
        ("FLOP/s", "kFLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "EFLOP/s", "ZFLOP/s"),
    ),
    "flops": _Dimension(
        "1 TFLOP",
        (("FLOP", "1", "kMGTPEZY."), ("OP", "1", "kMGTPEZY.")),
        ("FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP", "YFLOP"),
    ),
    "power": _Dimension("400 W", (("W", "1", "mkMG."),), ("mW", "W", "kW", "MW", "GW")),
    "energy": _Dimension(
        "12 kWh",
        (("J", "1", "mkMGTP."), ("Wh", "3600", "kMGT.")),
        ("mJ", "J", "kJ", "MJ", "kWh", "MWh", "GWh", "TWh"),
    ),
    "frequency": _Dimension("1.41 GHz", (("Hz", "1", "kMGT."),), ("Hz", "kHz", "MHz", "GHz", "THz")),
    "money": _Dimension("12 USD", (("USD", "1", "kMG."),), ("USD", "kUSD", "MUSD", "GUSD")),
    "money_rate": _Dimension(
        "2.5 USD/h",
        (("USD/s", "1", "kM."), ("USD/h", "1/3600", "kM.")),
        ("USD/h", "kUSD/h", "MUSD/h"),
    ),
    "carbon": _Dimension("12 kg", (("g", "0.001", "kM."), ("t", "1000", "kM.")), ("g", "kg", "t", "kt")),
    "carbon_rate": _Dimension("57 g/kWh", (("kg/J", "1", "."), ("g/kWh", "1/3600000000", "k.")), ("g/kWh", "kg/kWh")),
    "rate": _Dimension(
        "4 /s",
        tuple(
            (word + per, size, ".")
            for word in ("", "tokens", "requests", "samples", "sequences")
            for per, size in (("/s", "1"), ("/min", "1/60"), ("/h", "1/3600"))
        ),
        ("/s",),
    ),
    "count": _Dimension(
        "1000` or `1000 tokens",
        (("", "1", "."), *((word, "1", "kM.") for word in ("tokens", "requests", "sequences"))),
        ("",),
        bare=True,
    ),
    "fraction": _Dimension("0.45` or `45 %", (("%", "0.01", "."),), ("%",), bare=True),
}

DIMENSIONS = tuple(_DIMENSIONS)
"""The words that `parse` and `format` take as `dimension`."""


_UNWIELDY = 1e15
"""Numbers from which an exponent is read more easily than digits."""


def to_ticks(seconds: float) -> int:
    """Seconds to integer ticks (picoseconds), to the nearest, ties to even: the one place where time is rounded.

    On arrays `np.rint(seconds * TICKS_PER_SECOND)` gives the same ticks.
    """
    return round(seconds * TICKS_PER_SECOND)


def to_seconds(ticks: int) -> float:
    """Ticks (picoseconds) to seconds."""
    return ticks / TICKS_PER_SECOND


def parse(text: object, dimension: str) -> float:
    """Read a quantity such as `80 GB` of one of `DIMENSIONS` as a number of SI base units.

    A number without a unit is accepted where it is 0 or the dimension is a fraction. Raises ValueError, with what to
    write instead, on anything else.
    """
    kind = _DIMENSIONS[dimension]
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise ValueError(f"{_excerpt(text)} is no quantity: write, for example, `{kind.example}`")
    if not isinstance(text, str):
        return _bare(float(text), text, kind)
    match = _NUMBER.fullmatch(text.rstrip()) if len(text) <= _LONGEST else None
    if match is None:
        raise ValueError(f"{_excerpt(text)} is no quantity: write a number and a unit, for example `{kind.example}`")
    number, unit = match.groups()
    if not unit:
        return _bare(float(number), text, kind)
    return _finite(_in_base_units(number, unit, dimension), text)


def format(value: float, dimension: str) -> str:
    """Print a number of SI base units of one of `DIMENSIONS` with three significant digits and a fitting prefix."""
    kind = _DIMENSIONS[dimension]
    table = _scales(dimension)
    if value == 0 or not isfinite(value):
        unit = kind.shown[0] if dimension not in ("time", "power", "energy") else kind.parts[0][0]
        return f"{value:g} {unit}".rstrip()
    chosen = kind.shown[0]
    for unit in kind.shown[1:]:
        if abs(value) >= _threshold(unit, dimension) * float(table[unit]):
            chosen = unit
    return f"{three_digits(value / float(table[chosen]))} {chosen}".rstrip()


def format_alike(values: Sequence[float], dimension: str) -> list[str]:
    """Print numbers that are read beside each other in one unit: that of the largest, or of the smallest where the
    largest is more than a thousand times it. Small ones keep three significant digits."""
    sizes = [abs(value) for value in values if value != 0 and isfinite(value)]
    if len({format(size, dimension).partition(" ")[2] for size in sizes}) < 2:
        return [format(value, dimension) for value in values]
    leading = max(sizes) if max(sizes) <= _FAR * min(sizes) else min(sizes)
    unit = format(leading, dimension).partition(" ")[2]
    scale = float(_scales(dimension)[unit])
    return [_in_unit(value, scale, unit) if isfinite(value) else format(value, dimension) for value in values]


def _in_unit(value: float, scale: float, unit: str) -> str:
    number = value / scale
    return f"{number:,.0f} {unit}" if abs(number) >= 999.5 else f"{three_digits(number)} {unit}"


def _bare(number: float, text: object, kind: _Dimension) -> float:
    if number != 0 and not kind.bare:
        unit = kind.example.partition(" ")[2] if abs(number) < _COUNTED else kind.parts[0][0]
        example = f"{number:.12g} {unit}"
        raise ValueError(f"{_excerpt(text)} has no unit: write a unit, for example `{example}`")
    return _finite(number, text)


def _excerpt(value: object) -> str:
    """A value as messages show it: never long."""
    text = value.strip() if isinstance(value, str) else repr(value)
    return f"`{text}`" if len(text) <= _LONGEST else f"`{text[: _LONGEST - 3]}...`"


def _finite(number: float, text: object) -> float:
    if not isfinite(number):
        raise ValueError(f"{_excerpt(text)} is not a finite number")
    return number


def _in_base_units(number: str, unit: str, dimension: str) -> float:
    table = _scales(dimension)
    # Both spellings of the micro sign (U+00B5 and the Greek letter U+03BC) stand for `u`.
    canonical = re.sub(r"\s*/\s*", "/", unit.replace("\u00b5", "u").replace("\u03bc", "u"))
    scale = table.get(canonical)
    if scale is None:
        raise ValueError(_unknown_unit(canonical, dimension))
    try:
        return float(Decimal(number) * scale)
    except ArithmeticError:
        raise ValueError(f"{_excerpt(f'{number} {unit}')} is not a finite number") from None


def _unknown_unit(unit: str, dimension: str) -> str:
    from difflib import get_close_matches

    other = next((name for name in _DIMENSIONS if unit in _scales(name)), None)
    if other is not None:
        reason = f"`{unit}` is a unit of {other.replace('_', ' ')}, not of {dimension.replace('_', ' ')}"
        return f"{reason}: write, for example, `{_DIMENSIONS[dimension].example}`"
    table = _scales(dimension)
    near = [name for name in table if name.casefold() == unit.casefold()] or get_close_matches(unit, table, 1, 0.6)
    meant = f"did you mean `{near[0]}`?" if near else f"write, for example, `{_DIMENSIONS[dimension].example}`"
    return f"unknown unit `{unit[:_LONGEST]}` of {dimension.replace('_', ' ')}: {meant}"


@cache
def _scales(dimension: str) -> dict[str, Decimal]:
    """Each accepted unit of a dimension, prefix included, and its size in the base unit."""
    return {
        prefix + unit: factor * _size(size)
        for unit, size, prefixes in _DIMENSIONS[dimension].parts
        for prefix, factor in _prefixes(prefixes)
    }


def _size(text: str) -> Decimal:
    numerator, _, denominator = text.partition("/")
    return Decimal(numerator) / Decimal(denominator or "1")


def _prefixes(letters: str) -> Iterator[tuple[str, Decimal]]:
    for letter in letters:
        if letter == "i":
            yield from ((prefix, Decimal(1024) ** power) for prefix, power in _BINARY.items())
        else:
            prefix = "" if letter == "." else letter
            yield prefix, Decimal(10) ** _DECIMAL[prefix]
    if "k" in letters:  # `KB` is written as often as `kB`
        yield "K", Decimal(1000)


def _threshold(unit: str, dimension: str) -> float:
    """How many of a unit a value must hold to be printed in it; just below 1, so that 999.6 B prints as 1.00 kB."""
    if dimension == "time" and unit in ("min", "h", "d"):
        return 2.0
    return 0.9995


def plain(value: float, digits: int = 3) -> str:
    """A number in running text: so many significant digits, all digits before the point, thousands parted, never an
    exponent where a person writes none (4,194,304, not 4.1943e+06)."""
    if 10**digits - 0.5 <= abs(value) < _UNWIELDY:
        return f"{value:,.0f}"
    return f"{value:,.{digits}g}"


def three_digits(value: float) -> str:
    """Three significant digits, zeros at the end among them, so that numbers of a column line up."""
    rounded = float(f"{value:.3g}")
    magnitude = abs(rounded)
    decimals = 0 if magnitude >= 100 else 1 if magnitude >= 10 else 2
    if 0 < magnitude < 1:
        return f"{rounded:#.3g}"
    return f"{rounded:.{decimals}f}"
