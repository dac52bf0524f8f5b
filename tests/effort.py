"""How many examples a property tries: few and always the same in the tests, many and random ones in an exploration.

`tests/conftest.py` registers both profiles; `make explore` runs the long one.
"""

from typing import Any

from hypothesis import HealthCheck, settings

ORDINARY = 100
EXPLORED = 10_000
SIMULATED = 2_000
"""Examples of an exploration where each one simulates, or takes as long."""
SHARE = 0.25
"""Of the examples that a property which simulates asks for, what the tests try; an exploration tries all of its own."""
PATIENCE_S = 300
"""Seconds after which what a test waits for hangs: many times what it takes, so that a busy machine fails no test."""


def examples(ordinary: int = ORDINARY, explored: int = EXPLORED, **others: Any) -> settings:
    """Settings of a property that tries `ordinary` examples in the tests and `explored` in an exploration."""
    return settings(max_examples=explored if settings.default.max_examples == EXPLORED else ordinary, **others)


def simulations(ordinary: int, **others: Any) -> settings:
    """The same of a property that simulates, or takes as long: a share of `ordinary`, as all tests have minutes."""
    return examples(max(round(SHARE * ordinary), 3), SIMULATED, **others)


def register() -> None:
    """Register the two profiles; time decides in neither, so that a slow machine gives the verdict of a fast one."""
    slow: dict[str, Any] = {"deadline": None, "database": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("tests", max_examples=ORDINARY, derandomize=True, **slow)
    settings.register_profile("explore", max_examples=EXPLORED, derandomize=False, print_blob=True, **slow)
