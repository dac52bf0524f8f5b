"""Specs that stand as defaults are made without validation, which is what makes importing specs quick."""

import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module

import pytest

import simulator.specs
from simulator.specs.base import Figure, Spec


def _kinds(kind: type[Spec] = Spec) -> Iterator[type[Spec]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


def _defaults() -> dict[str, Spec]:
    for module in pkgutil.walk_packages(simulator.specs.__path__, "simulator.specs."):
        import_module(module.name)
    return {
        f"{kind.__module__}.{kind.__name__}.{name}": field.default
        for kind in _kinds()
        if kind.__module__.startswith("simulator.specs")
        for name, field in kind.model_fields.items()
        if isinstance(field.default, Spec) and not isinstance(field.default, Figure)
    }


@pytest.mark.parametrize(("path", "default"), sorted(_defaults().items(), key=lambda item: item[0]))
def test_a_default_is_what_validation_makes(path: str, default: Spec) -> None:
    checked = type(default)(**{name: getattr(default, name) for name in default.model_fields_set})
    assert checked == default
    assert checked.model_fields_set == default.model_fields_set
    assert checked.__pydantic_private__ == default.__pydantic_private__


def test_importing_specs_builds_next_to_no_validator() -> None:
    code = (
        "import simulator.specs; from simulator.specs.base import Spec\n"
        "def below(kind): return [kind, *(k for b in kind.__subclasses__() for k in below(b))]\n"
        "print(*sorted(k.__name__ for k in below(Spec)[1:] if k.__pydantic_complete__))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert set(out.split()) <= {"ClosedLoop", "Figure", "Tenant"}
