"""The one door: a scenario of either kind becomes a Result."""

from collections.abc import Callable
from typing import Literal

from simulator.errors import InputError, Problem
from simulator.results.result import Result
from simulator.specs.scenario import AnyScenario, ServingScenario


def simulate(
    scenario: AnyScenario,
    *,
    fold: Literal["auto", "exact", "tiers", "none"] | None = None,
    executor: Literal["simpy", "max-plus"] | None = None,
    leap: bool | None = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Simulate a training or a serving scenario.

    `fold` and `executor` are for training (`simulate.simulate`), `leap` is for serving (`serve.serve`). Raises
    InputError for what cannot be simulated and for an option of the other kind; what does not fit into memory is a
    Result with `feasible` False.
    """
    if isinstance(scenario, ServingScenario):
        _refuse({"fold": fold, "executor": executor}, "serves")
        from simulator.run.serve import serve

        return serve(scenario, leap=leap, progress=progress)
    _refuse({"leap": leap}, "trains")
    from simulator.run.simulate import simulate as train

    return train(scenario, fold=fold, executor=executor or "simpy", progress=progress)


def _refuse(options: dict[str, object], does: str) -> None:
    """InputError for an option that was given and has no meaning for this kind of scenario."""
    for name, value in options.items():
        if value is not None:
            raise InputError(Problem(f"`{name}` has no meaning for a scenario that {does}", hint="leave it out"))
