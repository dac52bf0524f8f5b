"""Fit collective profiles to measured collectives, and report their errors.

DATA is a folder with `data/kernels`, `data/network` and `measurements/network.jsonl` (docs/models/collectives.md says
where they come from), a file of published rows (.jsonl), or a log of nccl-tests. A fit varies the figures of the
profile whose status is `measured`, first those of `scale_up` on rows within a node, then those of `scale_out` on rows
across nodes, and minimises the logarithm of predicted / measured. What the rows do not identify
(`simulator/calibration/collectives/touched.py`) stays as the profile has it, and a fit that does not hold for rows held
back is not written.
"""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from simulator.calibration.asked import SAID, Asked, as_rows, save
from simulator.calibration.collectives.figures import BOUNDS, OWN, figures_of, kind_of
from simulator.calibration.collectives.model import BETWEEN, Model, predicted
from simulator.calibration.collectives.own import rows_of_file
from simulator.calibration.collectives.prior import Prior, held, prior
from simulator.calibration.collectives.rows import MB, PARTS, rows_of
from simulator.calibration.collectives.touched import NOISE, Told, at_bound, identified
from simulator.calibration.fitting import Floats, Solution, unsettled
from simulator.errors import InputError, Problem
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

BINS = {
    "< 64 KB": (0, 64 << 10),
    "64 KB - 4 MB": (64 << 10, 4 * MB),
    "4 - 64 MB": (4 * MB, 64 * MB),
    ">= 64 MB": (64 * MB, 1 << 60),
}


HOST = 0.3
"""Standard deviation of the logarithm by which all launches of a profile are off their priors together, as hosts and
clocks of devices differ: those of H100 are 0 to 0.5 below those of its kin, those of A100 0.3 to 0.4 above."""


DESCRIBED = 0.3
"""Median error of rows held back, short or long, beyond which a fit is not written: the rows are of another machine
than the cluster, or the clock was disturbed."""
HALVES = {"below 1 MiB": (0.0, float(MB)), "from 1 MiB": (float(MB), np.inf)}
"""Messages that are judged apart: where launches decide, and where links do."""


def calibrate(asked: Asked) -> None:
    """Fit the measured figures of the profiles asked for, or report the errors of the shipped ones; InputError where a
    fit does not hold, after all others are written, or where no profile has rows that identify a figure."""
    left_out: dict[str, float] = {}
    missed, empty, holds = list[Problem](), list[Problem](), False
    for name, rows in _tables(asked):
        profile = load_spec(CollectiveProfile, name)
        asked.say(f"\n### {name}\n")
        if asked.as_is:
            asked.say(report(rows, predicted(rows, profile)))
            continue
        model = Model(rows, profile)
        values, told = settled(model, asked.starts, held(profile))
        asked.say("\n".join(_said(name, values, told)))
        seconds = model.seconds(figures_of(profile)[0] | values)
        asked.say("\n" + report(rows, seconds))
        if asked.left_out:
            left_out |= without_sources(name, rows, profile, asked)
        if problem := _missed(name, rows, seconds, asked):
            missed.append(problem)
        elif not told.rows:
            empty.append(_empty(name, told, asked))
            asked.say(empty[-1].message)
        else:
            holds = True
            if asked.out:
                save(asked.out / f"{name}.yaml", written(name, profile, rows, values, told, seconds))
    if asked.left_out:
        save(asked.left_out, as_rows(left_out))
    if missed or (empty and not holds):
        raise InputError(*(missed or empty))


def _empty(name: str, told: Told, asked: Asked) -> Problem:
    """Why there is no fit."""
    lacks = "its rows identify no figure" if told.loose else "it has no figure whose status is `measured`"
    hint = "measure more sizes" if told.loose else ""
    return Problem(f"{name}: not written, for {lacks}", file=str(asked.files[0]), hint=hint)


def _said(name: str, values: dict[str, float], told: Told) -> Iterator[str]:
    """Lines of the figures that rows identify, and of those that they do not or that end at a bound."""
    for path, value in values.items():
        yield f"{path}: {value:.4g} ({told.rows[path]} rows)"
    yield from unsettled(name, Solution(values, told.loose, told.bounded))
    if told.loose:
        yield "what is not identified stays as the profile has it"


def _missed(name: str, rows: pd.DataFrame, seconds: Floats, asked: Asked) -> Problem | None:
    """Why a fit is not written; None where it is. Where no rows are held back those that were seen count."""
    errors = rows.assign(error=seconds / rows.seconds - 1)
    blind = errors[errors.part != "fitted"]
    what, judged = ("rows held back", blind) if len(blind) else ("its rows", errors)
    off = []
    for half, (low, high) in HALVES.items():
        own = judged[(judged["size"] >= low) & (judged["size"] < high)]
        if len(own) and (median_error := own.error.abs().median()) > DESCRIBED:
            off.append(f"{what} {half} are off by {median_error:.0%} in the median ({', '.join(_worst(own))})")
    if not off:
        return None
    cluster = f"`{asked.cluster}`" if asked.cluster else "the one that they name"
    hint = f"likely they were measured on another cluster than {cluster}, or while it was busy"
    return Problem(f"{name}: not written, for {', '.join(off)}", file=str(asked.files[0]), hint=hint)


def _worst(rows: pd.DataFrame) -> list[str]:
    """The groups of rows that are further off than `DESCRIBED`, the largest first."""
    groups = rows.groupby(["source", "op", "ranks", "nodes"], sort=False).error
    found: list[tuple[int, Any, float]] = [
        (len(own), key, own.median()) for key, own in groups if own.abs().median() > DESCRIBED
    ]
    named = []
    for count, (source, op, ranks, nodes), error in sorted(found, key=lambda one: -one[0]):
        group = f"{op} of {ranks} ranks on {nodes} node{'s' * (nodes > 1)}"
        named.append(f"{group} of {source}: {count} row{'s' * (count > 1)}, {error:+.0%}")
    return [*named[:SAID], *([f"and {len(named) - SAID} groups more"] if len(named) > SAID else [])]


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


def without_sources(name: str, rows: pd.DataFrame, profile: CollectiveProfile, asked: Asked) -> dict[str, float]:
    """Errors of the rows of each fitted source under a fit that has not seen it; says the medians beside those seen.

    Both fits move every measured figure, also those that the rows do not identify, from what other devices have, not
    from the profile: it may have seen the source that is left out.
    """
    rows = rows.assign(left=rows.source.where(rows.source.isin(rows.source[rows.part == "fitted"]), ""))
    blind, seen = without(Model(rows, profile), rows.left, prior(name, profile), asked.starts)
    found: dict[str, float] = {}
    asked.say("\n| source left out | rows | median of a fit with it | without it |\n| --- | --- | --- | --- |")
    for source in sorted(set(rows.left) - {""}):
        mine = (rows.left == source).to_numpy()
        asked.say(f"| {source} | {mine.sum()} | {median(seen[mine])} | {median(blind[mine])} |")
        ids = (f"{row.source} {row.op} {row.ranks} on {row.nodes}: {row.size:.0f}" for row in rows[mine].itertuples())
        found |= dict(zip(ids, blind[mine].tolist(), strict=True))
    return found


def without(
    model: Model, groups: Iterable[str], before: Prior, starts: int = 1
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(errors of each row under a fit that has not seen its group, under a fit on all); rows of group `` are not left
    out."""
    name, measured = np.array(list(groups)), model.rows.seconds.to_numpy()
    fixed, known = figures_of(model.profile)[0], (model.rows.part == "fitted").to_numpy()
    seen = model.seconds(fixed | fitted(model, starts, before)) / measured - 1
    blind = seen.copy()
    for group in sorted(set(name.tolist()) - {""}):
        mine = name == group
        figures = fixed | fitted(model, starts, before, known & ~mine)
        blind[mine] = model.part(mine).seconds(figures) / measured[mine] - 1
    return blind, seen


def median(errors: np.ndarray[Any, Any]) -> str:
    """Of the sizes of errors, in per cent."""
    return f"{np.median(abs(errors)):.1%}"


_UNITS = {
    "launch": ("us", 1e6),
    "latency": ("us", 1e6),
    "bytes": ("kB", 1e-3),
    "wait": ("us", 1e6),
    "piece_bytes": ("kB", 1e-3),
}


def written(
    name: str,
    profile: CollectiveProfile,
    rows: pd.DataFrame,
    values: Mapping[str, float],
    told: Told,
    seconds: Floats,
) -> str:
    """The profile that extends the shipped one by the figures that rows identify, with their source and what is left of
    the errors. What ends at a bound is an estimate: its rows ask for more than the range allows."""
    errors = abs(seconds / rows.seconds.to_numpy() - 1)
    held = (rows.part != "fitted").to_numpy()
    sources = sorted(set(rows.source[~held]))
    named = ", ".join(sources[:4]) + (f" and {len(sources) - 4} more" if len(sources) > 4 else "")
    left = f"median error {np.median(errors[~held]):.1%}" if (~held).any() else "nothing fitted"
    blind = f", held-out sizes and sources {np.median(errors[held]):.1%}" if held.any() else ""
    lines = [f"extends: collectives/{name}", f"name: {json.dumps(profile.name + ', fitted')}"]
    nested: dict[str, Any] = {}
    for path, value in values.items():
        unit, scale = _UNITS.get(path.rsplit(".", 1)[-1], ("", 1.0))
        stands = f"clustersim calibrate collectives on {told.rows[path]} of {int((~held).sum())} rows of {named}"
        bounded = "; at a bound of its range" if path in told.bounded else ""
        figure = {
            "value": f"{value * scale:.4g} {unit}".strip(),
            "status": "estimate" if bounded else "measured",
            "source": f"{stands}: {left}{blind}{bounded}",
        }
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


def settled(model: Model, starts: int, before: Prior) -> tuple[dict[str, float], Told]:
    """(values of the figures that rows of the part `fitted` identify, what these say of all measured ones).

    The others are held at what the profile has and the fit is made again, until it moves what its rows identify alone.
    """
    measured = figures_of(model.profile)[1]
    free = set(measured)
    while True:
        values = fitted(model, starts, before, free=free)
        rows = _told(model, values, free, before)
        if set(rows) == free:
            break
        free = set(rows)
    found = {path: values[path] for path in sorted(free)}
    bounded = tuple(path for path, value in found.items() if at_bound(path, value))
    return found, Told(rows, bounded, tuple(sorted(measured - free)))


def _told(model: Model, values: dict[str, float], free: Collection[str], before: Prior) -> dict[str, int]:
    """Those of the free figures that the rows of their own step of the fit identify, with how many touch each."""
    figures = figures_of(model.profile)[0] | values
    found: dict[str, int] = {}
    for own, paths in _steps(model, free, (model.rows.part == "fitted").to_numpy()):
        part = model.part(own)
        off = _softened(np.log(part.seconds(figures)) - np.log(part.rows.seconds.to_numpy()))
        found |= identified(part, figures, paths, before.spread, off)
    return found


def fitted(
    model: Model,
    starts: int = 1,
    before: Prior | None = None,
    seen: np.ndarray[Any, Any] | None = None,
    free: Collection[str] | None = None,
) -> dict[str, float]:
    """New values of the measured figures, by the rows `seen` (None: those of the part `fitted`); of those that are not
    `free` (None: all are) the profile's.

    With `before` each figure is held to what is known of it without these rows: a row counts as `NOISE` exact, a figure
    as exact as its spread, so that one which few rows show stays near it and one which no row shows there.
    """
    wanted = (model.rows.part == "fitted").to_numpy() if seen is None else seen
    values, measured = figures_of(model.profile)
    varied = measured if free is None else set(free)
    values |= {path: value for path, value in before.values().items() if path in varied} if before else {}
    host = 0.0
    for own, paths in _steps(model, varied, wanted):
        found, host = _solved(model.part(own), values, paths, starts, before, host)
        values |= found
    return {path: values[path] for path in sorted(measured)}


def _steps(
    model: Model, free: Collection[str], wanted: np.ndarray[Any, Any]
) -> Iterator[tuple[np.ndarray[Any, Any], list[str]]]:
    """(rows, figures) of the steps of a fit: within a node, then between nodes."""
    for across in (False, True):
        own = wanted & ((model.rows.nodes > 1) == across).to_numpy()
        paths = sorted(path for path in free if _crosses(path, model.profile) == across)
        if own.any() and paths:
            yield own, paths


def _crosses(path: str, profile: CollectiveProfile) -> bool:
    """Whether a figure shows only in collectives between nodes: trees do, inside a node libraries take rings."""
    protocol, _, rest = path.partition(".")
    return rest.startswith(("scale_out", "trees.")) or (
        protocol != OWN and profile.protocols[protocol].algorithms[:1] in [(n,) for n in BETWEEN]
    )


def _solved(
    model: Model, values: dict[str, float], free: list[str], starts: int, before: Prior | None, host: float
) -> tuple[dict[str, float], float]:
    """The best of several descents from points around the present values, and by how much all launches are off.

    `host` is how much they are off inside nodes, as a logarithm: what they are between nodes is looked for around that.
    """
    low, high = (np.log([BOUNDS[kind_of(path)][end] for path in free] + [np.exp(3 * (2 * end - 1))]) for end in (0, 1))
    first = [*np.log([values[path] for path in free]), host]
    start = np.clip(first, low + 1e-3, high - 1e-3)
    random = np.random.default_rng(1)
    measured = np.log(model.rows.seconds.to_numpy())
    middle, spread, launches = _held_to(free, before, start)

    def residuals(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        logs = np.log(model.seconds(values | dict(zip(free, np.exp(x[:-1]), strict=True)))) - measured
        return np.concatenate(
            [_softened(logs), NOISE * (x[:-1] - middle - launches * x[-1]) / spread, [NOISE * (x[-1] - host) / HOST]]
        )

    found = []
    for attempt in range(starts):
        shifted = np.clip(start + (attempt > 0) * random.normal(0, 0.3, len(start)), low + 1e-3, high - 1e-3)
        found.append(least_squares(residuals, shifted, bounds=(low, high), max_nfev=120))
    best = min(found, key=lambda result: float(result.cost))
    return dict(zip(free, np.exp(best.x[:-1]).tolist(), strict=True)), float(best.x[-1])


def _softened(logs: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Residuals of rows whose squares grow in proportion where a row is far off (soft L1), so that few such rows do not
    decide; how far figures are from what is known of them counts by its square."""
    softened: np.ndarray[Any, Any] = np.sign(logs) * NOISE * np.sqrt(2 * (np.hypot(1, logs / NOISE) - 1))
    return softened


def _held_to(
    free: list[str], before: Prior | None, start: np.ndarray[Any, Any]
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Where the logarithms of figures are without rows, how far from there they may be, and which are launches."""
    launches = np.array([kind_of(path) == "launch" for path in free])
    if before is None:
        return start[:-1], np.full(len(free), np.inf), np.zeros(len(free))
    middle, spread = (np.array([each[path] for path in free]) for each in (before.middle, before.spread))
    own = np.sqrt(np.maximum(spread**2 - HOST**2, (0.5 * spread) ** 2))
    return middle, np.where(launches, own, spread), launches.astype(float)


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
