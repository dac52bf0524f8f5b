"""A quick start of the command: of classes of data only what is used is made.

`dataclasses` writes six methods a class as text and compiles each as the class is made, which took a fifth of the time
of a small run: hundreds of classes, of which a run uses a part. Here a method is compiled as it is first called, by
`dataclasses` itself, and then stands in its class as it always would. Classes that are made elsewhere, and those of a
Python whose `dataclasses` works in another way, are made as ever.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_WRITER = "_create_fn"
"""What compiles a method, in `dataclasses` of CPython 3.11 and 3.12."""


@contextmanager
def methods_at_first_use() -> Iterator[None]:
    """Methods of the dataclasses made meanwhile are compiled at their first call."""
    compile_now = getattr(dataclasses, _WRITER, None)
    if compile_now is None:
        yield
        return

    def later(name: str, *arguments: Any, **options: Any) -> Callable[..., Any]:
        return _at_first_call(name, lambda: compile_now(name, *arguments, **options))

    setattr(dataclasses, _WRITER, later)
    try:
        yield
    finally:
        setattr(dataclasses, _WRITER, compile_now)


def _at_first_call(name: str, compiled: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """A method that compiles itself at its first call and takes its own place in the class that holds it."""
    method: Callable[..., Any] | None = None

    def stand_in(self: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal method
        if method is None:
            method = compiled()
            method.__qualname__ = stand_in.__qualname__
            for owner in type(self).__mro__:
                if owner.__dict__.get(name) is stand_in:
                    setattr(owner, name, method)
        return method(self, *arguments, **options)

    stand_in.__name__ = name
    return stand_in
