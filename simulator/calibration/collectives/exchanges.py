"""Fit the profiles of libraries that exchange tokens with experts; figures, residuals, errors with a source left out.

ROWS are those of workloads/measurements/exchanges.jsonl. A figure belongs to a kind of link (its efficiency under
kernels that stream, and under those for low latency) or to a library (its launch), never to one row, and all are fitted
at once. Each is drawn weakly to the mean of its kin, which is what is left where a fit has seen no row of it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from simulator.calibration.asked import Asked, save
from simulator.calibration.fitting import said
from simulator.errors import InputError, Problem
from simulator.interop.rows.exchanges import ExchangeRow, MappedExchange, map_exchange
from simulator.interop.rows.jsonl import Refused, parse_line, read_lines, read_row
from simulator.run.measured.exchanges import planned, predicted
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

Floats = NDArray[np.float64]
FIGURES: Mapping[str, tuple[str, ...]] = {
    "launch of DeepEP for low latency": ("deepep-low-latency",),
    "launch of the first DeepEP for low latency": ("deepep-first-low-latency",),
    "launch of UCCL-EP for low latency": ("uccl-ep-low-latency", "uccl-ep-low-latency-efa"),
    "launch of MORI for low latency": ("mori-low-latency",),
    "launch of CANN": ("cann",),
    "inside of NVLink, streaming": ("deepep", "uccl-ep-efa"),
    "inside of NVLink, low latency": ("deepep-low-latency", "uccl-ep-low-latency-efa"),
    "inside of xGMI, streaming": ("uccl-ep", "mori"),
    "inside of xGMI, low latency": ("uccl-ep-low-latency", "mori-low-latency"),
    "between on InfiniBand, streaming": ("deepep", "uccl-ep", "mori"),
    "between on InfiniBand, low latency": (
        "deepep-low-latency",
        "deepep-first-low-latency",
        "uccl-ep-low-latency",
        "mori-low-latency",
    ),
    "between on EFA, streaming": ("uccl-ep-efa",),
    "between on EFA, low latency": ("uccl-ep-low-latency-efa",),
}
"""Figures by what they are, and the profiles that have them; kin begin with the same word."""
KNOWN_INSIDE = ("deepep-low-latency",)
"""Profiles whose launch inside a node is measured apart, with few tokens, and kept, as are those of streaming
kernels, which rows of thousands of tokens cannot tell from their efficiency."""
TYPICAL = {"launch": 4e-5, "inside": 0.65, "between": 0.85}
BOUNDS = {"launch": (1e-6, 1e-3), "inside": (0.05, 1.0), "between": (0.05, 1.0)}
PULL = 0.1
"""Weight of a logarithm away from the mean of its kin, beside those of predicted / measured."""


class Model:
    """The closed form of all rows at once, with the figures as variables."""

    def __init__(self, rows: Sequence[MappedExchange]) -> None:
        """Collect the link times of every row at full efficiency."""
        self.measured = np.log([row.measured_s for row in rows])
        self.sources = np.array([row.row.source for row in rows])
        self.inner, self.outer, self.hops = np.array([_times(row) for row in rows]).T
        self.places = {kind: np.array([_place(kind, row.library) for row in rows]) for kind in TYPICAL}
        self.places["launch"][[row.nodes == 1 and row.library in KNOWN_INSIDE for row in rows]] = -1
        self.fixed = {kind: np.array([_shipped(kind, row.library, row.nodes > 1) for row in rows]) for kind in TYPICAL}

    def residuals(self, logs: Floats, seen: NDArray[np.bool_]) -> Floats:
        """Logarithms of predicted / measured of the rows seen, then the pull of each figure to its kin."""
        kinds = np.array([name.partition(" ")[0] for name in FIGURES])
        pulls = [logs[kinds == kind] - logs[kinds == kind].mean() for kind in TYPICAL]
        found: Floats = np.concatenate([(self.logs(logs) - self.measured)[seen], PULL * np.concatenate(pulls)])
        return found

    def logs(self, logs: Floats) -> Floats:
        """Logarithms of the predicted seconds, given those of the figures."""
        values = np.exp(logs)
        launch, inside, between = (
            np.where(self.places[kind] >= 0, values[self.places[kind]], self.fixed[kind]) for kind in TYPICAL
        )
        found: Floats = np.log(launch + self.hops + np.maximum(self.inner / inside, self.outer / between))
        return found

    def fit(self, seen: NDArray[np.bool_]) -> Floats:
        """Logarithms of the figures that fit the rows seen best."""
        kinds = [name.partition(" ")[0] for name in FIGURES]
        low, high = (np.log([BOUNDS[kind][end] for kind in kinds]) for end in (0, 1))
        start = np.log([TYPICAL[kind] for kind in kinds])
        result = least_squares(self.residuals, start, bounds=(low, high), args=(seen,), loss="soft_l1", f_scale=0.2)
        found: Floats = result.x
        return found


def _times(row: MappedExchange) -> tuple[float, float, float]:
    """Seconds of the busiest link inside nodes and between them, at full efficiency, and of the way."""
    plan = planned(row, load_spec(CollectiveProfile, row.library))
    (demand,) = plan.choices[0].demands
    hops = float(plan.choices[0].rate.step_latency(demand, np.zeros(1))[0])
    inner, outer = demand.alone(plan.fabric)
    return float(inner[0]) * row.size_bytes, float(outer[0]) * row.size_bytes, hops


def _place(kind: str, library: str) -> int:
    """Which figure of a kind a library has; -1 where it is not fitted."""
    own = [i for i, (name, users) in enumerate(FIGURES.items()) if name.startswith(kind) and library in users]
    return own[0] if own else -1


def _shipped(kind: str, library: str, across: bool) -> float:
    protocol = load_spec(CollectiveProfile, library).protocols["kernels"]
    if kind == "launch":
        return float((protocol.scale_out if across else protocol.scale_up).launch.value)
    return float((protocol.scale_up if kind == "inside" else protocol.scale_out).efficiency.value)


def read(path: Path) -> tuple[list[MappedExchange], list[str]]:
    """Rows of a file that are simulated, and why others are not; InputError where none is."""
    rows, refused = list[MappedExchange](), list[str]()
    for line in read_lines(path):
        try:
            row = map_exchange(read_row(ExchangeRow, parse_line(line)))
            planned(row, load_spec(CollectiveProfile, row.library))
        except Refused as reason:
            refused.append(f"{line.place}: {reason}")
        else:
            rows.append(row)
    if not rows:
        first = f"; {refused[0]}" if refused else ""
        raise InputError(Problem(f"has no dispatch or combine that is simulated{first}", file=str(path)))
    return rows, refused


def calibrate(asked: Asked) -> None:
    """Fit all figures, or report the errors of the shipped ones; then each source under a fit without it."""
    (path,) = asked.files
    rows, refused = read(path)
    if refused:
        asked.say(f"left out: {len(refused)} rows; {refused[0]}")
    if asked.as_is:
        errors = [predicted(row, load_spec(CollectiveProfile, row.library)) / row.measured_s - 1 for row in rows]
        asked.say(said("all rows, as shipped", errors))
        return
    model = Model(rows)
    best = model.fit(np.ones(len(rows), bool))
    text = "\n".join(f"{name}: {value:.4g}" for name, value in zip(FIGURES, np.exp(best).tolist(), strict=True))
    asked.say(text)
    if asked.out:
        save(asked.out / "exchanges.figures.yaml", text + "\n")
    asked.say(said("all rows", _errors(model, best)))
    blind = _left_out(model)
    for source in dict.fromkeys(model.sources.tolist()):
        own = model.sources == source
        asked.say(said(source, _errors(model, best)[own]) + "; left out: " + said("", blind[own]))
    asked.say(said("every source left out in turn", blind))
    if asked.left_out:
        lines = (f"{row.row.id}\t{error:+.4f}" for row, error in zip(rows, blind.tolist(), strict=True))
        save(asked.left_out, "\n".join(lines) + "\n")


def _left_out(model: Model) -> Floats:
    """Errors of each row under a fit without its source."""
    found = np.zeros(len(model.sources))
    for source in set(model.sources.tolist()):
        own = model.sources == source
        found[own] = _errors(model, model.fit(~own))[own]
    return found


def _errors(model: Model, logs: Floats) -> Floats:
    errors: Floats = np.exp(model.logs(logs) - model.measured) - 1
    return errors
