"""What the golden files hold: for each shipped scenario, its totals and where the time goes.

A golden file says what the simulator answered when it was written, not what is right; a test that fails on one says
that an answer moved, and which part of the step moved it.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from simulator.results import to_json
from simulator.results.metrics import mean
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
from simulator.specs.scenario import AnyScenario, ServingScenario

ROOT = Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"
GOLDEN = Path(__file__).resolve().parent / "files"
TOLERANCE = 1e-9
"""Relative difference that is none: platforms round differently in the last bits."""
SLOW: frozenset[str] = frozenset()
"""Scenarios, by name, that take more than a few seconds; tested by `make test-all`."""
MOST_CLASSES = 8
"""Device classes kept of each scenario, spread evenly over all."""

REQUESTS = 200
"""Requests that a serving scenario is recorded with at most."""

Record = dict[str, Any]


def names() -> list[str]:
    """Scenarios by their path below `scenarios/`, without suffix; what a family has in common is no scenario itself.

    Those of published systems have their claims, see tests/unit/test_papers.py.
    """
    paths = (path.relative_to(SCENARIOS) for path in SCENARIOS.rglob("*.yaml"))
    kept = (path for path in paths if path.parent.name != "families" and path.parts[0] != "papers")
    return sorted(path.with_suffix("").as_posix() for path in kept)


def golden_file(name: str) -> Path:
    """Where the record of a scenario is kept."""
    return GOLDEN / f"{name}.json"


def record(name: str) -> Record:
    """Simulate a scenario and keep what a golden file holds."""
    result = simulate(_loaded(name))
    document = to_json(result)
    classes = list(document["breakdown"])
    last = len(classes) - 1
    kept = sorted({round(i * last / (MOST_CLASSES - 1)) for i in range(MOST_CLASSES)})
    average = mean(result.breakdown, [c.ranks for c in result.classes])
    return {
        "feasible": document["feasible"],
        "metrics": document["metrics"],
        "breakdown": {"mean": average} | {classes[i]: document["breakdown"][classes[i]] for i in kept},
        "critical_path": document["critical_path"]["seconds"],
        "peak_memory": {kept_use["class"]: kept_use["at_peak"] for kept_use in (document["memory"][i] for i in kept)},
    }


def _loaded(name: str) -> AnyScenario:
    """The scenario; of one that serves, only the first requests, which is quick and moves when the whole does."""
    scenario = load_scenario(SCENARIOS / f"{name}.yaml").scenario
    if isinstance(scenario, ServingScenario) and (scenario.requests.count or REQUESTS) > REQUESTS:
        scenario = load_scenario(SCENARIOS / f"{name}.yaml", [f"requests.count={REQUESTS}"]).scenario
    return scenario


def read(name: str) -> Record | None:
    """The golden record of a scenario; None where there is none yet."""
    path = golden_file(name)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """One line for each value that is not the same in both records."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in dict.fromkeys([*old, *new]):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif _is_number(old) and _is_number(new):
        if not math.isclose(old, new, rel_tol=TOLERANCE, abs_tol=0.0):
            change = f" ({100 * (new / old - 1):+.3g} %)" if old else ""
            yield f"{path}: {old:.9g} -> {new:.9g}{change}"
    elif old != new:
        yield f"{path}: {old} -> {new}"


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool)
