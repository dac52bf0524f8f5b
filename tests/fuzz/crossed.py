"""Rows of measurements with words and numbers of other rows: what authors could have written, in any company.

Damaged rows show that a reader refuses what is none; these show that what it reads becomes a figure or a refusal.
"""

import json
from collections.abc import Mapping
from functools import cache
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz.harness import Answer, Input
from tests.fuzz.mutations import ROOT

KINDS: Mapping[str, tuple[str, ...]] = {
    "training": ("training", "training-unseen", "blind-training", "blind2-training"),
    "serving": ("serving", "serving_found", "serving-tables", "serving_modern", "blind-serving", "blind2-serving"),
    "network": ("network", "blind-network", "blind2-network"),
    "exchanges": ("exchanges",),
    "kernel": ("kernels",),
}
_WEIGHTS = (8, 8, 3, 1, 1)
SMALL = 16
"""Devices of the rows that are changed."""
LARGER = 4
"""Times what a row says of a number that it may get of another one: more work takes longer than an input may."""
_COUNTS = ("devices", "num_accelerators", "num_ranks", "gpus")
_HELD = ("id", "source", "url", "source_ref", "table", "metrics", "primary_metric")
"""Keys that say where a figure was read, and which."""
_JOINED = ("{} + {}", "{}, {}", "{} ({})", "{}; no {}", "{} / {}", "{}-{}")
_ALONE = ("no {}", "not {}", "{} (default)", "{}?", "~{}", "without {}", "{} off", "{}=0", "{}: true")


def crossed(random: Random) -> Input:
    """One row with one to four of its values from other rows."""
    kind = random.choices(tuple(KINDS), _WEIGHTS)[0]
    words = ["validate", "rows.jsonl", "--kind", kind, "--quiet", "--json", "o.json"]

    def check(answer: Answer) -> str | None:
        written = Path("o.json")
        if answer.code == 2 and not written.exists():
            return None
        return _told(json.loads(written.read_text(encoding="utf-8")))

    return Input(words, {"rows.jsonl": row(kind, random) + b"\n"}, check)


def row(kind: str, random: Random) -> bytes:
    """A row of a kind with one to four of its values from other rows."""
    found = json.loads(json.dumps(random.choice(_small(kind))))
    for _ in range(random.choice((1, 1, 2, 3, 4))):
        _cross(found, kind, random)
    return json.dumps(found).encode()


def _told(document: Mapping[str, Any]) -> str | None:
    """What is wrong with the answer to one row: neither a figure nor a refusal."""
    rows = document["rows"]
    if len(rows) != 1:
        return f"{len(rows)} answers to one row"
    (one,) = rows
    if one.get("refused"):
        return None if one.get("predicted") is None else f"refused and predicted: {one}"
    predicted = one.get("predicted")
    if predicted is None or not isfinite(predicted) or predicted <= 0:
        return f"predicts {predicted}"
    figures = one.get("parts") or [one]  # of several figures each has its own; those of the row are means
    known = [each["interval"] for each in figures if each.get("interval")]  # also beside what is biased
    sound = all(0 < low <= high and isfinite(high) for low, high in known)
    return None if sound else f"an interval is none: {known}"


@cache
def _rows(kind: str) -> tuple[dict[str, Any], ...]:
    files = (ROOT / f"workloads/measurements/{name}.jsonl" for name in KINDS[kind])
    return tuple(json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines())


@cache
def _small(kind: str) -> tuple[dict[str, Any], ...]:
    """Rows on few devices."""
    return tuple(row for row in _rows(kind) if (_count(row) or 1) <= SMALL)


def _count(row: Mapping[str, Any]) -> float | None:
    return next((row[key] for key in _COUNTS if isinstance(row.get(key), (int, float))), None)


@cache
def _values(kind: str) -> Mapping[tuple[str, ...], tuple[Any, ...]]:
    """What rows say under each key, and under each key of what is a mapping; each value once."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in _rows(kind):
        for key, value in row.items():
            if key in _HELD:
                continue
            inner = value.items() if isinstance(value, dict) else ()
            for path, one in (((key,), value), *(((key, name), below) for name, below in inner)):
                found.setdefault(path, {})[json.dumps(one)] = one
    return {path: tuple(values.values()) for path, values in found.items()}


def _cross(row: dict[str, Any], kind: str, random: Random) -> None:
    """Give one key what another row says under it, or take the key away."""
    values = _values(kind)
    path = random.choice(tuple(values))
    at = row
    for name in path[:-1]:
        if not isinstance(at.setdefault(name, {}), dict):
            return
        at = at[name]
    key, known = path[-1], values[path]
    if random.random() < 0.1:
        at.pop(key, None)
        return
    value = random.choice(known)
    if isinstance(value, str) and random.random() < 0.35:
        value = _reworded(value, known, random)
    if not _dearer(value, at.get(key)):
        at[key] = value


def _reworded(value: str, known: tuple[Any, ...], random: Random) -> str:
    other = random.choice([one for one in known if isinstance(one, str)])
    how = random.random()
    if how < 0.4:
        return random.choice(_JOINED).format(value, other)
    if how < 0.7:
        return random.choice(_ALONE).format(value)
    return random.choice((value.upper(), value.replace(" ", "-"), value.replace("-", " "), value[: len(value) // 2]))


def _dearer(value: Any, now: Any) -> bool:
    """Whether a number is so much larger that a row costs more than an input may."""
    plain = isinstance(value, (int, float)) and not isinstance(value, bool)
    held = now if isinstance(now, (int, float)) and now else SMALL
    return plain and value > LARGER * held
