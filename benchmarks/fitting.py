"""Robust least squares of coefficients on measured times, and the errors that are reported."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

TABLES = {
    "a100-sxm": ("a100_sxm", "vllm/0.14.0", "a100-sxm-80gb", "A100"),
    "h100-sxm": ("h100_sxm", "vllm/0.24.0", "h100-sxm", "H100"),
    "h200-sxm": ("h200_sxm", "vllm/0.24.0", "h200-sxm", "H200"),
}
"""Profile: (folder of the tables, framework and version, accelerator, name in the published rows)."""


@dataclass(frozen=True)
class Parameter:
    """A coefficient to fit: where to start, and its bounds; fitted in logarithms where `log`."""

    start: float
    low: float
    high: float
    log: bool = True

    def encode(self, value: float) -> float:
        """To the scale in which it is fitted."""
        return math.log(value) if self.log else value

    def decode(self, value: float) -> float:
        """Back from that scale."""
        return math.exp(value) if self.log else value


def solve(
    parameters: dict[str, Parameter],
    residuals: Callable[[dict[str, float]], np.ndarray],
    start: dict[str, float],
    evaluations: int,
) -> dict[str, float]:
    """Robust least squares on logarithmic errors; the coefficients."""
    names = list(parameters)
    low = np.array([parameters[n].encode(parameters[n].low) if parameters[n].log else parameters[n].low for n in names])
    high = np.array(
        [parameters[n].encode(parameters[n].high) if parameters[n].log else parameters[n].high for n in names]
    )
    first = np.array([parameters[n].encode(start.get(n, parameters[n].start)) for n in names])
    first = np.clip(first, low + 1e-3 * (high - low), high - 1e-3 * (high - low))

    def decode(vector: Sequence[float]) -> dict[str, float]:
        return {n: float(parameters[n].decode(v)) for n, v in zip(names, vector, strict=True)}

    found = least_squares(
        lambda vector: residuals(decode(vector)),
        first,
        bounds=(low, high),
        loss="soft_l1",
        f_scale=0.08,
        diff_step=4e-3,
        max_nfev=evaluations,
        x_scale=high - low,
    )
    return decode(found.x)


def errors(table: pd.DataFrame, predicted: np.ndarray) -> dict[str, float]:
    """Count, median, mean, 90th percentile and signed mean of predicted / measured - 1, in per cent."""
    error = 100 * (predicted / table.seconds.to_numpy() - 1)
    size = np.abs(error)
    return {
        "rows": len(error),
        "median": float(np.median(size)),
        "mean": float(size.mean()),
        "p90": float(np.quantile(size, 0.9)),
        "signed": float(error.mean()),
    }
