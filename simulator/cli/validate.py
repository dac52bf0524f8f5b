"""Simulate published measurements and report how wrong the simulation is.

Each FILE holds one JSON object a line (docs/reference/measurements.md lists the keys); without FILE the shipped rows of
training are used, with `--kind serving` those of serving, with `--kind exchanges` dispatches and combines of mixtures
of experts, with `--kind network` collectives, with `--kind kernel` single kernels. A row that cannot be simulated is
refused with the reason. Every error is of time (the step of a training row, tokens or latencies of a serving row):
positive is too slow. Exit code 1 if --most is given and the mean error is above it.
"""

import os
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from dataclasses import replace
from typing import TYPE_CHECKING

from simulator.cli import console
from simulator.cli.options import offer_quiet, whole

if TYPE_CHECKING:
    from simulator.interop.rows.jsonl import Line
    from simulator.results.documents.validation import ValidationSummary

SUMMARY = "errors against published measurements"
EXAMPLES = (
    "",
    "rows.jsonl --by source,device --json errors.json",
    "rows.jsonl --jobs 2 --worst 20",
    "--jobs 2 --html validation.html",
    "--kind serving --by stack,kind",
    "--kind exchanges --by library,device,ranks",
    "--kind network --by half,library,nodes",
    "--kind kernel",
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `validate`."""
    parser.add_argument("files", metavar="FILE", nargs="*", help="measurements (JSON lines)")
    parser.add_argument("--json", metavar="FILE", help="write summary and every row; `-` prints them and nothing else")
    parser.add_argument("--html", metavar="FILE", help="write a report with plots and every row as one HTML file")
    parser.add_argument("--by", metavar="KEY,KEY", type=_keys, help="what to list errors by (default: by kind)")
    parser.add_argument(
        "--kind",
        choices=("training", "serving", "exchanges", "network", "kernel"),
        help="take only rows of this kind (default: what all rows of FILE are; without FILE training)",
    )
    parser.add_argument("--jobs", metavar="N", type=whole(), default=1, help="processes to simulate with")
    parser.add_argument(
        "--sample", metavar="N", type=whole(), help="only every row that comes up when N are spread over each source"
    )
    parser.add_argument("--worst", metavar="N", type=whole(), default=10, help="how many of the worst rows to list")
    parser.add_argument("--most", metavar="PERCENT", type=_percent, help="fail if the mean error is above this")
    offer_quiet(parser)


def _keys(text: str) -> tuple[str, ...]:
    from simulator.study.validate.published import KEYS

    keys = tuple(filter(None, text.split(",")))
    for key in keys:
        if key not in KEYS:
            raise ArgumentTypeError(f"{key!r} is none of {', '.join(KEYS)}")
    return keys


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ArgumentTypeError(f"{text!r} is no percentage")
    return value


def execute(arguments: Namespace) -> int:
    """Read, simulate, report."""
    from simulator.cli import outputs
    from simulator.cli.progress import progress
    from simulator.interop.rows.jsonl import sample

    outputs.check({"--json": arguments.json, "--html": arguments.html}, inputs=tuple(arguments.files))
    every = _lines(arguments)
    lines = sample(every, arguments.sample) if arguments.sample else every
    from simulator.study.validate.published import chosen

    kind, lines = chosen(lines, arguments.kind)
    keys = arguments.by or kind.by
    kind.check(keys)
    with progress(f"simulating {len(lines)} rows", arguments.quiet):
        outcomes = kind.validate(lines, min(arguments.jobs, os.cpu_count() or 1))
    sampled = len(every) if len(lines) < len(every) else None
    figures = replace(kind.summary(outcomes, keys), sampled_from=sampled)
    found = kind.document(figures, outcomes)
    if arguments.html:
        from simulator.report.validation import html as html_validation
        from simulator.results.writing import write

        by = tuple(dict.fromkeys(("source", "device", *keys)))
        shown = kind.document(replace(kind.summary(outcomes, by), sampled_from=sampled), outcomes)
        write(arguments.html, html_validation.page(shown, by))
    if not outputs.as_json(found, arguments.json) and not arguments.quiet:
        from simulator.report.validation.page import page

        console.write(page(found, keys, arguments.worst, console.width()))
    return _code(arguments, figures)


def _lines(arguments: Namespace) -> list["Line"]:
    from simulator.study.validate.published import KINDS

    files = arguments.files or [str(KINDS[arguments.kind or "training"].shipped)]
    return [line for file in files for line in _read(file)]


def _read(file: str) -> list["Line"]:
    """The rows of a file; InputError where it has none."""
    from simulator.errors import InputError, Problem
    from simulator.interop.rows.jsonl import read_lines

    lines = list(read_lines(file))
    if not lines:
        raise InputError(Problem("has no rows", file=file, hint="write one JSON object a line"))
    return lines


def _code(arguments: Namespace, figures: "ValidationSummary") -> int:
    if not figures.simulated:
        return 2
    return int(arguments.most is not None and 100 * figures.error.mean > arguments.most)
