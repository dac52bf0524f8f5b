"""Simulate scenarios and compare them with their baselines; exit code 1 where a figure moved, or where a
baseline or the scenario of one is missing.

Each PATH is a scenario or a workflow, or a folder of them (what others only extend is left out). A baseline is a small
JSON file below the folder of baselines, under the path of its scenario. The simulator is deterministic: any difference
has a cause, and a failure names it. --update writes the baselines that differ and prints the table for the pull
request.
"""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from simulator.cli import console
from simulator.cli.options import offer_quiet, whole

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.results.documents.check import CheckDocument
    from simulator.study.check.regression import Checked

SUMMARY = "scenarios against their baselines, for CI"
EXAMPLES = (
    "scenarios/quickstart.yaml --baseline baselines --update",
    "scenarios --baseline baselines --jobs 2",
    "scenarios --baseline baselines --tolerance 1% --tolerance peak_memory_bytes=5%",
    "scenarios --baseline baselines --junit check.xml --github",
)
_SUMMARY_FILE = "GITHUB_STEP_SUMMARY"


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `check`."""
    parser.add_argument("paths", metavar="PATH", nargs="+", help="scenarios or workflows (YAML), or folders of them")
    parser.add_argument("--baseline", metavar="DIR", required=True, help="the folder of baselines")
    parser.add_argument("--update", action="store_true", help="write the baselines that differ or are missing")
    parser.add_argument(
        "--tolerance",
        metavar="[METRIC=]SHARE",
        action="append",
        default=[],
        help="how far figures may move (default 1e-9, which is equality): 1%% for all, mfu=1%% for one; several times",
    )
    parser.add_argument("--jobs", metavar="N", type=whole(), default=1, help="processes to simulate with")
    parser.add_argument("--junit", metavar="FILE", help="write the outcome as JUnit XML")
    parser.add_argument(
        "--github", action="store_true", help="print annotations of GitHub Actions, and write the job's summary"
    )
    parser.add_argument("--json", metavar="FILE", help="write all that was found; `-` prints it and nothing else")
    offer_quiet(parser)


def execute(arguments: Namespace) -> int:
    """Find, simulate, compare, write, show."""
    from simulator.cli import outputs
    from simulator.cli.progress import progress
    from simulator.study.check import regression
    from simulator.study.check.check import parse_tolerances

    tolerances = parse_tolerances(arguments.tolerance)
    cases, notes = regression.cases_of(arguments.paths, arguments.baseline)
    files = {"--json": arguments.json, "--junit": arguments.junit}
    outputs.check(files, inputs=tuple(case.file for case in cases))
    with progress(f"checking {len(cases)} scenarios", arguments.quiet):
        jobs = min(arguments.jobs, os.cpu_count() or 1)
        checked = regression.run(cases, tolerances, jobs, arguments.update)
    checked += regression.gone(arguments.paths, arguments.baseline, arguments.update)
    shown = regression.document(checked, arguments.baseline, tolerances, notes)
    _write(shown, checked, arguments)
    _show(shown, arguments)
    return regression.exit_code(checked)


def _write(shown: "CheckDocument", checked: "Sequence[Checked]", arguments: Namespace) -> None:
    """The files that were asked for; each appears whole or not at all."""
    if arguments.junit:
        from datetime import datetime

        from simulator.report.check.junit import junit
        from simulator.results.writing import replacing

        with replacing(arguments.junit) as file:
            file.write(junit(shown, [one.seconds for one in checked], datetime.now()))
    if arguments.github and (name := os.environ.get(_SUMMARY_FILE)):
        from simulator.report.check.phrases import table

        with Path(name).open("a", encoding="utf-8") as summary:
            summary.write(table(shown) + "\n")


def _show(shown: "CheckDocument", arguments: Namespace) -> None:
    """The page, the table of an update, or the JSON form; annotations go beside them."""
    from simulator.cli import outputs
    from simulator.report.check.github import annotations, harmless

    lines = annotations(shown) if arguments.github else []
    if arguments.quiet or arguments.json == "-":
        problems = [problem.text for entry in shown.scenarios for problem in entry.problems]
        for text in problems:
            console.complain(f"clustersim: {text}")
    if outputs.as_json(shown, arguments.json):
        for line in lines:
            console.complain(line)
        return
    page = "" if arguments.quiet else _page(shown, arguments.update)
    console.write("".join([harmless(page) if arguments.github else page, *(f"{line}\n" for line in lines)]))


def _page(shown: "CheckDocument", update: bool) -> str:
    if update:
        from simulator.report.check.phrases import table

        return table(shown)
    from simulator.report.check.page import page

    return page(shown, width=console.width(), colour=console.coloured())
