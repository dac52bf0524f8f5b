"""Imports go down only, heavy packages are imported late, and only the engine knows SimPy."""

import re
import subprocess
import sys

from tests.architecture.source import PACKAGE, modules
from tests.effort import PATIENCE_S

LIGHT = ("simulator", "simulator.units", "simulator.errors", "simulator.registry", "simulator.specs", "simulator.cli")
"""Rooms that every command imports; they must start fast."""

HEAVY = ("numpy", "networkx", "numba", "matplotlib", "simpy", "scipy", "pandas", "rich")


def test_the_floors_hold() -> None:
    """The contracts of pyproject.toml, as `lint-imports` checks them."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = (sys.executable, "-c", code, "--no-cache")
    found = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]


def importers(package: str, room: str) -> list[str]:
    """Where a package is imported out of the only room that may."""
    pattern = re.compile(rf"{package}\b")
    others = [module for module in modules() if not module.name.startswith(f"simulator.{room}")]
    return [f"{module.name}:{line}" for module in others for line, name in module.imports if pattern.match(name)]


def test_only_the_engine_imports_simpy() -> None:
    assert importers("simpy", "engine") == []


def test_plotting_stays_in_the_reports() -> None:
    assert importers("matplotlib", "report") == []


def test_what_every_command_imports_is_light() -> None:
    names = ", ".join(LIGHT)
    code = f"import sys, {names}; print(*sorted(set(sys.modules) & {set(HEAVY)!r}))"
    found = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
