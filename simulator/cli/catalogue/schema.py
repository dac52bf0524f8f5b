"""Print the JSON schema of scenario files, for editors that complete and check YAML.

A scenario is one that trains; `serving` and `jobs` are those of scenarios that serve or run several jobs. With the name
of another kind of file (accelerator, node, cluster, model, stack) it prints the schema of that.
"""

from argparse import ArgumentParser, Namespace

from simulator.cli import console

SUMMARY = "print the JSON schema of scenarios and profiles"
EXAMPLES = (
    "> scenario.schema.json",
    "jobs > jobs.schema.json",
    "accelerator",
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `schema`."""
    parser.add_argument("kind", metavar="KIND", nargs="?", default="scenario", help="kind of file (default: scenario)")


def execute(arguments: Namespace) -> int:
    """Build and print."""
    from simulator.report.catalogue.schema import schema

    console.write(schema(arguments.kind))
    return 0
