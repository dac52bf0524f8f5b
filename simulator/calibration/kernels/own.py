"""A kernel profile from kernels timed on a device of your own: files of `clustersim measure`, or such tables.

The profile that the accelerator has is where every coefficient starts, and where one stays that no row tells apart (a
weak prior, `fitting.PRIOR`). Each group (products of a format, attention over prompts, over a cache, passes over
memory) is fitted twice: without a quarter of its rows, whose errors are the report, and with all of them. What the rows
do not identify, what ends at a bound, and what is read and not fitted is said. What is written extends the present
profile by the groups that were fitted; one whose rows the model does not describe stays as it is.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simulator.calibration.asked import Asked, printable, save
from simulator.calibration.fitting import Floats, Found, Parameter, Report, report_row, solution, unsettled
from simulator.calibration.kernels.attention import ATTENTION, RATE
from simulator.calibration.kernels.gemm import CURVE, GEMM, SPLIT, gemm_times, tile_rates
from simulator.calibration.kernels.profile_lines import COMMAND, attention_yaml, gemm_yaml, group_yaml, markdown
from simulator.calibration.kernels.serving import DECODE
from simulator.cost import compile_device
from simulator.cost.device import gemm_curve, kernels_named, reference
from simulator.errors import InputError, Problem, SimulatorError
from simulator.interop.rows.benchmarks import Benchmarks, read_benchmarks
from simulator.interop.rows.jsonl import Refused
from simulator.interop.rows.kernels import KernelRow
from simulator.run.measured.benchmarks import predicted
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import GemmKernels, KernelProfile
from simulator.specs.resolve import load_spec

FEWEST = 6
"""Rows that a group needs."""
DESCRIBED = 30.0
"""Median error of rows held back, in per cent, beyond which a group is not written: the clock was disturbed, or the
device has other kernels than the model's."""
EVALUATIONS = 40
"""Of a descent."""
STREAM = {"memory": Parameter(0.8, 0.05, 1.0, False), "launch": Parameter(2e-6, 3e-7, 5e-5)}
CACHED = 2.0
"""Passes over fewer bytes than so many last-level caches are not fitted, but for the shortest: a benchmark's rotation
keeps out of the cache what a layer finds there."""
TINY = 1 << 16
"""Bytes of the shortest."""
LAUNCH = replace(GEMM["launch"], high=5e-5)
"""A call of an operator from Python at most."""


@dataclass(frozen=True)
class Group:
    """Rows whose kernels share coefficients."""

    name: str
    rows: tuple[KernelRow, ...]
    parameters: Mapping[str, Parameter]
    """Starting where the present profile is."""
    times: Callable[[Sequence[KernelRow], Found], Floats]
    """Seconds of rows by coefficients."""
    lines: Callable[[Found, str], list[str]]
    """YAML of coefficients with their source."""
    section: str
    """Key of the profile that the lines stand under; empty where they bring their own."""


def calibrate(asked: Asked) -> None:
    """Fit the groups that the rows of the files have, say their errors, and write the profile."""
    read = [read_benchmarks(path) for path in asked.files]
    rows = tuple(row for one in read for row in one.rows)
    asked.say_refused([reason for one in read for reason in one.refused])
    accelerator, name = _accelerator(asked, read)
    profile = kernels_named(accelerator.kernels)
    groups, left = grouped(rows, accelerator, profile)
    words = _clean(read[0].header.words or "measured elsewhere")
    report: Report = []
    sections: dict[str, list[str]] = {}
    notes: list[str] = []
    kept: list[str] = []
    for group in groups:
        found, errors, unsure = fit(group, name)
        report += errors
        blind = float(str(errors[1]["median"]))
        if blind > DESCRIBED:
            kept.append(f"{name} {group.name}: not written, for rows held back are off by {blind:.0f} % in the median")
            continue
        notes += unsure
        source = f"{words}, {len(group.rows)} rows, {COMMAND}; rows held back are off by {blind:.1f} % in the median"
        sections.setdefault(group.section, []).extend(group.lines(found, source))
    if not groups:
        raise InputError(Problem(f"no group has {FEWEST} rows or more to fit", file=read[0].file, hint="measure more"))
    asked.say("\n".join([markdown(report), *notes, *kept, *_left(left, rows, accelerator)]))
    if asked.report:
        save(asked.report, markdown(report) + "\n")
    if not sections:
        raise InputError(Problem("the model of kernels describes no group of its rows", file=read[0].file))
    text = "\n".join(_document(accelerator, sections, notes)) + "\n"
    if asked.out is None:
        asked.say(text)
    else:
        save(asked.out / f"{name}.yaml", text)


def _accelerator(asked: Asked, read: Sequence[Benchmarks]) -> tuple[Accelerator, str]:
    """(the device that the rows ran on, name of its kernel profile); InputError where files are of several or none."""
    said = {one.header.accelerator for one in read if one.header.accelerator}
    if asked.accelerator is None and len(said) != 1:
        words = f"the files are of {', '.join(sorted(map(str, said)))}" if said else "the files name no accelerator"
        raise InputError(Problem(words, file=read[0].file, hint="write `--accelerator NAME`, a profile's name or file"))
    accelerator = load_spec(Accelerator, asked.accelerator or said.pop() or "")
    name = asked.profiles[0] if asked.profiles else Path(accelerator.kernels).stem
    if not name.replace("-", "").replace("_", "").replace(".", "").isalnum() or name.startswith("."):
        raise InputError(Problem(f"`{name}` is no name of a profile", hint="letters, digits, `-`, `_` and `.`"))
    return accelerator, name


def _left(left: Sequence[KernelRow], rows: Sequence[KernelRow], accelerator: Accelerator) -> list[str]:
    """Lines that say what was read and not fitted."""
    counts = Counter(f"{row.op} {row.dtype or ''}".strip() for row in left)
    listed = [f"read, not fitted: {count} of {name}" for name, count in counts.items()]
    for row in left:
        if row.op.startswith("block"):
            listed += _block(row, accelerator)
    return listed


def _block(row: KernelRow, accelerator: Accelerator) -> list[str]:
    try:
        ours, clock = predicted(row, accelerator), row.metrics["time_s"]
    except (Refused, SimulatorError):
        return []
    return [
        f"{row.op} before this fit: {ours * 1e3:.3g} ms of {clock * 1e3:.3g} ms ({100 * (ours / clock - 1):+.1f} %)"
    ]


# ---- groups --------------------------------------------------------------------------------------------------------


def grouped(
    rows: Sequence[KernelRow], accelerator: Accelerator, profile: KernelProfile
) -> tuple[list[Group], list[KernelRow]]:
    """(groups with rows enough to fit, rows of no group)."""
    peaks = {str(dtype) for dtype in accelerator.peak}
    formats = sorted({str(row.dtype) for row in rows if row.op == "gemm" and row.dtype in peaks})
    made = [
        _products(dtype, [r for r in rows if r.op == "gemm" and r.dtype == dtype], accelerator, profile)
        for dtype in formats
    ]
    prompts = [row for row in rows if row.op.startswith("attention_fwd") and row.dtype in peaks]
    cached = [row for row in rows if row.op == "attention_decode"]
    cache = accelerator.on_chip.value if accelerator.on_chip else 0.0
    passes = [r for r in rows if r.op.startswith("stream") and not TINY < r.shape["bytes"] < CACHED * cache]
    made += [
        _attention(prompts, accelerator, profile),
        _decode(cached, accelerator, profile),
        _stream(passes, accelerator, profile),
    ]
    groups = [group for group in made if len(group.rows) >= FEWEST]
    taken = {id(row) for group in groups for row in group.rows}
    return groups, [row for row in rows if id(row) not in taken]


def _from(parameters: Mapping[str, Parameter], present: Mapping[str, float]) -> dict[str, Parameter]:
    """Parameters that start where a profile is, within their ranges."""
    starts = {name: min(max(present.get(name, one.start), one.low), one.high) for name, one in parameters.items()}
    return {name: replace(one, start=starts[name]) for name, one in parameters.items()}


def _cores(accelerator: Accelerator, profile: KernelProfile) -> int:
    return accelerator.cores.value if accelerator.cores else profile.cores


def _products(dtype: str, rows: Sequence[KernelRow], accelerator: Accelerator, profile: KernelProfile) -> Group:
    key = reference(dtype, profile.gemm)
    base, cores, bandwidth = profile.gemm[key], _cores(accelerator, profile), accelerator.memory.bandwidth.value
    sides = [(tile.long, tile.short) for tile in base.tiles]
    names = [name for name in GEMM if base.splits or name not in SPLIT]
    present = {name: float(getattr(base, name)) for name in names} | _tops(base)
    parameters = _from({name: GEMM[name] for name in names} | CURVE | {"launch": LAUNCH}, present)
    peaks = {str(key): figure.value for key, figure in accelerator.peak.items()}

    def spec(found: Found) -> GemmKernels:
        tiles = tuple(
            tile.model_copy(update={"efficiency": rate})
            for tile, rate in zip(base.tiles, tile_rates(found, sides), strict=True)
        )
        return base.model_copy(update={name: found[name] for name in names} | {"tiles": tiles})

    def times(some: Sequence[KernelRow], found: Found) -> Floats:
        table = pd.DataFrame([{side: row.shape[side] for side in "mnk"} for row in some])
        curve = gemm_curve(dtype, {key: spec(found)}, peaks, bandwidth, cores, 1.0)
        return gemm_times(table, curve)

    def lines(found: Found, source: str) -> list[str]:
        rates = {f"{a}x{b}": rate for (a, b), rate in zip(sides, tile_rates(found, sides), strict=True)}
        return gemm_yaml(dtype, found | rates, names, sides, source) + ([] if base.splits else ["    splits: false"])

    usable = tuple(row for row in rows if min(row.shape["n"], row.shape["k"]) >= 16)
    return Group(f"products {dtype}", usable, parameters, times, lines, "gemm")


def _tops(base: GemmKernels) -> dict[str, float]:
    """(top, slope) of a profile's tiles, see `gemm.CURVE`."""
    sides = [2.0 * tile.long * tile.short / (tile.long + tile.short) for tile in base.tiles]
    x = np.log(np.array(sides) / max(sides))
    y = np.log([tile.efficiency for tile in base.tiles])
    top = max(tile.efficiency for tile in base.tiles)
    slope = float(x @ (y - log(top)) / max(float(x @ x), 1e-12))
    return {"top": top, "slope": slope}


def _priced(
    accelerator: Accelerator, profile: KernelProfile, rows: Sequence[KernelRow], update: Mapping[str, Any]
) -> Floats:
    """Seconds of rows on the accelerator with other kernels."""
    bare = accelerator.model_copy(update={"sustained": None})
    device = compile_device(bare, profile.model_copy(update=dict(update)))
    return np.array([predicted(row, bare, device) for row in rows])


def _attention(rows: Sequence[KernelRow], accelerator: Accelerator, profile: KernelProfile) -> Group:
    name, base = profile.best_attention, profile.attention[profile.best_attention]
    sizes = sorted({row.shape["head_dim"] for row in rows})
    both = any(row.op == "attention_fwd_bwd" for row in rows)
    present = {key: float(getattr(base, key)) for key in ATTENTION}
    parameters = _from({k: p for k, p in ATTENTION.items() if both or k != "backward_block"}, present)
    rates = {"f": base.forward, "b": base.backward} if both else {"f": base.forward}
    for side, known in rates.items():
        nearest = {size: known[min(known, key=lambda other: abs(other - size))] for size in sizes}
        parameters |= {f"{side}{size}": replace(RATE, start=max(rate, RATE.low)) for size, rate in nearest.items()}

    def full(found: Found) -> Found:
        kept = {
            f"{side}{size}": rate
            for side, known in (("f", base.forward), ("b", base.backward))
            for size, rate in known.items()
        }
        return kept | present | found

    def times(some: Sequence[KernelRow], found: Found) -> Floats:
        every = full(found)
        sides = {side: {int(n[1:]): v for n, v in every.items() if n[0] == side and n[1:].isdigit()} for side in "fb"}
        spec = base.model_copy(
            update={"forward": sides["f"], "backward": sides["b"]} | {key: every[key] for key in ATTENTION}
        )
        return _priced(accelerator, profile, some, {"attention": {**profile.attention, name: spec}})

    def lines(found: Found, source: str) -> list[str]:
        return attention_yaml(name, full(found), source)

    return Group("attention", tuple(rows), parameters, times, lines, "attention")


def _decode(rows: Sequence[KernelRow], accelerator: Accelerator, profile: KernelProfile) -> Group:
    base = profile.decode
    names = [name for name in DECODE if name != "narrow"]
    present = {name: float(getattr(base, name)) for name in names if getattr(base, name) is not None}
    parameters = _from(
        {name: DECODE[name] for name in names} | {"launch": replace(DECODE["launch"], high=1e-4)}, present
    )

    def times(some: Sequence[KernelRow], found: Found) -> Floats:
        return _priced(accelerator, profile, some, {"decode": base.model_copy(update=found)})

    def lines(found: Found, source: str) -> list[str]:
        return ["decode:", *group_yaml(found, source, 2)]

    return Group("decode", tuple(rows), parameters, times, lines, "")


def _stream(rows: Sequence[KernelRow], accelerator: Accelerator, profile: KernelProfile) -> Group:
    base = profile.stream
    parameters = _from(STREAM, {"memory": base.memory, "launch": base.launch})

    def times(some: Sequence[KernelRow], found: Found) -> Floats:
        return _priced(accelerator, profile, some, {"stream": base.model_copy(update=found)})

    def lines(found: Found, source: str) -> list[str]:
        return ["stream:", *group_yaml(found, source, 2)]

    return Group("passes over memory", tuple(rows), parameters, times, lines, "")


# ---- the fit -------------------------------------------------------------------------------------------------------


def fit(group: Group, profile: str) -> tuple[Found, Report, list[str]]:
    """(coefficients, rows of the table of errors, what the rows do not settle) of a group."""
    rows = group.rows
    held = np.random.default_rng(1).permutation(len(rows)) % 4 == 0
    parameters = dict(group.parameters)
    seen = [row for row, out in zip(rows, held, strict=True) if not out]
    unseen = [row for row, out in zip(rows, held, strict=True) if out]
    starts = {name: one.start for name, one in parameters.items()}
    report = [_errors(profile, group, "before", rows, starts)]
    blind = solution(parameters, _residuals(group, seen), starts, EVALUATIONS)
    report.append(_errors(profile, group, "held back", unseen, blind.found))
    whole = solution(parameters, _residuals(group, rows), blind.found, EVALUATIONS)
    report.append(_errors(profile, group, "all", rows, whole.found))
    return whole.found, report, unsettled(f"{profile} {group.name}", whole)


def _residuals(group: Group, rows: Sequence[KernelRow]) -> Callable[[Found], Floats]:
    logs = np.log([row.metrics["time_s"] for row in rows])
    return lambda found: np.asarray(np.log(group.times(rows, found)) - logs)


def _errors(profile: str, group: Group, what: str, rows: Sequence[KernelRow], found: Found) -> dict[str, object]:
    table = pd.DataFrame({"seconds": [row.metrics["time_s"] for row in rows]})
    return report_row(profile, group.name, "all", what, table, group.times(rows, found))


# ---- the file ------------------------------------------------------------------------------------------------------


def _document(accelerator: Accelerator, sections: Mapping[str, list[str]], notes: Sequence[str]) -> list[str]:
    """Lines of the profile."""
    lines = [f"extends: {accelerator.kernels}", f'name: "{_clean(accelerator.name)}, fitted to own measurements"']
    for section, inner in sections.items():
        lines += [f"{section}:", *inner] if section else inner
    return [*lines, f'notes: "{_clean("; ".join(notes) or "all coefficients are identified by their rows")}"']


def _clean(words: str) -> str:
    """Words as they may stand between quotation marks of YAML."""
    return "".join(letter for letter in printable(words) if letter not in '"\\')[:2000]
