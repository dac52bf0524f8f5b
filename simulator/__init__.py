"""Discrete event simulator of distributed LLM training and serving.

    import simulator as sim

    result = sim.run("scenarios/quickstart.yaml", {"training.micro_batch": 2})

Nothing is imported here: each of the names below is loaded when it is first asked for. `simulator.run` is a room of
the package as well as the function of that name, so that the room can be called.
"""

import sys as _sys
from types import ModuleType as _ModuleType

TYPE_CHECKING = False  # as type checkers read it; importing `typing` takes longer than all the rest
if TYPE_CHECKING:
    from typing import Any as _Any

    from simulator.api.calls import compare as compare
    from simulator.api.calls import read as read
    from simulator.api.calls import run as run
    from simulator.api.calls import sweep as sweep
    from simulator.api.calls import validate as validate
    from simulator.api.result import Comparison as Comparison
    from simulator.api.result import Result as Result
    from simulator.api.result import Sweep as Sweep
    from simulator.api.scenario import Scenario as Scenario
    from simulator.api.scenario import load as load
    from simulator.errors import InputError as InputError

del TYPE_CHECKING

__version__ = "0.1.0"

_NAMES = {
    "load": "simulator.api.scenario",
    "run": "simulator.api.calls",
    "compare": "simulator.api.calls",
    "sweep": "simulator.api.calls",
    "validate": "simulator.api.calls",
    "read": "simulator.api.calls",
    "Scenario": "simulator.api.scenario",
    "Result": "simulator.api.result",
    "Comparison": "simulator.api.result",
    "Sweep": "simulator.api.result",
    "InputError": "simulator.errors",
}
"""The Python interface: each name and the module that has it."""

__all__ = [
    "Comparison", "InputError", "Result", "Scenario", "Sweep", "compare", "load", "read", "run", "sweep", "validate",
]  # fmt: skip


def __getattr__(name: str) -> "_Any":
    from importlib import import_module

    if name == "run":
        return import_module("simulator.run")  # see `_Package`
    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_NAMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Run(_ModuleType):
    """The room `simulator.run`, which is the function `run` where it is called."""

    def __call__(self, *arguments: "_Any", **options: "_Any") -> "_Any":
        """Simulate a scenario: `run("quickstart", {"training.micro_batch": 2})`; see `simulator.api.calls.run`."""
        from simulator.api.calls import run

        return run(*arguments, **options)

    @property
    def __signature__(self) -> "_Any":
        from inspect import signature

        from simulator.api.calls import run

        return signature(run)


class _Package(_ModuleType):
    """This package, which makes its room `run` callable when that is imported."""

    def __setattr__(self, name: str, value: "_Any") -> None:
        if name == "run" and type(value) is _ModuleType:
            value.__class__ = _Run
        super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package
