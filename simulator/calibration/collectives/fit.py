"""Fit collective profiles to measured collectives, and report their errors.

DATA is a folder with `data/kernels`, `data/network` and `measurements/network.jsonl` (docs/models/collectives.md says
where they come from), a file of published rows (.jsonl), or a log of nccl-tests. A fit varies the figures of the
profile whose status is `measured`, first those of `scale_up` on rows within a node, then those of `scale_out` on rows
across nodes, and minimises the logarithm of predicted / measured.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from simulator.calibration.asked import Asked, as_rows, save
from simulator.calibration.collectives.model import BETWEEN, BOUNDS, OWN, Model, predicted
from simulator.calibration.collectives.own import rows_of_file
from simulator.calibration.collectives.rows import MB, PARTS, rows_of
from simulator.specs.catalog import names
from simulator.specs.libraries.collectives import CollectiveProfile, Scopes
from simulator.specs.resolve import load_spec

BINS = {
    "< 64 KB": (0, 64 << 10),
    "64 KB - 4 MB": (64 << 10, 4 * MB),
    "4 - 64 MB": (4 * MB, 64 * MB),
    ">= 64 MB": (64 * MB, 1 << 60),
}


def calibrate(asked: Asked) -> None:
    """Fit the measured figures of the profiles asked for, or report the errors of the shipped ones."""
    left_out: dict[str, float] = {}
    for name, rows in _tables(asked):
        profile = load_spec(CollectiveProfile, name)
        asked.say(f"\n### {name}\n")
        if asked.as_is:
            asked.say(report(rows, predicted(rows, profile)))
            continue
        values = fit(rows, profile, asked.starts)
        asked.say("\n".join(f"{path}: {value:.4g}" for path, value in values.items()))
        seconds = Model(rows, profile).seconds(figures_of(profile)[0] | values)
        asked.say("\n" + report(rows, seconds))
        if asked.left_out:
            left_out |= without_sources(rows, profile, asked)
        if asked.out:
            save(asked.out / f"{name}.yaml", written(name, profile, rows, values, seconds))
    if asked.left_out:
        save(asked.left_out, as_rows(left_out))


def _tables(asked: Asked) -> Iterator[tuple[str, pd.DataFrame]]:
    """(profile, its measurements), of a folder of tables or of a file of one's own."""
    (data,) = asked.files
    if data.is_dir():
        for name in asked.chosen(PARTS, "collective profile"):
            yield name, rows_of(data, name)
        return
    tables = rows_of_file(asked)
    for name in asked.chosen(tables, "collective profile"):
        yield name, tables[name]


def without_sources(rows: pd.DataFrame, profile: CollectiveProfile, asked: Asked) -> dict[str, float]:
    """Errors of the rows of each fitted source under a fit that has not seen it; says the medians beside those seen."""
    model, start, neutral = Model(rows, profile), figures_of(profile)[0], typical(profile)
    whole = model.seconds(start | fit(rows, profile, asked.starts))
    found: dict[str, float] = {}
    asked.say("\n| source left out | rows | median of a fit with it | without it |\n| --- | --- | --- | --- |")
    for source in sorted(set(rows.source[rows.part == "fitted"])):
        mine = (rows.source == source).to_numpy()
        blind = model.seconds(start | fit(rows[~mine].reset_index(drop=True), profile, asked.starts, neutral))
        errors, seen = (each[mine] / rows.seconds.to_numpy()[mine] - 1 for each in (blind, whole))
        asked.say(f"| {source} | {mine.sum()} | {np.median(abs(seen)):.1%} | {np.median(abs(errors)):.1%} |")
        ids = (f"{row.source} {row.op} {row.ranks} on {row.nodes}: {row.size:.0f}" for row in rows[mine].itertuples())
        found |= dict(zip(ids, errors.tolist(), strict=True))
    return found


def typical(profile: CollectiveProfile) -> dict[str, float]:
    """The measured figures as the medians of other shipped profiles, which have not seen this one's rows; the middle of
    what is searched where no other profile has them.

    What others took over from this one is left out. Fills are compared as a whole: a large fraction belongs to few
    bytes, so the median is that of what a long message loses.
    """
    own, wanted = figures_of(profile)
    others = [load_spec(CollectiveProfile, name) for name in names(CollectiveProfile)]
    known = [_whole(figures_of(other)[0]) for other in others if other.name != profile.name]
    mine, found = _whole(own), {}
    for path in wanted:
        values = [each[path] for each in known if each.get(path, 0.0) > 0 and each[path] != mine[path]]
        low, high = BOUNDS[path.rsplit(".", 1)[-1]]
        found[path] = float(np.median(values)) if values else float(np.sqrt(low * high))
    for path in [path for path in found if path.endswith(".fraction")]:
        size = path.replace(".fraction", ".bytes")
        lost = [each[size] * each[path] for each in known if path in each and each[path] != mine[path]]
        if size in found and lost:
            found[size] = float(np.clip(np.median(lost) / found[path], *BOUNDS["bytes"]))
    return found


def _whole(figures: dict[str, float]) -> dict[str, float]:
    """Figures with those that stand for nothing left out."""
    return {path: value for path, value in figures.items() if value > 1e-12}


_UNITS = {
    "launch": ("us", 1e6),
    "latency": ("us", 1e6),
    "bytes": ("kB", 1e-3),
    "wait": ("us", 1e6),
    "piece_bytes": ("kB", 1e-3),
}


def written(
    name: str, profile: CollectiveProfile, rows: pd.DataFrame, values: dict[str, float], seconds: np.ndarray[Any, Any]
) -> str:
    """The profile that extends the shipped one by fitted figures, with their source and what is left of the errors."""
    errors = abs(seconds / rows.seconds.to_numpy() - 1)
    held = (rows.part != "fitted").to_numpy()
    sources = sorted(set(rows.source[~held]))
    named = ", ".join(sources[:4]) + (f" and {len(sources) - 4} more" if len(sources) > 4 else "")
    left = f"median error {np.median(errors[~held]):.1%}" if (~held).any() else "nothing fitted"
    blind = f", held-out sizes and sources {np.median(errors[held]):.1%}" if held.any() else ""
    source = f"clustersim calibrate collectives on {int((~held).sum())} rows of {named}: {left}{blind}"
    lines = [f"extends: collectives/{name}", f"name: {json.dumps(profile.name + ', fitted')}"]
    nested: dict[str, Any] = {}
    for path, value in values.items():
        unit, scale = _UNITS.get(path.rsplit(".", 1)[-1], ("", 1.0))
        figure = {"value": f"{value * scale:.4g} {unit}".strip(), "status": "measured", "source": source}
        keys = [OWN] if path == OWN else ["protocols", *_keys(path)]
        inner = nested
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
        inner[keys[-1]] = figure
    return "\n".join([*lines, *_yaml(nested)]) + "\n"


def _keys(path: str) -> list[str]:
    protocol, scope, key = path.rsplit(".", 2)
    part = {"fraction": ["fill"], "bytes": ["fill"], "wait": ["piece"], "piece_bytes": ["piece"]}.get(key, [])
    return [*protocol.split("."), scope, *part, key.removeprefix("piece_")]


def _yaml(nested: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """Mappings in blocks, figures in one line."""
    for key, value in nested.items():
        if "value" in value:
            number = value["value"]
            figure = f"{{value: {number}, status: {value['status']}, source: {json.dumps(value['source'])}}}"
            yield f"{'  ' * depth}{key}: {figure}"
        else:
            yield f"{'  ' * depth}{key}:"
            yield from _yaml(value, depth + 1)


def _scopes(profile: CollectiveProfile) -> Iterator[tuple[str, Scopes]]:
    """Protocols by path, and what they say of trees apart."""
    for name, protocol in profile.protocols.items():
        yield name, protocol
        if protocol.trees is not None:
            yield f"{name}.trees", protocol.trees


def figures_of(profile: CollectiveProfile) -> tuple[dict[str, float], set[str]]:
    """All figures of the protocols by path, `fill` left out of it, and those that are measured."""
    values, measured = {OWN: profile.own_piece.value if profile.own_piece else 0.0}, set()
    if profile.own_piece and profile.own_piece.status == "measured":
        measured.add(OWN)
    for name, protocol in _scopes(profile):
        for scope_name, scope in (("scale_up", protocol.scale_up), ("scale_out", protocol.scale_out)):
            figures = {"launch": scope.launch, "latency": scope.latency, "efficiency": scope.efficiency}
            if scope.fill is not None:
                figures |= {"fraction": scope.fill.fraction, "bytes": scope.fill.bytes}
            if scope.piece is not None:
                figures |= {"wait": scope.piece.wait, "piece_bytes": scope.piece.bytes}
            for key, figure in figures.items():
                path = f"{name}.{scope_name}.{key}"
                values[path] = max(float(figure.value), 1e-12)
                if figure.status == "measured":
                    measured.add(path)
    return values, measured


def fit(
    rows: pd.DataFrame, profile: CollectiveProfile, starts: int = 1, begin: dict[str, float] | None = None
) -> dict[str, float]:
    """New values of the measured figures, from descents that start at the present ones, or at `begin`, and around."""
    values, measured = figures_of(profile)
    values |= begin or {}
    for across in (False, True):
        seen = rows[(rows.part == "fitted") & ((rows.nodes > 1) == across)].reset_index(drop=True)
        free = sorted(path for path in measured if _crosses(path, profile) == across)
        if len(seen) and free:
            values |= _solved(Model(seen, profile), seen, values, free, starts)
    return {path: values[path] for path in sorted(measured)}


def _crosses(path: str, profile: CollectiveProfile) -> bool:
    """Whether a figure shows only in collectives between nodes."""
    protocol, _, rest = path.partition(".")
    return "scale_out" in rest or (
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
