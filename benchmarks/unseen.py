"""Lines of docs/validation.md on rows that a fit has not seen: by scale, architecture, device, stack and axis.

Reads benchmarks/held_out.json, made by `clustersim calibrate stack ROWS --as-is --held-out benchmarks/held_out.json`.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from simulator.study.validate.accuracy import TRAINING, grouped, growth, places_of_best, statistics

HELD_OUT = Path(__file__).with_name("held_out.json")
FEWEST = 5
"""Layouts of a sweep whose best one is looked for."""


def lines(outcomes: Sequence[Any]) -> list[str]:
    """What stands between the ranking of layouts and the peak memory."""
    held_out = json.loads(HELD_OUT.read_text())
    return [*groups(outcomes, held_out), *best(outcomes), *scans(outcomes)]


def groups(outcomes: Sequence[Any], held_out: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Errors of rows that were left out of fits together, beside those of the same rows under the shipped numbers."""
    seen = {o.id: o.error for o in outcomes if o.error is not None}
    table = [
        "Rows of the fits that were left out together, by what they have in common: errors under the shipped numbers,",
        "and with those of their stack fitted on the others, held to those of other stacks where they do not tell.",
        "Where fewer than four rows of a stack are left, that expectation stands in: so it is for stacks left out.",
        "Rows with 8-bit or 4-bit products and on Blackwell are in no fit: neither column has one that saw them.",
        "",
        "| | rows | mean | signed | mean, left out | signed, left out |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, found in held_out.items():
        kept = [row for row in found if row in seen]
        inside, outside = statistics([seen[row] for row in kept]), statistics([found[row] for row in kept])
        cells = [
            f"{100 * value:{form}} %"
            for s in (inside, outside)
            for value, form in ((s.mean, ".1f"), (s.signed, "+.1f"))
        ]
        table.append(f"| {name} | {len(kept)} | {' | '.join(cells)} |")
    return [*table, ""]


def best(outcomes: Sequence[Any]) -> list[str]:
    """Whether the layout that was measured to be the fastest is among the three that are simulated to be."""
    found = {
        source: places
        for source, rows in grouped((o for o in outcomes if o.in_scope), TRAINING["source"]).items()
        if (places := places_of_best(rows, FEWEST))
    }
    return [
        f"The layout measured to be the fastest, in sweeps of at least {FEWEST} layouts of one model, devices and",
        "batch:",
        "",
        *(
            f"- {source}: among our three fastest in {sum(p <= 3 for p in places)} of {len(places)} sweeps"
            f" (places {', '.join(map(str, places))})"
            for source, places in found.items()
        ),
        "",
    ]


def scans(outcomes: Sequence[Any]) -> list[str]:
    """How errors grow with the number of devices inside the sources that scan it."""
    found = growth(outcomes)
    table = [
        "What a doubling of the devices adds to the error, inside sources that measured a model on several numbers of",
        "them, each model with a level of its own, and its standard error:",
        "",
        "| | rows | per doubling | standard error |",
        "| --- | --- | --- | --- |",
        *(
            f"| {name} | {rows} | {100 * slope:+.2f} % | {100 * off:.2f} % |"
            for name, (rows, slope, off) in found.items()
        ),
    ]
    if found:
        weight = [1 / max(off, 1e-3) ** 2 for _, _, off in found.values()]
        mean = sum(w * slope for w, (_, slope, _) in zip(weight, found.values(), strict=True)) / sum(weight)
        signs = sum(slope > 0 for _, slope, _ in found.values())
        table += [
            "",
            f"Weighed by their variances: {100 * mean:+.2f} % per doubling; {signs} of {len(found)} sources grow.",
        ]
    return [*table, ""]
