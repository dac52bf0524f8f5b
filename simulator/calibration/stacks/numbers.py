"""What fits of training and serving stacks share: files with the fitted numbers, weights of rows, lines of errors."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import date
from math import sqrt
from pathlib import Path
from statistics import median
from typing import Any

from simulator.calibration.asked import present, save
from simulator.specs.catalog import data_root
from simulator.specs.training import Stack

COMMAND = "clustersim calibrate stack"
"""What the sources of fitted numbers name."""
Point = tuple[float, ...]
"""Values of the fitted numbers of a stack, in the order of its fields."""


def fitted_file(folder: str, field: str, name: str) -> str:
    """The stack file that holds the fitted numbers of a stack: its own, or that of the stack that it extends."""
    text = (data_root() / folder / f"{name}.yaml").read_text()
    base = re.search(r"^extends: stacks/(\S+)$", text, re.M)
    return fitted_file(folder, field, base[1]) if base and field not in text else name


def at(mapped: Any, fields: Sequence[str], point: Point) -> Any:
    """The scenario of a row with other numbers of its stack.

    A number that is struck out of the stack of a row (of SGLang's second drafting worker `verify_overhead`) stays so.
    """
    stack = mapped.scenario.stack
    stated = [(field, getattr(stack, field), value) for field, value in zip(fields, point, strict=True)]
    changes = {field: own.model_copy(update={"value": value}) for field, own, value in stated if own is not None}
    return mapped.scenario.model_copy(update={"stack": stack.model_copy(update=changes)})


def weights(rows: Sequence[Any]) -> dict[str, float]:
    """Weights of rows: each source weighs as the square root of its rows."""
    counts = Counter(m.row.source for m in rows)
    return {m.row.id: 1 / sqrt(counts[m.row.source]) for m in rows}


def report(title: str, found: Sequence[float]) -> str:
    """A line of figures of relative errors."""
    if not found:
        return f"{title}: no row can be simulated"
    size = sorted(map(abs, found))
    return (
        f"{title:<60} {len(found):4d} rows  mean {100 * sum(size) / len(size):5.1f}  median {100 * median(size):5.1f}"
        f"  P90 {100 * size[int(0.9 * (len(size) - 1))]:5.1f}  signed {100 * sum(found) / len(found):+5.1f} %"
    )


def origin(what: str, rows: Sequence[Any]) -> str:
    """What was fitted on which rows, by which command and when."""
    sources = ", ".join(sorted({m.row.source for m in rows}))
    return f"fitted on {len(rows)} published {what} ({sources}), {COMMAND}, {date.today()}"


def put(out: Path, name: str, figures: dict[str, str]) -> None:
    """Write a stack file into a folder with figures, as YAML has them, in place of its present ones."""
    text = present(out, Stack.folder or "", name)
    for field, figure in figures.items():
        text = re.sub(rf"^{field}:.*$", f"{field}: {figure}".replace("\\", "\\\\"), text, flags=re.M)
    save(out / f"{name}.yaml", text)
