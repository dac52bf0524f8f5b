"""Robust least squares of coefficients on measured times, and the errors that are reported."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import least_squares

Floats = NDArray[np.float64]
Found = dict[str, float]
Report = list[dict[str, object]]
"""Rows of the table of errors."""

TABLES = {
    "a100-sxm": ("a100_sxm", "vllm/0.14.0", "a100-sxm-80gb", "A100"),
    "h100-sxm": ("h100_sxm", "vllm/0.24.0", "h100-sxm", "H100"),
    "h200-sxm": ("h200_sxm", "vllm/0.24.0", "h200-sxm", "H200"),
    "b200-sxm": ("b200_sxm", "vllm/0.24.0", "b200", "B200"),
    "l40s": ("l40s", "vllm/0.24.0", "l40s", "L40S"),
}
"""Profile: (folder of the tables, framework and version, accelerator, name in the published rows)."""
CHIPS = (("a100-sxm",), ("h100-sxm", "h200-sxm"), ("b200-sxm",), ("l40s",))
"""Profiles of equal silicon: coefficients of its arithmetic are fitted on the tables of all of them together."""
PRIOR = 0.3
"""Residual of a coefficient that is the whole of its range away from its start: worth a few rows together, so that what
no row tells apart stays where it started and does not drift to a bound."""
LOOSE = 0.25
"""Standard error, as a share of its range, from which a coefficient is called not identified."""
FLAT = 10.0
"""Ranges that a combination of coefficients is wide at most."""
LEAST_NOISE = 1e-6
"""Squared logarithmic error that clocks leave at least: a thousandth."""


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


@dataclass(frozen=True)
class Solution:
    """Coefficients, and those of them that the rows do not settle."""

    found: Found
    loose: tuple[str, ...]
    """Not identified: the standard error is a quarter of the range or more."""
    bounded: tuple[str, ...]
    """Within a hundredth of the range of a bound."""


def solve(
    parameters: dict[str, Parameter], residuals: Callable[[Found], Floats], start: Found, evaluations: int
) -> Found:
    """Robust least squares on logarithmic errors; the coefficients."""
    return solution(parameters, residuals, start, evaluations).found


def solution(
    parameters: dict[str, Parameter],
    residuals: Callable[[Found], Floats],
    start: Found,
    evaluations: int,
    noise: float = 0.0,
) -> Solution:
    """As `solve`, with what the rows do not settle, each of which is known to `noise` at best."""
    names, each = list(parameters), list(parameters.values())
    low = np.array([p.encode(p.low) for p in each])
    high = np.array([p.encode(p.high) for p in each])
    first = np.array([p.encode(start.get(name, p.start)) for name, p in parameters.items()])
    first = np.clip(first, low + 1e-3 * (high - low), high - 1e-3 * (high - low))
    usual = np.array([p.encode(p.start) for p in each])

    def decode(vector: Sequence[float] | Floats) -> Found:
        return {n: float(p.decode(v)) for n, p, v in zip(names, each, vector, strict=True)}

    def off(vector: Floats) -> Floats:
        return np.concatenate([residuals(decode(vector)), PRIOR * (vector - usual) / (high - low)])

    found = least_squares(
        off,
        first,
        bounds=(low, high),
        loss="soft_l1",
        f_scale=0.08,
        diff_step=4e-3,
        max_nfev=evaluations,
        x_scale=high - low,
    )
    share = (found.x - low) / (high - low)
    errors_ = standard_errors(found.jac[: -len(names)] * (high - low), found.fun[: -len(names)], noise)
    return Solution(
        decode(found.x),
        tuple(n for n, e in zip(names, errors_, strict=True) if not e < LOOSE),
        tuple(n for n, s in zip(names, share, strict=True) if not 0.01 < s < 0.99),
    )


def standard_errors(jacobian: Floats, off: Floats, least: float) -> Floats:
    """Of each coefficient, from the curvature at the minimum; `jacobian` (rows, coefficients) and errors are in shares
    of the ranges, `off` are the rows' residuals, which are known to `least` at best.

    A combination of coefficients that no row depends on counts as `FLAT` ranges wide, so that it is those in it that
    are called loose, and not all others for what rounding gives them of it.
    """
    rows, count = jacobian.shape
    values, vectors = np.linalg.eigh(jacobian.T @ jacobian)
    noise = max(float(off @ off) / max(rows - count, 1), LEAST_NOISE, least**2)
    wide = np.minimum(noise / np.maximum(values, 1e-300), FLAT**2)
    return np.asarray(np.sqrt(vectors**2 @ wide))


def shared(parameters: dict[str, Parameter], own: Sequence[str], devices: Sequence[str]) -> dict[str, Parameter]:
    """Parameters of several devices: those in `own` once for each (`name@device`), the others once for all."""
    found = {name: parameter for name, parameter in parameters.items() if name not in own}
    return found | {f"{name}@{device}": parameters[name] for device in devices for name in parameters if name in own}


def of_device(found: Found, device: str) -> Found:
    """The coefficients of one device among those of several."""
    plain = {name: value for name, value in found.items() if "@" not in name}
    mine = {name.partition("@")[0]: value for name, value in found.items() if name.endswith(f"@{device}")}
    return plain | mine


def fit_together(
    label: str,
    parameters: dict[str, Parameter],
    measured: Mapping[str, ArrayLike],
    times: Callable[[str, Found], Floats],
    start: Found,
    evaluations: int,
) -> tuple[Found, list[str]]:
    """(coefficients of several devices, fitted on the logarithmic errors of all their rows, what these do not settle).

    `measured` are the seconds of each device's rows, `times(device, found)` what coefficients make of them.
    """
    logs = np.log(np.concatenate([np.asarray(seconds) for seconds in measured.values()]))

    def residuals(found: Found) -> Floats:
        return np.asarray(np.log(np.concatenate([times(device, found) for device in measured])) - logs)

    solved = solution(parameters, residuals, start, evaluations)
    return solved.found, unsettled(f"{' and '.join(measured)} {label}", solved)


def hold_back(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """A column `held`: a random quarter of the shapes."""
    shapes = table[keys].drop_duplicates().sample(frac=0.25, random_state=1)
    return table.assign(held=pd.MultiIndex.from_frame(table[keys]).isin(pd.MultiIndex.from_frame(shapes)))


def unsettled(label: str, solved: Solution) -> list[str]:
    """Lines that name what the rows do not settle."""
    kinds = (("not identified by its rows", solved.loose), ("at a bound of its range", solved.bounded))
    return [f"{label}: {what}: {', '.join(names)}" for what, names in kinds if names]


def errors(table: pd.DataFrame, predicted: Floats) -> dict[str, float]:
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


def report_row(
    profile: str, kernels: str, shapes: str, rows: str, table: pd.DataFrame, predicted: Floats
) -> dict[str, object]:
    """A row of the table of errors: of which profile, kernels, shapes and set of rows, and how wrong these are."""
    return {"profile": profile, "dtype": kernels, "shapes": shapes, "set": rows, **errors(table, predicted)}


def said(name: str, errors: ArrayLike) -> str:
    """The spread of errors, shares of what was measured, in a line."""
    signed = np.asarray(errors, float)
    size = np.abs(signed)
    spread = f"median {np.median(size):.1%}, mean {size.mean():.1%}, P90 {np.percentile(size, 90):.1%}"
    figures = f"{spread}, signed {signed.mean():+.1%}"
    return f"{name}: {figures} of {len(size)} rows" if name else figures
