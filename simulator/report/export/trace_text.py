"""Pieces of the "Trace Event Format" as text: moments, names, metadata."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def nanoseconds(ticks: Ints) -> Ints:
    """Picoseconds to the nearest nanosecond, halves upward."""
    rounded: Ints = (ticks + 500) // 1000
    return rounded


def microseconds(whole_nanoseconds: Ints) -> list[str]:
    """Decimal numbers with three digits after the point."""
    whole, rest = np.divmod(whole_nanoseconds, 1000)
    return [f"{a}.{b:03d}" for a, b in zip(whole.tolist(), rest.tolist(), strict=True)]


def as_json(value: Any) -> str:
    """Compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def metadata(kind: str, place: str, args: dict[str, Any]) -> str:
    """A name or a place in the order of a process or thread; `place` holds its `pid` and perhaps `tid`."""
    return f'{{"ph":"M","name":"{kind}",{place},"args":{as_json(args)}}}'
