"""Simulate several scenarios and set them side by side: the best of each figure, and why one is faster than another.

Name several files, or one file with --vary for each combination of values. Overrides (key.path=value) change all of
them.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.cli import console
from simulator.errors import InputError, Problem

if TYPE_CHECKING:
    from simulator.specs.scenario import AnyScenario

SUMMARY = "several scenarios side by side, and why they differ"
EXAMPLES = (
    "scenarios/training/gpt-175b-plain.yaml scenarios/training/gpt-175b-interleaved.yaml",
    "scenarios/quickstart.yaml --vary training.parallel.tp=1,2,4",
    "scenarios/serving/chunked-prefill-a100.yaml scenarios/serving/prefill-first-a100.yaml --json comparison.json",
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `compare`."""
    parser.add_argument("items", metavar="FILE|KEY=VALUE", nargs="+", help="scenarios (YAML), changes of all of them")
    parser.add_argument(
        "--vary", metavar="KEY=V,V", action="append", default=[],
        help="compare these values of a key; several times for all combinations",
    )  # fmt: skip
    parser.add_argument("--json", metavar="FILE", help="write the comparison; `-` prints it and nothing else")
    parser.add_argument("--quiet", action="store_true", help="print no page and no progress")


def execute(arguments: Namespace) -> int:
    """Load all, simulate all, show."""
    from simulator.cli import outputs
    from simulator.cli.progress import progress

    runs = _runs(arguments)
    outputs.check({"--json": arguments.json}, inputs=tuple(_files(arguments.items)))
    from simulator.run.dispatch import simulate
    from simulator.study.compare import compare, document

    results = []
    for name, scenario in runs:
        with progress(f"simulating {name}", arguments.quiet):
            results.append(simulate(scenario))
    found = compare(results, [name for name, _ in runs])
    if arguments.json == "-":
        from simulator.results import dumps

        console.write(dumps(document(found)))
        return 0
    if arguments.json:
        from simulator.results import dumps
        from simulator.results.writing import replacing

        with replacing(arguments.json) as file:
            file.write(dumps(document(found)).encode())
    if not arguments.quiet:
        from simulator.report.compare_page import page

        console.write(page(document(found), width=console.width(), colour=console.coloured()))
    return 0


def _files(items: list[str]) -> list[str]:
    return [item for item in items if "=" not in item and not item.startswith("~")]


def _runs(arguments: Namespace) -> list[tuple[str, "AnyScenario"]]:
    """(name, scenario) of every run; InputError where there are fewer than two."""
    from simulator.specs import load_scenario
    from simulator.study.variants import combinations, parse_axes, short_name

    files = _files(arguments.items)
    changes = [item for item in arguments.items if item not in files]
    variants = list(combinations(parse_axes(arguments.vary)))
    if len(files) * len(variants) < 2:
        message = "there is nothing to compare it with" if files else "no scenario is named"
        raise InputError(Problem(message, hint="name two files, or one with `--vary key.path=value,value`"))
    runs = []
    for file in files:
        for variant in variants:
            scenario = load_scenario(file, [*changes, *variant]).scenario
            own = [Path(file).stem] if len(files) > 1 or not variant else []
            runs.append((" ".join([*own, short_name(variant)]).strip(), scenario))
    return runs
