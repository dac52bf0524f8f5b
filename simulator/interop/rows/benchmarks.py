"""Kernels timed on one device: the file that `clustersim measure` writes and `clustersim calibrate` reads.

JSON lines: a header (device, versions, date), then one object a kernel with the keys of published kernels
(docs/reference/measurements.md), so that `clustersim validate` reads them too. Or CSV: the header as lines `# key:
value`, then the names of the columns (`op`, `dtype`, `time_s` and the sides of shapes) and a line a kernel. Or Parquet
with the same columns, see `interop.parquet`. A row that is damaged or makes no sense is refused by itself, with its
file and line; the others are read.
"""

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from simulator import units
from simulator.errors import InputError, Problem
from simulator.interop.parquet import is_parquet, read_parquet
from simulator.interop.rows.jsonl import Line, Refused, misfit, number, parse_line, read_lines, read_row
from simulator.interop.rows.kernels import KernelRow

MARK = "clustersim_measure"
"""Key of a header; its value is the version of the form."""
VERSION = 1
SOURCE = "clustersim measure"
"""The `source` of rows that it writes."""
LONGEST_S, SHORTEST_S = 3600.0, 1e-9
"""Times of a kernel that are believed."""
LARGEST = 1 << 42
"""Of a side of a shape, or of bytes."""

SHAPES: Mapping[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "grouped_gemm_contiguous": ("groups", "m_per_group", "n", "k"),
    "attention_fwd": ("batch", "heads", "kv_heads", "seqlen", "head_dim"),
    "attention_fwd_bwd": ("batch", "heads", "kv_heads", "seqlen", "head_dim"),
    "attention_decode": ("batch", "heads", "kv_heads", "context", "head_dim"),
    "moe": ("tokens", "hidden", "inner", "experts", "topk"),
    "stream_copy": ("bytes",),
    "stream_triad": ("bytes",),
    "launch": ("kernels",),
    "copy_h2d": ("bytes",),
    "copy_d2h": ("bytes",),
    "all_reduce": ("bytes", "ranks"),
    "gemm_beside_all_reduce": ("m", "n", "k", "bytes", "ranks"),
    "gemm_beside_copy": ("m", "n", "k", "bytes"),
    "block_fwd": ("batch", "seqlen", "hidden", "heads", "kv_heads", "head_dim", "ffn"),
    "block_fwd_bwd": ("batch", "seqlen", "hidden", "heads", "kv_heads", "head_dim", "ffn"),
}
"""Sides that a row of each operation states, whole numbers above 0. `bytes` of a pass are all that it reads and writes,
of a copy or a collective those of the buffer; `time_s` of `launch` is that of one of the kernels."""
_NUMBER = re.compile(r"\d{1,12}(\.\d{0,30})?(e[+-]?\d{1,2})?", re.I)
COLUMNS = tuple(dict.fromkeys(side for sides in SHAPES.values() for side in sides))


class Header(BaseModel):
    """On what rows were measured, and when."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    device: str = Field(default="", max_length=200)
    """As the driver names it."""
    accelerator: str | None = Field(default=None, max_length=200)
    """Name of its profile; None where none is known."""
    date: str = Field(default="", max_length=40)
    versions: dict[str, str] = Field(default_factory=dict, max_length=50)

    @property
    def words(self) -> str:
        """Device, software and date in a line."""
        software = ", ".join(f"{name} {version}" for name, version in self.versions.items() if version)
        return ", ".join(filter(None, (self.device, software, self.date)))


@dataclass(frozen=True, slots=True)
class Benchmarks:
    """A file of timed kernels."""

    file: str
    header: Header
    rows: tuple[KernelRow, ...]
    refused: tuple[str, ...]
    """`file:line: reason` of each row that is not used."""


def is_header(data: Mapping[str, Any]) -> bool:
    """Whether an object of a file of rows is the header that `measure` puts first."""
    return MARK in data


def read_benchmarks(path: str | Path) -> Benchmarks:
    """Read a file; InputError where it cannot be read at all, or where none of its rows can be used."""
    header, rows, refused = Header(), list[KernelRow](), list[str]()
    for place, found in _objects(path, refused):
        try:
            data = found() if callable(found) else found
            if is_header(data):
                header = _header(data)
            else:
                rows.append(checked(data, f"{Path(path).name}:{place.number}"))
        except Refused as reason:
            refused.append(f"{place.place}: {reason}")
    if not rows:
        first = f"; {refused[0]}" if refused else ""
        hint = "write what `clustersim measure` wrote, or CSV or Parquet with columns op, dtype, time_s and of shapes"
        raise InputError(Problem(f"has no row that can be used{first}", file=str(path), hint=hint))
    return Benchmarks(str(path), header, tuple(rows), tuple(refused))


def _objects(path: str | Path, refused: list[str]) -> Iterator[tuple[Line, Any]]:
    """(place, object or what gives it) of a file's header and rows; groups of rows that are left out are added to
    `refused`."""
    if not is_parquet(path):
        lines = list(read_lines(path))
        yield from _from_csv(lines) if str(path).lower().endswith(".csv") else _from_json(lines)
        return
    table = read_parquet(path, ("id", "op", "dtype", "library", "causal", "time_s", *COLUMNS))
    refused += [f"{path}: {why}" for why in table.left]
    if table.said:
        yield Line(str(path), 0, ""), _said(table.said)
    for place, cells in table.rows:
        yield Line(str(path), place, ""), partial(_of_columns, cells)


def checked(data: Mapping[str, Any], name: str) -> KernelRow:
    """A row whose shape is whole and whose time can be; raises Refused saying what is wrong. `name` is its id where it
    has none."""
    row = read_row(KernelRow, {"id": name, "source": SOURCE, "accelerator": "", **data})
    sides = SHAPES.get(row.op)
    if sides is None:
        raise Refused(f"operation `{row.op[:40]}` is none of {', '.join(SHAPES)}")
    wrong = [side for side in sides if not _whole(row.shape.get(side))]
    if wrong:
        raise Refused(f"shape without a whole number above 0 for {', '.join(wrong)}")
    time = row.metrics.get("time_s")
    if time is None or not SHORTEST_S <= time <= LONGEST_S:
        said = "no `time_s`" if time is None else f"`time_s` of {units.plain(time, 6)}"
        raise Refused(f"{said}; write seconds, {SHORTEST_S:g} to {LONGEST_S:g}")
    return row


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= LARGEST


def _header(data: Mapping[str, Any]) -> Header:
    if data[MARK] != VERSION:
        raise Refused(f"the header is of version {str(data[MARK])[:20]}, not {VERSION}")
    try:
        return Header.model_validate({key: value for key, value in data.items() if key != MARK})
    except ValidationError as error:
        raise misfit(error) from None


def _from_json(lines: Iterable[Line]) -> Iterator[tuple[Line, Any]]:
    """(line, what gives its object or raises Refused) of each."""
    for line in lines:
        yield line, partial(parse_line, line)


def _from_csv(lines: Iterable[Line]) -> Iterator[tuple[Line, Any]]:
    """As `_from_json`: lines with # are the header, the first other one names the columns."""
    columns: list[str] = []
    said: dict[str, Any] = {}
    first: Line | None = None
    for line in lines:
        text = (line.text or "").strip()
        if text.startswith("#"):
            key, _, value = text[1:].partition(":")
            said[key.strip()], first = value.strip(), first or line
        elif not columns:
            columns = _names(line)
            if said and first:
                yield first, _said(said)
        else:
            yield line, partial(_of_cells, tuple(columns), line)


def _names(line: Line) -> list[str]:
    """The names of columns; InputError where there are none that say what a row is."""
    try:
        names = [name.strip() for name in _cells(line)] if line.text else []
    except Refused as reason:
        raise InputError(Problem(str(reason), file=line.file, line=line.number)) from None
    missing = [name for name in ("op", "time_s") if name not in names]
    if missing or len(set(names)) < len(names):
        said = f"no column `{missing[0]}`" if missing else "two columns have one name"
        raise InputError(Problem(said, file=line.file, line=line.number, hint="for example op,dtype,m,n,k,time_s"))
    return names


def _said(said: Mapping[str, str]) -> dict[str, Any]:
    own = {key: value or None for key, value in said.items() if key in ("device", "accelerator", "date")}
    versions = {key: value for key, value in said.items() if key not in (*own, MARK)}
    return {MARK: number(said.get(MARK, str(VERSION))), "versions": versions, **own}


def _cells(line: Line) -> list[str]:
    try:
        return next(csv.reader(io.StringIO(line.text), strict=True))
    except (csv.Error, StopIteration) as error:
        raise Refused(f"is no line of comma-separated values: {error}") from None


def _of_cells(columns: Sequence[str], line: Line) -> dict[str, Any]:
    """The object that a line of a table says."""
    if line.text is None:
        raise Refused("the line is too long or not text in UTF-8")
    cells = _cells(line)
    if len(cells) != len(columns):
        raise Refused(f"{len(cells)} values where the head names {len(columns)} columns")
    row = {name.strip(): cell.strip() for name, cell in zip(columns, cells, strict=True) if cell.strip()}
    shape: dict[str, Any] = {name: number(row.pop(name)) for name in COLUMNS if name in row}
    if "causal" in row:
        shape["causal"] = _is_true(row.pop("causal"))
    metrics = {name: _seconds(row.pop(name)) for name in list(row) if name.endswith("_s")}
    return {**row, "shape": shape, "metrics": metrics}


def _of_columns(cells: Mapping[str, Any]) -> dict[str, Any]:
    """The object that a row of typed columns says; whole numbers may be kept as floats, as pandas does beside gaps."""
    shape = {name: _integer(cells[name]) for name in COLUMNS if name in cells}
    if "causal" in cells:
        shape["causal"] = _is_true(cells["causal"])
    row = {name: cell for name, cell in cells.items() if name not in shape and name != "time_s"}
    return {**row, "shape": shape, "metrics": {"time_s": cells["time_s"]} if "time_s" in cells else {}}


def _is_true(value: Any) -> bool:
    """Whether a cell says yes: a boolean, 0 or 1, or a word."""
    if isinstance(value, str):
        return value.strip().lower() in ("1", "true", "yes")
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    raise Refused("`causal` is neither true nor false")


def _integer(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _seconds(text: str) -> Any:
    """The number that a text is; the text itself, which is then refused as none, where it is none."""
    return float(text) if len(text) < 40 and _NUMBER.fullmatch(text) else text


# ---- writing -------------------------------------------------------------------------------------------------------


def as_text(header: Header, rows: Iterable[Mapping[str, Any]], table: bool) -> str:
    """A file of rows: JSON lines, or a table of comma-separated values."""
    if not table:
        lines = [json.dumps({MARK: VERSION, **header.model_dump()}), *map(json.dumps, rows)]
        return "\n".join(lines) + "\n"
    listed, out = list(rows), io.StringIO()
    for key, value in {MARK: VERSION, **header.model_dump(exclude={"versions"}), **header.versions}.items():
        out.write(f"# {key}: {'' if value is None else ' '.join(str(value).split())}\n")
    figures = dict.fromkeys(name for row in listed for name in row["metrics"] if name.endswith("_s"))
    sides = [side for side in (*COLUMNS, "causal") if any(side in row["shape"] for row in listed)]
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["id", "op", "dtype", "library", *sides, *figures])
    for row in listed:
        start = [row["id"], row["op"], row.get("dtype") or "", row.get("library") or ""]
        writer.writerow(
            [*start, *(row["shape"].get(s, "") for s in sides), *(row["metrics"].get(f, "") for f in figures)]
        )
    return out.getvalue()
