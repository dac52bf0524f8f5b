"""Results of benchmarks of serving engines, read without trust.

The JSON that `vllm bench serve` (before: benchmark_serving.py) saves, one object; the JSON lines that `python -m
sglang.bench_serving --output-file` appends, an object a run; or the table that either prints (`Mean TTFT (ms): 123.4`).
Both have the same keys. A run that is damaged, failed or has no latency is refused with its place.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from simulator import units
from simulator.errors import InputError, Problem
from simulator.interop.logs.training import Logged
from simulator.interop.rows.jsonl import Refused

LARGEST = 64 << 20
"""Bytes of a file; results with the times of every request are long."""
MOST_RUNS = 1000
FIGURES = ("mean_ttft_ms", "mean_tpot_ms", "output_throughput")
"""What is compared, by the keys of both engines and of a Result."""
SLOWEST_MS, FASTEST = 1e8, 1e9
_PRINTED = {
    "Successful requests": "completed",
    "Failed requests": "failed",
    "Output token throughput (tok/s)": "output_throughput",
    "Mean TTFT (ms)": "mean_ttft_ms",
    "Mean TPOT (ms)": "mean_tpot_ms",
    "Maximum request concurrency": "max_concurrency",
    "Max request concurrency": "max_concurrency",
    "Max reqeuest concurrency": "max_concurrency",  # as SGLang has printed it
}
_HEAD = re.compile(r"=+ *Serving Benchmark Result *=+")
_LINE = re.compile(r"([A-Z][\w /()]{2,60}?):\s+(\S+)\s*$")


def read_serving_log(path: str | Path) -> tuple[Logged, ...]:
    """The runs of a file; none where it is of no benchmark that is known. InputError where it cannot be read, or where
    none of its runs can be used."""
    found, refused = list[Logged](), list[str]()
    for place, data in _objects(path):
        try:
            found.append(_logged(place, data() if callable(data) else data))
        except Refused as reason:
            refused.append(f"{place}: {reason}")
        if len(found) + len(refused) > MOST_RUNS:
            raise InputError(Problem(f"more than {MOST_RUNS:,} runs", file=str(path), hint="split the file"))
    if refused and not found:
        raise InputError(Problem(f"no run of it can be used: {refused[0]}", file=str(path)))
    if refused:
        last = found[-1]
        found[-1] = Logged(last.file, last.tool, last.figures, last.count, last.spread, last.states, tuple(refused))
    return tuple(found)


def _objects(path: str | Path) -> Iterator[tuple[str, Any]]:
    """(place, what a run says or gives it) of each run of a file."""
    text = _text(Path(path))
    if not text.lstrip().startswith("{"):
        yield from _printed(str(path), text)
        return
    try:
        whole = _parsed(text)
    except Refused:
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip():
                yield f"{path}:{number}", lambda line=line: _parsed(line)
        return
    yield f"{path}:1", whole


def _text(path: Path) -> str:
    try:
        if not path.is_file():
            raise InputError(Problem("is no regular file", file=str(path)))
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise InputError(Problem(f"cannot be read: {error.strerror}", file=str(path))) from None
    if len(data) > LARGEST:
        raise InputError(Problem(f"is longer than {LARGEST >> 20} MiB", file=str(path), hint="save it without details"))
    return data.decode("utf-8", errors="replace")


def _parsed(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "brackets too deep" if isinstance(error, RecursionError) else str(error)
        raise Refused(f"not a JSON object: {reason[:100]}") from None
    if not isinstance(data, dict):
        raise Refused(f"not a JSON object but {type(data).__name__}")
    return data


def _printed(file: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The tables of a log."""
    run: dict[str, Any] | None = None
    place = ""
    for number, line in enumerate(text.splitlines(), 1):
        if _HEAD.search(line):
            if run is not None:
                yield place, run
            run, place = {}, f"{file}:{number}"
        elif run is not None and (said := _LINE.search(line[:200])) and said[1].strip() in _PRINTED:
            value = said[2].replace(",", "")
            run[_PRINTED[said[1].strip()]] = float(value) if re.fullmatch(r"\d{1,15}(\.\d{1,15})?", value) else value
    if run is not None:
        yield place, run


def _logged(place: str, data: Mapping[str, Any]) -> Logged:
    figures = {key: _figure(key, data[key]) for key in FIGURES if data.get(key) is not None}
    if "mean_tpot_ms" not in figures and "mean_ttft_ms" not in figures:
        raise Refused("neither `mean_ttft_ms` nor `mean_tpot_ms`: no result of a benchmark of an engine")
    if data.get("failed"):
        raise Refused(f"{str(data['failed'])[:20]} of its requests failed")
    states = {
        path: float(data[key])
        for key, path in (("completed", "requests.count"), ("max_concurrency", "requests.arrivals.closed_loop.clients"))
        if isinstance(data.get(key), int | float) and not isinstance(data[key], bool) and 0 < data[key] < 1e9
    }
    count = int(states.get("requests.count", 1))
    file, _, _ = place.rpartition(":")
    tool = "SGLang" if str(data.get("backend", "")).startswith("sglang") else "vLLM or SGLang"
    return Logged(file, tool, figures, count, 0.0, states)


def _figure(key: str, value: Any) -> float:
    most = FASTEST if key == "output_throughput" else SLOWEST_MS
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value <= most:
        raise Refused(f"`{key}` of {str(value)[:30]}; a number above 0 and up to {units.plain(most, 6)} was expected")
    return float(value)
