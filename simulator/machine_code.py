"""Functions as code of the machine, by numba where that is installed.

Compiling takes seconds, once for a version of the files on a machine: numba keeps the code beside them, as Python
keeps its own, else in the user's folder of caches, or where `NUMBA_CACHE_DIR` says. Loading it takes tenths of a
second. SciPy, which numba loads to learn that it is there, is looked for instead: that takes as long as a third of
the rest, and no function here is linear algebra.
"""

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from inspect import getsource, isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast
from zlib import crc32

F = TypeVar("F", bound=Callable[..., Any])
_LOADS_SCIPY = "ensure_blas"
"""What loads SciPy, in `numba.np.linalg` of numba 0.61 to 0.68."""


def compiled(function: F) -> F | None:
    """A function as code of the machine; None without numba, or where numba finds no folder in which to keep the code:
    to compile it each time takes longer than it saves. To be asked for once."""
    if find_spec("numba") is None:
        return None
    _load()
    from numba import njit

    try:
        found: Any = njit(cache=True)(function)
    except RuntimeError:
        return None
    _load_alone(found)
    return cast("F", found)


def _load_alone(function: Any) -> None:
    """Let code that is kept be loaded without what only compiling needs: all that numba knows of functions of Python
    and numpy, which takes longer than the code. Of a numba that keeps code in another way it is loaded as ever."""
    cache = getattr(function, "_cache", None)
    kept, guard = (getattr(cache, name, None) for name in ("_load_overload", "_guard_against_spurious_io_errors"))
    if kept is None or guard is None:
        return
    from numba.core.runtime.nrt import rtsys

    def load(signature: Any, context: Any) -> Any:
        rtsys.initialize(context)  # what code counts references with
        with guard():
            return kept(signature, context)

    cache.load_overload = load  # type: ignore[union-attr]


def _load() -> None:
    """Import what numba compiles with, without SciPy; what needs SciPy loads it at its use."""
    from numba.np import linalg

    loads = getattr(linalg, _LOADS_SCIPY, None)
    if loads is None:
        return
    setattr(linalg, _LOADS_SCIPY, _look_for_scipy)
    try:
        import_module("numba.np.arraymath")
    finally:
        setattr(linalg, _LOADS_SCIPY, loads)


def _look_for_scipy() -> None:
    """ImportError where there is no SciPy."""
    if find_spec("scipy") is None:
        raise ImportError("there is no SciPy")


def compiled_of(
    of_version: Callable[[int], F], parts: Sequence[ModuleType], constants: Sequence[ModuleType] = ()
) -> F | None:
    """The same of a function that calls what the modules `parts` define.

    `of_version` makes the function and closes over a number that is another one where any file of `parts` or of
    `constants` is another one: numba looks at the file of a function alone, and at the values that it was made with.
    """
    if find_spec("numba") is None:
        return None
    from numba.extending import register_jitable

    for part in parts:
        for function in vars(part).values():
            if isfunction(function) and function.__module__ == part.__name__:
                register_jitable(function)
    return compiled(of_version(crc32("".join(map(getsource, (*constants, *parts))).encode())))


def is_kept(file: str) -> bool:
    """Whether numba has kept code of a function of a Python file beside it, made since the file changed.

    Code that numba keeps elsewhere is not looked for.
    """
    path = Path(file)
    changed = path.stat().st_mtime
    return any(kept.stat().st_mtime > changed for kept in path.parent.glob(f"__pycache__/{path.stem}.*.nbi"))
