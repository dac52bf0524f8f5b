"""Imports go down only, heavy packages are imported late, and only the engine knows SimPy."""

import re
import subprocess
import sys

import pytest

from tests.architecture.source import PACKAGE, Module, imports, modules

MODULES = modules()

LIGHT = ("simulator", "simulator.units", "simulator.errors", "simulator.registry", "simulator.specs", "simulator.cli")
"""Rooms that every command imports; they must start fast."""

HEAVY = ("numpy", "networkx", "matplotlib", "simpy", "scipy", "pandas", "rich")


def test_the_floors_hold() -> None:
    """The contracts of pyproject.toml, as `lint-imports` checks them."""
    code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = (sys.executable, "-c", code, "--no-cache")
    found = subprocess.run(command, cwd=PACKAGE.parent, capture_output=True, text=True, check=False, timeout=120)
    assert found.returncode == 0, found.stdout[-4000:] + found.stderr[-2000:]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_only_the_engine_imports_simpy(module: Module) -> None:
    if not module.name.startswith("simulator.engine"):
        assert [line for line, name in imports(module) if re.match(r"simpy\b", name)] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_plotting_stays_in_the_reports(module: Module) -> None:
    if not module.name.startswith("simulator.report"):
        assert [line for line, name in imports(module) if re.match(r"matplotlib\b", name)] == []


def test_what_every_command_imports_is_light() -> None:
    names = ", ".join(LIGHT)
    code = f"import sys, {names}; print(*sorted(set(sys.modules) & {set(HEAVY)!r}))"
    found = subprocess.run([sys.executable, "-c", code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []
