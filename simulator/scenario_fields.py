"""What pages and studies read in the resolved scenario of a Result, which may come from a file of any origin."""

from collections.abc import Mapping
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


def devices(scenario: Fields) -> int | None:
    """Accelerators of the cluster, nodes of all kinds together; None where the scenario does not say."""
    more = at(scenario, "cluster.more_nodes")
    kinds = [scenario.get("cluster"), *(more if isinstance(more, list | tuple) else ())]
    return sum(whole({"of": kind}, "of.nodes", 0) * whole({"of": kind}, "of.node.devices", 0) for kind in kinds) or None


def replicas(scenario: Fields) -> int | None:
    """Data-parallel replicas, derived where the scenario leaves them open; None where it does not say enough."""
    cut = [whole(scenario, f"training.parallel.{axis}", 1) for axis in (TP.name, CP.name, PP.name)]
    derived = (devices(scenario) or 0) // max(prod(cut), 1)
    return whole(scenario, "training.parallel.dp", derived) or None
