"""Fit what mixtures take for rows whose experts are on other devices.

Tables time a device that has the rows of all and a part of the experts. On balanced rows of them, with what the same
kernels take where one device has all experts (`experts.py`), three numbers are fitted for each family and format:
passes over rows whose experts are elsewhere, seconds that a mixture takes besides where there are any, and the tallest
tile of kernels that choose its height by the rows of all over the experts of the device.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from simulator.calibration.fitting import (
    Floats,
    Found,
    Parameter,
    Report,
    fit_together,
    hold_back,
    report_row,
)
from simulator.cost import Device
from simulator.cost.experts import ExpertCurve, expert_seconds
from simulator.cost.rows import Weights

SPREAD = {"passes_elsewhere": Parameter(0.5, 0.005, 10.0)}
FEW = 4
"""Rows of an iteration from which `apart` is taken."""
TILES = (0, 32, 64, 128, 256)
"""Heights that are tried."""
BETTER = 0.97
"""Mean error of a height over that without any from which on it is taken."""
Time = Callable[[pd.DataFrame, str, Found], Floats]
"""Seconds of the rows of a profile with coefficients of a chip."""
KEYS = ["hidden_size", "inner", "topk", "num_experts", "moe_ep_size"]


def spread_times(rows: pd.DataFrame, curve: ExpertCurve, device: Device, compute: str, size: float) -> Floats:
    """Predicted seconds of balanced rows, each of a device with a part of the experts and the rows of all; `size` are
    the bytes of a weight."""
    products, weights = replace(device.gemm[compute], result_size=2.0), Weights(size, slim=size < 1)
    times = np.empty(len(rows))
    for shape, some in rows.assign(place=np.arange(len(rows))).groupby(KEYS):
        hidden, inner, top_k, experts, parts = (int(side) for side in np.array(shape))
        count, held = some.num_tokens.to_numpy(), experts / parts
        hit = np.minimum(held, np.maximum(count * top_k / parts, 1.0))
        here = count / parts
        sides = top_k, hidden, inner, True, curve, products, weights
        times[some.place] = expert_seconds(here, hit, *sides, held, count - here)
    return times


def fit_spread(label: str, tables: Mapping[str, pd.DataFrame], time: Time) -> tuple[Found, Report, list[str]]:
    """(coefficients of the devices of a chip together, rows of the report, what is not settled).

    `tables` are balanced rows by profile; `time(rows, profile, found)` what the coefficients make of them.
    """
    tables = {profile: hold_back(table, KEYS[:-1]) for profile, table in tables.items()}
    seen = {profile: table[~table.held] for profile, table in tables.items()}
    blind, _ = _tallest(label, seen, time)
    report: Report = []
    for profile, table in tables.items():
        held = table[table.held]
        if len(held):
            predicted = time(held, profile, blind)
            report.append(report_row(profile, label, "rows of all, experts of one", "held out", held, predicted))
    final, loose = _tallest(label, tables, time)
    return final, report, loose


def _tallest(label: str, tables: Mapping[str, pd.DataFrame], time: Time) -> tuple[Found, list[str]]:
    """The fit with the height of tiles that is nearest to the rows; none, where no height is clearly nearer."""
    tried = [_with_tile(label, tables, time, tile) for tile in TILES]
    plain, best = tried[0], min(tried, key=lambda one: one[0])
    _, found, loose = best if best[0] < BETTER * plain[0] else plain
    return found, loose


def _with_tile(label: str, tables: Mapping[str, pd.DataFrame], time: Time, tile: int) -> tuple[float, Found, list[str]]:
    """(mean logarithmic error, coefficients, what is not settled) with tiles of so many rows at most."""
    fixed = {"tile": float(tile)} | _apart(tables, time)

    def times(profile: str, found: Found) -> Floats:
        return time(tables[profile], profile, found | fixed)

    measured = {profile: table.seconds for profile, table in tables.items()}
    found, loose = fit_together(label, SPREAD, measured, times, {}, 30)
    off = np.concatenate([np.log(times(profile, found) / table.seconds) for profile, table in tables.items()])
    return float(np.abs(off).mean()), found | fixed, loose


def _apart(tables: Mapping[str, pd.DataFrame], time: Time) -> Found:
    """Seconds that a mixture of a `FEW` rows takes more, in the median: there is little else that they could be."""
    more = []
    for profile, table in tables.items():
        rows = table[table.num_tokens <= FEW]
        more.append(rows.seconds.to_numpy() - time(rows, profile, {}))
    return {"apart": max(float(np.median(np.concatenate(more))), 0.0)}


def balanced(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of a table that this fit is of."""
    parts = (table.moe_ep_size > 1) & (table.num_experts % table.moe_ep_size == 0)
    return table[parts & (table.distribution == "balanced")].reset_index(drop=True)
