"""Write the part of docs/validation.md about rows that were found after the fits.

    python -m benchmarks.validation_found [--jobs 2]

`found_first.json` holds the errors of time of these rows as they were when the rows were first simulated, with the
code of 7def7bf6 and nothing changed for them. It is never written again: the page shows both figures. Today's residuals
are shipped: they decide how wide the intervals of runs are that nobody here has seen.
"""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

import numpy as np

from benchmarks.validation import PAGE, ship_residuals, written
from simulator.interop.rows.jsonl import read_lines
from simulator.specs import data_root
from simulator.study.validate.accuracy import SERVING
from simulator.study.validate.published import KINDS
from simulator.study.validate.serving import ServingOutcome

ROWS = "workloads/measurements/serving_found.jsonl"
FIRST = Path(__file__).with_name("found_first.json")
BEGIN, END = "<!-- found: written by benchmarks/validation_found.py -->", "<!-- end of found -->"
FIGURES = "mean | median | signed | TTFT median"
HEAD = [
    f"| | rows | as found: simulated | {FIGURES} | now: simulated | {FIGURES} |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
]
KEYS = ("source", "device", "stack")
Errors = dict[str, float]
"""Errors of time of one row by metric."""


def one(errors: Errors) -> float:
    """The error of a row: of the time per token where it has one, else of its other figure."""
    tpot = [error for metric, error in errors.items() if metric.startswith(("tpot", "itl"))]
    return tpot[0] if tpot else next(iter(errors.values()))


def cells(rows: Sequence[Errors]) -> list[str]:
    """Rows that are simulated, mean, median, signed mean and the median of the first token's error."""
    if not rows:
        return ["0", "", "", "", ""]
    errors = np.array([one(row) for row in rows])
    first = [abs(error) for row in rows for metric, error in row.items() if metric.startswith("ttft")]
    size = np.abs(errors)
    found = [f"{100 * size.mean():.1f} %", f"{100 * np.median(size):.1f} %", f"{100 * errors.mean():+.1f} %"]
    return [str(len(rows)), *found, f"{100 * np.median(first):.1f} %" if first else ""]


def line(name: str, outcomes: Sequence[ServingOutcome], first: dict[str, Errors]) -> str:
    """A row of the table: as found, and now."""
    then = [first[o.id] for o in outcomes if o.id in first]
    now = [{part.metric: part.error for part in o.parts} for o in outcomes if o.parts]
    return f"| {name} | {len(outcomes)} | " + " | ".join([*cells(then), *cells(now)]) + " |"


def groups(outcomes: Sequence[ServingOutcome], key: Callable[[ServingOutcome], str]) -> dict[str, list[ServingOutcome]]:
    """Outcomes by what they have in common, in order of its name; rows that are refused are with the others."""
    found: dict[str, list[ServingOutcome]] = {}
    for outcome in outcomes:
        found.setdefault(key(outcome) or "refused", []).append(outcome)
    return dict(sorted(found.items()))


def tables(outcomes: Sequence[ServingOutcome], first: dict[str, Errors], seconds: float) -> list[str]:
    """Everything that stands between the markers."""
    refused: dict[str, int] = {}
    for outcome in outcomes:
        if outcome.refused:
            refused[outcome.refused] = refused.get(outcome.refused, 0) + 1
    found = [
        f"Written on {date.today()} from `{ROWS}`, simulated in {seconds:.0f} s. Of {len(outcomes)} rows,",
        f"{len(first)} were simulated when they were found and {sum(not o.refused for o in outcomes)} are now.",
        "",
        *HEAD,
        line("all", outcomes, first),
        line("simulated then and now", [o for o in outcomes if o.id in first and o.parts], first),
        "",
    ]
    for key in KEYS:
        found += [f"By {key}:", "", *HEAD]
        found += [line(name, rows, first) for name, rows in groups(outcomes, SERVING[key]).items()] + [""]
    reasons = sorted(refused.items(), key=lambda item: -item[1])
    return [*found, "Refused now:", "", *(f"- {count}: {reason[:140]}" for reason, count in reasons), ""]


def main() -> None:
    """Simulate and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    begin = time.perf_counter()
    outcomes = KINDS["serving"].validate(list(read_lines(data_root() / ROWS)), arguments.jobs)
    known = json.loads(FIRST.read_text())
    first = {name: errors for name, errors in known.items() if "refused" not in errors}
    lines = tables(outcomes, first, time.perf_counter() - begin)
    ship_residuals("serving", Path(ROWS).name, outcomes, {}, unseen=True)
    PAGE.write_text(written(PAGE.read_text(), BEGIN, END, lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
