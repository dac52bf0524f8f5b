"""Simulate some rows of measured training steps and print what each one's time is made of.

    python -m benchmarks.rows [PATTERN ...] [--only-ids FILE] [--file FILE] [--every N] [--breakdown] [--json FILE]
        [--before FILE]

A pattern is a glob of identifiers, or `source=GLOB`; a row is taken where any fits. Rows are simulated one after the
other in this process. `--json` writes identifiers and errors, and `--before` prints the errors of such a file beside.
"""

import argparse
import json
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path
from statistics import fmean, median

from simulator.errors import SimulatorError
from simulator.interop.rows.jsonl import Refused, parse_line, read_lines, read_row
from simulator.interop.rows.training import Row
from simulator.results.metrics import mean
from simulator.run.measured.training import map_row, measured_step, simulated
from simulator.specs import data_root

SHIPPED = data_root() / "workloads" / "measurements" / "training.jsonl"


def chosen(patterns: list[str], ids: frozenset[str], every: int, file: Path = SHIPPED) -> Iterator[Row]:
    """Rows of a file that a pattern fits or that are named, every n-th of them; all where neither is given."""
    found = 0
    for line in read_lines(file):
        data = parse_line(line)
        own, source = str(data.get("id", "")), str(data.get("source", ""))
        fits = any(fnmatch(source, p[7:]) if p.startswith("source=") else fnmatch(own, p) for p in patterns)
        if fits or own in ids or not (patterns or ids):
            if found % every == 0:
                try:
                    yield read_row(Row, data)
                except Refused as error:
                    print(refusal(own, error), flush=True)
            found += 1


def refusal(identifier: str, error: Exception) -> str:
    """A line of a row that cannot be simulated."""
    return f"{identifier[:60]:60} refused: {' '.join(str(error).split())[:120]}"


def outcome(row: Row) -> tuple[float, float, dict[str, float]]:
    """(measured seconds, simulated seconds, shares of the mean rank's time); raises Refused or SimulatorError."""
    mapped = map_row(row)
    result = simulated(mapped)
    step = result.metrics["step_time_s"]
    parts = mean(result.breakdown, [one.ranks for one in result.classes])
    return measured_step(row, mapped.job), step, {name: value / step for name, value in parts.items()}


def words(parts: dict[str, float]) -> str:
    """Shares over one per cent, largest first."""
    shown = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {100 * share:.0f}" for name, share in shown if share > 0.01)


def report(rows: Iterable[Row], breakdown: bool, before: dict[str, float]) -> dict[str, float]:
    """Print a line a row, then the mean, median and signed error by source; errors by identifier."""
    errors: dict[str, float] = {}
    sources: dict[str, list[str]] = {}
    for row in rows:
        try:
            measured, step, parts = outcome(row)
        except (Refused, SimulatorError) as error:
            print(refusal(row.id, error), flush=True)
            continue
        errors[row.id] = step / measured - 1
        sources.setdefault(row.source, []).append(row.id)
        old = f" ({100 * before[row.id]:+6.1f})" if row.id in before else ""
        text = f"{row.id[:60]:60} {measured:9.3f} {step:9.3f} {100 * errors[row.id]:+6.1f}{old}"
        print(text + (f"  {words(parts)}" if breakdown else ""), flush=True)
    for source, ids in [*sources.items(), ("all", list(errors))]:
        for name, known in (("before", before), ("now", errors)):
            some = [known[one] for one in ids if one in known]
            if some:
                sizes = list(map(abs, some))
                figures = fmean(sizes), median(sizes), fmean(some)
                text = "mean {:5.1f} median {:5.1f} signed {:+6.1f}".format(*(100 * f for f in figures))
                print(f"{source:28} {name:6} {len(some):4} rows {text}")
    return errors


def main() -> None:
    """Choose, simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("patterns", nargs="*")
    parser.add_argument("--only-ids", type=Path)
    parser.add_argument("--file", type=Path, default=SHIPPED, help="rows of another file than the shipped one")
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--breakdown", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--before", type=Path)
    asked = parser.parse_args()
    ids = frozenset(asked.only_ids.read_text().split()) if asked.only_ids else frozenset[str]()
    before = json.loads(asked.before.read_text()) if asked.before else {}
    errors = report(chosen(asked.patterns, ids, asked.every, asked.file), asked.breakdown, before)
    if asked.json:
        asked.json.write_text(json.dumps(errors, indent=1) + "\n")


if __name__ == "__main__":
    main()
