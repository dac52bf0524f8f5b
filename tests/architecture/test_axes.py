"""Axes take their names from `simulator.axes`: no other room spells one."""

from simulator.axes import CP, DP, EP, PP, TP
from tests.architecture.source import modules

SPELLED = {
    "axes": "where they are named",
    "specs.training": "keys of files, and what frameworks call them",
    "specs.serving": "the same",
    "unmodelled": "words that people try",
    "interop": "words of others, and columns of rows",
}
"""Modules and rooms that may, and why."""
NAMES = {axis.name for axis in (TP, CP, EP, DP, PP)}


def allowed(module: str) -> str | None:
    """Under what name a module may."""
    return next((one for one in SPELLED if f"{module}.".startswith(f"simulator.{one}.")), None)


def test_no_axis_is_spelled_by_hand() -> None:
    """A text that is nothing but the name of an axis spells it."""
    others = [module for module in modules() if allowed(module.name) is None]
    assert [f"{module.name}:{line}" for module in others for line, word in module.words if word in NAMES] == []


def test_modules_that_may_spell_axes_do() -> None:
    """An exception that nobody needs is taken away."""
    spell = {allowed(module.name) for module in modules() if any(word in NAMES for _, word in module.words)}
    assert spell - {None} == set(SPELLED)
