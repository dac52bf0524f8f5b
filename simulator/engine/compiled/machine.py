"""The compiled form of `kernel.advance`, by numba where that is installed.

Compiling takes seconds, once for a version of these files on a machine: numba keeps the code beside them, as Python
keeps its own, else in the user's folder of caches, or where `NUMBA_CACHE_DIR` says. Loading it takes tenths of a
second.
"""

from collections.abc import Callable
from importlib.util import find_spec
from inspect import getsource, isfunction
from zlib import crc32

from simulator.engine.compiled import kernel, layout, queue, record, sharing, solving
from simulator.engine.compiled.kernel import advance
from simulator.engine.compiled.layout import State

PARTS = queue, record, sharing, solving, kernel
"""Modules whose functions are compiled."""

_made: list[Callable[[State, int], int]] = []


def compiled() -> Callable[[State, int], int] | None:
    """`advance` as code of the machine; None without numba, or where numba finds no folder in which to keep the code:
    to compile it each time takes longer than it saves."""
    if not _made and find_spec("numba") is not None:
        from numba import njit
        from numba.extending import register_jitable

        for part in PARTS:
            for function in vars(part).values():
                if isfunction(function) and function.__module__ == part.__name__:
                    register_jitable(function)
        version = crc32("".join(map(getsource, (layout, *PARTS))).encode())
        try:
            _made.append(njit(cache=True)(_of_version(version)))
        except RuntimeError:
            return None
    return _made[0] if _made else None


def _of_version(version: int) -> Callable[[State, int], int]:
    """`advance` as a function that numba takes for another one where any of the files is another one: it looks at the
    file of a function alone, and at the values that it was made with."""

    def run(state: State, most: int) -> int:
        return advance(state, most) if version >= 0 else version

    return run
