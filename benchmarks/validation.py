"""Write docs/validation.md's tables and scatter plot, and what Results name as their ground, from a run over all rows.

    python -m benchmarks.validation [--jobs 2]

Errors of rows whose source the fit of their stack has not seen are those of benchmarks/left_out.py.
"""

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from math import exp, log1p
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from benchmarks import held_up, intervals, others, unseen
from benchmarks.left_out import refitted
from benchmarks.left_out import unseen as unseen_errors
from simulator.calibration.stacks.held_out import scale
from simulator.interop.rows.jsonl import read_lines
from simulator.interop.rows.training_names import numbers
from simulator.run.ground import validated
from simulator.run.spread import residuals
from simulator.run.spread.residuals import PATH, Residuals
from simulator.run.spread.saturation import unexplained
from simulator.specs import data_root
from simulator.study.validate.accuracy import TRAINING, errors, grouped, over_sources, rankings, statistics
from simulator.study.validate.causes import Cause, cause_of
from simulator.study.validate.published import KINDS
from simulator.study.validate.training import SIXTEEN, Outcome

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "validation.md"
VALIDATED = ROOT / "workloads" / "measurements" / "validated.json"
PLOT = ROOT / "docs" / "images" / "validation.svg"
BEGIN, END = "<!-- figures: written by benchmarks/validation.py -->", "<!-- end of figures -->"
BEGIN_CAUSES, END_CAUSES = "<!-- causes: written by benchmarks/validation.py -->", "<!-- end of causes -->"
HEAD = [
    "| | rows | mean | median | P90 | signed | mean, left out |",
    "| --- | --- | --- | --- | --- | --- | --- |",
]


def line(name: str, outcomes: Sequence[Any], left_out: Mapping[str, float] | None = None, least: float = 0.0) -> str:
    """A row of a table of errors; the last cell only where more than a share `least` of the rows was left out once."""
    s = statistics(errors(outcomes))
    if not s.rows:
        return f"| {name} | 0 | | | | | |"
    unseen = [left_out[o.id] for o in outcomes if left_out and o.id in left_out]
    cells = [f"{100 * getattr(s, k):.1f} %" for k in ("mean", "median", "p90")] + [f"{100 * s.signed:+.1f} %"]
    last = f"{100 * statistics(unseen).mean:.1f} %" if len(unseen) > least * s.rows else ""
    return f"| {name} | {s.rows:.0f} | " + " | ".join(cells) + f" | {last} |"


def tables(outcomes: list[Outcome], left_out: dict[str, float]) -> list[str]:
    """Everything that stands between the markers."""
    scope = [o for o in outcomes if o.in_scope]
    done = [o for o in scope if o.error is not None]
    simulated = [o for o in outcomes if o.error is not None]
    memory = [o.memory_error for o in outcomes if o.memory_error is not None]
    kept = statistics(memory)
    return [
        f"Written on {date.today()} from `workloads/measurements/training.jsonl`. Of {len(outcomes)} rows,",
        f"{len(errors(outcomes))} could be simulated. In scope are dense models in 16 bits on A100 and H100, tier 1,",
        f"no context parallelism, schedules that exist: {len(done)} of {len(scope)} rows.",
        "",
        "![simulated against measured step times](images/validation.svg)",
        "",
        *HEAD,
        line("all in scope", done, left_out),
        line("complete rows", [o for o in done if not o.assumed]),
        line("rows with assumptions", [o for o in done if o.assumed]),
        line("fp8 on H100", [o for o in outcomes if _is(o, "fp8", "H100")], left_out),
        line("experts, context parallelism, 8 or 4 bits", [o for o in outcomes if beyond_dense(o)], left_out),
        line("all rows of all devices", outcomes),
        "",
        f"Mean over sources of each source's mean error: {100 * over_sources(done)['mean']:.1f} %.",
        "",
        *others.lines(line("all in scope", done, left_out)),
        "By source, all simulated rows:",
        "",
        *HEAD,
        *(line(name, rows, left_out) for name, rows in grouped(simulated, TRAINING["source"]).items()),
        "",
        "By architecture, and by the axes that cut model or sequences:",
        "",
        *HEAD,
        *(line(name, rows, left_out) for name, rows in grouped(simulated, TRAINING["architecture"]).items()),
        *(line(name, rows, left_out) for name, rows in grouped(simulated, TRAINING["parallelism"]).items()),
        "",
        "By device, and by number of devices:",
        "",
        *HEAD,
        *(line(name, rows, left_out) for name, rows in grouped(simulated, TRAINING["device"]).items()),
        *(line(name, rows, left_out) for name, rows in grouped(simulated, lambda o: scale(o.row.devices)).items()),
        "",
        "Rank correlation of layouts (Spearman, inside groups of equal model, devices and batch):",
        "",
        *(f"- {name}: {value:.2f}" for name, value in rankings(done).items() if value is not None),
        "",
        *held_up.lines(done),
        *unseen.lines(outcomes),
        f"Peak memory of the {len(memory)} rows that state it: mean error {100 * kept.mean:.1f} %,",
        f"signed {100 * kept.signed:+.1f} %; {sum(not o.feasible for o in outcomes)} rows that ran are",
        "called out of memory.",
        "",
        "The 20 worst rows in scope:",
        "",
        "| row | error | assumed |",
        "| --- | --- | --- |",
        *(f"| {o.id} | {100 * (o.error or 0):+.0f} % | {'; '.join(o.assumed)} |" for o in _worst(done, 20)),
        "",
    ]


def causes(outcomes: Sequence[Any], known: Sequence[Cause]) -> list[str]:
    """The table of suspected causes, with the errors of the rows that each is the first to explain."""
    found: dict[str, list[float]] = {}
    for outcome in outcomes:
        cause = cause_of(known, outcome.id, outcome.error)
        if cause is not None:
            found.setdefault(cause.suspected, []).append(outcome.error)
    rows = (
        f"| {', '.join(f'`{rows}`' for rows in cause.rows)} | {cause.what} | {spread(found.get(cause.suspected, []))} "
        f"| {cause.suspected} |"
        for cause in known
    )
    return ["| rows | in common | errors | suspected cause |", "| --- | --- | --- | --- |", *rows]


def spread(found: Sequence[float]) -> str:
    """How many errors, their median and the worst."""
    if not found:
        return ""
    worst = max(found, key=abs)
    return f"{len(found)}: median {100 * median(found):+.0f} %, worst {100 * worst:+.0f} %"


def written(page: str, begin: str, end: str, lines: Sequence[str]) -> str:
    """A page with new lines between two markers."""
    body = "\n".join([begin, "", *lines, end])
    return re.sub(f"{re.escape(begin)}.*{re.escape(end)}", lambda _: body, page, flags=re.S)


def _is(outcome: Outcome, precision: str, device: str) -> bool:
    row = outcome.row
    return row is not None and row.precision.startswith(precision) and row.device.startswith(device)


def beyond_dense(outcome: Outcome) -> bool:
    """Whether a row has experts, sequences that are cut, or products in 8 or 4 bits."""
    row = outcome.row
    if row is None or outcome.error is None:
        return False
    narrow = numbers(row.precision).precision not in (*SIXTEEN, "fp32", "tf32")
    return narrow or (row.experts or 0) > 1 or (row.cp or 1) > 1


def _worst(done: list[Outcome], count: int) -> list[Outcome]:
    return sorted(done, key=lambda o: abs(o.error or 0.0), reverse=True)[:count]


def ship_residuals(
    kind: str,
    file: str,
    outcomes: Sequence[Any],
    left_out: Mapping[str, float],
    unseen: bool = False,
) -> dict[str, Residuals]:
    """Write the residuals of the rows of a file, from which intervals are made, and return all of their kind.

    `left_out` are errors of rows whose source the fit of their stack has not seen, by identifier. `unseen` are rows
    that were found after all fits.
    """
    known = json.loads(PATH.read_text())
    made = [
        (o.like._replace(unseen=unseen), o.row.source, about, _ratio(kind, o, about, error))
        for o in outcomes
        if o.like
        for about, error in _untold(o, left_out).items()
    ]
    rows = [row for row in known["rows"] if row["file"] != file]
    rows += [{"file": file} | row for row in residuals.written(made)]
    widening = {key: by for key, by in known["widening"].items() if not key.startswith(f"{kind}/")}
    found = {}
    for (own, about), some in residuals.read({"rows": rows, "widening": {}}).items():
        if own == kind:
            found[about] = some.calibrated()
            for key, by in (("", found[about].widening), ("/unseen", found[about].of_unseen)):
                if by:
                    widening[f"{kind}/{about}{key}"] = by._asdict()
    lines = ",\n  ".join(
        json.dumps(row) for row in sorted(rows, key=lambda row: (row["kind"], *map(str, row.values())))
    )
    PATH.write_text(f'{{"widening": {json.dumps(widening)},\n "rows": [\n  {lines}\n]}}\n')
    return found


def _ratio(kind: str, outcome: Any, about: str, error: float) -> float:
    """Measured over simulated time, less what a queue makes of an error of speed, which intervals have apart."""
    by = outcome.strains.get(about) if kind == "serving" else None
    return exp(unexplained(-log1p(error), by))


def _untold(outcome: Any, left_out: Mapping[str, float]) -> dict[str, float]:
    """Errors of a row by what they are about, of fits that have not seen its source."""
    other = left_out.get(outcome.id, outcome.error)
    return {about: other if error == outcome.error else error for about, error in outcome.errors_about.items()}


def ship(file: str, outcomes: Sequence[Any]) -> None:
    """Write the errors by conditions of the rows of a file, the ground of Results, and that of memory."""
    known = json.loads(VALIDATED.read_text())
    others = [row for row in known["rows"] if row["file"] != file]
    found = validated((*o.like[:2], o.error) for o in outcomes if o.like and o.error is not None)
    own = [{"file": file} | row for row in found]
    rows = sorted([*others, *own], key=lambda row: (row["kind"], *map(str, row.values())))
    if memory := [o.memory_error for o in outcomes if o.memory_error is not None]:
        known["memory"] = {"rows": len(memory), "mean_error": round(statistics(memory).mean, 4)}
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    VALIDATED.write_text(f'{{"memory": {json.dumps(known["memory"])},\n "rows": [\n  {lines}\n]}}\n')


def plot(path: Path, outcomes: Sequence[Any], group: Callable[[Any], str], time: str, top: float) -> None:
    """Simulated over measured time, a colour a group, ten per cent either way as a band."""
    plt.rcParams["svg.hashsalt"] = "clustersim"
    figure, axes = plt.subplots(figsize=(8, 6))
    markers = "osD^v<>Ph*Xpd"
    for i, (name, rows) in enumerate(grouped([o for o in outcomes if o.error is not None], group).items()):
        times, ratio = [o.measured_s for o in rows], [1 + (o.error or 0.0) for o in rows]
        axes.scatter(times, ratio, s=14, alpha=0.7, label=name, marker=markers[i % len(markers)], color=f"C{i % 10}")
    axes.axhspan(0.9, 1.1, color="0.9", zorder=0)
    axes.axhline(1.0, color="0.4", linewidth=0.8)
    axes.set(xscale="log", xlabel=f"measured {time}", ylabel="simulated / measured", ylim=(0.0, top))
    axes.legend(fontsize=7, ncols=2, loc="upper right", frameon=False)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Simulate, write, plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    jobs = parser.parse_args().jobs
    rows = list(read_lines(data_root() / "workloads" / "measurements" / "training.jsonl"))
    outcomes = KINDS["training"].validate(rows, jobs)
    ship("training.jsonl", outcomes)
    left_out = unseen_errors(outcomes, refitted())
    found = ship_residuals("training", "training.jsonl", outcomes, left_out)
    lines = [*tables(outcomes, left_out), *intervals.lines(found)]
    page = written(PAGE.read_text(), BEGIN, END, lines)
    PAGE.write_text(written(page, BEGIN_CAUSES, END_CAUSES, [*causes(outcomes, KINDS["training"].causes()), ""]))
    plot(PLOT, [o for o in outcomes if o.in_scope], TRAINING["source"], "step time, s", 1.5)
    print("\n".join(lines))


if __name__ == "__main__":
    main()
