"""Futures as they end, where Ctrl-C does no harm.

`concurrent.futures.wait` locks every future it is given; a KeyboardInterrupt raised meanwhile leaves some locked, and
the executor then waits for them without end.
"""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

Done = TypeVar("Done")


class Finished(Generic[Done]):
    """The futures given to it, in the order in which they end."""

    def __init__(self) -> None:
        self._ended: SimpleQueue[Future[Done] | None] = SimpleQueue()

    def add(self, future: "Future[Done]") -> None:
        """`future` is among those that `next` returns."""
        future.add_done_callback(self._ended.put)

    def next(self, timeout_s: float | None = None) -> "Future[Done] | None":
        """The next one that ends; None after `timeout_s` without one. Raises KeyboardInterrupt after Ctrl-C."""
        try:
            ended = self._ended.get(timeout=timeout_s)
        except Empty:
            return None
        if ended is None:
            raise KeyboardInterrupt
        return ended

    @contextmanager
    def interrupted(self) -> Iterator[None]:
        """Within, Ctrl-C is raised by `next`, or at the end, and nowhere else; where the caller handles it, or on
        another thread than the first, all stays as it is."""
        first = threading.current_thread() is threading.main_thread()
        if not first or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        asked = False

        def tell(_number: int, _frame: object) -> None:
            nonlocal asked
            asked = True
            self._ended.put(None)

        signal.signal(signal.SIGINT, tell)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if asked:
            raise KeyboardInterrupt
