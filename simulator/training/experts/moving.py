"""Loads of experts that differ from step to step: drifting ones, and traces of what a router chose.

A drifting load is a Zipf law whose order moves on by some places a step: which expert is heavy changes slowly, how
uneven the load is does not, and over experts / drift steps every expert has taken as much. Expert n lies beside expert
n + 1, so that heavy experts leave one device and come to the next. A trace says the rows of every expert in every step,
of all layers alike or of each; every layer then waits for its own busiest device. Left out: how a load follows from
what is learnt.
"""

import csv
import json
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from simulator.errors import InputError, Problem
from simulator.parallel.experts import Floats, falling
from simulator.specs.catalog import data_root
from simulator.specs.training import RouterLoad

PATH = "training.routing"
MOST_BYTES = 256_000_000
"""Of a trace; longer ones are refused."""
FORM = "write `step`, perhaps `layer`, and one number an expert, in CSV with a head or as `tokens` in JSON lines"
"""What to write instead of a line that is none."""


class Trace(NamedTuple):
    """Rows of experts."""

    tokens: dict[int, dict[int | None, Floats]]
    """By step and layer, None for all layers; (experts,) each."""
    path: str


def moved(load: RouterLoad, experts: int, layers: tuple[int, ...], step: int) -> dict[int | None, Floats]:
    """Shares of all copies of rows that experts are chosen for in a step, by layer with experts, `layers`, or for None
    of all of them; (experts,) each. InputError for a trace that does not fit."""
    if load.load == "drifting":
        return {None: falling(experts, load.exponent, load.drift * step % experts)}
    assert load.trace is not None
    found = _fitting(read_trace(load.trace), experts, layers, step)
    return {layer: tokens / tokens.sum() for layer, tokens in found.items()}


def _fitting(trace: Trace, experts: int, layers: tuple[int, ...], step: int) -> dict[int | None, Floats]:
    """What a trace has of a step, of the layers that the model has."""
    if step not in trace.tokens:
        known = max(trace.tokens) + 1
        hint = f"it has {known:,} steps: simulate at most {known:,} (`training.steps`, `first_step`)"
        raise InputError(Problem(f"step {step:,} is not in {trace.path}", path=f"{PATH}.trace", hint=hint))
    found = trace.tokens[step]
    width = len(next(iter(found.values())))
    if width != experts:
        message = f"{trace.path} has {width:,} experts, and a layer of the model has {experts:,}"
        raise InputError(Problem(message, path=f"{PATH}.trace", hint="take a trace of this model"))
    if None in found:
        return found
    missing = sorted(set(layers) - set(found))
    unknown = sorted(layer for layer in found if layer is not None and layer not in layers)
    if missing or unknown:
        which = f"lacks layer {missing[0]}" if missing else f"has layer {unknown[0]}, which has no experts"
        hint = f"layers with experts are {layers[0]} to {layers[-1]}, counted from 0; or leave `layer` out"
        raise InputError(Problem(f"step {step:,} of {trace.path} {which}", path=f"{PATH}.trace", hint=hint))
    return {layer: found[layer] for layer in layers}


def read_trace(name: str) -> Trace:
    """A trace of the rows of experts, from a path or from the installed data; InputError with file and line."""
    path = next((path for path in (Path(name), data_root() / name) if path.is_file()), None)
    if path is None:
        raise InputError(Problem(f"there is no file `{name[:200]}`", path=f"{PATH}.trace", hint="write its path"))
    state = path.stat()
    if state.st_size > MOST_BYTES:
        message = f"{state.st_size / 1e6:,.0f} MB are more than {MOST_BYTES / 1e6:,.0f} MB"
        raise InputError(Problem(message, path=f"{PATH}.trace", file=str(path), hint="cut it into parts"))
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, changed: int, size: int) -> Trace:
    text = path.read_text(encoding="utf-8", errors="replace")
    rows = _of_json(text, path) if text.lstrip().startswith("{") else _of_csv(text, path)
    found: dict[int, dict[int | None, Floats]] = {}
    width = -1
    for line, step, layer, tokens in rows:
        width = len(tokens) if width < 0 else width
        known = found.setdefault(step, {})
        if len(tokens) != width:
            raise _refused(path, line, f"has {len(tokens):,} experts, lines before have {width:,}")
        if layer in known or (known and (layer is None) != (None in known)):
            here = "all layers" if layer is None else f"layer {layer}"
            raise _refused(path, line, f"says {here} of step {step} beside what is said of it before")
        if not np.isfinite(tokens).all() or tokens.min() < 0 or not tokens.sum() > 0:
            raise _refused(path, line, "has rows that are no numbers of 0 and more, or none at all")
        known[layer] = tokens
    if not found:
        raise InputError(Problem("holds no steps", path=f"{PATH}.trace", file=str(path), hint=FORM))
    if len(found) <= max(found):
        gap, hint = next(step for step in range(max(found)) if step not in found), "number steps from 0, none left out"
        raise InputError(Problem(f"lacks step {gap:,}", path=f"{PATH}.trace", file=str(path), hint=hint))
    return Trace(found, str(path))


_Row = tuple[int, int, int | None, Floats]
"""Line, step, layer, rows of each expert."""


def _of_csv(text: str, path: Path) -> Iterator[_Row]:
    lines = csv.reader(text.splitlines())
    head: list[str] = []
    for cells in lines:
        line = lines.line_num
        cells = [cell.strip() for cell in cells]
        if not any(cells):
            continue
        if not head:
            head = [cell.lower() for cell in cells]
            if head[:1] != ["step"]:
                raise _refused(path, line, "is no head that begins with `step`")
            continue
        if len(cells) != len(head):
            raise _refused(path, line, f"has {len(cells):,} cells, the head {len(head):,}")
        first = 2 if head[1:2] == ["layer"] else 1
        layer = _whole(cells[1], path, line) if first == 2 else None
        yield line, _whole(cells[0], path, line), layer, _numbers(cells[first:], path, line)


def _of_json(text: str, path: Path) -> Iterator[_Row]:
    for line, row in enumerate(text.splitlines(), 1):
        if not row.strip():
            continue
        try:
            found: Any = json.loads(row)
        except (ValueError, RecursionError):
            raise _refused(path, line, "is no JSON") from None
        if not isinstance(found, dict) or not isinstance(found.get("tokens"), list) or "step" not in found:
            raise _refused(path, line, "is no object with `step` and a list `tokens`")
        if other := set(found) - {"step", "layer", "tokens"}:
            raise _refused(path, line, f"has the unknown key `{str(min(other))[:40]}`")
        layer = None if found.get("layer") is None else _whole(found["layer"], path, line)
        yield line, _whole(found["step"], path, line), layer, _numbers(found["tokens"], path, line)


def _whole(cell: object, path: Path, line: int) -> int:
    text = "" if isinstance(cell, bool) else str(cell)
    if not (text.isascii() and text.isdigit()) or len(text) > 8:
        raise _refused(path, line, f"`{text[:20]}` is no number of a step or layer")
    return int(text)


def _numbers(cells: list[Any], path: Path, line: int) -> Floats:
    try:
        wrong = any(isinstance(cell, bool | list | dict) or cell is None for cell in cells)
        found = np.array([] if wrong else [float(cell) for cell in cells], np.float64)
    except (ValueError, OverflowError):
        found = np.zeros(0)
    if not len(found):
        raise _refused(path, line, "has rows of experts that are no numbers")
    return found


def _refused(path: Path, line: int, message: str) -> InputError:
    return InputError(Problem(f"line {line} {message}", path=f"{PATH}.trace", hint=FORM, file=str(path), line=line))
