"""List the accelerators, nodes, clusters, stacks and models that are known, or show one with the source of each number.

A name alone (h100-sxm) or with its kind (clusters/selene) will do, and so will the path of a file.
"""

from argparse import ArgumentParser, Namespace

from simulator.cli import console

SUMMARY = "list hardware, models and stacks, or show one with its sources"
EXAMPLES = (
    "",
    "clusters",
    "h100-sxm",
    "clusters/selene",
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `profiles`."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="a kind (clusters) or a profile (h100-sxm)")


def execute(arguments: Namespace) -> int:
    """List, or show."""
    from simulator.report.catalogue.profiles import profiles

    console.write(profiles(arguments.name, width=console.width(), colour=console.coloured()))
    return 0
