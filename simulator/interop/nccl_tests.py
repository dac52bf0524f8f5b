"""Logs of nccl-tests and rccl-tests: sizes, times and bandwidths as they print them.

A log is text of others, read without trust: lines and their number are bounded. Lines that begin with # are its head;
the one that names `size` and `busbw` names the columns. Times are in microseconds, bandwidths in decimal GB/s; of the
times out of place and in place the shorter one counts. Grammar: NVIDIA/nccl-tests src/util.cu.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from simulator.errors import InputError, Problem
from simulator.interop.rows.jsonl import Line, read_lines

COLUMNS: tuple[str, ...] = ("size", "count", "type", "redop", "root", *("time", "algbw", "busbw", "#wrong") * 2)
"""Columns where a log has no head."""
_OPTIONAL = ("redop", "root")
_NUMBER = re.compile(r"\bnccl-library=(\d{5,6})\b")
_RELEASE = re.compile(r"\bNCCL version (\d+\.\d+(?:\.\d+)?)")
_RANK = re.compile(
    r"#\s+Rank\s+([0-9]{1,9})\s.*\bon\s+(\S+)\s+device(?:\s+[0-9]{1,9}\s+\[[0-9a-fx:.]{1,20}\]\s*(.{1,200}))?", re.I
)


@dataclass(frozen=True, slots=True)
class LoggedSize:
    """One size of a log."""

    size_bytes: float
    count: int
    dtype: str
    redop: str
    time_s: float
    """The shorter of the times."""


@dataclass(frozen=True, slots=True)
class NcclLog:
    """What a log says."""

    sizes: tuple[LoggedSize, ...]
    ranks: int | None
    """As its head lists them; None where it does not."""
    nodes: int | None
    release: str = ""
    """Of NCCL, such as 2.26.2; empty where it does not say."""
    refused: tuple[Problem, ...] = ()
    """Lines that look like rows and are none, such as those that a cut or another program's output damaged."""
    devices: tuple[str, ...] = ()
    """Names of the devices of its ranks, each once; empty where its head does not list them."""


def read_log(path: str | Path) -> NcclLog:
    """Read a log; a row that is not as its columns say is refused by itself. InputError where none is left."""
    columns, sizes, refused = COLUMNS, list[LoggedSize](), list[Problem]()
    places: dict[int, str] = {}
    devices: dict[str, None] = {}
    release = ""
    for line in read_lines(path):
        text = (line.text or "").strip()
        release = release or _release(text)
        if rank := _RANK.match(text):
            places[int(rank[1])] = rank[2]
            devices |= {rank[3].strip(): None} if rank[3] else {}
        elif text.startswith("#"):
            words = text[1:].split()
            if "size" in words and "busbw" in words:
                columns = tuple(words)
        elif text[:1].isdigit():
            row = _row(line, text.split(), columns)
            if isinstance(row, Problem):
                refused.append(row)
            else:
                sizes.append(row)
        elif line.text is None:
            refused.append(Problem("the line is too long or not text in UTF-8", line.file, line.number))
    if not sizes and refused:
        raise InputError(*refused)
    if not sizes:
        raise InputError(Problem("has no rows of nccl-tests", file=str(path), hint="write what the test printed"))
    nodes = len(set(places.values())) or None
    return NcclLog(tuple(sizes), len(places) or None, nodes, release, tuple(refused), tuple(devices))


def _release(text: str) -> str:
    """The release of NCCL that a line names: by words, or by a number as 22602 for 2.26.2."""
    if named := _RELEASE.search(text):
        return named[1]
    if counted := _NUMBER.search(text):
        number = int(counted[1])
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return ""


def _row(line: Line, words: list[str], columns: tuple[str, ...]) -> LoggedSize | Problem:
    """The row that a line is, or what is wrong with it."""
    names = list(columns)
    for missing in _OPTIONAL:  # operations that reduce nothing, or have no root, print nothing there
        if len(words) < len(names) and missing in names:
            names.remove(missing)
    if len(words) != len(names):
        problem = f"{len(words)} columns where the head names {len(columns)}"
        return Problem(problem, file=line.file, line=line.number, hint=" ".join(columns))
    first = dict(zip(reversed(names), reversed(words), strict=True))
    times = [float(word) for name, word in zip(names, words, strict=True) if name == "time" and _is_time(word)]
    if not times or not _is_count(words[0]) or int(words[0]) < 1:
        return Problem("is no row of nccl-tests: no size, or no time above 0", line.file, line.number)
    count = first.get("count", "0")
    return LoggedSize(
        float(words[0]),
        int(count) if _is_count(count) else 0,
        first.get("type", ""),
        first.get("redop", ""),
        min(times) * 1e-6,
    )


def _is_count(word: str) -> bool:
    return bool(re.fullmatch(r"[0-9]{1,18}", word))


def _is_time(word: str) -> bool:
    return bool(re.fullmatch(r"[0-9]{1,12}(\.[0-9]{1,9})?", word)) and float(word) > 0
