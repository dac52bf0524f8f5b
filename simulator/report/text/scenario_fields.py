"""What a page reads in the resolved scenario of a Result, which may come from a file of any origin."""

from math import prod
from typing import Any


def at(scenario: dict[str, Any], path: str) -> Any:
    """The value at a dotted path such as `training.parallel.tp`; None where there is none."""
    value: Any = scenario
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    return value


def chosen(scenario: dict[str, Any], key: str, default: Any) -> Any:
    """A setting of `training`, or of the stack where the scenario leaves it open; the default where neither says."""
    for path in (f"training.{key}", f"stack.{key.rpartition('.')[2]}"):
        if (value := at(scenario, path)) is not None:
            return value
    return default


def whole(scenario: dict[str, Any], path: str, default: int) -> int:
    """The whole number at a path; the default where there is none."""
    value = at(scenario, path)
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def word(scenario: dict[str, Any], path: str, default: str = "") -> str:
    """The text at a path; the default where there is none."""
    value = at(scenario, path)
    return value if isinstance(value, str) else default


def devices(scenario: dict[str, Any]) -> int | None:
    """Accelerators of the job; None where the scenario does not say."""
    return whole(scenario, "cluster.nodes", 0) * whole(scenario, "cluster.node.devices", 0) or None


def replicas(scenario: dict[str, Any]) -> int | None:
    """Data-parallel replicas, derived where the scenario leaves them open; None where it does not say enough."""
    cut = [whole(scenario, f"training.parallel.{axis}", 1) for axis in ("tp", "cp", "pp")]
    derived = (devices(scenario) or 0) // max(prod(cut), 1)
    return whole(scenario, "training.parallel.dp", derived) or None
