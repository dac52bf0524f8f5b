"""The entry point of single runs: a scenario that trains or serves becomes a Result."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from simulator.errors import InputError, Problem
from simulator.results.result import Result
from simulator.run.kinds import kind_of

if TYPE_CHECKING:
    from simulator.run.long.kept import Kept
    from simulator.specs.scenario import AnyRun


def simulate(
    scenario: "AnyRun",
    *,
    fold: Literal["auto", "exact", "tiers", "none"] | None = None,
    executor: Literal["simpy", "max-plus"] | None = None,
    leap: bool | None = None,
    kept: "Kept | None" = None,
    progress: Callable[[int], None] | None = None,
) -> Result:
    """Simulate a scenario that trains or serves, several jobs, or a workflow.

    `fold`, `executor` and `kept` are for training (`simulate.simulate`), `leap` is for serving (`serve.serve`). Raises
    InputError for what cannot be simulated and for an option of the other kind; what does not fit into memory is a
    Result with `feasible` False.
    """
    kind = kind_of(scenario)
    given = {"fold": fold, "executor": executor, "leap": leap, "kept": kept}
    for name, value in given.items():
        if value is not None and name not in kind.options:
            raise InputError(Problem(f"`{name}` has no meaning for a scenario that {kind.does}", hint="leave it out"))
    return kind.simulate(scenario, progress=progress, **{name: given[name] for name in kind.options})
