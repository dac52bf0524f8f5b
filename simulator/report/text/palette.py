"""Colours and words for what is drawn: parts of a step, kinds of operation, kinds of memory.

The colours are those of Okabe and Ito (Color Universal Design, 2008), which people with any common kind of colour
blindness tell apart, with lighter ones of the same hues for dark pages and greys for what is idle.
"""

from simulator.axes import AXES
from simulator.report.text.plain import clean
from simulator.results.metrics import EXPOSED

LIGHT = (
    "#0072b2",
    "#56b4e9",
    "#009e73",
    "#e69f00",
    "#d55e00",
    "#cc79a7",
    "#e5d413",
    "#6b7280",
    "#d9dce2",
    "#1f2937",
    "#a3abb8",
)
"""Colours by slot on a light page: blue, sky, green, orange, vermilion, purple, yellow, grey, pale, dark, silver."""
DARK = (
    "#3391d6",
    "#8fd0f5",
    "#1fb98d",
    "#efb02e",
    "#f07b2e",
    "#dd95bd",
    "#f2e96b",
    "#9aa3b2",
    "#3b424e",
    "#e5e7eb",
    "#68717f",
)
"""The same slots on a dark page."""

BLUE, SKY, GREEN, ORANGE, VERMILION, PURPLE, YELLOW, GREY, PALE, CONTRAST, SILVER = range(11)
DISTINCT = (BLUE, ORANGE, GREEN, VERMILION, PURPLE, SKY, YELLOW, CONTRAST)
"""For things that only need to differ, the first ones the clearest."""
PHASES = (PALE, SILVER, GREY)
"""Of warm-up, steady state and cool-down: greys, which no kind of operation has."""

_PARTS = {
    "compute": (BLUE, "compute"),
    "recompute": (SKY, "recompute"),
    "optimizer": (GREEN, "optimizer"),
    "host": (PURPLE, "waiting for the host"),
    "stall": (CONTRAST, "slower beside collectives (stall)"),
    "offload": (GREY, "waiting for offloaded activations"),
    "straggler": (YELLOW, "waiting for slower peers"),
    "slowest": (SILVER, "waiting for the slowest device"),
    "bubble": (PALE, "pipeline bubble"),
    "idle": (PALE, "idle"),
    "before": (PALE, "until the last job begins"),
    "alone": (BLUE, "what the last job takes alone"),
    "shared": (VERMILION, "its delay by others"),
}
_OPERATIONS = {
    "forward": BLUE,
    "backward": ORANGE,
    "input gradient": ORANGE,
    "weight gradient": PURPLE,
    "overlapped passes": CONTRAST,
    "vocabulary scores": SKY,
    "vocabulary gradients": VERMILION,
    "broadcast to the vocabulary": YELLOW,
    "sum scores": VERMILION,
    "sum vocabulary gradients": VERMILION,
    "send forward": SKY,
    "receive forward": SKY,
    "send backward": YELLOW,
    "receive backward": YELLOW,
    "gather parameters": VERMILION,
    "reduce gradients": VERMILION,
    "sum embedding gradients": VERMILION,
    "optimizer": GREEN,
}
_MEMORY = {
    "parameters": BLUE,
    "gradients": ORANGE,
    "optimizer": GREEN,
    "activations": PURPLE,
    "working": SKY,
    "runtime": GREY,
}
_OTHERS = (VERMILION, YELLOW, CONTRAST)


def part(key: str) -> tuple[int, str]:
    """Slot and words of a key of a breakdown."""
    if key in _PARTS:
        return _PARTS[key]
    if key.startswith(EXPOSED):
        if AXES.has(key.removeprefix(EXPOSED)):
            axis = AXES.get(key.removeprefix(EXPOSED))
            return axis.slot, f"exposed {axis.adjective} communication"
        return PURPLE, f"exposed {clean(key.removeprefix(EXPOSED))} communication"
    return GREY, clean(key).replace("_", " ")


def operation(name: str) -> int:
    """Slot of a kind of operation."""
    return _OPERATIONS.get(name, GREY)


def memory(kinds: list[str]) -> dict[str, int]:
    """Slot of each kind of memory; those without a fixed one take what is left in turn."""
    others = [kind for kind in kinds if kind not in _MEMORY]
    return {kind: _MEMORY.get(kind, _OTHERS[others.index(kind) % 3] if kind in others else GREY) for kind in kinds}
