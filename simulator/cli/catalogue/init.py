"""Write a commented scenario to start from, for training or for serving.

It runs as it is. Its comments name the keys that people change first, and what else they may say.
"""

from argparse import ArgumentParser, Namespace
from shlex import quote

from simulator.cli import console

SUMMARY = "write a commented scenario to start from"
EXAMPLES = (
    "",
    "serving",
    "training --out my-run.yaml",
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `init`."""
    parser.add_argument(
        "kind", nargs="?", choices=("training", "serving"), default="training", help="what it is for (training)"
    )
    parser.add_argument("--out", metavar="FILE", help="write it to a file that is not there yet; it is printed else")
    parser.add_argument("--force", action="store_true", help="replace the file if it is there")


def execute(arguments: Namespace) -> int:
    """Print or write."""
    from simulator.run.starters import starter, write_new

    text = starter(arguments.kind, arguments.out)
    if arguments.out is None:
        console.write(text)
    else:
        write_new(arguments.out, text, arguments.force)
        console.write(f"wrote {arguments.out}; it runs as it is: clustersim run {quote(arguments.out)}\n")
    return 0
