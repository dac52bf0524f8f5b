"""Where the runs of a study are simulated: executors of `concurrent.futures`, here processes and a Dask cluster."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from multiprocessing import parent_process
from multiprocessing.connection import wait
from threading import Thread
from time import monotonic
from typing import Any, TypeVar
from warnings import warn

from simulator.errors import InputError, Problem

Item = TypeVar("Item")
Done = TypeVar("Done")

_REACH_S = 10  # how long to wait for a Dask scheduler
_WARN_S = 5  # how long a Dask cluster has no worker before a message says so
_ABSENT_S = 60  # and before it is given up
LOOK_S = 2.0
"""Seconds between two looks at the workers of a `Cluster`."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(
    work: Callable[[Item], Done],
    items: Sequence[Item],
    jobs: int = 1,
    progress: Callable[[int], None] | None = None,
    chunk: int = 1,
) -> Iterator[Done]:
    """What `work` makes of the items, in their order, on up to `jobs` processes that take `chunk` items at a time.

    `progress` gets the number done. The processes end with this one however it ends, and at Ctrl-C.
    """
    several = min(jobs, len(items))
    with (
        ProcessPoolExecutor(several, initializer=_begin, initargs=(signal.SIG_DFL,))
        if several > 1
        else nullcontext() as pool
    ):
        for number, done in enumerate(pool.map(work, items, chunksize=chunk) if pool else map(work, items), start=1):
            if progress:
                progress(number)
            yield done


@contextmanager
def processes(jobs: int) -> Iterator[Executor]:
    """Worker processes, started at once; they end with this process however it ends, and leave Ctrl-C to it."""
    pool = ProcessPoolExecutor(jobs, initializer=_begin)
    try:
        pool.submit(os.getpid).result()  # before anything is open that a forked process should not inherit
        yield pool
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class Cluster(Executor):
    """The workers of a Dask cluster; it says when there are none."""

    def __init__(self, client: Any, scheduler: str, tell: Callable[[str], None]) -> None:
        """`client` is that of dask.distributed; `tell` is called when no worker answers."""
        self._client, self._scheduler, self._tell = client, scheduler, tell
        self._inner: Executor = client.get_executor(pure=False)
        self._absent: float | None = None
        self._told = False

    def submit(self, work: Callable[..., Done], /, *arguments: Any, **named: Any) -> Future[Done]:
        """As any executor."""
        return self._inner.submit(work, *arguments, **named)

    def check(self) -> None:
        """Look whether there are workers; tell where there are none, and raise InputError where that lasts."""
        if self._workers():
            self._absent, self._told = None, False
            return
        now = monotonic()
        self._absent = now if self._absent is None else self._absent
        absent_s = now - self._absent
        how = f"start one: `dask worker {self._scheduler}`"
        if absent_s >= _ABSENT_S:
            message = f"no worker of the Dask cluster answered for {_ABSENT_S} s"
            raise InputError(Problem(message, hint=f"{how}, and run the same again: what is in the cache is kept"))
        if absent_s >= _WARN_S and not self._told:
            self._told = True
            self._tell(f"no worker of the Dask cluster answers; waiting up to {_ABSENT_S} s for one: {how}")

    def _workers(self) -> bool:
        try:
            return bool(self._client.scheduler_info()["workers"])
        except (OSError, ValueError):  # nor does the scheduler answer
            return False


@contextmanager
def dask(scheduler: str, tell: Callable[[str], None] = warn) -> Iterator[Executor]:
    """The workers of an existing Dask cluster, by the address of its scheduler; the cluster stays as it is.

    `tell` is called when no worker answers. Raises InputError where dask.distributed is not installed or the scheduler
    does not answer.
    """
    try:
        from distributed import Client
    except ImportError as error:
        hint = "install it: pip install 'clustersim[dask]'"
        raise InputError(Problem("dask.distributed is not installed", hint=hint)) from error
    client: Any = Client.__new__(Client)
    try:
        client.__init__(scheduler, timeout=_REACH_S, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        client.status = "closed"  # else it would try once more, and complain, when it is collected
        hint = "start one with `dask scheduler`, and name its address: --scheduler tcp://host:8786"
        raise InputError(Problem(f"no Dask scheduler answers at `{scheduler}`", hint=hint)) from error
    with client:
        yield Cluster(client, scheduler, tell)


def _begin(interrupted: signal.Handlers = signal.SIG_IGN) -> None:
    """In a new worker: leave Ctrl-C to the parent, or end at it; and end when the parent does."""
    signal.signal(signal.SIGINT, interrupted)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
