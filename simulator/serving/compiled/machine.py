"""The compiled form of `kernel.advance`."""

from collections.abc import Callable
from functools import cache

from simulator import machine_code
from simulator.serving.compiled import admission, arrivals, decodes, events, iterations, kernel, layout, prices
from simulator.serving.compiled.kernel import advance
from simulator.serving.compiled.layout import State

PARTS = events, decodes, prices, admission, arrivals, iterations, kernel
"""Modules whose functions are compiled."""


@cache
def compiled() -> Callable[[State], int] | None:
    """`advance` as code of the machine; None where there is none (`machine_code.compiled_of`)."""
    return machine_code.compiled_of(_of_version, PARTS, (layout,))


def _of_version(version: int) -> Callable[[State], int]:
    def run(state: State) -> int:
        return advance(state) if version >= 0 else version

    return run
