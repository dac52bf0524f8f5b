"""Blind tests: rows gathered without a look at what the program gives for them, simulated, the first answers frozen.

    python -m benchmarks.blind [--jobs 2]

`workloads/measurements/blind-*.jsonl` hold the rows of the first test, `blind2-*.jsonl` and `blind3-*.jsonl` those of
the next (the third has serving alone), of sources that no fit and no other file of rows names. The first run of a test
writes `benchmarks/blind_first.json` and so on, which is never written again; later runs print its figures and those of
now, and write both into docs/validation.md. Nothing of the program may be changed for rows before that: what it does
not know stays refused.
Afterwards they teach as others do, and the next test judges.
"""

import argparse
import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.validation import PAGE, ship_residuals, written
from simulator.errors import InputError, Problem
from simulator.interop.rows.jsonl import read_lines
from simulator.specs import data_root
from simulator.study.validate.accuracy import statistics
from simulator.study.validate.published import KINDS

ANSWERS = Path(__file__).parent
FOLDER = data_root() / "workloads" / "measurements"
MODEL = {"training": "architecture", "serving": "architecture", "network": "operation"}
"""What rows of a kind are told apart by, beside device and stack: the model, of collectives the operation."""
KEYS = ("device", "stack", "model")
FEWEST = 5
"""Rows from which on a group has a line on the page."""
HEAD = [
    "| | rows | simulated | mean | median | signed | with interval | held | median width |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
]
Answer = Mapping[str, Any]
"""Of one row: `refused`, or `error` of time, `device`, `stack`, `model` and, where there is an interval, whether it
holds the published figure (`held`) and its high over low end, less 1 (`width`)."""
Answers = Mapping[str, Mapping[str, Answer]]
"""By kind and row."""


@dataclass(frozen=True)
class Blind:
    """A blind test: its name in files and on the page."""

    name: str

    @property
    def files(self) -> Mapping[str, Path]:
        """Its rows by kind, of which a test may lack some."""
        return {kind: FOLDER / f"{self.name}-{kind}.jsonl" for kind in MODEL}

    @property
    def first(self) -> Path:
        """What its first run gave."""
        return ANSWERS / f"{self.name}_first.json"

    @property
    def marks(self) -> tuple[str, str]:
        """Between which lines of the page its figures stand."""
        return f"<!-- {self.name}: written by benchmarks/blind.py -->", f"<!-- end of {self.name} -->"


TESTS = (Blind("blind"), Blind("blind2"), Blind("blind3"), Blind("blind4"), Blind("blind5"))


def answer(kind: str, outcome: Any) -> Answer:
    """What a row gave."""
    if outcome.error is None:
        return {"refused": outcome.refused or "no error"}
    stands_on = outcome.conditions
    found = {
        "error": outcome.error,
        "device": stands_on.device if stands_on else outcome.row.device,
        "stack": stands_on.stack if stands_on else outcome.library,
        "model": KINDS[kind].groups[MODEL[kind]](outcome),
    }
    if outcome.interval is None:
        return found
    low, high = outcome.interval
    return found | {"held": bool(low <= outcome.measured <= high), "width": high / low - 1}


def run(files: Mapping[str, Path], jobs: int) -> Mapping[str, Sequence[Any]]:
    """What became of all rows of the files that exist, by kind."""
    there = {kind: list(read_lines(path)) for kind, path in files.items() if path.exists()}
    return {kind: KINDS[kind].validate(lines, jobs) for kind, lines in there.items()}


def ship(test: Blind, outcomes: Mapping[str, Sequence[Any]]) -> None:
    """Write the residuals from which intervals of unseen runs are made."""
    for kind in outcomes.keys() & {"training", "serving"}:
        ship_residuals(kind, test.files[kind].name, outcomes[kind], {}, unseen=True)


def freeze(found: Answers, path: Path, commit: str) -> None:
    """Write the first answers; InputError where they are there."""
    document = {"date": date.today().isoformat(), "commit": commit, "rows": found}
    try:
        with open(path, "x") as file:
            file.write(json.dumps(document, indent=1) + "\n")
    except FileExistsError:
        raise InputError(Problem("holds the first answers and is never written again", file=str(path))) from None


def line(name: str, rows: Sequence[Answer]) -> str:
    """A row of the table: errors of what was simulated, and what the intervals hold."""
    errors = [one["error"] for one in rows if "error" in one]
    intervals = [one for one in rows if "width" in one]
    figures = statistics(errors)
    cells = [str(len(rows)), str(len(errors)), "", "", ""]
    if figures.rows:
        cells[2:] = [f"{100 * figures.mean:.1f} %", f"{100 * figures.median:.1f} %", f"{100 * figures.signed:+.1f} %"]
    held = ["0", "", ""]
    if intervals:
        inside, width = np.mean([one["held"] for one in intervals]), np.median([one["width"] for one in intervals])
        held = [str(len(intervals)), f"{100 * inside:.0f} %", f"{100 * width:.0f} %"]
    return f"| {name} | " + " | ".join(cells + held) + " |"


def tables(found: Answers) -> Iterator[str]:
    """Errors of time and intervals of 80 % by kind of row, then by device, stack and model; reasons of refusals."""
    for kind, answers in found.items():
        rows = list(answers.values())
        yield from (f"## {kind}", "", *HEAD, line("all", rows))
        for key in KEYS:
            yield from (line(f"{key} {name}", some) for name, some in grouped(rows, key))
        yield from ("", *(f"- {reason}: {count}" for reason, count in refusals(rows)), "")


def section(first: Mapping[str, Any], now: Answers) -> Iterator[str]:
    """What stands on the page: all rows of each kind as first answered and now, and the larger groups as first."""
    yield f"First: {first['date']}, at {first['commit']}, nothing changed for any row. Now: {date.today().isoformat()}."
    yield from ("", *HEAD)
    for kind, answers in first["rows"].items():
        rows = list(answers.values())
        yield from (line(f"**{kind}, first**", rows), line(f"{kind}, now", list(now[kind].values())))
        groups = (one for key in KEYS for one in grouped(rows, key))
        yield from (line(f"{kind}, first: {name}", some) for name, some in groups if len(some) >= FEWEST)
    yield ""


def grouped(rows: Iterable[Answer], key: str) -> list[tuple[str, list[Answer]]]:
    """Simulated rows by what they have in common, the largest groups first."""
    found: dict[str, list[Answer]] = {}
    for one in rows:
        if "error" in one:
            found.setdefault(one[key], []).append(one)
    return sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))


def refusals(rows: Iterable[Answer]) -> list[tuple[str, int]]:
    """Why rows are refused, the most frequent first."""
    found: dict[str, int] = {}
    for one in rows:
        if "refused" in one:
            found[one["refused"][:140]] = found.get(one["refused"][:140], 0) + 1
    return sorted(found.items(), key=lambda item: (-item[1], item[0]))


def judge(test: Blind, jobs: int, say: Callable[[str], None]) -> None:
    """Simulate a test; freeze what the first run gave, or print it before what the rows give now."""
    outcomes = run(test.files, jobs)
    now = {kind: {outcome.id: answer(kind, outcome) for outcome in some} for kind, some in outcomes.items()}
    if not test.first.exists():
        freeze(now, test.first, _commit())
    first = json.loads(test.first.read_text())
    say("\n".join([f"# {test.name}, first: {first['date']}, at {first['commit']}", "", *tables(first["rows"])]))
    PAGE.write_text(written(PAGE.read_text(), *test.marks, list(section(first, now))))
    ship(test, outcomes)
    say("\n".join([f"# {test.name}, now", "", *tables(now)]))


def main(say: Callable[[str], None] = print) -> None:
    """Judge by all tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    jobs = parser.parse_args().jobs
    for test in TESTS:
        judge(test, jobs, say)


def _commit() -> str:
    told = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    return told.stdout.strip()


if __name__ == "__main__":
    main()
