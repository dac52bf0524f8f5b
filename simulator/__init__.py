"""Discrete event simulator of distributed LLM training and serving.

    import simulator as sim

    result = sim.run("scenarios/quickstart.yaml", {"training.micro_batch": 2})

Nothing is imported here: each of the names below is loaded when it is asked for. `run` is a function and also a room
of the package: as an attribute it is the function, and `from simulator.run import ...` finds the room.
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
    from simulator.api.schedule import PipelineSchedule as PipelineSchedule
    from simulator.api.schedule import schedule as schedule
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
    "schedule": "simulator.api.schedule",
    "Scenario": "simulator.api.scenario",
    "Result": "simulator.api.result",
    "Comparison": "simulator.api.result",
    "Sweep": "simulator.api.result",
    "PipelineSchedule": "simulator.api.schedule",
    "InputError": "simulator.errors",
}
"""The Python interface: each name and the module that has it."""

__all__ = [
    "Comparison",
    "InputError",
    "PipelineSchedule",
    "Result",
    "Scenario",
    "Sweep",
    "compare",
    "load",
    "read",
    "run",
    "schedule",
    "sweep",
    "validate",
]


def __getattr__(name: str) -> "_Any":
    from importlib import import_module

    if name not in _NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(import_module(_NAMES[name]), name)
    if name == "run":  # the modules of the room are attributes of the function too: `import simulator.run.x as y`
        found.__dict__ = _sys.modules["simulator.run"].__dict__
    return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _Package(_ModuleType):
    """This package, in which `run` stays the function when the room of that name is imported."""

    def __setattr__(self, name: str, value: "_Any") -> None:
        if name != "run" or type(value) is not _ModuleType:
            super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Package
