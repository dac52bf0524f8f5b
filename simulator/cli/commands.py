"""The commands of the command line: one module each, and one line here that names it.

A command module has the attributes of `Command` and imports what it needs for its work only when it works: building
the help of all of them must cost next to nothing.
"""

from argparse import ArgumentParser, Namespace
from importlib import import_module
from typing import Protocol, cast

COMMANDS: dict[str, str] = {
    "run": "simulator.cli.run",
    "explain": "simulator.cli.explain",
    "compare": "simulator.cli.compare",
    "sweep": "simulator.cli.sweep",
    "plan": "simulator.cli.plan",
    "check": "simulator.cli.check",
    "validate": "simulator.cli.validate",
    "papers": "simulator.cli.papers",
    "workflow": "simulator.cli.workflow",
    "measure": "simulator.cli.measure",
    "calibrate": "simulator.cli.calibrate",
    "collective": "simulator.cli.collective",
    "network": "simulator.cli.network",
    "schedule": "simulator.cli.schedule",
    "profiles": "simulator.cli.catalogue.profiles",
    "schema": "simulator.cli.catalogue.schema",
    "import": "simulator.cli.import_",
    "replay": "simulator.cli.replay",
    "init": "simulator.cli.catalogue.init",
    "doctor": "simulator.cli.catalogue.doctor",
    "completion": "simulator.cli.catalogue.completion",
}
"""Name of each command and its module, in the order of the help."""


class Command(Protocol):
    """What a command module offers."""

    SUMMARY: str
    """A line for the list of commands."""
    EXAMPLES: tuple[str, ...]
    """Arguments of the command as they would be typed."""
    __doc__: str | None
    """The description in the command's own help."""

    def configure(self, parser: ArgumentParser) -> None:
        """Add the arguments."""

    def execute(self, arguments: Namespace) -> int:
        """Do it; returns the exit code."""


def command(name: str) -> Command:
    """The module of a command in `COMMANDS`."""
    return cast(Command, import_module(COMMANDS[name]))
