"""How numbers, names and bars are written on every page."""

import math
from collections.abc import Sequence
from itertools import pairwise

from simulator import units
from simulator.metrics import METRICS
from simulator.results.result import Result
from simulator.results.spread import MEMORY, Interval

BETTER = {
    "flop_rate": "FLOP rate",
    "hbm_bandwidth": "memory bandwidth",
    "scale_up_bandwidth": "scale-up bandwidth",
    "torus_bandwidth": "bandwidth of torus links",
    "host_link": "bandwidth of the host's link",
    "nic_bandwidth": "NIC bandwidth",
    "nics": "network cards",
    "latency": "latency of hops",
}
"""What a sensitivity changes, in words."""


_RATIOS = ("slowdown", "worst_slowdown", "mean_slowdown")


_MANY = 1e10
"""Tokens from which a number of them is written in words."""


def figure(name: str, value: float) -> str:
    """A metric with its unit, for example `163 TFLOP/s` or `38.5 %`; a plain number where the metric is not known."""
    if not math.isfinite(value):
        return "not known"
    known = METRICS.get(name)
    if known is None:
        return units.plain(value, 4)
    if known.dimension == "fraction":
        return percent(value)
    if known.dimension == "rate":
        return rate(value)
    if name.rpartition(": ")[2] in _RATIOS:
        return times(value)
    if known.dimension == "count":
        return tokens(value) if name.endswith("tokens") and value >= _MANY else count(value)
    return units.format(value * known.scale, known.dimension)


def figures(name: str, values: Sequence[float | None]) -> list[str]:
    """A metric of several runs in one unit, so that they can be held against each other; `-` where there is none."""
    known = METRICS.get(name)
    finite = [value for value in values if value is not None and math.isfinite(value)]
    if known is None or known.dimension in ("fraction", "rate", "count"):
        return ["-" if value is None else figure(name, value) for value in values]
    shown = iter(units.format_alike([value * known.scale for value in finite], known.dimension))
    return ["-" if value is None else next(shown) if math.isfinite(value) else "not known" for value in values]


def percent(fraction: float, signed: bool = False, decimals: int = 1) -> str:
    """A fraction as a percentage."""
    if not math.isfinite(fraction):
        return "not known"
    return f"{100 * fraction:{'+' if signed else ''}.{decimals}f} %"


def times(ratio: float) -> str:
    """How many times as long: `1.42 x`, near 1 with more digits: `1.0042 x`."""
    return f"{ratio:.{2 if abs(ratio - 1) >= 0.1 else 4}f} x"


def count(value: float) -> str:
    """A number with thousands separators; three significant digits below 1,000."""
    return f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else units.three_digits(value)


def rate(value: float) -> str:
    """A number of something per second: as `count`, but `2.00` beside `2.35`."""
    return f"{value:,.0f}" if abs(value) >= 999.5 or value == 0 else units.three_digits(value)


def tokens(value: float) -> str:
    """A number of tokens in words: `300 billion`."""
    for size, word in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if value >= size:
            return f"{value / size:.4g} {word}"
    return count(value)


def plural(number: int, word: str) -> str:
    """`1 rank`, `3,072 ranks`, `64 classes`."""
    ending = "es" if word.endswith(("s", "sh", "ch")) else "s"
    return f"{number:,} {word}{'' if number == 1 else ending}"


def bar(fraction: float, width: int, glyph: str = "█") -> str:
    """A bar of at most `width` cells; of what is there but too little for a cell, a thin line."""
    cells = round(min(max(0.0, fraction), 1.0) * width)  # 0 where the fraction is not known
    return glyph * cells or ("▏" if fraction > 0 else "")


def stacked(fractions: list[float], width: int) -> list[int]:
    """Cells of each part of a bar of `width` cells in which the fractions (of the whole) follow each other."""
    edges = [0.0]
    for fraction in fractions:
        edges.append(edges[-1] + max(fraction, 0.0))
    cells = [round(min(edge, 1.0) * width) for edge in edges]
    return [after - before for before, after in pairwise(cells)]


_EXPECTED = ("step_time_s", "mean_ttft_ms", "mean_tpot_ms", "output_throughput_per_device")
"""Figures whose intervals head a page."""


def expected(result: Result) -> str:
    """Between which values the main figures and peak memory are expected, in a sentence; empty for several jobs.

    Times of a run that does not fit are not told; that no published run speaks for its memory is.
    """
    parts = [_times(result) if result.feasible else "", expected_memory(result)]
    return "; ".join(filter(None, parts))


def _times(result: Result) -> str:
    found = [(name, one) for name, one in result.intervals.items() if name in _EXPECTED]
    ends = (f"{METRICS[n].label} {_ends(n, one)}" for n, one in found)
    return f"{', '.join(ends)} ({found[0][1].basis})" if found else ""


def expected_memory(result: Result) -> str:
    """Between which values peak memory is expected, or that no published run speaks for it; empty without a ground."""
    if MEMORY in result.ground.never_validated:
        return "peak memory never validated"
    one = result.intervals.get("peak_memory_bytes")
    return "" if one is None else f"peak memory {_ends('peak_memory_bytes', one)} ({one.basis})"


def _ends(name: str, one: Interval) -> str:
    return " to ".join(figures(name, (one.low, one.high)))


def estimated(ground: str) -> bool:
    """Whether a sentence about the ground of figures says that it is an estimate."""
    return ground.startswith("estimate: ") or ": estimate: " in ground
