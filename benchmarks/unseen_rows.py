"""Write the section of docs/validation.md on rows that were found after all fits, from a run over all of them.

    python -m benchmarks.unseen_rows [--jobs 2] [--json FILE]

`workloads/measurements/training-unseen.jsonl` holds the rows. `benchmarks/unseen_rows_first.json` holds what each gave
at the commit before anything was changed for any of them, an error or a refusal, and is never written again: beside it
stands what the rows give now, with the vocabulary and the mechanisms that were built because of them. Today's residuals
are shipped: they decide how wide the intervals of runs are that nobody here has seen.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from statistics import fmean, median

from benchmarks.validation import ship_residuals
from simulator.interop.rows.jsonl import parse_line, read_lines
from simulator.specs import data_root
from simulator.study.validate.published import KINDS
from simulator.study.validate.training import Outcome

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "validation.md"
FIRST = ROOT / "benchmarks" / "unseen_rows_first.json"
ROWS = data_root() / "workloads" / "measurements" / "training-unseen.jsonl"
BEGIN, END = "<!-- unseen rows: written by benchmarks/unseen_rows.py -->", "<!-- end of unseen rows -->"
Outcomes = Mapping[str, float | str]
"""By row, its error (simulated over measured, less one) or why it is refused."""


def given(outcomes: Iterable[Outcome]) -> Outcomes:
    """What each row gives."""
    return {o.id: o.error if o.error is not None else "refused: " + " ".join(o.refused.split()) for o in outcomes}


def figures(found: Iterable[float | str]) -> str:
    """Cells of a table: rows simulated, and the mean, the median and the signed mean of their errors."""
    errors = [one for one in found if isinstance(one, float)]
    if not errors:
        return "0 | | | "
    sizes = [abs(one) for one in errors]
    return f"{len(errors)} | {100 * fmean(sizes):.1f} % | {100 * median(sizes):.1f} % | {100 * fmean(errors):+.1f} %"


def table(sources: Mapping[str, list[str]], first: Outcomes, now: Outcomes) -> Iterator[str]:
    """Errors by source, as they first were and as they are now, the sources with most rows first."""
    yield "| source | rows | simulated first | mean | median | signed | simulated now | mean | median | signed |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    everything = [one for ids in sources.values() for one in ids]
    simulated_first = [one for one in everything if isinstance(first[one], float)]
    ranked = sorted(sources.items(), key=lambda item: (-len(item[1]), item[0]))
    groups = [("all", everything), ("those that the first run simulated", simulated_first), *ranked]
    for name, ids in groups:
        yield (f"| {name} | {len(ids)} | {figures(first[one] for one in ids)} | {figures(now[one] for one in ids)} |")


def section(sources: Mapping[str, list[str]], first: Mapping[str, object], now: Outcomes) -> list[str]:
    """What stands between the markers."""
    rows = first["rows"]
    assert isinstance(rows, dict)
    head = (
        f"First: {first['date']}, at {first['commit']}, nothing changed for any row. Now: {date.today().isoformat()}."
    )
    refused = [f"- `{one}`: {said}" for one, said in now.items() if isinstance(said, str)]
    return [head, "", *table(sources, rows, now), "", "Refused now:", "", *(refused or ["- none"])]


def write(page: Path, lines: list[str]) -> None:
    """Put lines between the page's markers."""
    before, rest = page.read_text().split(BEGIN)
    after = rest.split(END, 1)[1]
    page.write_text("\n".join([before + BEGIN, "", *lines, "", END]) + after)


def main() -> None:
    """Simulate all rows, write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write errors and refusals by row")
    asked = parser.parse_args()
    lines = list(read_lines(ROWS))
    sources: dict[str, list[str]] = {}
    for data in map(parse_line, lines):
        sources.setdefault(str(data["source"]), []).append(str(data["id"]))
    outcomes = KINDS["training"].validate(lines, asked.jobs)
    now = given(outcomes)
    ship_residuals("training", ROWS.name, outcomes, {}, unseen=True)
    if asked.json:
        asked.json.write_text(json.dumps(now, indent=1) + "\n")
    write(PAGE, section(sources, json.loads(FIRST.read_text()), now))


if __name__ == "__main__":
    main()
