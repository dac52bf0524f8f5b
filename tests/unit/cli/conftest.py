import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from simulator.results import Result
from tests.factories import training_result

ROOT = Path(__file__).resolve().parents[3]
QUICKSTART = str(ROOT / "scenarios" / "quickstart.yaml")


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], list[dict[str, Any]]]]:
    """Replace the simulation; called with a Result, or an exception to raise, it returns the calls that are made."""
    import_module("simulator.run.simulate")
    calls: list[dict[str, Any]] = []

    def replace(answer: Any = None) -> list[dict[str, Any]]:
        def simulate(scenario: Any, **options: Any) -> Result:
            calls.append({"scenario": scenario, **options})
            if isinstance(answer, BaseException):
                raise answer
            return answer if answer is not None else training_result()

        monkeypatch.setattr(sys.modules["simulator.run.simulate"], "simulate", simulate)
        return calls

    yield replace
