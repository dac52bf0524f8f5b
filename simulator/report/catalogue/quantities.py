"""Quantities of specs written so that reading them gives the same number again, to the last bit."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from pydantic import BeforeValidator

from simulator import units

_UNITS = {
    "time": ("s", "ps", "ns", "us", "ms", "min", "h", "d"),
    "bytes": ("B", "kB", "MB", "GB", "TB", "PB", "KiB", "MiB", "GiB", "TiB"),
    "bandwidth": ("B/s", "kB/s", "MB/s", "GB/s", "TB/s", "GiB/s", "Gbit/s"),
    "flop_rate": ("FLOP/s", "MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s", "EFLOP/s"),
    "flops": ("FLOP", "GFLOP", "TFLOP", "PFLOP", "EFLOP", "ZFLOP"),
    "power": ("W", "mW", "kW", "MW"),
    "energy": ("J", "kJ", "MJ", "kWh", "MWh"),
    "frequency": ("Hz", "kHz", "MHz", "GHz"),
    "money": ("USD", "kUSD", "MUSD"),
    "money_rate": ("USD/s", "USD/h"),
    "carbon": ("kg", "g", "t"),
    "carbon_rate": ("kg/J", "g/kWh", "kg/kWh"),
    "rate": ("/s",),
    "fraction": ("%",),
}
"""Units in which people state each dimension, of those that `units.parse` reads; the base unit comes first."""

EXAMPLES = {
    "time": "5 us",
    "bytes": "80 GB",
    "bandwidth": "200 Gbit/s",
    "flop_rate": "312 TFLOP/s",
    "flops": "1 TFLOP",
    "power": "400 W",
    "energy": "12 kWh",
    "frequency": "1.41 GHz",
    "money": "12 USD",
    "money_rate": "2.5 USD/h",
    "carbon": "12 kg",
    "carbon_rate": "57 g/kWh",
    "rate": "4 /s",
    "fraction": "3 %",
}
"""A quantity of each dimension as it is written."""


def dimension_of(metadata: Iterable[Any]) -> str | None:
    """Dimension of a field whose pydantic metadata make it a quantity, None for any other."""
    for item in metadata:
        if isinstance(item, BeforeValidator) and (found := dimension_of_function(item.func)) is not None:
            return found
    return None


def dimension_of_function(function: object) -> str | None:
    """Dimension that a validator function parses, None if it is no such function."""
    if isinstance(function, partial) and function.func is units.parse:
        return str(function.keywords["dimension"])
    return None


def exact(value: float, dimension: str) -> str:
    """The shortest text that `units.parse` reads as exactly this value; the usual prefix where several are as short."""
    if value == 0:
        return "0"
    usual = units.format(value, dimension).rpartition(" ")[2]
    candidates = [
        (len(text), unit != usual, text) for unit in _UNITS[dimension] if (text := _in_unit(value, unit, dimension))
    ]
    plain = f"{value!r} {_UNITS[dimension][0]}" if dimension != "fraction" else repr(value)
    return min(candidates)[2] if candidates else plain


def _in_unit(value: float, unit: str, dimension: str) -> str | None:
    """The value in a unit with as few digits as give it exactly; None where its size makes the unit odd."""
    number = value / units.parse(f"1 {unit}", dimension)
    if not 1e-3 <= abs(number) < 1e6:
        return None
    for digits in range(1, 18):
        text = f"{number:.{digits}g}"
        text = text if "e" not in text else f"{float(text):.0f}"
        if units.parse(f"{text} {unit}", dimension) == value:
            return f"{text} {unit}"
    return None
