"""constraints.txt names one version of everything that the project asks for, within what pyproject.toml allows."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = {"clustersim", "torch"}
"""The project itself, and PyTorch, whose build depends on the device."""


def asked_for() -> list[Requirement]:
    """Requirements of the package and of all its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    return [Requirement(text) for texts in (project["dependencies"], *extras) for text in texts]


def pinned() -> dict[str, Requirement]:
    """The lines of constraints.txt by name."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = [Requirement(line) for line in lines if not line.startswith("#")]
    return {canonicalize_name(one.name): one for one in found}


def test_every_requirement_has_one_version() -> None:
    versions = pinned()
    for one in asked_for():
        if one.name in LEFT_OUT:
            continue
        (pin,) = versions[canonicalize_name(one.name)].specifier
        assert pin.operator == "=="
        assert one.specifier.contains(pin.version), f"{one} does not allow {pin.version}"
