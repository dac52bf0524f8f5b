"""Simulate several scenarios and set them side by side: the best of each figure, and why one is faster than another.

Name several files, of scenarios or of workflows, or one file with --vary for each combination of values. A file that
`run --save` wrote is compared as it is. Overrides (key.path=value) change all scenarios. Exit code 4 where none of them
fits into memory.
"""

import os
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from simulator.cli.options import offer
from simulator.errors import InfeasibleError, InputError, Problem

if TYPE_CHECKING:
    from simulator.results import Result

SUMMARY = "several scenarios side by side, and why they differ"
EXAMPLES = (
    "scenarios/training/gpt-175b-plain.yaml scenarios/training/gpt-175b-interleaved.yaml",
    "scenarios/quickstart.yaml --vary training.parallel.tp=1,2,4 --html tp.html",
    "scenarios/serving/chunked-prefill-a100.yaml scenarios/serving/prefill-first-a100.yaml --json comparison.json",
    "ppo-70b --vary iterations=1,3   # workflows, by their iterations",
    "yesterday.result scenarios/quickstart.yaml   # after: run scenarios/quickstart.yaml --save yesterday.result",
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `compare`."""
    parser.add_argument(
        "items", metavar="FILE|KEY=VALUE", nargs="+", help="scenarios (YAML), saved results, changes of the scenarios"
    )
    parser.add_argument(
        "--vary",
        metavar="KEY=V,V",
        action="append",
        default=[],
        help="compare these values of a key; several times for all combinations",
    )
    parser.add_argument("--all", dest="everything", action="store_true", help="show every figure, not the headlines")
    offer(parser, "the comparison")


class _Run(NamedTuple):
    """One of the runs: its name and how to get its result."""

    name: str
    result: "Callable[[], Result]"


def execute(arguments: Namespace) -> int:
    """Load all, simulate all, show."""
    from simulator.cli import outputs
    from simulator.cli.progress import progress

    runs, refused = _runs(arguments)
    named = {"--json": arguments.json, "--html": arguments.html}
    outputs.check(named, inputs=tuple(_files(arguments.items)), folders={"--plots": arguments.plots})
    from simulator.study.compare.comparison import compare, noting
    from simulator.study.compare.document import document

    results: list[Result] = []
    names: list[str] = []
    for run in runs:
        try:
            with progress(f"simulating {run.name}", arguments.quiet):
                results.append(run.result())
        except InputError as error:
            refused[run.name] = error
            _check(len(runs), refused, arguments)
        else:
            names.append(run.name)
    _check(len(results), refused, arguments)
    found = document(noting(compare(results, names, _changes(arguments.items)), refused))
    outputs.show("compare", found, arguments, everything=arguments.everything)
    return 0 if any(result.feasible for result in results) else InfeasibleError.exit_code


def _files(items: list[str]) -> list[str]:
    return [item for item in items if "=" not in item and not item.startswith("~")]


def _changes(items: list[str]) -> list[str]:
    return [item for item in items if item not in _files(items)]


def _runs(arguments: Namespace) -> tuple[list[_Run], dict[str, InputError]]:
    """Every run with its name, and why others are refused.

    InputError where there are fewer than two runs, or where a file cannot be read.
    """
    from simulator.results.files import is_result
    from simulator.study.variants import combinations, parse_axes

    files = _files(arguments.items)
    changes = _changes(arguments.items)
    variants = list(combinations(parse_axes(arguments.vary)))
    saved = {file for file in files if is_result(file)}
    if (changes or arguments.vary) and saved and len(saved) == len(set(files)):
        hint = "name scenarios to change, or leave the changes out"
        raise InputError(Problem("a saved result cannot be changed", file=files[0], hint=hint))
    if sum(1 if file in saved else len(variants) for file in files) < 2:
        message = "there is nothing to compare it with" if files else "no scenario is named"
        raise InputError(Problem(message, hint="name two files, or one with `--vary key.path=value,value`"))
    runs: list[_Run] = []
    refused: dict[str, InputError] = {}
    for file, stem in zip(files, short_names(files), strict=True):
        if file in saved:
            runs.append(_saved(file, stem))
        else:
            runs += _simulated(file, stem, changes, variants, len(files) > 1, refused)
    _check(len(runs), refused, arguments)
    return runs, refused


def _check(left: int, refused: Mapping[str, InputError], arguments: Namespace) -> None:
    """InputError for the first that is refused, unless it is one of several values and two runs are left."""
    if refused and (left < 2 or not arguments.vary):
        raise _hinted(next(iter(refused.values())), _changes(arguments.items))


def _hinted(error: InputError, changes: list[str]) -> InputError:
    """The error; where a change lists several values as an axis does, with what was meant."""
    from simulator.study.variants import told_apart

    lists = {f"override `{text}`" for text in told_apart(changes)[1]}
    hint = "put `--vary` before it to compare these values"
    return InputError(*(replace(one, hint=hint) if one.file in lists else one for one in error.problems))


def short_names(files: Sequence[str]) -> list[str]:
    """Names of files without folder and ending; with as much of the folder as tells them apart."""
    paths = [Path(os.path.splitext(file)[0]) for file in files]
    depth, deepest = 1, max((len(path.parts) for path in paths), default=1)
    while depth < deepest and len({path.parts[-depth:] for path in paths}) < len(set(paths)):
        depth += 1
    return ["/".join(path.parts[-depth:]) for path in paths]


def _saved(file: str, name: str) -> _Run:
    """A result that was saved; read at once, so that a wrong file is refused before anything is simulated."""
    from simulator.results import read

    result = read(file)
    return _Run(name, lambda: result)


def _simulated(
    file: str,
    stem: str,
    changes: Sequence[str],
    variants: Sequence[tuple[str, ...]],
    several: bool,
    refused: dict[str, InputError],
) -> list[_Run]:
    """A run for each variant of a scenario; into `refused` those that cannot be, by their names."""
    from functools import partial

    from simulator.specs.resolve import load_run
    from simulator.study.variants import short_name

    runs = []
    for variant in variants:
        name = " ".join([*([stem] if several or not variant else []), short_name(variant)]).strip()
        try:
            loaded = load_run(file, [*changes, *variant])
        except InputError as error:
            if any((problem.file or "").startswith("override") for problem in error.problems):
                raise _hinted(error, list(changes)) from None  # a value that its key never takes
            refused[name] = error
            continue
        runs.append(_Run(name, partial(_simulate, loaded)))
    return runs


def _simulate(loaded: Any) -> "Result":
    from simulator.run.dispatch import simulate

    with loaded.placed():
        return simulate(loaded.scenario)
