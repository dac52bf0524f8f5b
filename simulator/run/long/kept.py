"""What was simulated of a run of weeks, kept in a file so that an interrupted simulation goes on where it was.

A line of JSON each: first which run it is, then lives of the run and times of steps by their key, each with its
checksum. Lines are added as they come; one that was cut off when the program was killed is written again.
"""

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any
from zlib import crc32

from simulator.errors import InputError, Problem
from simulator.run.long.life import Record

_HINT = "name another file with `--resume FILE`"


class Kept:
    """An open file of what is known of one run."""

    def __init__(self, path: str | Path, run: str) -> None:
        """Read what is there of `run`, which names the scenario and the program; InputError for any other file."""
        self._path = Path(path)
        self._known: dict[str, Any] = {}
        try:
            self._read(run)
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error

    def of(self, key: str, make: Callable[[], Any]) -> Any:
        """What is known by a key, made and kept where it is not."""
        if key not in self._known:
            self._known[key] = make()
            self._add({"key": key, "is": self._known[key], "sum": _sum(key, self._known[key])})
        return self._known[key]

    def seconds(self, key: str, make: Callable[[], float]) -> float:
        """A time; InputError where the file has something else."""
        found = self.of(key, make)
        if not isinstance(found, float):
            raise self._unusable("it is damaged")
        return found

    def record(self, key: str, make: Callable[[], Record]) -> Record:
        """A life of the run; InputError where the file has something else."""
        found = self.of(key, lambda: _plain(make()))
        try:
            ticks = Counter({str(name): int(number) for name, number in found["ticks"].items()})
            strikes = Counter({int(name): int(number) for name, number in found["strikes"].items()})
            bands = [(int(begin), int(end), int(state)) for begin, end, state in found["bands"]]
            return Record(**{**found, "ticks": ticks, "strikes": strikes, "bands": bands})
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise self._unusable("it is damaged") from error

    def _read(self, run: str) -> None:
        if not self._path.exists():
            self._add({"run": run})
            return
        text = self._path.read_bytes()
        whole = text.rfind(b"\n") + 1
        try:
            first, *lines = (json.loads(line) for line in text[:whole].splitlines() or [b"{}"])
            known = {line["key"]: line["is"] for line in lines}
            whole_lines = all(line["sum"] == _sum(line["key"], line["is"]) for line in lines)
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise self._unusable("it is damaged, or no file of a run") from error
        if not isinstance(first, dict) or "run" not in first:
            raise self._unusable("it is no file of a run")
        if first["run"] != run:
            raise self._unusable("it has another run, or one of another version")
        if not whole_lines:
            raise self._unusable("it is damaged")
        self._known = known
        if whole < len(text):
            os.truncate(self._path, whole)

    def _add(self, line: dict[str, Any]) -> None:
        try:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
        except OSError as error:
            raise self._unusable(error.strerror or str(error)) from error

    def _unusable(self, why: str) -> InputError:
        return InputError(Problem(f"cannot be used to go on with a run: {why}", file=str(self._path), hint=_HINT))


def _sum(key: str, value: Any) -> int:
    return crc32(json.dumps([key, value]).encode())


def _plain(record: Record) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}
