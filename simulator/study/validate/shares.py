"""How rows are shared out among processes: those of one system to one of them, which prices it once, the longest first.

How long a row takes is guessed from its concurrency, or its number of requests; a wrong guess costs time, nothing else.
"""

import json
from collections.abc import Sequence

from simulator.interop.rows.jsonl import Line, Refused, parse_line

SYSTEM = (
    *("kind", "model", "engine", "engine_version", "accelerator", "num_accelerators", "num_nodes"),
    *("parallelism", "precision", "prefill", "decode", "spec_decoding"),
)
"""Keys of a row that say which system was measured."""
MOST = 64
"""Rows of a share."""


def shares(lines: Sequence[Line]) -> list[list[int]]:
    """Places of rows by system, at most `MOST` together, the shares that are expected to take longest first."""
    found: dict[str, list[int]] = {}
    weights: list[float] = []
    for place, line in enumerate(lines):
        system, weight = _known(line)
        found.setdefault(system, []).append(place)
        weights.append(weight)
    parts = [places[i : i + MOST] for places in found.values() for i in range(0, len(places), MOST)]
    return sorted(parts, key=lambda places: -sum(weights[place] for place in places))


def _known(line: Line) -> tuple[str, float]:
    """(system of a row, guess of how long it takes); those that cannot be read are together."""
    try:
        row = parse_line(line)
    except Refused:
        return "", 1.0
    count = row.get("concurrency") or row.get("num_requests")
    weight = float(count) if isinstance(count, int | float) and 0 < count < 1e9 else 1.0
    return json.dumps([row.get(key) for key in SYSTEM], sort_keys=True, default=str), 10.0 + weight
