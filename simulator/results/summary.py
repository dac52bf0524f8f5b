"""The JSON form of a Result: what scripts, comparisons and golden files read.

Key order and bytes are determined by the Result alone. Values are SI; what is not a finite number becomes null, so
that the text is JSON and not Python's dialect of it.
"""

import json
from dataclasses import asdict
from math import isfinite
from typing import Any

from simulator.results.metrics import METRICS
from simulator.results.result import CriticalPath, DeviceClass, LinkLoad, MemoryUse, Result


def to_json(result: Result) -> dict[str, Any]:
    """The Result without its columns (spans, memory over time) as plain data, in the order in which it is read."""
    names = class_names(result.classes)
    document = {
        "schema": result.schema,
        "kind": result.kind,
        "name": result.name,
        "feasible": result.feasible,
        "metrics": ordered_metrics(result.metrics),
        "breakdown": dict(zip(names, map(dict, result.breakdown), strict=True)),
        "classes": [
            {"name": name, "ranks": c.ranks, "example": c.example}
            for name, c in zip(names, result.classes, strict=True)
        ],
        "memory": [_memory(use, names) for use in result.memory],
        "links": [_link(load) for load in result.links],
        "critical_path": _critical_path(result.critical_path, names),
        "sensitivities": [asdict(sensitivity) for sensitivity in result.sensitivities],
        "published": [asdict(comparison) for comparison in result.comparisons],
        "assumptions": list(result.assumptions),
        "warnings": list(result.warnings),
        "provenance": result.provenance,
    }
    return {key: _plain(value) for key, value in document.items()}


def dumps(document: dict[str, Any]) -> str:
    """A document of `to_json` as text that ends with a newline."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def ordered_metrics(metrics: dict[str, float]) -> dict[str, float]:
    """Known metrics in the order of `METRICS`, then the others by name."""
    known = [name for name in METRICS if name in metrics]
    return {name: metrics[name] for name in [*known, *sorted(set(metrics) - set(known))]}


def class_names(classes: tuple[DeviceClass, ...]) -> list[str]:
    """Names of the device classes, made distinct by the lowest rank where two share one."""
    names = [c.name for c in classes]
    shared = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    return [f"{c.name} (rank {c.example})" if c.name in shared else c.name for c in classes]


def _memory(use: MemoryUse, names: list[str]) -> dict[str, Any]:
    return {
        "class": names[use.device_class],
        "capacity_bytes": use.capacity,
        "peak_bytes": use.peak,
        "at_peak": dict(use.at_peak),
    }


def _link(load: LinkLoad) -> dict[str, Any]:
    return {
        "name": load.name,
        "links": load.links,
        "capacity_bytes_per_s": load.capacity,
        "bytes": load.bytes,
        "utilisation": load.utilisation,
    }


def _critical_path(path: CriticalPath, names: list[str]) -> dict[str, Any]:
    """Its parts, those of the device classes that it runs through, and how many operations it has."""
    by_class = zip(names, path.by_class, strict=False)
    return {
        "seconds": dict(path.seconds),
        "by_class": {name: dict(parts) for name, parts in by_class if parts},
        "operations": len(path.operations),
    }


def _plain(value: Any) -> Any:
    """Only what JSON has: text keys, lists, finite numbers or null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    item = getattr(value, "item", None)  # a numpy scalar
    return _plain(item()) if callable(item) else str(value)
