"""The figures of the profiles in a resolved scenario: value, how it is known, and where it was read."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from simulator import units
from simulator.report.text import wording
from simulator.specs.files.shape import Kind
from simulator.specs.scenario import Scenario, ServingScenario
from simulator.specs.text.written import dimension_at

_DIMENSIONS = {
    "peak": "flop_rate",
    "capacity": "bytes",
    "bandwidth": "bandwidth",
    "latency": "time",
    "clock": "frequency",
    "on_chip": "bytes",
    "host_link": "bandwidth",
    "host_memory": "bytes",
    "idle": "power",
    "power": "power",
    "price": "money_rate",
    "bucket_size": "bytes",
    "memory_overhead": "bytes",
    "layer_overhead": "time",
    "global_bandwidth": "bandwidth",
}
"""Dimension by the last words of a path; a Result from a file carries plain numbers and no types."""


class Known(NamedTuple):
    """One figure."""

    path: str
    """Where it stands in the scenario, for example `cluster.node.accelerator.memory.bandwidth`."""
    value: str
    """With its unit."""
    status: str
    """`measured`, `datasheet` or `estimate`."""
    source: str
    """Where it was read; empty where unknown."""


def figures(scenario: dict[str, Any]) -> list[Known]:
    """Every figure in the resolved scenario, in its order."""
    return list(_found(scenario, "", ServingScenario if "serving" in scenario else Scenario))


def _found(value: Any, path: str, kind: Kind) -> Iterator[Known]:
    if isinstance(value, dict) and {"value", "status", "source"} <= value.keys():
        text = shown(path, value["value"], dimension_at(kind, path))
        yield Known(path, text, str(value["status"]), str(value["source"]))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _found(item, f"{path}.{key}" if path else str(key), kind)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _found(item, f"{path}.{index}", kind)


def shown(path: str, value: Any, known: str | None = None) -> str:
    """A figure with the unit of its dimension, where that is `known`, or that its path implies; plain where none is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    dimension = known or dimension_of(path)
    return units.format(value, dimension) if dimension else wording.count(value)


def dimension_of(path: str) -> str | None:
    """One of `units.DIMENSIONS` by the words of a path, None where they imply none."""
    *before, last = path.split(".")
    if before and before[-1] == "power":
        return "power"
    if before and before[-1] == "peak":  # by number format
        return "flop_rate"
    return _DIMENSIONS.get(last)
