"""A Result as one file: a zip of a JSON header and one numpy column per array, readable without pickle.

Reading is bounded and trusts nothing: sizes are checked before memory is taken, and columns against each other, so
that no later page can stumble. The same Result gives the same bytes.
"""

import io
import json
import math
import re
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem
from simulator.results import drawn, long_run
from simulator.results import ground as grounds
from simulator.results.ground import Ground, Validation
from simulator.results.parts import (
    LATEST,
    Misfit,
    mapping,
    numbers,
    part,
    plain,
    require,
    said,
    text,
    texts,
    times,
    whole,
    within,
)
from simulator.results.result import (
    SCHEMA,
    Comparison,
    CriticalPath,
    DeviceClass,
    HostMemory,
    JobRecord,
    LinkLoad,
    Meeting,
    MemoryUse,
    Result,
    Sensitivity,
    Spans,
)
from simulator.results.serving import service_files
from simulator.results.spread import Circumstances, Spread
from simulator.results.writing import encoded, replacing

KINDS = ("training", "serving", "jobs")
"""Kinds of results."""
MAX_HEADER = 64 * 2**20
"""Bytes of the JSON header that are read at most."""
MAX_COLUMNS = 2**30
"""Bytes of all columns together that are read at most."""

_HEADER = "result.json"
_MAGIC = b"PK\x03\x04"  # the first member of a zip
_SPAN_COLUMNS = {
    "start": "<i8",
    "end": "<i8",
    "lane": "<i4",
    "name": "<i4",
    "stage": "<i4",
    "microbatch": "<i4",
    "flows": "<i8",
}
_MEMORY_COLUMNS = {"time": "<i8", "level": "<f8"}
_PATH_COLUMN = "critical_path.operations"
_STEPS_COLUMN = "step_times"  # only in files of several steps
_BANDS_COLUMN = "run.bands"  # only in files of long runs
_ARRAY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<type>[<|][fi]\d)', 'fortran_order': False, "
    rb"'shape': \((?P<shape>[\d, ]{0,40})\), \} *\n",
    re.DOTALL,
)
"""The head of a column, as `save` writes it."""
_MOMENT = (1980, 1, 1, 0, 0, 0)  # the oldest that zip knows: the bytes must not tell when they were written

Columns = dict[str, NDArray[Any]]


def save(result: Result, path: str | Path) -> None:
    """Write a Result; the file appears whole or not at all. InputError where it cannot be written."""
    columns = _columns(result)
    header = json.dumps(_header(result), ensure_ascii=False, separators=(",", ":"), default=_scalar)
    with replacing(path) as handle, zipfile.ZipFile(handle, "w") as archive:
        _add(archive, _HEADER, encoded(header))
        for name, column in columns.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, column, allow_pickle=False)
            _add(archive, f"{name}.npy", buffer.getvalue())


def read(path: str | Path) -> Result:
    """Read a Result that `save` wrote; its columns are read-only.

    Raises InputError for a file that is missing, truncated, changed, too large, of another schema version or not ours.
    """
    with _explained(path), open(path, "rb") as handle, zipfile.ZipFile(handle) as archive:
        header = _read_header(archive)
        if header.get("schema") != SCHEMA:
            raise Misfit(f"its schema is {header.get('schema')!r} and this version reads {SCHEMA}")
        return _result(header, _Reader(archive))


def is_result(path: str | Path) -> bool:
    """Whether a file begins as `save` writes it; False where it cannot be read."""
    try:
        with open(path, "rb") as handle:
            return handle.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False


@contextmanager
def _explained(path: str | Path) -> Iterator[None]:
    """Every way in which a file can be wrong, as one message."""
    try:
        yield
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror or error}", file=str(path))) from error
    except Misfit as error:
        raise InputError(Problem(f"is no result file: {error}", file=str(path))) from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        message = f"is no result file, or a truncated one: {error or 'it ends early'}"
        raise InputError(Problem(message, file=str(path))) from error
    except UnicodeDecodeError as error:
        raise InputError(Problem("is no result file: its header is no text in UTF-8", file=str(path))) from error
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        message = f"is no result file: {type(error).__name__} {error}"
        raise InputError(Problem(message, file=str(path))) from error


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    entry = zipfile.ZipInfo(name, _MOMENT)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, data, zipfile.ZIP_DEFLATED, compresslevel=1)


def _scalar(value: Any) -> Any:
    """A numpy number in the provenance as JSON has it."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a {type(value).__name__} cannot be saved in a result file")


def _header(result: Result) -> dict[str, Any]:
    spans = result.spans
    return {
        "schema": result.schema,
        "kind": result.kind,
        "name": result.name,
        "feasible": result.feasible,
        "metrics": result.metrics,
        "classes": [asdict(c) for c in result.classes],
        "breakdown": result.breakdown,
        "spans": {"lanes": spans.lanes, "names": spans.names},
        "memory": [said(use) for use in result.memory],
        "host": None if result.host is None else said(result.host),
        **({"nvme": said(result.nvme)} if result.nvme is not None else {}),
        "links": [asdict(load) for load in result.links],
        **({"network": drawn.written(result.network)} if result.network is not None else {}),
        "critical_path": said(result.critical_path),
        "sensitivities": [asdict(s) for s in result.sensitivities],
        "comparisons": [asdict(c) for c in result.comparisons],
        "warnings": result.warnings,
        "assumptions": result.assumptions,
        "ground": asdict(result.ground),
        "provenance": result.provenance,
        "scenario": result.scenario,
        "service": service_files.header(result.service) if result.service is not None else None,
        **({"run": long_run.header(result.run)} if result.run is not None else {}),
        **({"jobs": [_job_header(job) for job in result.jobs]} if result.jobs else {}),
        **({"meetings": [asdict(meeting) for meeting in result.meetings]} if result.meetings else {}),
    }


def _job_header(job: JobRecord) -> dict[str, Any]:
    return {**said(job), "result": _header(job.result)}


def _columns(result: Result) -> Columns:
    spans = {f"spans.{name}": getattr(result.spans, name).astype(dtype) for name, dtype in _SPAN_COLUMNS.items()}
    memory = {
        f"memory.{index}.{name}": getattr(use, name).astype(dtype)
        for index, use in enumerate(result.memory)
        for name, dtype in _MEMORY_COLUMNS.items()
    }
    steps = {_STEPS_COLUMN: result.step_times.astype("<i8")} if len(result.step_times) else {}
    steps |= {_BANDS_COLUMN: result.run.bands.astype("<i8")} if result.run is not None else {}
    service = service_files.columns(result.service) if result.service is not None else {}
    jobs = {
        f"jobs.{index}.{name}": column
        for index, job in enumerate(result.jobs)
        for name, column in _columns(job.result).items()
    }
    return spans | memory | {_PATH_COLUMN: result.critical_path.operations.astype("<i8")} | steps | service | jobs


class _Reader:
    """Columns by name, as long as the whole file stays within bounds."""

    def __init__(self, archive: zipfile.ZipFile, prefix: str = "", left: list[int] | None = None) -> None:
        self._archive, self._prefix = archive, prefix
        self._left = [MAX_COLUMNS] if left is None else left

    def of_job(self, index: int) -> "_Reader":
        """The columns of one of several jobs."""
        return _Reader(self._archive, f"{self._prefix}jobs.{index}.", self._left)

    def column(self, name: str, dtype: str, dimensions: int = 1) -> NDArray[Any]:
        data = _member(self._archive, f"{self._prefix}{name}.npy", self._left[0])
        self._left[0] -= len(data)
        return _array(data, name, np.dtype(dtype), dimensions)

    def step_times(self) -> NDArray[Any]:
        """The times of several steps; empty where the file is of one."""
        if f"{self._prefix}{_STEPS_COLUMN}.npy" not in self._archive.namelist():
            return np.frombuffer(b"", "<i8")
        times = self.column(_STEPS_COLUMN, "<i8")
        require(len(times) > 1 and bool((times >= 0).all()), "the times of steps are none")
        return times


def _member(archive: zipfile.ZipFile, name: str, limit: int) -> bytes:
    """The bytes of one member; its declared size bounds what is decompressed."""
    try:
        entry = archive.getinfo(name)
    except KeyError:
        raise Misfit(f"`{name}` is missing") from None
    if entry.file_size > limit:
        raise Misfit(f"`{name}` has {entry.file_size} bytes, more than the {limit} that are read")
    with archive.open(entry) as member:
        return member.read(limit + 1)


def _read_header(archive: zipfile.ZipFile) -> dict[str, Any]:
    try:
        header = json.loads(_member(archive, _HEADER, MAX_HEADER))
    except RecursionError:
        raise Misfit("its header is nested too deeply") from None
    if not isinstance(header, dict):
        raise Misfit("its header is not a mapping")
    return header


def _array(data: bytes, name: str, dtype: np.dtype[Any], dimensions: int) -> NDArray[Any]:
    """An .npy member without numpy's own reader, which takes memory for whatever shape the header claims and runs a
    tokenizer of Python over it."""
    head = _ARRAY.match(data)
    shape = [int(size) for size in head["shape"].split(b",") if size.strip()] if head else []
    whole = head is not None and np.dtype(head["type"].decode()) == dtype and len(shape) == dimensions
    if head is None or not whole or math.prod(shape) * dtype.itemsize != len(data) - head.end():
        raise Misfit(f"column `{name}` is not a whole array of {dtype} with {dimensions} dimension(s)")
    return np.frombuffer(data, dtype, offset=head.end()).reshape(shape)


def _result(header: dict[str, Any], reader: _Reader, inner: bool = False) -> Result:
    classes = tuple(part(DeviceClass, c) for c in header["classes"])
    breakdown = tuple(times(part) for part in header["breakdown"])
    require(len(breakdown) in (0, len(classes)), "breakdown and classes differ in number")
    require(header["kind"] in KINDS, "it is of an unknown kind")
    jobs = header.get("jobs", [])
    require(bool(jobs) == (header["kind"] == "jobs") and not (jobs and inner), "its jobs are none")
    spans = _spans(header["spans"], reader, len(classes))
    records = tuple(_job(mapping(job), reader.of_job(index)) for index, job in enumerate(jobs))
    names = [record.name for record in records]
    require(len({*names}) == len(names), "two of its jobs have one name")
    return Result(
        kind=header["kind"],
        name=text(header["name"]),
        metrics=numbers(header["metrics"]),
        classes=classes,
        breakdown=breakdown,
        spans=spans,
        memory=tuple(_memory(use, f"memory.{i}", reader, len(classes)) for i, use in enumerate(header["memory"])),
        host=part(HostMemory, mapping(header["host"])) if header.get("host") is not None else None,
        nvme=part(HostMemory, mapping(header["nvme"])) if header.get("nvme") is not None else None,
        links=tuple(_link(load, len(classes)) for load in header["links"]),
        network=drawn.read(header.get("network")),
        critical_path=_critical_path(header["critical_path"], reader, len(classes), len(spans.start)),
        sensitivities=tuple(part(Sensitivity, s) for s in header["sensitivities"]),
        comparisons=tuple(part(Comparison, c) for c in header["comparisons"]),
        warnings=texts(header["warnings"]),
        assumptions=texts(header["assumptions"]),
        ground=_ground(header.get("ground")),
        step_times=reader.step_times(),
        feasible=header["feasible"] is True,
        provenance=plain(header["provenance"]),
        scenario=plain(header["scenario"]),
        schema=SCHEMA,
        service=None if header["service"] is None else service_files.service(mapping(header["service"]), reader.column),
        run=_run(header.get("run"), reader),
        jobs=records,
        meetings=tuple(_meeting(mapping(meeting), names) for meeting in header.get("meetings", [])),
    )


def _run(header: Any, reader: _Reader) -> long_run.LongRun | None:
    return None if header is None else long_run.of_header(mapping(header), reader.column(_BANDS_COLUMN, "<i8", 2))


def _job(header: dict[str, Any], reader: _Reader) -> JobRecord:
    job = part(JobRecord, header, result=_result(mapping(header["result"]), reader, inner=True))
    require(0 <= job.start_s <= job.end_s < math.inf, "a job ends before it starts")
    require(job.shown_from >= 0 and all(device >= 0 for device in job.devices), "a job begins nowhere or lies nowhere")
    return job


def _meeting(header: dict[str, Any], names: Collection[str]) -> Meeting:
    rates = tuple((whole(moment), numbers(rate)) for moment, rate in header.get("rates", ()))
    meeting = part(Meeting, {key: value for key, value in header.items() if key != "rates"}, rates=rates)
    moments, amounts = [moment for moment, _ in rates], [meeting.bytes, meeting.at_once, *(rate for _, rate in rates)]
    require(0 < meeting.capacity < math.inf and meeting.links > 0, "a link on which jobs met has no capacity")
    require(0 <= meeting.full_s <= meeting.together_s < math.inf, "a link was full for longer than jobs met on it")
    require(moments == sorted(set(moments)) and (not moments or moments[0] >= 0), "moments of a link are in no order")
    require(not moments or moments[-1] <= LATEST, "a link is used after the end of time")
    require({*names} >= {name for by in amounts for name in by}, "a link was used by no job")
    require(all(0 <= amount < math.inf for by in amounts for amount in by.values()), "a link carried what is no amount")
    return meeting


def _spans(header: dict[str, Any], reader: _Reader, classes: int) -> Spans:
    lanes = tuple((whole(index), text(name)) for index, name in header["lanes"])
    names = texts(header["names"])
    columns = {n: reader.column(f"spans.{n}", dtype, 2 if n == "flows" else 1) for n, dtype in _SPAN_COLUMNS.items()}
    spans = Spans(lanes=lanes, names=names, **columns)
    operations = len(spans.start)
    require(
        all(len(column) == operations for name, column in columns.items() if name != "flows"),
        "span columns differ in length",
    )
    require(all(0 <= index < classes for index, _ in lanes), "a lane belongs to no class")
    require(within(spans.lane, len(lanes)) and within(spans.name, len(names)), "an operation has no lane or no name")
    require(spans.flows.shape[1] == 2 and within(spans.flows, operations), "an arrow leads nowhere")
    require(bool((spans.start >= 0).all() and (spans.end >= spans.start).all()), "an operation ends before it starts")
    return spans


def _memory(header: dict[str, Any], prefix: str, reader: _Reader, classes: int) -> MemoryUse:
    columns = {name: reader.column(f"{prefix}.{name}", dtype) for name, dtype in _MEMORY_COLUMNS.items()}
    use = part(MemoryUse, header, **columns)
    require(0 <= use.device_class < classes, "a memory ledger belongs to no class")
    require(len(use.time) == len(use.level), "memory columns differ in length")
    return use


def _link(header: dict[str, Any], classes: int) -> LinkLoad:
    rates = tuple((int(moment), float(rate)) for moment, rate in header.get("rates", ()))
    load = part(LinkLoad, {key: value for key, value in header.items() if key != "rates"}, rates=rates)
    require(all(0 <= index < classes for index in load.users), "a link is used by no class")
    require(all(0 <= moment <= LATEST for moment, _ in rates), "a link is used after the end of time")
    return load


def _ground(header: Any) -> Ground:
    """The ground of a run; an empty one in files of versions that did not tell it."""
    if header is None:
        return Ground()
    known = mapping(header)
    spreads = {about: part(Spread, mapping(one)) for about, one in mapping(known.get("spreads", {})).items()}
    near = known.get("circumstances")
    found = part(
        Ground,
        known,
        validation=part(Validation, mapping(known["validation"])),
        spreads=spreads,
        circumstances=None if near is None else part(Circumstances, mapping(near)),
    )
    require(found.kind in ("", *grounds.KINDS), "its ground is of an unknown kind")
    return found


def _critical_path(header: dict[str, Any], reader: _Reader, classes: int, operations: int) -> CriticalPath:
    path = part(CriticalPath, header, operations=reader.column(_PATH_COLUMN, "<i8"))
    require(len(path.by_class) in (0, classes), "critical path and classes differ in number")
    require(within(path.operations, operations), "the critical path leads nowhere")
    return path
