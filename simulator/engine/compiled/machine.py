"""The compiled form of `kernel.advance`."""

from collections.abc import Callable
from functools import cache

from simulator import machine_code
from simulator.engine.compiled import kernel, layout, queue, record, sharing, solving
from simulator.engine.compiled.kernel import advance
from simulator.engine.compiled.layout import State

PARTS = queue, record, sharing, solving, kernel
"""Modules whose functions are compiled."""


@cache
def compiled() -> Callable[[State, int], int] | None:
    """`advance` as code of the machine; None where there is none (`machine_code.compiled_of`)."""
    return machine_code.compiled_of(_of_version, PARTS, (layout,))


def _of_version(version: int) -> Callable[[State, int], int]:
    def run(state: State, most: int) -> int:
        return advance(state, most) if version >= 0 else version

    return run
