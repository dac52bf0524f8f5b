"""A line on the terminal that says that work goes on; silent where nobody looks."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from time import perf_counter

from simulator.cli.console import is_terminal
from simulator.report.plain import clean

_DELAY_S = 0.5
_INTERVAL_S = 0.2
_LONGEST = 60  # characters, so that the line does not wrap


@contextmanager
def progress(text: str, quiet: bool = False) -> Iterator[None]:
    """Show `text` and the seconds so far while the block runs, if it takes long and standard error is a terminal."""
    if quiet or not is_terminal(sys.stderr):
        yield
        return
    done = Event()
    thread = Thread(target=_show, args=(clean(text)[:_LONGEST], done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(text: str, done: Event) -> None:
    begin = perf_counter()
    shown = False
    with suppress(OSError, ValueError):
        while not done.wait(_INTERVAL_S if shown else _DELAY_S):
            shown = True
            sys.stderr.write(f"\r\x1b[K{text} ... {perf_counter() - begin:.1f} s")
            sys.stderr.flush()
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
