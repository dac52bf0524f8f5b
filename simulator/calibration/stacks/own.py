"""The numbers of a stack from logs of one's own runs, each with the scenario that says what was run.

Every run is simulated with other numbers of the stack, and the logarithms of simulated over measured figures are
minimised (robust least squares within the physical ranges of `training.BOUNDS` and `serving.RANGES`). The stack's
present numbers are where the search starts and, as a weak prior, where a number stays that no run tells apart. What the
runs do not identify has the status `estimate` and is said: one layout cannot tell a slower kernel from a slower host,
which takes runs whose layers differ in length. Nothing is fitted to more numbers than there are figures.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from simulator.calibration.asked import Asked, save
from simulator.calibration.fitting import Floats, Found, Parameter, Solution, solution
from simulator.calibration.stacks import serving, training
from simulator.calibration.stacks.numbers import COMMAND, Point, report
from simulator.errors import InfeasibleError, InputError, Problem
from simulator.interop.logs.serving import read_serving_log
from simulator.interop.logs.training import Logged, read_training_log
from simulator.run.dispatch import simulate
from simulator.specs.resolve import load_scenario
from simulator.specs.scenario import AnyScenario, Scenario, ServingScenario

EVALUATIONS = 25
SAID = 8
"""Refused lines that are listed."""
HIGH = 0.6
"""Share of its range at which an overhead starts a second descent."""
LEAST = 1e-4
"""Mean absolute log ratio by which that must be better."""
RATES = ("tokens_per_s_per_device", "output_throughput")
"""Figures of which more is faster."""


@dataclass(frozen=True)
class Run:
    """One run: what was measured of it, and what it was."""

    logged: Logged
    scenario: Scenario | ServingScenario

    @property
    def measured(self) -> dict[str, float]:
        """Figures that are compared; where requests come by themselves their throughput is that of the arrivals."""
        arrivals = getattr(getattr(self.scenario, "requests", None), "arrivals", None)
        open_ = arrivals is not None and not (arrivals.at_once or arrivals.closed_loop)
        return {key: value for key, value in self.logged.figures.items() if not (open_ and key == "output_throughput")}


def calibrate(asked: Asked) -> None:
    """Fit the stack of the runs, say its numbers and errors, and write it."""
    runs, name = read_runs(asked)
    fields = fields_of(runs[0].scenario)
    present = {field: float(getattr(runs[0].scenario.stack, field).value) for field in fields}
    asked.say(report(f"{name} as it is ({_shown(present)})", errors(runs, present).tolist()))
    if asked.as_is:
        return
    solved = fitted(runs, fields, present)
    asked.say(report(f"{name} fitted ({_shown(solved.found)})", errors(runs, solved.found).tolist()))
    notes = {field: note for field in fields if (note := said(field, solved))}
    for field, note in notes.items():
        asked.say(f"  {field}: {note}")
    lines = [f"extends: stacks/{name}", f"name: {json.dumps(f'{name}, fitted to own runs')}"]
    files = ", ".join(sorted({Path(run.logged.file).name for run in runs}))[:300]
    source = f"{len(runs)} own runs ({files}), {COMMAND}, {date.today()}"
    for field in fields:
        status, more = ("measured", "") if field not in notes else ("estimate", f"; {notes[field]}")
        value = shown(field, solved.found[field])
        lines.append(f"{field}: {{value: {value}, status: {status}, source: {json.dumps(source + more)}}}")
    if asked.out is None:
        asked.say("\n".join(lines))
    else:
        save(asked.out / f"{name}.yaml", "\n".join(lines) + "\n")


# ---- what was run --------------------------------------------------------------------------------------------------


def read_runs(asked: Asked) -> tuple[list[Run], str]:
    """(the runs of the logs, name of their stack); InputError where logs and scenarios do not belong together."""
    if len(asked.scenario) not in (1, len(asked.files)):
        problem = f"{len(asked.files)} logs and {len(asked.scenario)} scenarios"
        raise InputError(Problem(problem, hint="give `--scenario` once, or once for each log in their order"))
    loaded = [load_scenario(path) for path in asked.scenario]
    runs = list[Run]()
    for place, path in enumerate(asked.files):
        scenario = loaded[place if len(loaded) > 1 else 0].spec
        if not isinstance(scenario, Scenario | ServingScenario):
            raise InputError(Problem("is of no single run", file=asked.scenario[place if len(loaded) > 1 else 0]))
        runs += [Run(logged, scenario) for logged in _logs(path, scenario, asked)]
    for run in runs:
        _check(run)
    kinds = {type(run.scenario) for run in runs}
    if len(kinds) > 1:
        raise InputError(Problem("scenarios that train and scenarios that serve", hint="fit them one after the other"))
    names: set[str | None] = set(asked.profiles) or {_stack_name(one.sources) for one in loaded}
    if len(names) != 1 or None in names:
        words = f"the scenarios have the stacks {', '.join(sorted(map(str, names)))}"
        raise InputError(Problem(words, hint="fit one at a time, or name the shipped one with `--profile NAME`"))
    return runs, str(names.pop())


def _logs(path: Path, scenario: AnyScenario, asked: Asked) -> Sequence[Logged]:
    trains = isinstance(scenario, Scenario)
    found: Sequence[Logged] = tuple(filter(None, [read_training_log(path)])) if trains else read_serving_log(path)
    if not found:
        known = "Megatron-LM or torchtitan" if trains else "vLLM's or SGLang's benchmark"
        raise InputError(Problem(f"has no line of {known}", file=str(path), hint="docs/howto/own-machines.md"))
    refused = [reason for one in found for reason in one.refused]
    for reason in refused[:SAID]:
        asked.say("refused: " + "".join(letter for letter in reason if letter.isprintable()))
    if len(refused) > SAID:
        asked.say(f"and {len(refused) - SAID} more")
    return found


def _check(run: Run) -> None:
    """InputError where the log says another run than the scenario."""
    for path, logged in run.logged.states.items():
        value: Any = run.scenario
        for key in path.split("."):
            value = getattr(value, key, None)
        if isinstance(value, int | float) and value != logged:
            problem = f"the log says {logged:g}, its scenario {value:g}"
            raise InputError(Problem(problem, file=run.logged.file, path=path, hint="write what was run"))


def _stack_name(sources: Sequence[str]) -> str | None:
    """The shipped profile that a scenario names; None where it names none."""
    return next((Path(source).stem for source in sources if Path(source).parent.name == "stacks"), None)


# ---- the fit -------------------------------------------------------------------------------------------------------


def fields_of(scenario: AnyScenario) -> tuple[str, ...]:
    """Numbers of a stack that its runs are fitted with."""
    return training.FIELDS if isinstance(scenario, Scenario) else serving.FIELDS


def ranges_of(fields: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Physical ranges of numbers."""
    return {field: (training.BOUNDS | serving.RANGES)[field] for field in fields}


def fitted(runs: Sequence[Run], fields: Sequence[str], present: Found) -> Solution:
    """The numbers, and which of them the runs do not settle. The noise of the logs is taken into account."""
    figures = sum(len(run.measured) for run in runs)
    free = list(fields)[: max(figures, 1)]
    parameters = {}
    for field, (low, high) in ranges_of(free).items():
        parameters[field] = Parameter(min(max(present[field], low), high), low, high, False)
    noise = float(np.median([run.logged.spread for run in runs]))

    def residuals(found: Found) -> Floats:
        return np.log1p(errors(runs, present | found))

    found = [solution(parameters, residuals, start, EVALUATIONS, noise) for start in starts(parameters, present)]
    losses = [float(np.abs(residuals(one.found)).mean()) for one in found]
    solved = found[0] if losses[0] <= min(losses) + LEAST else found[losses.index(min(losses))]
    rest = tuple(field for field in fields if field not in free)
    return replace(solved, found=present | solved.found, loose=(*solved.loose, *rest))


def starts(parameters: Mapping[str, Parameter], present: Found) -> list[Found]:
    """Where descents begin: at the present numbers, and with the overheads of the host well within their ranges, for
    none shows where the device is busy longer."""
    if not any(name.endswith("overhead") for name in parameters):
        return [present]
    high = {name: HIGH * one.high for name, one in parameters.items() if name.endswith("overhead")}
    return [present, present | high]


def errors(runs: Sequence[Run], found: Found) -> Floats:
    """Relative errors of the times of all figures of all runs; InputError for one that does not fit into memory."""
    off = []
    for run in runs:
        point: Point = tuple(found.values())
        stack: Any = run.scenario.stack
        changes = {f: getattr(stack, f).model_copy(update={"value": v}) for f, v in zip(found, point, strict=True)}
        changed = run.scenario.model_copy(update={"stack": stack.model_copy(update=changes)})
        try:
            result = simulate(changed)
        except InfeasibleError as error:
            raise InputError(Problem(f"its scenario does not fit: {error}", file=run.logged.file)) from None
        if not result.feasible:
            raise InputError(Problem("its scenario does not fit into memory; the run did", file=run.logged.file))
        for key, measured in run.measured.items():
            ours = float(result.metrics[key])
            off.append((measured / ours if key in RATES else ours / measured) - 1)
    return np.array(off)


def said(field: str, solved: Solution) -> str:
    """Why a number is not identified; empty where it is."""
    if field in solved.loose:
        return "not identified by these runs; add runs of other layouts or lengths of layers"
    return "at a bound of its range" if field in solved.bounded else ""


def shown(field: str, value: float) -> str:
    """A number as stack files have it."""
    return f"{value:.4g}" if field.endswith("efficiency") else f"{value * 1e6:.4g} us"


def _shown(found: Found) -> str:
    return ", ".join(shown(field, value) for field, value in found.items())
