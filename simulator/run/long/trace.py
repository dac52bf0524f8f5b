"""Failures from a file: rows of `time,what,until` and, for what is only slow, the share `left` of its speed.

`time` and `until` are seconds or times with a unit (`3 h`), counted from the start of the run; `what` is `device 17`,
`node 3`, `run`, or a link by its name (`NIC 17`, `leaf up 4`). A node, a device or a network card that fails takes its
node out of the run until `until`, or for as long as a repair takes where that is empty.
"""

import csv
from pathlib import Path
from typing import NoReturn

from simulator import units
from simulator.errors import InputError, Problem
from simulator.fabric import Fabric
from simulator.results.long_run import TICKS_PER_SECOND
from simulator.run.long.arrivals import Arrival, Source
from simulator.specs.catalog import data_root
from simulator.specs.hardware import Cluster

PATH = "training.run.trace"
HEAD = ("time", "what", "until", "left")
MOST_ROWS = 1_000_000
"""Rows above which a file is refused."""


class Row(Exception):
    """What is wrong with a row."""

    def __init__(self, message: str, hint: str) -> None:
        """A message and what to write."""
        super().__init__(message)
        self.message, self.hint = message, hint


def read_trace(
    name: str, cluster: Cluster, fabric: Fabric, first: int, detection: int
) -> tuple[list[Source], list[Arrival]]:
    """Causes, numbered from `first`, and failures in order of time; InputError with all rows that are wrong."""
    path = next((path for path in (Path(name), data_root() / name) if path.is_file()), None)
    if path is None:
        raise InputError(Problem(f"there is no file `{name}`", path=PATH, hint="write the path of a file"))
    reader = _Reader(cluster, fabric, first, detection)
    problems, found = list[Problem](), list[Arrival]()
    with path.open(encoding="utf-8", errors="replace", newline="") as file:
        for number, cells in enumerate(csv.reader(file), 1):
            if number == 1 or not any(cell.strip() for cell in cells):
                if number == 1:
                    _check_head(cells, path)
                continue
            try:
                found.append(reader.row([cell.strip() for cell in cells]))
            except Row as wrong:
                problems.append(Problem(wrong.message, path=PATH, hint=wrong.hint, file=str(path), line=number))
            if number > MOST_ROWS:
                raise InputError(Problem(f"more than {MOST_ROWS:,} rows", path=PATH, file=str(path), line=number))
    if problems:
        raise InputError(*problems)
    if not found:
        raise InputError(Problem("holds no failures", path=PATH, file=str(path), hint="write `time,what,until` rows"))
    return reader.sources, sorted(found, key=lambda one: one.tick)


def _check_head(cells: list[str], path: Path) -> None:
    names = tuple(cell.strip().lower() for cell in cells)
    if names not in (HEAD, HEAD[:3]):
        hint = "the first line is `time,what,until` or `time,what,until,left`"
        raise InputError(Problem("names no columns of failures", path=PATH, hint=hint, file=str(path), line=1))


class _Reader:
    """Rows to failures."""

    def __init__(self, cluster: Cluster, fabric: Fabric, first: int, detection: int) -> None:
        self._cluster, self._fabric, self._first, self._detection = cluster, fabric, first, detection
        self.sources: list[Source] = []
        self._known: dict[tuple[str, str], int] = {}

    def row(self, cells: list[str]) -> Arrival:
        """A failure; Row for what is none."""
        if len(cells) not in (3, 4):
            raise Row(f"has {len(cells)} cells", "write `time,what,until`, and `left` after it")
        begin, until = _time(cells[0], "time"), _time(cells[2], "until") if cells[2] else None
        if until is not None and until <= begin:
            raise Row(f"`until` {cells[2]} is not after `time` {cells[0]}", "write a later time, or leave it empty")
        left = _share(cells[3]) if len(cells) == 4 and cells[3] else None
        kind, of, unit, node = self._what(cells[1])
        if left is not None and of not in ("device", "link"):
            raise Row(f"`left` is of devices and links, not of `{cells[1]}`", "leave it empty")
        return Arrival(begin, self._source(kind, of), unit, node, left, until)

    def _what(self, name: str) -> tuple[str, str, int, int]:
        """(kind in words, what fails, its number, the node that it takes out or -1)."""
        kind, _, number = name.rpartition(" ")
        per_node = self._cluster.node.devices
        sizes = {"device": self._cluster.devices, "node": self._cluster.nodes}
        if name == "run":
            return "run", "run", -1, -1
        if kind in sizes and number.isdecimal() and len(number) < 10:
            if int(number) >= sizes[kind]:
                raise Row(f"there is no {name}: the cluster has {sizes[kind]:,}", f"from 0 to {sizes[kind] - 1}")
            unit = int(number)
            return kind, kind, unit, unit // per_node if kind == "device" else unit
        links = self._fabric.find(name)
        if not links:
            raise Row(f"the cluster has no `{name}`", "write `device 17`, `node 3`, `run`, or a link such as `NIC 17`")
        cards = self._cluster.node.nics
        node = int(number) // cards.count if kind.startswith("NIC") and cards else -1
        return kind, "link", links[0], node

    def _source(self, kind: str, of: str) -> int:
        if (kind, of) not in self._known:
            self._known[kind, of] = self._first + len(self.sources)
            self.sources.append(Source(f"{kind} (trace)", of, 1, 0, 0.0, 0, None, self._detection, False))
        return self._known[kind, of]


def _time(text: str, column: str) -> int:
    """Ticks of a time."""
    try:
        seconds = float(text) if text.replace(".", "", 1).isdecimal() else units.parse(text, "time")
    except ValueError as error:
        _refuse(column, text, str(error))
    if not 0 <= seconds < 3e9:
        _refuse(column, text, "it lies outside of any run")
    return round(seconds * TICKS_PER_SECOND)


def _share(text: str) -> float:
    try:
        share = units.parse(text, "fraction")
    except ValueError as error:
        _refuse("left", text, str(error))
    if not 0 < share < 1:
        _refuse("left", text, "it is no share between 0 and 1")
    return share


def _refuse(column: str, text: str, why: str) -> NoReturn:
    example = "`0.5` or `50 %`" if column == "left" else "seconds, or a time such as `3 h`"
    raise Row(f"`{column}` is `{text[:40]}`: {why}", f"write {example}")
