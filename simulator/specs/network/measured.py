"""Bandwidths of every pair of nodes from a file: what mpiGraph prints, or a table of commas.

mpiGraph (LLNL/mpiGraph, mpiGraph.c) prints two matrices in MiB/s, one of what each task saw of its sends (`host:0 to`)
and one of its receives (`host:1 from`); of a pair the smaller of the two counts. A table has a unit in its first cell,
names of nodes in its first line and column, and in a row what that node sends to each: `GB/s,n0,n1`.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.errors import InputError, Problem, nearest
from simulator.specs.catalog import data_root
from simulator.specs.text.yaml_text import file_text

Floats = NDArray[np.float64]

PATH = "cluster.network.matrix"
MOST_BYTES = 1 << 26
MOST_NODES = 1024
"""Each ordered pair of nodes is a link."""
_LEAST, _MOST = 1.0, 1e15
"""Bytes per second of a pair."""
_MIB = float(1 << 20)
_Row = tuple[int, list[str]]
"""Number of a line, counted from 0, and its cells, a name and figures."""
_FORM = "what mpiGraph prints, or a table: `GB/s,n0,n1` and a row `n0,,12.5` a node"


@dataclass(frozen=True, slots=True, eq=False)
class PairRates:
    """What each node gets to each other one."""

    names: tuple[str, ...]
    """Of the nodes, in their order."""
    rates: Floats
    """Bytes per second from a node (row) to another (column), infinite on the diagonal; (nodes, nodes)."""
    both: bool
    """Whether receivers were asked too."""


def read_pairs(name: str) -> PairRates:
    """The matrix of a file, from a path or from the installed data; InputError with file and line."""
    path = next((path for path in (Path(name), data_root() / name) if path.is_file()), None)
    if path is None:
        hint = "write the path of a file that mpiGraph printed"
        raise InputError(Problem(f"there is no file `{name[:200]}`", path=PATH, hint=hint))
    state = path.stat()
    return _read(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4)
def _read(path: Path, changed: int, size: int) -> PairRates:
    return parsed(file_text(path, str(path), "matrix of bandwidths", MOST_BYTES), str(path))


def parsed(text: str, file: str) -> PairRates:
    """The matrix that a text holds; InputError with file and line."""
    lines = text.splitlines()
    heads: dict[str, int] = {}
    for number, line in enumerate(lines):
        if _is_head(words := line.split()):
            if words[0] in heads:
                message = f"begins a second matrix of `{words[0]}`, after line {heads[words[0]] + 1}"
                _refuse(file, number, message, "keep the output of one run")
            heads[words[0]] = number
    if heads:
        return _of_mpigraph(lines, heads, file)
    first, *rows = [n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")] or [-1]
    if first < 0 or "," not in lines[first]:
        hint = f"write {_FORM}"
        raise InputError(Problem("holds no matrix of bandwidths", path=PATH, file=file, hint=hint))
    unit, *names = (cell.strip() for cell in lines[first].split(","))
    try:
        scale = units.parse(f"1 {unit}", "bandwidth")
    except ValueError:
        _refuse(file, first, f"begins with `{unit[:40]}`, no unit of bandwidth", _FORM)
    _check_names(names, file, first)
    cells = [(number, [cell.strip() for cell in lines[number].split(",")]) for number in rows]
    rates = _matrix(cells, names, file, first) * scale
    return PairRates(tuple(names), _checked(rates, names, file, first), False)


def _is_head(words: Sequence[str]) -> bool:
    """Whether a line begins one of mpiGraph's matrices; lines of figures about it begin alike (`Send max`)."""
    return len(words) > 1 and words[0] in ("Send", "Recv") and ":" in words[1]


def _of_mpigraph(lines: Sequence[str], heads: dict[str, int], file: str) -> PairRates:
    found = {}
    for side, first in heads.items():
        columns = lines[first].split()[1:]
        names = [_host(column, number, file, first) for number, column in enumerate(columns)]
        _check_names(names, file, first)
        rates = _matrix(_rows_of_mpigraph(lines, first), columns, file, first) * _MIB
        found[side] = names, _checked(rates, names, file, first)
    if len({tuple(names) for names, _ in found.values()}) > 1:
        _refuse(file, heads["Recv"], "names other nodes than the matrix of sends", "keep the output of one run")
    (names, rates), *more = found.values()
    if set(found) == {"Recv"}:
        rates = rates.T.copy()
    elif more:
        rates = np.minimum(found["Send"][1], found["Recv"][1].T)
    return PairRates(tuple(names), rates, bool(more))


def _host(column: str, number: int, file: str, line: int) -> str:
    """The name of a node in a head."""
    host, _, rank = column.rpartition(":")
    if not host or rank != str(number):
        _refuse(file, line, f"has `{column[:60]}` where task {number} is due", "keep mpiGraph's lines as they are")
    return host


def _rows_of_mpigraph(lines: Sequence[str], first: int) -> Iterator[_Row]:
    """Lines such as `n0:0 to 0.000 14493.357` below a head, up to an empty one or the end of the output."""
    for number in range(first + 1, len(lines)):
        words = lines[number].split()
        if not words or words[0] == "END":
            return
        yield number, [words[0], *words[2:]]


def _matrix(rows: Iterable[_Row], names: Sequence[str], file: str, head: int) -> Floats:
    """The figures below a head, as they are written, rows in the order of its columns."""
    row_of, many = {name: row for row, name in enumerate(names)}, len(names)
    found = np.full((many, many), np.nan)
    seen: dict[str, int] = {}
    for number, (name, *figures) in rows:
        if name not in row_of:
            hint = nearest(name, names) or "each row begins with the name of a column"
            _refuse(file, number, f"is a row of `{name[:60]}`, which is no column", hint)
        if name in seen:
            _refuse(file, number, f"is a second row of `{name}`, after line {seen[name] + 1}", "leave one of them out")
        if len(figures) != many:
            message = f"has {len(figures)} figures of `{name}`, and there are {many} nodes"
            _refuse(file, number, message, "a matrix is square: one figure a node in each row")
        seen[name] = number
        found[row_of[name]] = [
            np.inf if column == row_of[name] else _number(figure, name, names[column], file, number)
            for column, figure in enumerate(figures)
        ]
    if missing := [name for name in names if name not in seen]:
        message = f"has columns of {many} nodes and rows of {len(seen)}: `{missing[0]}` has none"
        _refuse(file, head, message, "a matrix is square; a run that was cut off is to be repeated")
    return found


def _check_names(names: Sequence[str], file: str, line: int) -> None:
    if len(names) < 2:
        _refuse(file, line, "names fewer than two nodes", _FORM)
    if len(names) > MOST_NODES:
        _refuse(file, line, f"names {len(names):,} nodes", f"up to {MOST_NODES:,} are modelled")
    known: dict[str, int] = {}
    for number, name in enumerate(names):
        if not name:
            _refuse(file, line, f"has no name in column {number + 1}", "name each node")
        if name in known:
            message = f"has the node `{name}` twice, in columns {known[name] + 1} and {number + 1}"
            _refuse(file, line, message, "measure with one task a node")
        known[name] = number


def _number(text: str, name: str, other: str, file: str, line: int) -> float:
    try:
        value = float("nan" if "_" in text else text)
    except ValueError:
        value = float("nan")
    if not (isfinite(value) and value > 0):
        shown = text[:40] or "nothing"
        hint = "each pair needs a measured bandwidth above 0: measure it again, or leave a node out"
        _refuse(file, line, f"has `{shown}` from `{name}` to `{other}`", hint)
    return value


def _checked(rates: Floats, names: Sequence[str], file: str, line: int) -> Floats:
    """Rates in bytes per second within what is modelled."""
    apart = ~np.eye(len(rates), dtype=bool)
    if (wrong := np.argwhere(apart & ~((rates >= _LEAST) & (rates <= _MOST)))).size:
        row, column = wrong[0].tolist()
        message = f"says {rates[row, column]:.3g} bytes/s from `{names[row]}` to `{names[column]}`"
        _refuse(file, line, message, f"from {_LEAST:g} to {_MOST:g} are modelled: look at the unit")
    return rates


def _refuse(file: str, line: int, message: str, hint: str) -> NoReturn:
    """InputError for a line, counted from 0."""
    raise InputError(Problem(message, path=PATH, file=file, line=line + 1, hint=hint))
