"""What a worker does: one scenario from plain data to its figures, so that nothing but plain data crosses processes."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Literal

from simulator.errors import InfeasibleError, InputError
from simulator.results.infeasibility import infeasibility, reason
from simulator.results.result import Result
from simulator.run.kinds import kind_of
from simulator.specs.resolve import restored
from simulator.specs.scenario import AnyRun
from simulator.specs.workflow import Workflow
from simulator.study import fingerprint

SEPARATORS = (",", ":")
"""Of plain data in JSON as it crosses processes."""
Status = Literal["ok", "out of memory", "all requests rejected", "no replica starts", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a point."""

    status: Status
    """`refused` where the simulation refuses the scenario, `failed` where the simulator itself is wrong."""
    reason: str = ""
    """Why it is not `ok`."""
    metrics: Mapping[str, float | None] | None = None
    """Figures of a point that was simulated, SI units (vLLM's keys in milliseconds); None for one that is not finite.
    Of a point that is out of memory, what they would be."""
    warnings: tuple[str, ...] = ()


def evaluate(document: str, program: str) -> Outcome:
    """Simulate the scenario of plain data in JSON (`Point.document`); what is wrong with the point is its outcome.

    Raises InputError where the caller's program is another one than that of this process.
    """
    fingerprint.check(program)
    return evaluated(lambda: _alone(restored(json.loads(document))))


def _alone(scenario: AnyRun) -> AnyRun:
    """Without figures to compare with."""
    return scenario if isinstance(scenario, Workflow) else scenario.model_copy(update={"published": ()})


def evaluated(make: Callable[[], AnyRun]) -> Outcome:
    """The figures of the scenario that `make` gives; what is wrong with it is its outcome."""
    try:
        scenario = make()
        return _outcome(kind_of(scenario).evaluate(scenario))
    except (InputError, InfeasibleError) as error:
        return Outcome("refused", " ".join(str(error).split()))
    except Exception as error:  # the point's row says it, and the sweep goes on
        return Outcome("failed", f"internal error: {type(error).__name__}: {str(error)[:300]}")


def _outcome(result: Result) -> Outcome:
    metrics = {name: float(value) if isfinite(value) else None for name, value in result.metrics.items()}
    if result.feasible:
        return Outcome("ok", "", metrics, result.warnings)
    return Outcome(infeasibility(result), reason(result), metrics, result.warnings)
