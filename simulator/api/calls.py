"""The functions of the Python interface: one call each for what a command of the command line does."""

from __future__ import annotations  # help() then shows the names of types, not what they stand for

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from simulator import results
from simulator.api.arguments import Values, choice, flag, listed, path_of, shown, strings, whole
from simulator.api.result import Comparison, Result, Sweep
from simulator.api.scenario import Overrides, Scenario, load, texts
from simulator.errors import InputError, Problem
from simulator.results.files import is_result
from simulator.results.result import overridden
from simulator.run.dispatch import simulate
from simulator.run.kinds import kind_of
from simulator.specs.base import Spec
from simulator.specs.resolve import placed
from simulator.specs.scenario import AnyRun
from simulator.study.compare import comparison as comparing

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from contextlib import AbstractContextManager

    from simulator.specs.scenario import Scenario as TrainingSpec

Source = str | PathLike[str] | Scenario | AnyRun
"""Where a scenario comes from: a path, a name, or one that is loaded."""
Item = Source | results.Result
"""What can be compared."""
Fold = Literal["auto", "exact", "tiers", "none"]
Executing = Literal["simpy", "max-plus"]
Measured = Literal["training", "serving"]
_MOST_REASONS = 5


def run(
    scenario: Source,
    overrides: Overrides = (),
    *,
    fold: Fold | None = None,
    executor: Executing | None = None,
    leap: bool | None = None,
    sensitivities: bool = False,
) -> Result:
    """Simulate a scenario or a workflow.

    Arguments:

    * `scenario`: a YAML file, the name of a shipped scenario such as `"quickstart"` or workflow such as `"ppo-70b"`, or
      what `load` gave.
    * `overrides`: changes of it, `{"training.micro_batch": 2}` or `["training.micro_batch=2"]`; see `load`.
    * `fold` (training): how ranks with the same program are simulated as one: `"auto"`, `"exact"`, `"tiers"` (faster
      and approximate) or `"none"`.
    * `executor` (training): `"simpy"`, or `"max-plus"`, which is faster where nothing is shared and refuses the rest.
    * `leap` (serving): False simulates every iteration one by one, with the same figures.
    * `sensitivities` (training): simulate again on better machines, to say what better parts would give.

    What is None is as in the scenario, or left to the simulator. What does not fit into memory is a Result with
    `feasible` False. Raises InputError for what cannot be simulated.
    """
    choice("fold", fold, get_args(Fold))
    choice("executor", executor, get_args(Executing))
    flag("leap", leap)
    flag("sensitivities", sensitivities)
    loaded = _loaded(scenario, overrides)
    spec = loaded.spec if loaded is not None else _spec(scenario, overrides)
    if sensitivities and not (kind := kind_of(spec)).better:
        message = f"`sensitivities` has no meaning for a scenario that {kind.does}"
        raise InputError(Problem(message, hint="leave it out"))
    with nullcontext() if loaded is None else placed(loaded):
        result = simulate(spec, fold=fold, executor=executor, leap=leap)
    result = overridden(result, texts(overrides) if loaded is None else loaded.overrides)
    if not sensitivities:
        return Result.of(result)
    from dataclasses import replace

    from simulator.study.sensitivity import sensitivities as better_machines

    return Result.of(replace(result, sensitivities=better_machines(cast("TrainingSpec", spec), fold=fold)))


def compare(
    *items: Item | Mapping[str, Item],
    names: Sequence[str] | None = None,
    overrides: Overrides = (),
    vary: Values | None = None,
) -> Comparison:
    """Hold runs against the first of their kind.

    Arguments:

    * `items`: scenarios and workflows, which are simulated, and results, which are taken as they are; or mappings of
      names to them.
    * `names`: what the items are called, in their order.
    * `overrides`: changes of all scenarios; see `load`.
    * `vary`: values of keys, `{"training.micro_batch": [1, 2]}` or `["training.micro_batch=1,2"]`; each scenario is run
      with every combination of them. One that cannot be simulated is left out with a note, while two remain.

    Raises InputError for fewer than two runs and where a scenario cannot be read, before any is simulated.
    """
    pairs = _named(items, names)
    changes, variants = texts(overrides), _variants(() if vary is None else vary)
    loaded: list[tuple[str, AnyRun | results.Result]] = []
    for name, item in pairs:
        if isinstance(item, results.Result):
            loaded.append((name or item.name, item))
            continue
        for words, variant in variants:
            spec = _spec(item, (*changes, *variant))
            own = name or (spec.name if len(pairs) > 1 or not words else "")
            loaded.append((" ".join(filter(None, (own, words))), spec))
    finished = bool(pairs) and all(isinstance(item, results.Result) for _, item in pairs)
    if finished and (changes or vary):
        message = f"a finished result cannot be {'varied' if vary else 'changed'}"
        raise InputError(Problem(message, hint="give its scenario in its place"))
    if len(loaded) < 2:
        raise InputError(Problem("there is nothing to compare", hint="give two scenarios or results, or `vary`"))
    found: dict[int, results.Result] = {}
    refused: dict[str, InputError] = {}
    for i, (name, item) in enumerate(loaded):
        try:
            found[i] = item if isinstance(item, results.Result) else simulate(item)
        except InputError as error:
            refused[name] = error
            if not vary or len(loaded) - len(refused) < 2:
                raise
    held = comparing.compare(list(found.values()), [loaded[i][0] for i in found], changes)
    return Comparison.of(comparing.noting(held, refused))


def read(path: str | PathLike[str]) -> Result:
    """Read a result that `Result.save` or `clustersim run --save` wrote; InputError for any other file.

    `path` is the file. Neither the JSON form nor the report can be read: they do not hold everything.
    """
    name = path_of("path", path)
    ending = Path(name).suffix.lower()
    if ending in (".json", ".html") and Path(name).is_file() and not is_result(name):
        hint = 'save the result under another ending, such as `result.save("step.result")`, and read that'
        words = {".json": "JSON cannot be read back", ".html": "a report cannot be read back"}
        raise InputError(Problem(words[ending], file=name, hint=hint))
    return Result.of(results.read(name))


def sweep(
    scenario: Source,
    axes: Values,
    overrides: Overrides = (),
    *,
    where: Sequence[str] | str = (),
    random: int | None = None,
    jobs: int = 1,
    executor: Executor | AbstractContextManager[Executor] | None = None,
    cache: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Simulate every combination of values.

    Arguments:

    * `scenario`: a YAML file, the name of a shipped scenario, or what `load` gave.
    * `axes`: values of keys, `{"training.parallel.tp": [1, 2, 4]}` or `["training.parallel.tp=1,2,4"]`.
    * `overrides`: changes of all points; see `load`.
    * `where`: conditions that all points meet, such as `"mfu > 0.4"`.
    * `random`: only so many of the combinations, drawn with the scenario's seed.
    * `jobs`: processes to simulate on.
    * `executor`: any executor of `concurrent.futures` in their place.
    * `cache`: a file in which outcomes are kept and looked up.
    * `progress`: called with how many simulations are done, and of how many.

    What does not fit into memory or is refused is a row with its reason. Raises InputError for what suits no point.
    """
    from simulator.study import executors
    from simulator.study.sweep import sweep as sweeping

    _check_source(scenario)
    wanted, conditions = listed("axes", axes), strings("where", where, '["mfu > 0.4"]')
    changes, drawn = texts(overrides), None if random is None else whole("random", random)
    processes = min(whole("jobs", jobs), 4 * executors.cores())
    _check_work(executor, progress)
    source: str | AnyRun
    if isinstance(scenario, Scenario):
        source, changes = scenario.path, (*scenario.overrides, *changes)
    else:
        source = scenario if isinstance(scenario, Spec) else path_of("scenario", scenario)
    if processes > 1 and executor is None:
        executor = executors.processes(processes)
    kept = None if cache is None else path_of("cache", cache)
    return Sweep.of(sweeping.sweep(source, wanted, conditions, drawn, executor, kept, progress, overrides=changes))


def validate(
    *files: str | PathLike[str],
    kind: Measured | None = None,
    by: Sequence[str] | str = ("source", "device"),
    jobs: int = 1,
    sample: int | None = None,
) -> dict[str, Any]:
    """Simulate published measurements and say how wrong the simulation is: `{"summary": ..., "rows": [...]}`.

    Arguments:

    * `files`: of one JSON object a line; without any, the rows that the project ships are used.
    * `kind`: `"training"` or `"serving"`; None takes what all of them are, without files training.
    * `by`: what errors are listed by.
    * `jobs`: processes to simulate on.
    * `sample`: only so many rows, spread over each source.

    The form is that of `clustersim validate --json`; errors are of time, positive is too slow. Raises InputError where
    no row at all can be simulated, with the reasons.
    """
    from simulator.interop.rows.jsonl import read_lines
    from simulator.interop.rows.jsonl import sample as few
    from simulator.results.documents.form import plain
    from simulator.specs import data_root
    from simulator.study import executors
    from simulator.study.validate.published import KINDS, chosen

    choice("kind", kind, tuple(KINDS))
    groups = tuple(key for text in strings("by", by, '["source", "device"]') for key in text.split(","))
    processes = min(whole("jobs", jobs), 4 * executors.cores())
    each = None if sample is None else whole("sample", sample)
    shipped = data_root() / "workloads" / "measurements" / f"{kind or 'training'}.jsonl"
    named = [path_of("files", file) for file in files or (shipped,)]
    lines = [line for file in named for line in read_lines(file)]
    what, lines = chosen(few(lines, each) if each else lines, kind)
    what.check(groups)
    outcomes = what.validate(lines, processes)
    _check_usable(named, outcomes)
    found: dict[str, Any] = plain(what.document(what.summary(outcomes, groups), outcomes))
    return found


def _check_usable(files: Sequence[str], outcomes: Sequence[Any]) -> None:
    """InputError where no row was simulated, with the reasons, of those that begin alike the first."""
    if not all(outcome.refused for outcome in outcomes):
        return
    alike: dict[str, list[str]] = {}
    for outcome in outcomes:
        alike.setdefault(outcome.refused.partition(":")[0], []).append(outcome.refused)
    reasons = [f"{one} (and {len(rest):,} like it)" if rest else one for one, *rest in alike.values()]
    more = [f"... and {len(reasons) - _MOST_REASONS:,} more reasons"] if len(reasons) > _MOST_REASONS else []
    message = f"none of {len(outcomes):,} rows can be simulated"
    hint = "give files of one JSON object a line, with the keys of docs/reference/measurements.md"
    raise InputError(Problem(message, file=", ".join(files), hint=hint), *reasons[:_MOST_REASONS], *more)


def _check_work(executor: object, progress: object) -> None:
    """InputError for an executor or a progress that is none."""
    if executor is not None and not hasattr(executor, "submit") and not hasattr(executor, "__enter__"):
        hint = "give one of `concurrent.futures`, or leave it out and write jobs=2"
        raise InputError(Problem(f"{shown(executor)} is no executor", path="executor", hint=hint))
    if progress is not None and not callable(progress):
        hint = "give a function of two numbers"
        raise InputError(Problem(f"{shown(progress)} cannot be called", path="progress", hint=hint))


def _check_source(scenario: object) -> None:
    if not isinstance(scenario, (str, PathLike, Scenario, Spec)):
        hint = "give a path, a name, or what `load` returned"
        raise InputError(Problem(f"{shown(scenario)} is no scenario", hint=hint))


def _spec(scenario: Source, overrides: Overrides) -> AnyRun:
    """The resolved scenario."""
    loaded = _loaded(scenario, overrides)
    if loaded is not None:
        return loaded.spec
    assert isinstance(scenario, Spec)
    if not overrides:
        return scenario
    from simulator.specs.text.written import template_of

    return template_of(scenario).changed(texts(overrides)).filled()[0]


def _loaded(scenario: Source, overrides: Overrides) -> Scenario | None:
    """The scenario with the places of its values; None of one that was made in Python and has none."""
    _check_source(scenario)
    if isinstance(scenario, Scenario):
        return scenario.change(overrides) if overrides else scenario
    return None if isinstance(scenario, Spec) else load(scenario, overrides)


def _named(items: Sequence[Item | Mapping[str, Item]], names: Sequence[str] | None) -> list[tuple[str, Item]]:
    """Items with the names that they are given; empty where they have none."""
    pairs = [pair for item in items for pair in (item.items() if isinstance(item, Mapping) else [("", item)])]
    known = strings("names", [name for name, _ in pairs], '{"plain": scenario}')
    given = ("",) * len(pairs) if names is None else strings("names", names, '["plain", "interleaved"]')
    if len(given) != len(pairs):
        raise InputError(Problem(f"{len(given)} names for {len(pairs)} runs"))
    if names is not None and (twice := next((one for one in given if given.count(one) > 1), None)) is not None:
        raise InputError(Problem(f"two runs are called `{twice}`", path="names", hint="give each a name of its own"))
    return [(one or own, item) for one, own, (_, item) in zip(given, known, pairs, strict=True)]


def _variants(vary: Values) -> list[tuple[str, tuple[str, ...]]]:
    """(words, overrides) of each combination of values, the last key changing fastest."""
    from simulator.study.variants import combinations, parse_axes, short_name

    axes = parse_axes(listed("vary", vary))
    return [(short_name(one).replace('"', ""), one) for one in combinations(axes)]
