"""Where the runs of a study are simulated: executors of `concurrent.futures`, here processes and a Dask cluster."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from multiprocessing import parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import Any, TypeVar

from simulator.errors import InputError, Problem

Item = TypeVar("Item")
Done = TypeVar("Done")

_REACH_S = 10  # how long to wait for a Dask scheduler


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def each(
    work: Callable[[Item], Done], items: Sequence[Item], jobs: int = 1, progress: Callable[[int], None] | None = None,
    chunk: int = 1,
) -> Iterator[Done]:  # fmt: skip
    """What `work` makes of the items, in their order, on up to `jobs` processes that take `chunk` items at a time.

    `progress` is told how many are done.
    """
    several = min(jobs, len(items))
    with ProcessPoolExecutor(several) if several > 1 else nullcontext() as pool:
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


@contextmanager
def dask(scheduler: str) -> Iterator[Executor]:
    """The workers of an existing Dask cluster, by the address of its scheduler; the cluster stays as it is.

    Raises InputError where dask.distributed is not installed or the scheduler does not answer.
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
        yield client.get_executor(pure=False)


def _begin() -> None:
    """In a new worker: leave Ctrl-C to the parent, and end when it does, for nobody else would tell."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
