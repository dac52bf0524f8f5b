"""A line on the terminal that says that work goes on; silent in a pipe."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Event, Thread
from time import perf_counter

from simulator import units
from simulator.cli.console import is_terminal
from simulator.report.text.plain import clean

_DELAY_S = 0.5
_INTERVAL_S = 0.2
_LONGEST = 60  # characters, so that the line does not wrap


@contextmanager
def progress(text: str, quiet: bool = False) -> Iterator[None]:
    """Show `text` and the seconds so far while the block runs, if it takes long and standard error is a terminal."""
    if quiet or not is_terminal(sys.stderr):
        yield
        return
    with _shown(lambda: clean(text)[:_LONGEST]):
        yield


@contextmanager
def counting(text: str, quiet: bool = False) -> Iterator[Callable[[int, int], None] | None]:
    """As `progress`, with how many of how many things are done and how long the rest will take.

    Gives the function that takes both numbers; None in a pipe.
    """
    if quiet or not is_terminal(sys.stderr):
        yield None
        return
    state = _Counted()
    with _shown(lambda: f"{clean(text)[: _LONGEST // 2]}{state.words(perf_counter())}"):
        yield state.tell


@dataclass(slots=True)
class _Counted:
    done: int = 0
    total: int = 0
    begin: float = 0.0
    before: int = 0
    """How many were done at the beginning."""

    def tell(self, done: int, total: int) -> None:
        if done == 0 or not self.total:
            self.begin, self.before = perf_counter(), done
        self.done, self.total = done, total

    def words(self, now: float) -> str:
        """`: 120 of 1,000, 35 s left`."""
        if not self.total:
            return ""
        new = self.done - self.before
        rest = (now - self.begin) / new * (self.total - self.done) if new else 0.0
        left = f", {units.format(max(rest, 1.0), 'time')} left" if new else ""
        return f": {self.done:,} of {self.total:,}{left}"


@contextmanager
def _shown(text: Callable[[], str]) -> Iterator[None]:
    """Show a line that may change while the block runs."""
    done = Event()
    thread = Thread(target=_show, args=(text, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(text: Callable[[], str], done: Event) -> None:
    begin = perf_counter()
    shown = False
    with suppress(OSError, ValueError):
        while not done.wait(_INTERVAL_S if shown else _DELAY_S):
            shown = True
            sys.stderr.write(f"\r\x1b[K{text()} ... {perf_counter() - begin:.1f} s")
            sys.stderr.flush()
        if shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
