"""The functions of the Python interface: one call each for what a command of the command line does."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal

from simulator import results
from simulator.api.result import Comparison, Result, Sweep
from simulator.api.scenario import Overrides, Scenario, load, texts
from simulator.errors import InputError, Problem
from simulator.run.dispatch import simulate
from simulator.specs.base import Spec
from simulator.specs.scenario import AnyScenario
from simulator.specs.scenario import Scenario as TrainingSpec
from simulator.study import compare as comparing

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

Source = str | PathLike[str] | Scenario | AnyScenario
"""Where a scenario comes from: a path, a name, or one that is loaded."""
Item = Source | results.Result
"""What can be compared."""


def run(
    scenario: Source,
    overrides: Overrides = (),
    *,
    fold: Literal["auto", "exact", "tiers", "none"] | None = None,
    executor: Literal["simpy", "max-plus"] | None = None,
    leap: bool | None = None,
    sensitivities: bool = False,
) -> Result:
    """Simulate a scenario: a path, the name of a shipped one, or what `load` gave; overrides as in `load`.

    `fold`, `executor` and `sensitivities` (simulate again on better machines) are for training, `leap` is for serving;
    what is left out is as in the scenario. What does not fit into memory is a Result with `feasible` False. Raises
    InputError for what cannot be simulated.
    """
    spec = _spec(scenario, overrides)
    result = simulate(spec, fold=fold, executor=executor, leap=leap)
    if not sensitivities:
        return Result.of(result)
    if not isinstance(spec, TrainingSpec):
        raise InputError(Problem("`sensitivities` has no meaning for a scenario that serves", hint="leave it out"))
    from dataclasses import replace

    from simulator.study.sensitivity import sensitivities as better_machines

    return Result.of(replace(result, sensitivities=better_machines(spec, fold=fold)))


def compare(
    *items: Item | Mapping[str, Item],
    names: Sequence[str] | None = None,
    overrides: Overrides = (),
    vary: Mapping[str, Iterable[Any]] | None = None,
) -> Comparison:
    """Hold runs against the first of their kind: scenarios, which are simulated, and results, or a mapping of names.

    `overrides` change all scenarios. `vary` maps keys to values; each scenario is run with every combination. Raises
    InputError for fewer than two runs and where a scenario cannot be read, before any is simulated.
    """
    variants = _variants(vary or {})
    pairs = [pair for item in items for pair in (item.items() if isinstance(item, Mapping) else [("", item)])]
    if names is not None and len(names) != len(pairs):
        raise InputError(Problem(f"{len(names)} names for {len(pairs)} runs"))
    named = [(given or name, item) for given, (name, item) in zip(names or [""] * len(pairs), pairs, strict=True)]
    loaded: list[tuple[str, AnyScenario | results.Result]] = []
    for name, item in named:
        if isinstance(item, results.Result):
            loaded.append((name or item.name, item))
            continue
        for words, variant in variants:
            spec = _spec(item, (*texts(overrides), *variant))
            own = name or (spec.name if len(pairs) > 1 or not words else "")
            loaded.append((" ".join(filter(None, (own, words))), spec))
    if len(loaded) < 2:
        raise InputError(Problem("there is nothing to compare", hint="give two scenarios or results, or `vary`"))
    found = [item if isinstance(item, results.Result) else simulate(item) for _, item in loaded]
    return Comparison.of(comparing.compare(found, [name for name, _ in loaded], texts(overrides)))


def read(path: str | PathLike[str]) -> Result:
    """Read a result that `Result.save` or `clustersim run --save` wrote; InputError for any other file."""
    return Result.of(results.read(fspath(path)))


def sweep(
    scenario: Source,
    axes: Mapping[str, Sequence[Any]],
    overrides: Overrides = (),
    *,
    where: Sequence[str] = (),
    random: int | None = None,
    jobs: int = 1,
    executor: "Executor | AbstractContextManager[Executor] | None" = None,
    cache: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Simulate every combination of values, or `random` of them drawn with the scenario's seed.

    `axes` maps keys to their values; `where` are conditions such as `mfu > 0.4`. Points run on `jobs` processes, or on
    any executor of `concurrent.futures`. `cache` is a file in which outcomes are kept and looked up. What does not fit
    into memory or is refused is a row with its reason. Raises InputError for what could suit no point.
    """
    from simulator.study import executors
    from simulator.study import sweep as sweeping

    changes = texts(overrides)
    source: str | AnyScenario
    if isinstance(scenario, Scenario):
        source, changes = scenario.path, (*scenario.overrides, *changes)
    else:
        source = fspath(scenario) if isinstance(scenario, PathLike) else scenario
    if jobs > 1 and executor is None:
        executor = executors.processes(jobs)
    kept = None if cache is None else fspath(cache)
    return Sweep.of(sweeping.sweep(source, axes, where, random, executor, kept, progress, overrides=changes))


def validate(
    *files: str | PathLike[str],
    kind: Literal["training", "serving"] | None = None,
    by: Sequence[str] = ("source", "device"),
    jobs: int = 1,
    sample: int | None = None,
) -> dict[str, Any]:
    """Simulate published measurements and say how wrong the simulation is: `{"summary": ..., "rows": [...]}`.

    `files` hold one JSON object a line; without any, the rows that the project ships are used, of training unless
    `kind` says otherwise. `sample` spreads that many rows over each source, `jobs` are processes. The form is that of
    `clustersim validate --json`; errors are of time, positive is too slow.
    """
    from simulator.specs import data_root
    from simulator.study.lines import read_lines
    from simulator.study.lines import sample as few
    from simulator.study.published import KINDS, kind_of

    shipped = data_root() / "workloads" / "measurements" / f"{kind or 'training'}.jsonl"
    lines = [line for file in files or (shipped,) for line in read_lines(fspath(file))]
    lines = few(lines, sample) if sample else lines
    chosen = KINDS[kind] if kind else kind_of(lines)
    chosen.check(tuple(by))
    outcomes = chosen.validate(lines, jobs)
    return chosen.document(chosen.summary(outcomes, tuple(by)), outcomes, chosen.causes())


def _spec(scenario: Source, overrides: Overrides) -> AnyScenario:
    """The resolved scenario."""
    if isinstance(scenario, Scenario):
        return (scenario.change(overrides) if overrides else scenario).spec
    if isinstance(scenario, Spec):
        if not overrides:
            return scenario
        from simulator.specs.written import template_of

        return template_of(scenario).changed(texts(overrides)).filled()[0]
    if not isinstance(scenario, (str, PathLike)):
        message = f"a {type(scenario).__name__} is no scenario"
        raise InputError(Problem(message, hint="give a path, a name, or what `load` returned"))
    return load(scenario, overrides).spec


def _variants(vary: Mapping[str, Iterable[Any]]) -> list[tuple[str, tuple[str, ...]]]:
    """(words, overrides) of each combination of values, the last key changing fastest."""
    from itertools import product

    from simulator.study.variants import short_name

    axes = [tuple(text for value in values for text in texts({key: value})) for key, values in vary.items()]
    return [(short_name(one).replace('"', ""), one) for one in product(*axes)]
