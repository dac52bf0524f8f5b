"""Write the part about serving of 2025 and 2026 of docs/validation.md from a run over its published rows.

    python -m benchmarks.validation_modern [--jobs 2] [--each 6] [--every 1] [--only-left-out]

Leave-one-out takes at most `each` rows of each model on each device of each source: the numbers of all stacks are
fitted again without a model or a device, on the times that one step along each number gives, and the rows that were
left out are simulated with them; 0 leaves this part as it stands on the page. A stack whose engine is left out takes
what the other stacks have.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from math import exp
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks import intervals
from benchmarks.validation import PAGE, ship, ship_residuals, written
from simulator.calibration.stacks.engines import likely
from simulator.calibration.stacks.serving import RANGES, Fit, Point, as_shipped, fields_of, load, scope, strewn, take
from simulator.interop.rows.jsonl import Line, read_lines
from simulator.interop.rows.serving import MappedServing
from simulator.specs import data_root, load_spec
from simulator.specs.serving import ServingStack
from simulator.study.validate.accuracy import SERVING, grouped
from simulator.study.validate.published import KINDS
from simulator.study.validate.serving import ServingOutcome

ROWS = "workloads/measurements/serving_modern.jsonl"
BEGIN, END = "<!-- modern: written by benchmarks/validation_modern.py -->", "<!-- end of modern -->"
BLIND = "<!-- modern, left out: written by benchmarks/validation_modern.py -->", "<!-- end of modern, left out -->"
HEAD = [
    "| | rows | TPOT mean | median | P90 | signed | TTFT median | tokens/s/GPU mean | median |",
    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
]
KEYS = ("architecture", "family", "kind", "speculation", "model", "device", "source")
THEIRS = {
    "dense": (825, "15 / 11 / 34", 49, "19 / 13"),
    "mixture of experts": (634, "19 / 11 / 35", 35, "15 / 12"),
    "latent attention": (161, "11 / 8 / 23", 55, "12 / 9"),
    "disaggregated": (42, "32 / 9 / 94", 88, "21 / 19"),
    "all": (1662, "17 / 11 / 35", 45, "17 / 12"),
}
"""NVIDIA's AIConfigurator 0.12.0 on the rows that it can express: rows, TPOT mean / median / P90, TTFT median, output
tokens/s/GPU mean / median, in per cent."""


def sizes(outcomes: Sequence[ServingOutcome], figure: str) -> list[float]:
    """Errors of a figure of the rows that have it."""
    return [o.errors[figure] for o in outcomes if figure in o.errors]


def line(name: str, outcomes: Sequence[ServingOutcome]) -> str:
    """A row of the table."""
    tpot, ttft, rate = (sizes(outcomes, figure) for figure in ("tpot", "ttft", "throughput"))
    if not tpot:
        return f"| {name} | 0 | | | | | | | |"
    size = np.abs(tpot)
    cells = [np.mean(size), np.median(size), np.quantile(size, 0.9)]
    shown = [f"{100 * cell:.1f} %" for cell in cells] + [f"{100 * mean(tpot):+.1f} %"]
    shown += [f"{100 * median(map(abs, ttft)):.1f} %"] if ttft else [""]
    shown += [f"{100 * found(map(abs, rate)):.1f} %" if rate else "" for found in (mean, median)]
    return f"| {name} | {len(tpot)} | " + " | ".join(shown) + " |"


def expressible(outcome: ServingOutcome) -> bool:
    """Whether AIConfigurator can express a row: without speculation, each engine on one node."""
    row = outcome.row
    return row is not None and row.spec_decoding in (None, "none") and (row.num_nodes or 1) == 1


def tables(outcomes: list[ServingOutcome], seconds: float) -> list[str]:
    """Everything but leave-one-out."""
    done = [o for o in outcomes if o.error is not None]
    found = [
        f"Written on {date.today()} from `{ROWS}`, simulated in {seconds:.0f} s. Of {len(outcomes)} rows, {len(done)}",
        f"({100 * len(done) / len(outcomes):.0f} %) could be simulated.",
        "",
        *HEAD,
        line("all", done),
        "",
    ]
    for key in KEYS:
        found += [f"By {key}:", "", *HEAD]
        found += [line(name, rows) for name, rows in grouped(done, SERVING[key]).items()] + [""]
    return found + beside(done) + refused(outcomes)


def beside(done: Sequence[ServingOutcome]) -> list[str]:
    """AIConfigurator's figures beside these."""
    ours = [o for o in done if expressible(o)]
    apart = [o for o in ours if o.row is not None and o.row.kind == "pd_disaggregated"]
    whole = [o for o in ours if o not in apart]
    kinds = grouped(whole, SERVING["architecture"]) | {"disaggregated": apart, "all": ours}
    found = [
        "Rows without speculation, each engine on one node, beside NVIDIA's AIConfigurator 0.12.0 on those",
        "that it can express (its rows; TPOT mean / median / P90, TTFT median, tokens/s/GPU mean / median, per cent):",
        "",
        "| | rows | TPOT | TTFT | tokens/s/GPU | its rows | TPOT | TTFT | tokens/s/GPU |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, (count, tpot, ttft, rate) in THEIRS.items():
        own = np.abs(sizes(kinds.get(name, []), "tpot"))
        if not len(own):
            continue
        first, each = np.abs(sizes(kinds[name], "ttft")), np.abs(sizes(kinds[name], "throughput"))
        shown = f"{100 * own.mean():.0f} / {100 * np.median(own):.0f} / {100 * np.quantile(own, 0.9):.0f}"
        rates = f"{100 * each.mean():.0f} / {100 * np.median(each):.0f}"
        cells = (str(len(own)), shown, f"{100 * np.median(first):.0f}", rates, str(count), tpot, str(ttft), rate)
        found.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*found, ""]


def refused(outcomes: Sequence[ServingOutcome]) -> list[str]:
    """Why rows are not simulated."""
    reasons = sorted(KINDS["serving"].summary(outcomes, ()).refused.items(), key=lambda item: -item[1])
    return (
        []
        if not reasons
        else ["Refused:", "", *(f"- {count}: {reason.replace('|', ' ')[:140]}" for reason, count in reasons[:10]), ""]
    )


# ---- leave one out ---------------------------------------------------------------------------------------------------

Errors = dict[str, list[tuple[str, float]]]
"""(figure, error) of rows by what was left out."""
GROUPS: dict[str, Callable[[MappedServing], str]] = {
    "a model": lambda m: m.row.model,
    "a device": lambda m: m.row.accelerator,
}
ROUNDS = 3
"""Fits of all stacks one after the other, each held to what the round before gave for the others."""


def left_out(rows: dict[str, list[MappedServing]], each: int, jobs: int) -> list[str]:
    """The table of what is left when a model, a device or an engine has not been seen."""
    everything = [m for group in rows.values() for m in group]
    found: Errors = {}
    with ProcessPoolExecutor(jobs, initializer=take, initargs=(everything,)) as pool:
        fits = {
            name: Fit(pool, strewn(scope(group, fields_of(name)), each), fields_of(name))
            for name, group in rows.items()
        }
        points = {name: as_shipped(name, fit.fields) for name, fit in fits.items()}
        for name, fit in fits.items():
            score(found, "nothing", fit, points[name], fit.rows)
        for what, key in GROUPS.items():
            for group in sorted({key(m) for fit in fits.values() for m in fit.rows}):
                blind = without(fits, points, lambda m, k=key, g=group: k(m) != g)  # type: ignore[misc]
                for name, fit in fits.items():
                    score(found, what, fit, blind[name], [m for m in fit.rows if key(m) == group])
        for name, fit in fits.items():
            score(found, "its engine", fit, others(name, fits, points), fit.rows)
    return [
        f"Written on {date.today()}. Fitted again without a part of the rows, which are then simulated with these",
        f"numbers (at most {each} rows of each model on each device of each source, on devices whose kernels are",
        "measured). What rows do not tell is held to what other engines have, whose fits have not seen that part",
        "either, and a number that no other engine has loosely to the shipped one:",
        "",
        "| left out | rows | TPOT mean | TPOT median | TTFT median |",
        "| --- | --- | --- | --- | --- |",
        *(_left_out_line(what, pairs) for what, pairs in found.items()),
        "",
    ]


def without(fits: dict[str, Fit], points: dict[str, Point], use: Callable[[MappedServing], bool]) -> dict[str, Point]:
    """Numbers of all stacks fitted on some of the rows."""
    found = points
    for _ in range(ROUNDS):
        numbers = {name: dict(zip(fit.fields, found[name], strict=True)) for name, fit in fits.items()}
        found = {
            name: fit.minimum(
                points[name],
                [m for m in fit.rows if use(m)],
                fit.slopes(points[name]),
                likely(dict(zip(fit.fields, points[name], strict=True)), _but(name, numbers)),
            )
            for name, fit in fits.items()
        }
    return found


def others(name: str, fits: dict[str, Fit], points: dict[str, Point]) -> Point:
    """Numbers of a stack as those of other stacks are; the middle of the range where none has it."""
    numbers = {n: dict(zip(fit.fields, points[n], strict=True)) for n, fit in fits.items()}
    stacks = [load_spec(ServingStack, other) for other in fits if other != name]
    means = {}
    for field in fits[name].fields:
        stated = [getattr(stack, field).value for stack in stacks if getattr(stack, field)]
        means[field] = mean(stated or RANGES[field])
    return likely(means, _but(name, numbers)).middle


def _but(name: str, numbers: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
    return {other: own for other, own in numbers.items() if other != name}


def score(found: Errors, what: str, fit: Fit, point: Point, rows: Sequence[MappedServing]) -> None:
    """Note errors of rows at the numbers of a point."""
    for logs in fit.errors(rows, point).values():
        figures = zip(("ttft", "tpot")[-len(logs) :], (exp(ratio) - 1 for ratio in logs), strict=True)
        found.setdefault(what, []).extend(figures)


def _left_out_line(what: str, pairs: Sequence[tuple[str, float]]) -> str:
    tpot, ttft = ([abs(error) for name, error in pairs if name == figure] for figure in ("tpot", "ttft"))
    cells = f"{100 * mean(tpot):.1f} % | {100 * median(tpot):.1f} % | {100 * median(ttft):.1f} %"
    return f"| {what} | {len(tpot)} | {cells} |"


def main() -> None:
    """Simulate, fit again, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--each", type=int, default=6)
    parser.add_argument("--every", type=int, default=1, help="simulate every n-th row only, and ship nothing")
    parser.add_argument("--only-left-out", action="store_true", help="write the part that fits again, nothing else")
    arguments = parser.parse_args()
    lines = list(read_lines(data_root() / ROWS))
    if not arguments.only_left_out:
        put(BEGIN, END, simulated(lines, arguments.every, arguments.jobs))
    if arguments.each:
        put(*BLIND, left_out(load(lines), arguments.each, arguments.jobs))


def put(begin: str, end: str, found: list[str]) -> None:
    """A part of the page, which is printed too."""
    PAGE.write_text(written(PAGE.read_text(), begin, end, found))
    print("\n".join(found))


def simulated(lines: Sequence[Line], every: int, jobs: int) -> list[str]:
    """Tables of a run over the rows; one over all ships their residuals."""
    begin = time.perf_counter()
    outcomes = KINDS["serving"].validate(lines[::every], jobs)
    found = tables(outcomes, time.perf_counter() - begin)
    if every > 1:
        return [f"**Of each {every}th row only:** a run over all takes too long for each change.", "", *found]
    ship(Path(ROWS).name, outcomes)
    return found + intervals.lines(ship_residuals("serving", Path(ROWS).name, outcomes, {}))


if __name__ == "__main__":
    main()
