"""What the pages of a sweep say in words; reads the document that `study.table` makes."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from simulator.report import wording
from simulator.report.plain import clean
from simulator.results.metrics import METRICS

Row = dict[str, Any]

_SHOWN = {
    "training": ("tokens_per_s", "mfu", "step_time_s", "bubble_fraction", "peak_memory_bytes"),
    "serving": ("output_throughput", "mean_ttft_ms", "mean_tpot_ms", "p99_e2el_ms", "max_kv_usage"),
}
_SHORT = {
    "tokens_per_s": "tokens/s", "mfu": "MFU", "hfu": "HFU", "step_time_s": "step", "bubble_fraction": "bubble",
    "peak_memory_bytes": "memory", "output_throughput": "tokens/s", "mean_ttft_ms": "TTFT", "mean_tpot_ms": "TPOT",
    "p99_e2el_ms": "P99 E2E", "max_kv_usage": "cache", "tokens_per_s_per_device": "tokens/s dev.",
    "exposed_communication_s": "exposed", "energy_j": "energy", "cost_usd": "cost", "run_time_s": "run",
    "run_cost_usd": "run costs", "run_energy_j": "run energy",
}  # fmt: skip


STATUSES = ("failed", "out of memory", "all requests rejected", "refused")
"""What becomes of points that have no figures, the gravest first."""

_COUNTED = {"all requests rejected": "with all requests rejected"}


def rows_of(document: dict[str, Any], numbers: list[int]) -> list[Row]:
    """The rows of points by their numbers, in that order."""
    known = {row["point"]: row for row in document["rows"]}
    return [known[number] for number in numbers]


def short(metric: str) -> str:
    """A metric as the head of a narrow column."""
    return _SHORT.get(metric, metric.removesuffix("_ms").replace("_", " "))


def label(metric: str) -> str:
    """A metric in words."""
    return METRICS[metric].label if metric in METRICS else clean(metric).replace("_", " ")


def figure(row: Row, metric: str) -> str:
    """A figure of a row with its unit, `-` where it has none."""
    value = row["metrics"].get(metric)
    return "-" if value is None else wording.figure(metric, value)


def columns(document: dict[str, Any], first: tuple[str, ...] = ()) -> list[str]:
    """The metrics that a table of points shows: those asked for, then the usual ones that any row has."""
    usual = [name for name in _SHOWN[document["of"]] if any(name in row["metrics"] for row in document["rows"])]
    return list(dict.fromkeys((*first, *usual)))[:6]


def axis_words(keys: list[str]) -> list[str]:
    """The keys of axes by their last words where these are clear."""
    last = [key.rpartition(".")[2] for key in keys]
    return [clean(word if last.count(word) == 1 else key) for word, key in zip(last, keys, strict=True)]


def value(told: Any) -> str:
    """A value of an axis."""
    if isinstance(told, dict):
        return "{" + ", ".join(f"{key}: {value(item)}" for key, item in told.items()) + "}"
    if isinstance(told, list):
        return "[" + ", ".join(map(value, told)) + "]"
    return "none" if told is None else str(told).lower() if isinstance(told, bool) else clean(str(told))


def subject(document: dict[str, Any]) -> str:
    """What was varied."""
    words = axis_words(list(document["axes"]))
    parts = [
        f"{word} {', '.join(map(value, told[:8]))}{' ...' if len(told) > 8 else ''}"
        for word, told in zip(words, document["axes"].values(), strict=True)
    ]
    return " · ".join(parts)


def counted(document: dict[str, Any]) -> str:
    """How many points there are and what became of them."""
    number = Counter(row["status"] for row in document["rows"])
    parts = [f"{number[status]:,} {_COUNTED.get(status, status)}" for status in STATUSES if number[status]]
    parts += [f"{document['dropped']:,} left out by conditions"] if document["dropped"] else []
    drawn = f" (at most {document['random']:,} drawn)" if document["random"] else ""
    good = wording.plural(number["ok"], "point")
    return f"{good} simulated{drawn}" + (f", {', '.join(parts)}" if parts else "")


def reasons(document: dict[str, Any], status: str, most: int = 5) -> Iterator[str]:
    """Why points are not there, the most frequent reasons first."""
    rows = [row for row in document["rows"] if row["status"] == status]
    names: dict[str, list[str]] = {}
    for row in rows:
        names.setdefault(row["reason"], []).append(row["name"])
    frequent = sorted(names, key=lambda reason: -len(names[reason]))
    for reason in frequent[:most]:
        more = len(names[reason]) - most
        others = f" and {wording.plural(more, 'other point')}" if more > 0 else ""
        yield f"{'; '.join(names[reason][:most])}{others}: {reason}"
    if len(frequent) > most:
        points = sum(len(names[reason]) for reason in frequent[most:])
        yield f"and {wording.plural(points, 'more point')} for {len(frequent) - most:,} more reasons (all with --csv)"


def better(metric: str) -> str:
    """The direction in which a metric is better."""
    return "more" if METRICS[metric].sense == "rate" else "less"


def front_words(document: dict[str, Any]) -> str:
    """What the Pareto front is of."""
    first, second = document["pareto"]["metrics"]
    return f"{better(first)} {label(first)} against {better(second)} {label(second)}"


def heat_words(document: dict[str, Any]) -> str:
    """What the heat map shows."""
    told = document["heat"]
    across, upward = axis_words([told["x"], told["y"]])
    several = ", the best point of each cell" if told["most_points"] > 1 else ""
    name = label(told["metric"])
    return f"{name[0].upper()}{name[1:]} over {across} (across) and {upward} (down){several}"


def shades(document: dict[str, Any]) -> list[list[float | None]]:
    """The cells of the heat map from 0, the least figure, to 1."""
    cells = document["heat"]["cells"]
    known = [cell for row in cells for cell in row if cell is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return [[None if c is None else (c - low) / (high - low) if high > low else 1.0 for c in row] for row in cells]
