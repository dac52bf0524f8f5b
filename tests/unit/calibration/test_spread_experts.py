"""What rows take whose experts are elsewhere comes back from tables that were made with it."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from simulator.calibration.fitting import Floats, Found
from simulator.calibration.kernels.experts import curve_of
from simulator.calibration.kernels.spread_experts import balanced, fit_spread, spread_times
from simulator.cost import compile_device
from simulator.specs import load_spec
from simulator.specs.hardware import Accelerator

DEVICE = compile_device(load_spec(Accelerator, "h100-sxm"))
WHOLE = {"launch": 3e-5, "rate": 0.8, "memory": 1.0, "delay": 6e-7, "passes": 2.0}
SHAPES = ((2880, 2880, 4, 128), (4096, 1536, 8, 128), (7168, 2048, 8, 256), (2048, 768, 8, 128), (6144, 2048, 8, 160))


def seconds(rows: pd.DataFrame, profile: str, found: Found) -> Floats:
    return spread_times(rows, curve_of(WHOLE | found, DEVICE), DEVICE, "bf16", 4.25 / 8)


def table(true: Found, noise: float) -> pd.DataFrame:
    """Balanced rows of all shapes on 1 to 16 devices, and some that are not balanced."""
    columns = ["hidden_size", "inner", "topk", "num_experts", "moe_ep_size", "num_tokens"]
    made = [(*shape, parts, tokens) for shape in SHAPES for parts in (1, 2, 4, 8, 16) for tokens in 2 ** np.arange(15)]
    rows = pd.DataFrame(made, columns=columns).assign(distribution="balanced")
    random = np.random.default_rng(0)
    rows = rows.assign(seconds=seconds(rows, "", true) * np.exp(noise * random.standard_normal(len(rows))))
    return pd.concat([rows, rows.assign(distribution="power_law_1.2", seconds=1.0)], ignore_index=True)


@pytest.mark.parametrize(
    "true",
    [
        {"passes_elsewhere": 1.7, "apart": 8e-6, "tile": 128.0},
        {"passes_elsewhere": 0.1, "apart": 0.0, "tile": 0.0},
        {"passes_elsewhere": 1.2, "apart": 0.0, "tile": 64.0},
    ],
)
def test_coefficients_come_back(true: Found) -> None:
    found, report, loose = fit_spread("test", {"h100-sxm": balanced(table(true, 0.03))}, seconds)
    assert found["passes_elsewhere"] == pytest.approx(true["passes_elsewhere"], rel=0.1)
    assert found["apart"] == pytest.approx(true["apart"], abs=1.5e-6)
    assert found["tile"] == true["tile"]
    assert not loose
    assert report[0]["median"] < 5 and report[0]["rows"] > 50


def test_what_no_row_tells_is_said() -> None:
    rows = balanced(table({"passes_elsewhere": 1.0, "apart": 0.0, "tile": 0.0}, 0.03))
    few = rows[rows.num_tokens <= 2]
    _, _, loose = fit_spread("test", {"h100-sxm": few}, seconds)
    assert loose == ["h100-sxm test: not identified by its rows: passes_elsewhere"]


def test_only_balanced_rows_with_experts_elsewhere_are_taken() -> None:
    rows = balanced(table({"passes_elsewhere": 1.0, "apart": 0.0, "tile": 0.0}, 0.0))
    assert set(rows.distribution) == {"balanced"}
    assert rows.moe_ep_size.min() == 2
    curve = curve_of(WHOLE, DEVICE)
    assert replace(curve, tile=64) == curve_of(WHOLE | {"tile": 64.0}, DEVICE)
