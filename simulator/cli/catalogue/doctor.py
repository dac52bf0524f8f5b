"""Look whether this installation works: Python and packages, data, plugins, the working folder, and a tiny simulation
by both executors, which must agree.

Packages marked `--` are not installed and needed by some uses only. Exit code 1 where something is wrong.
"""

from argparse import ArgumentParser, Namespace

from simulator.cli import console

SUMMARY = "look whether this installation works"
EXAMPLES = (
    "",
    "--json   # for a bug report: no folders, nothing of the environment",
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `doctor`."""
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def execute(arguments: Namespace) -> int:
    """Look and tell."""
    from simulator.report.catalogue.doctor import page
    from simulator.results import dumps
    from simulator.study.doctor import document, examine, places

    found = document(examine())
    console.write(dumps(found) if arguments.json else page(found["findings"], places(), console.coloured()))
    return 0 if found["healthy"] else 1
