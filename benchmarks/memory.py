"""Write the residuals of peak memory that published systems state, and intervals of memory from all sources.

    python -m benchmarks.memory

Takes each claim of `workloads/measurements/papers.yaml` that is the peak memory of a device of one run in bytes: not
states alone, not a ratio, not a bound. Rows of `training.jsonl` that state memory are left to benchmarks/validation.py,
which keeps what is written here; a claim that repeats a row of its source is left out.
"""

from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import NamedTuple

from benchmarks import intervals
from benchmarks.rows import SHIPPED
from benchmarks.validation import END, PAGE, ship_residuals
from simulator.errors import SimulatorError
from simulator.interop.rows.jsonl import Refused, parse_line, read_lines, read_row
from simulator.interop.rows.training import Row
from simulator.results.spread import MEMORY
from simulator.run.measured.training import map_row
from simulator.run.spread.near import Like, like
from simulator.specs.scenario import JobsScenario
from simulator.specs.workflow import Workflow
from simulator.study.papers.claims import Bench, Claim, Figure, any_scenario, known_claims

FILE = "papers.yaml"
SAME = {"vocabulary-parallelism": "vocab-parallelism"}
"""Sources whose rows in training.jsonl have another name."""
BYTES = {"GB": 1e9, "GiB": 2.0**30}
WHOLE = "runtime"
"""Kind of memory that only sums of everything on a device contain."""
REPEATS = 1e-3
"""Relative distance within which a claim repeats a row."""


class Stated(NamedTuple):
    """Peak memory that a paper states, in the form in which rows leave residuals."""

    id: str
    like: Like
    row: SimpleNamespace
    error: float

    @property
    def errors_about(self) -> dict[str, float]:
        """The error of memory."""
        return {MEMORY: self.error}


def peak(figure: Figure) -> Figure | None:
    """The part of a figure that is the memory of the fullest device; None where it is something else."""
    if figure.parts and (figure.ratio or figure.difference):
        return None
    found = [part for part in figure.parts or (figure,) if part.value is None]
    if len(found) != 1 or not (found[0].metric == "peak_memory_bytes" or WHOLE in (found[0].kept or ())):
        return None
    return found[0]


def rows() -> dict[str, list[float]]:
    """Bytes that rows of training.jsonl state which are understood, by source."""
    found: dict[str, list[float]] = {}
    for line in read_lines(SHIPPED):
        with suppress(Refused, SimulatorError):
            row = read_row(Row, parse_line(line))
            if row.mem_bytes:
                map_row(row)
                found.setdefault(row.source, []).append(row.mem_bytes)
    return found


def stated(claims: tuple[Claim, ...]) -> Iterator[Stated]:
    """What of the claims is peak memory, simulated."""
    bench, known = Bench(), rows()
    for claim in claims:
        part = peak(claim.figure)
        if part is None or claim.bound or claim.by_construction or claim.unit not in BYTES:
            continue
        source, size = SAME.get(claim.paper, claim.paper), claim.published * BYTES[claim.unit]
        scenario = any_scenario(part.of, part.changes)
        if isinstance(scenario, JobsScenario | Workflow) or any(
            abs(size / row - 1) < REPEATS for row in known.get(source, ())
        ):
            continue
        error = bench.value(part) / size - 1
        print(f"{claim.paper}: {claim.claim[:70]}: {size / 1e9:.2f} GB, {100 * error:+.1f} %", flush=True)
        yield Stated(claim.claim, like(scenario), SimpleNamespace(source=source), error)


def _table(page: str, lines: list[str]) -> str:
    """The page with another table of intervals of training, which ends its block of figures."""
    begin = page.index(lines[0])
    return page[:begin] + "\n".join(lines) + page[page.index(END, begin) - 1 :]


def main() -> None:
    """Simulate, write, print."""
    found = ship_residuals("training", FILE, list(stated(known_claims().claims)), {})
    lines = intervals.lines(found)
    PAGE.write_text(_table(PAGE.read_text(), lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
