"""What a regression check keeps of a run: its figures and what its time and memory consist of, as a small JSON file.

Nothing in it depends on the machine that simulates. Numbers have twelve digits, which is what two platforms agree on.
Parts are tables of seconds (`memory`: bytes) by name:

* `breakdown`: a step by what devices do, on average over them; of a request, from its arrival to its last token;
* `critical_path`: a step by operation, all stages together (training);
* `links`: the communication on that path by the kind of link that decides its rate (training);
* `operations`: communication of a mean device of a step, hidden or not; of an iteration of each pool, all that it
  consists of (serving); of each of several jobs its step or request by what it consists of, as `job: part`;
* `memory`: the fullest device at its peak, by kind; of each of several jobs, as `job: kind`.
"""

import json
import math
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from simulator import __version__, units
from simulator.errors import InputError, Problem
from simulator.results import writing
from simulator.results.result import Result, Service
from simulator.results.summary import ordered_metrics
from simulator.run.kinds import KINDS
from simulator.run.parts import axis_of
from simulator.specs.text.yaml_text import decoded
from simulator.study.compare.comparison import parts
from simulator.study.header import settings

FORMAT = 1
"""Version of the form of baseline files."""
TABLES = ("breakdown", "critical_path", "links", "operations", "memory")
DIGITS = 12
LARGEST = 16 << 20
"""Bytes of a file above which it is not read."""
_SILENT = frozenset({"version", "name", "description", "published"})  # of a scenario: no answer depends on them
_FIELDS = {
    "kind": str,
    "name": str,
    "feasible": bool,
    "version": str,
    "scenario": dict,
    "metrics": dict,
    "parts": dict,
}
_OF_PLACE = re.compile(r", (stage|chunk) \d+$")


@dataclass(frozen=True, slots=True)
class Baseline:
    """What a run answered."""

    kind: str
    """`training`, `serving` or `jobs`."""
    name: str
    """Name of the scenario."""
    feasible: bool
    """Whether it fits into memory."""
    version: str
    """Version of the simulator."""
    scenario: dict[str, str]
    """A digest of each section of the resolved scenario, and the values of its settings by their dotted paths, so that
    what was changed in it can be named; files of older versions have no settings."""
    metrics: dict[str, float]
    """Figures as in the JSON form of a Result, those that are finite."""
    parts: dict[str, dict[str, float]]
    """Tables by the names in `TABLES`; only those that have entries."""


def observe(result: Result) -> Baseline:
    """What a check keeps of a Result."""
    path = result.critical_path
    tables = {
        "breakdown": parts(result),
        "critical_path": _without_stages(path.by_operation),
        "links": dict(path.by_link),
        "operations": _operations(result),
        "memory": _memory(result),
    }
    return Baseline(
        result.kind,
        result.name,
        result.feasible,
        __version__,
        {key: _digest(value) for key, value in result.scenario.items() if key not in _SILENT}
        | settings(result.scenario),
        _rounded(ordered_metrics(result.metrics)),
        {name: rounded for name, table in tables.items() if (rounded := _rounded(table))},
    )


def read(path: Path) -> Baseline | None:
    """The baseline in a file, None where there is no file; InputError for one that is cut, foreign or of other form."""
    try:
        if not path.exists():
            return None
        if path.stat().st_size > LARGEST:
            raise InputError(Problem("is too large for a baseline", file=str(path)))
        return _parsed(json.loads(decoded(path.read_bytes(), str(path))), path)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror or error}", file=str(path))) from error
    except json.JSONDecodeError as error:
        raise _damaged(f"is cut or damaged: {error.msg}", path, error.lineno) from error
    except (ValueError, RecursionError) as error:  # no UTF-8, or brackets without end
        raise _damaged("is cut or damaged: no JSON", path) from error


def write(path: Path, baseline: Baseline) -> None:
    """Write a baseline, and the folders that it lies in; InputError where the system refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(Problem(f"cannot be created: {error.strerror or error}", file=str(path.parent))) from error
    text = json.dumps({"baseline": FORMAT} | asdict(baseline), indent=1, ensure_ascii=False, allow_nan=False)
    writing.write(path, f"{text}\n")


def is_foreign(path: Path) -> bool:
    """Whether a file is sound JSON but no baseline, and must not be written over."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return not isinstance(document, dict) or "baseline" not in document


def _damaged(message: str, path: Path, line: int | None = None) -> InputError:
    return InputError(Problem(message, file=str(path), line=line, hint="`--update` writes it anew"))


def _parsed(document: Any, path: Path) -> Baseline:
    """The baseline that a document holds; InputError where its form is another."""
    if not isinstance(document, dict) or "baseline" not in document:
        raise InputError(Problem("is no baseline", file=str(path), hint="name another folder with --baseline"))
    if document["baseline"] != FORMAT:
        form = str(document["baseline"])[:40]
        raise _damaged(f"is a baseline of form {form}, and this program reads form {FORMAT}", path)
    values: dict[str, Any] = {key: document.get(key) for key in _FIELDS}
    wrong = [key for key, kind in _FIELDS.items() if not isinstance(values[key], kind)]
    if not wrong:
        wrong = [key for key, sound in _sound(values).items() if not sound]
    if wrong:
        raise _damaged(f"is damaged: `{wrong[0]}` is missing or of another form", path)
    return Baseline(**values)


def _sound(values: Mapping[str, Any]) -> dict[str, bool]:
    """Whether the values of each table are what they must be."""
    return {
        "kind": values["kind"] in KINDS,
        "scenario": all(isinstance(value, str) for value in values["scenario"].values()),
        "metrics": _numbers(values["metrics"]),
        "parts": all(isinstance(table, dict) and _numbers(table) for table in values["parts"].values()),
    }


def _numbers(table: Mapping[str, Any]) -> bool:
    return all(
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
        for value in table.values()  # an integer may have hundreds of digits, NaN is within nothing
    )


def _rounded(table: Mapping[str, float]) -> dict[str, float]:
    return {name: float(f"{value:.{DIGITS}g}") for name, value in table.items() if math.isfinite(value)}


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()[:8]


def _without_stages(seconds: Mapping[str, float]) -> dict[str, float]:
    """Operations of all stages together: a hundred stages would be a large file that says no more."""
    found: dict[str, float] = defaultdict(float)
    for name, value in seconds.items():
        found[_OF_PLACE.sub("", name)] += value
    return dict(found)


def _communication(result: Result) -> dict[str, float]:
    """Seconds that the mean device spends in each kind of communication, whatever runs beside it."""
    spans, ranks = result.spans, np.array([one.ranks for one in result.classes], np.float64)
    if not len(spans.start):
        return {}
    weight = ranks[[device for device, _ in spans.lanes]] / ranks.sum()
    seconds = np.bincount(spans.name, (spans.end - spans.start) * weight[spans.lane], len(spans.names))
    named = zip(spans.names, (seconds / units.TICKS_PER_SECOND).tolist(), strict=True)
    return {name: value for name, value in named if value > 0 and axis_of(name) is not None}


def _operations(result: Result) -> dict[str, float]:
    if result.jobs:
        return _of_jobs(result, parts)
    return _communication(result) if result.service is None else _iteration(result.service)


def _memory(result: Result) -> dict[str, float]:
    if result.jobs:
        return _of_jobs(result, _memory)
    return dict(max(result.memory, key=lambda use: use.peak).at_peak) if result.memory else {}


def _of_jobs(result: Result, table: Callable[[Result], dict[str, float]]) -> dict[str, float]:
    """A table of each of several jobs."""
    return {f"{job.name}: {key}": value for job in result.jobs for key, value in table(job.result).items()}


def _iteration(service: Service) -> dict[str, float]:
    """Seconds of the mean iteration of each pool by what they consist of."""
    seconds: dict[tuple[str, str], float] = defaultdict(float)
    count: dict[str, int] = defaultdict(int)
    for replica in service.replicas:
        count[replica.pool] += int(replica.iterations.count.sum())
        for part, value in replica.parts.items():
            seconds[replica.pool, part] += value
    return {
        f"{pool}: {part}" if len(count) > 1 else part: value / count[pool]
        for (pool, part), value in seconds.items()
        if count[pool]
    }
