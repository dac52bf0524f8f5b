"""The compiled form of `kernel.advance`, by numba where that is installed.

Compiling takes seconds, once for a version of these files on a machine: numba keeps the code beside them, as Python
keeps its own, else in the user's folder of caches, or where `NUMBA_CACHE_DIR` says. Loading it takes tenths of a
second.
"""

from collections.abc import Callable
from importlib.util import find_spec
from inspect import getsource, isfunction
from zlib import crc32

from simulator.serving.compiled import admission, arrivals, decodes, events, iterations, kernel, layout, prices
from simulator.serving.compiled.kernel import advance
from simulator.serving.compiled.layout import State

PARTS = events, decodes, prices, admission, arrivals, iterations, kernel
"""Modules whose functions are compiled."""

_made: list[Callable[[State], int]] = []


def available() -> bool:
    """Whether numba is installed."""
    return find_spec("numba") is not None


def compiled() -> Callable[[State], int] | None:
    """`advance` as code of the machine; None without numba, or where numba finds no folder in which to keep the code:
    to compile it each time takes longer than it saves."""
    if not _made and available():
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


def _of_version(version: int) -> Callable[[State], int]:
    """`advance` as a function that numba takes for another one where any of the files is another one: it looks at the
    file of a function alone, and at the values that it was made with."""

    def run(state: State) -> int:
        return advance(state) if version >= 0 else version

    return run
