"""What the numbers of a serving stack are likely to be before any row of it is seen.

Rows of one model or one device leave numbers of the host open: a large model never waits for it. Two things are known
from elsewhere. The kernel tables are of the engines' own kernels, so that the efficiency is near 1. And engines behind
a server are Python programs of the same kind: each prepares a batch, hands every token on, launches kernels through
PyTorch, and has a front end. What other engines have for such a number is the middle, and few rows move it little. Any
other number is held to what the stack has now.
"""

from collections.abc import Mapping
from contextlib import suppress
from statistics import median

from simulator.calibration.stacks.numbers import fitted_file
from simulator.calibration.stacks.prior import Prior
from simulator.errors import InputError
from simulator.specs.catalog import names
from simulator.specs.resolve import load_spec
from simulator.specs.serving import ServingStack

TABLES = {"kernel_efficiency": (1.0, 0.05)}
"""(middle, standard deviation of the logarithm) of what the kernel tables say: fits of engines whose kernels they have
lie between 0.94 and 1."""
ENGINES = {
    "kernel_launch": 0.5,
    "request_overhead": 0.7,
    "ahead_overhead": 0.3,
    "stream_overhead": 0.5,
    "sequence_overhead": 0.5,
}
"""Standard deviations of the logarithm between engines, of numbers that are held to those of others: half or twice as
much, by the processor and by how much of the engine is Python."""
TOKENS = ("stream_overhead", "sequence_overhead")
"""Handing a token on, beside the device or not: the same work (20 to 60 us in all engines that have a server)."""
SERVED = {"request_overhead", "request_handling"}
"""Numbers of engines that are measured at clients of their servers."""
LOOSE = 1.0
"""The same of a number that is held to the stack's own."""

Numbers = Mapping[str, Mapping[str, float]]
"""Numbers of stacks by field."""


def likely(own: Mapping[str, float], others: Numbers) -> Prior:
    """The prior of a stack's numbers: of those of other stacks, nought says nothing."""
    served = bool(SERVED & own.keys())
    found = [_likely(f, value, others if served or f not in TOKENS else {}) for f, value in own.items()]
    middle, spread = zip(*found, strict=True)
    return Prior(middle, spread)


def _likely(field: str, own: float, others: Numbers) -> tuple[float, float]:
    """(middle, spread) of one number; a spread of nought where nothing is known."""
    if field in TABLES:
        return TABLES[field]
    alike = TOKENS if field in TOKENS else (field,)
    known = [value for one in others.values() if (value := next(filter(None, map(one.get, alike)), None))]
    if field in ENGINES and known:
        return median(known), ENGINES[field]
    return own, LOOSE if own else 0.0


def engines() -> dict[str, dict[str, float]]:
    """Numbers of `ENGINES` that the files of serving stacks state themselves."""
    found = {}
    for name in names(ServingStack):
        with suppress(InputError):  # those that train
            stack = load_spec(ServingStack, name)
            own = [field for field in ENGINES if field in stack.model_fields_set and _holds(name, field)]
            served = any(getattr(stack, field) for field in SERVED)
            found[name] = {f: getattr(stack, f).value for f in own if served or f != "sequence_overhead"}
    return found


def _holds(name: str, field: str) -> bool:
    return fitted_file(ServingStack.folder or "", field, name) == name
