"""What pages and studies read in the resolved scenario of a Result, which may come from a file of any origin."""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import accumulate
from math import prod
from typing import Any, TypeVar

from simulator.axes import CP, PP, TP

Default = TypeVar("Default", bound=int | None)

Fields = Mapping[str, Any]
"""A resolved scenario, or a part of one, as plain data."""


def at(scenario: Fields, path: str) -> Any:
    """The value at a dotted path such as `training.parallel.tp`; None where there is none."""
    value: Any = scenario
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def chosen(scenario: Fields, key: str, default: Any) -> Any:
    """A setting of `training`, or of the stack where the scenario leaves it open; the default where neither says."""
    for path in (f"training.{key}", f"stack.{key.rpartition('.')[2]}"):
        if (value := at(scenario, path)) is not None:
            return value
    return default


def whole(scenario: Fields, path: str, default: Default) -> int | Default:
    """The whole number at a path; the default where there is none."""
    value = at(scenario, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def word(scenario: Fields, path: str, default: str = "") -> str:
    """The text at a path; the default where there is none."""
    value = at(scenario, path)
    return value if isinstance(value, str) else default


def number(scenario: Fields, path: str) -> float | None:
    """The number at a path; None where there is none."""
    value = at(scenario, path)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def texts(scenario: Fields, path: str) -> list[str]:
    """The texts of a list at a path; none where there is no list."""
    value = at(scenario, path)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list | tuple) else []


def parts_of(scenario: Fields, path: str) -> list[Fields]:
    """The mappings of a list at a path; none where there is no list."""
    value = at(scenario, path)
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list | tuple) else []


def devices(scenario: Fields) -> int | None:
    """Accelerators of the cluster, nodes of all kinds together; None where the scenario does not say."""
    return sum(nodes * each for nodes, each in _kinds(scenario)) or None


def node_of(scenario: Fields) -> Callable[[int], int]:
    """The node of a device, both by number; those of one kind after the other."""
    ends = list(accumulate(each for nodes, each in _kinds(scenario) for _ in range(nodes)))
    return lambda device: bisect_right(ends, device)


def _kinds(scenario: Fields) -> list[tuple[int, int]]:
    """(nodes, devices of each) of each kind of node."""
    kinds = [scenario.get("cluster"), *parts_of(scenario, "cluster.more_nodes")]
    return [(whole({"of": kind}, "of.nodes", 0), whole({"of": kind}, "of.node.devices", 0)) for kind in kinds]


def replicas(scenario: Fields) -> int | None:
    """Data-parallel replicas, derived where the scenario leaves them open; None where it does not say enough."""
    cut = [whole(scenario, f"training.parallel.{axis}", 1) for axis in (TP.name, CP.name, PP.name)]
    derived = (devices(scenario) or 0) // max(prod(cut), 1)
    return whole(scenario, "training.parallel.dp", derived) or None
