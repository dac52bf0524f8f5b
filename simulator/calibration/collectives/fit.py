"""Fit collective profiles to measured collectives, and report their errors.

DATA is a folder with `data/kernels`, `data/network` and `measurements/network.jsonl` (docs/models/collectives.md says
where they come from). A fit varies the figures of the profile whose status is `measured`, first those of `scale_up` on
rows within a node, then those of `scale_out` on rows across nodes, and minimises the logarithm of predicted / measured.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from simulator.calibration.asked import Asked, save
from simulator.calibration.collectives.model import BETWEEN, BOUNDS, OWN, Model, predicted
from simulator.calibration.collectives.rows import MB, PARTS, rows_of
from simulator.specs.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

BINS = {
    "< 64 KB": (0, 64 << 10),
    "64 KB - 4 MB": (64 << 10, 4 * MB),
    "4 - 64 MB": (4 * MB, 64 * MB),
    ">= 64 MB": (64 * MB, 1 << 60),
}


def calibrate(asked: Asked) -> None:
    """Fit the measured figures of the profiles asked for, or report the errors of the shipped ones."""
    (data,) = asked.files
    for name in asked.chosen(PARTS, "collective profile"):
        profile, rows = load_spec(CollectiveProfile, name), rows_of(data, name)
        asked.say(f"\n### {name}\n")
        if asked.as_is:
            asked.say(report(rows, predicted(rows, profile)))
            continue
        text = "\n".join(f"{path}: {value:.4g}" for path, value in fit(rows, profile, asked.starts).items())
        asked.say(text)
        if asked.out:
            save(asked.out / f"{name}.figures.yaml", text + "\n")


def figures_of(profile: CollectiveProfile) -> tuple[dict[str, float], set[str]]:
    """All figures of the protocols by path, `fill` left out of it, and those that are measured."""
    values, measured = {OWN: profile.own_piece.value if profile.own_piece else 0.0}, set()
    if profile.own_piece and profile.own_piece.status == "measured":
        measured.add(OWN)
    for name, protocol in profile.protocols.items():
        for scope_name, scope in (("scale_up", protocol.scale_up), ("scale_out", protocol.scale_out)):
            figures = {"launch": scope.launch, "latency": scope.latency, "efficiency": scope.efficiency}
            if scope.fill is not None:
                figures |= {"fraction": scope.fill.fraction, "bytes": scope.fill.bytes}
            for key, figure in figures.items():
                path = f"{name}.{scope_name}.{key}"
                values[path] = max(float(figure.value), 1e-12)
                if figure.status == "measured":
                    measured.add(path)
    return values, measured


def fit(rows: pd.DataFrame, profile: CollectiveProfile, starts: int = 1) -> dict[str, float]:
    """New values of the measured figures, from descents that start at the present ones and around them."""
    values, measured = figures_of(profile)
    for across in (False, True):
        seen = rows[(rows.part == "fitted") & ((rows.nodes > 1) == across)].reset_index(drop=True)
        free = sorted(path for path in measured if _crosses(path, profile) == across)
        if len(seen) and free:
            values |= _solved(Model(seen, profile), seen, values, free, starts)
    return {path: values[path] for path in sorted(measured)}


def _crosses(path: str, profile: CollectiveProfile) -> bool:
    """Whether a figure shows only in collectives between nodes."""
    protocol, _, rest = path.partition(".")
    return rest.startswith("scale_out") or (
        protocol != OWN and profile.protocols[protocol].algorithms[:1] in [(n,) for n in BETWEEN]
    )


def _solved(
    model: Model, rows: pd.DataFrame, values: dict[str, float], free: list[str], starts: int
) -> dict[str, float]:
    """The best of several descents from starting points around the present values."""
    low, high = (np.log([BOUNDS[path.rsplit(".", 1)[-1]][end] for path in free]) for end in (0, 1))
    start = np.clip(np.log([values[path] for path in free]), low + 1e-3, high - 1e-3)
    random = np.random.default_rng(1)
    measured = np.log(rows.seconds.to_numpy())

    def residuals(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        logs: np.ndarray[Any, Any] = np.log(model.seconds(values | dict(zip(free, np.exp(x), strict=True)))) - measured
        return logs

    found = []
    for attempt in range(starts):
        shifted = np.clip(start + (attempt > 0) * random.normal(0, 0.3, len(free)), low + 1e-3, high - 1e-3)
        found.append(least_squares(residuals, shifted, bounds=(low, high), loss="soft_l1", f_scale=0.1, max_nfev=120))
    best = min(found, key=lambda result: float(result.cost))
    return dict(zip(free, np.exp(best.x).tolist(), strict=True))


def report(rows: pd.DataFrame, seconds: np.ndarray[Any, Any]) -> str:
    """Mean absolute and signed error of the time by part, place and size, as Markdown; then by source."""
    rows = rows.assign(error=seconds / rows.seconds - 1, place=np.where(rows.nodes > 1, "between nodes", "one node"))
    lines = [f"| rows | place | {' | '.join(BINS)} |", "| --- | --- |" + " --- |" * len(BINS)]
    for (part, place), group in rows.groupby(["part", "place"]):
        lines.append(f"| {part} | {place} | {' | '.join(_cells(group))} |")
    lines += ["", f"| source | operation | ranks | {' | '.join(BINS)} |", "| --- | --- | --- |" + " --- |" * len(BINS)]
    for (source, op), group in rows.groupby(["source", "op"]):
        ranks = ", ".join(map(str, sorted(set(group.ranks))))
        part = group.part.iloc[0].replace("held-out sizes", "fitted")
        lines.append(f"| {source} ({part}) | {op} | {ranks} | {' | '.join(_cells(group))} |")
    return "\n".join(lines)


def _cells(group: pd.DataFrame) -> Iterator[str]:
    for low, high in BINS.values():
        part = group.error[(group["size"] >= low) & (group["size"] < high)]
        yield f"{part.abs().mean():.1%} ({part.mean():+.1%}, {len(part)})" if len(part) else ""
