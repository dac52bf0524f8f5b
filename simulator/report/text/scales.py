"""Marks of an axis: round numbers in one unit, each at its place, so that an axis may end where its data end."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from simulator import units

MOST = 6
"""Marks that an axis has room for, or one more."""
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_MINUTES = (1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0)
_SLACK = 1e-9  # of a step, by which a mark may miss the end


class Mark(NamedTuple):
    """A mark of an axis."""

    share: float
    """Where it stands, from 0 to 1."""
    text: str


def marks(low: float, high: float, dimension: str = "", word: str = "", scale: float = 1.0) -> list[Mark]:
    """Round numbers from `low` to `high`, in one unit.

    With a dimension, one of `units.DIMENSIONS`, and a scale (as of a metric) numbers times the scale are SI; `word`
    stands behind numbers without one.
    """
    unit, size = _unit(max(abs(low), abs(high)) * scale, dimension) if dimension else (word, 1.0)
    begin, end = low * scale / size, high * scale / size
    if not end > begin:
        return [Mark(0.0, _text(begin, 1.0, unit))]
    step = step_of(end - begin, unit == "min")
    first, last = math.ceil(begin / step - _SLACK), math.floor(end / step + _SLACK)
    return [Mark((i * step - begin) / (end - begin), _text(i * step, step, unit)) for i in range(first, last + 1)]


def words(*texts: str) -> list[Mark]:
    """Words at even distances from one end to the other."""
    return [Mark(i / max(len(texts) - 1, 1), text) for i, text in enumerate(texts)]


def step_of(length: float, minutes: bool = False) -> float:
    """The least round step of which `length` has at most `MOST`; `minutes` go by quarters of an hour."""
    if minutes and MOST < length <= 60 * MOST:
        return next(step for step in _MINUTES if length / step <= MOST * (1 + _SLACK))
    power = 10.0 ** math.floor(math.log10(length / MOST))
    return power * next(step for step in _STEPS if length / (step * power) <= MOST * (1 + _SLACK))


def around(values: Sequence[float], room: float = 0.04) -> tuple[float, float]:
    """(low, high) of an axis on which all values lie, with some room at both ends; from 0 where that is near."""
    least, most = min(values), max(values)
    if least == most:
        least, most = (0.0, 2 * most) if most > 0 else (most - 1.0, most + 1.0)
    margin = room * (most - least)
    low = 0.0 if 0 <= least <= 0.3 * most else least - margin
    return low, most + margin


def _unit(largest: float, dimension: str) -> tuple[str, float]:
    """The unit in which a quantity of that size is printed, and its size in SI units."""
    unit = units.format(largest, dimension).partition(" ")[2]
    return unit, units.parse(f"1 {unit}", dimension) if unit else 1.0


def _text(value: float, step: float, unit: str) -> str:
    decimals = max(-math.floor(math.log10(step) + _SLACK), 0)
    decimals += not math.isclose(step * 10**decimals, round(step * 10**decimals))  # a step of 2.5
    return f"{value + 0.0:,.{decimals}f}{'' if unit.startswith('/') else ' '}{unit}".rstrip()
