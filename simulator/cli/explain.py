"""Show a scenario as the simulator understands it: every value with where it comes from.

The output is a scenario itself. Beside each value stands the file and line that set it, the override, or `default`,
and for what the scenario leaves open the choice of the stack or the size that follows from the others.
"""

from argparse import ArgumentParser, Namespace

from simulator.cli import console

SUMMARY = "show a resolved scenario and the origin of each value"
EXAMPLES = (
    "scenarios/quickstart.yaml",
    "scenarios/quickstart.yaml training.parallel.tp=4",
)


def configure(parser: ArgumentParser) -> None:
    """Add the arguments of `explain`."""
    parser.add_argument("file", metavar="FILE", help="scenario (YAML)")
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*", help="changes of the scenario, as for `run`")


def execute(arguments: Namespace) -> int:
    """Load and show."""
    from simulator.report.catalogue.defaults import origins
    from simulator.report.catalogue.explain import explain
    from simulator.specs import load_scenario

    loaded = load_scenario(arguments.file, arguments.overrides)
    with loaded.placed():
        known = origins(loaded.scenario, loaded.origins)
    console.write(explain(loaded.scenario, known, colour=console.coloured()))
    return 0
