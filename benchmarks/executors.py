"""Speed of schedules, lowering and both executors; `python benchmarks/executors.py` prints a table.

CPU seconds of the best of three runs. What CI asserts is the number of events, in the tests.
"""

import datetime
import platform
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from simulator.engine.clock import Clock
from simulator.engine.executor import execute
from simulator.engine.player import Player
from simulator.engine.tape import Activity, Tape, Timeline, Use
from simulator.fabric.sharing import max_min
from simulator.program.actions import Kind
from simulator.program.critical import critical_path
from simulator.program.lowering import Lowered, lower
from simulator.program.maxplus import sweep
from simulator.program.validate import validate
from simulator.training.schedules import Pipeline, gpipe, interleaved, one_f_one_b


def measure(what: str, run: Callable[[], object], count: int = 0) -> object:
    """Print the CPU time of the best of three runs, and what it is per operation."""
    best, result = float("inf"), None
    for _ in range(3):
        begin = time.process_time()
        result = run()
        best = min(best, time.process_time() - begin)
    speed = f"{count / best / 1e6:10.2f} M/s" if count else ""
    events = f"{result.events:10,} events" if isinstance(result, Timeline) and result.events else ""
    print(f"{what:58} {best * 1e3:9.1f} ms {speed:>14} {events}")
    return result


def one_trillion(overlap: bool = True) -> Lowered:
    """The step of GPT-1T: 64 stages, 512 microbatches, 1F1B."""
    durations = np.zeros((64, len(Kind)), np.int64)
    durations[:, Kind.F], durations[:, Kind.B] = 27_123_456_789, 81_234_567_891
    return lower(one_f_one_b(Pipeline(64, 1, 512)), durations, np.full((63, 2), 412_345_678), overlap)


def beside(lanes: int, operations: int) -> Tape:
    """Devices that compute on one lane while collectives take a tenth of their rate on another."""
    total = 2 * lanes * operations
    activity = np.repeat(np.arange(2 * lanes), operations)
    compute = [Activity(0, 1_000_003 + i, (Use(i, 1.0, 1.0),)) for i in range(lanes)]
    collective = [Activity(5_000, 400_009 + i, (Use(i, 0.1, 1.0),)) for i in range(lanes)]
    none = np.full(total, -1)
    return Tape(
        np.arange(2 * lanes + 1) * operations,
        np.zeros(total, np.int64),
        np.zeros(total + 1, np.int64),
        np.zeros(0, np.int64),
        none,
        activity,
        tuple(compute + collective),
        np.ones(lanes),
    )


def lock_step(lanes: int, operations: int) -> Tape:
    """Lanes that compute and then meet, over and over."""
    duration = np.tile([1_000, 77], lanes * operations // 2)
    duration += np.where(duration > 77, np.repeat(np.arange(lanes), operations), 0)
    rendezvous = np.tile(np.where(np.arange(operations) % 2, np.arange(operations), -1), lanes)
    none = np.full(len(duration), -1)
    nothing = np.zeros(len(duration) + 1, np.int64)
    return Tape(np.arange(lanes + 1) * operations, duration, nothing, np.zeros(0, np.int64), rendezvous, none)


def two_jobs(links: int, operations: int) -> int:
    """Two programs on one clock whose collectives meet on links; returns the events."""
    clock = Clock(np.ones(links), max_min)
    collectives = tuple(
        Activity(1_000, 50_000 + i, tuple(Use(link, 1.0, 1.0) for link in range(links))) for i in range(4)
    )
    numbers = np.arange(2 * operations)
    none, nothing = np.full(len(numbers), -1), np.zeros(len(numbers) + 1, np.int64)
    activity = np.where(numbers % 2, numbers // 2 % 4, -1)
    tape = Tape(
        np.array([0, len(numbers)]),
        np.full(len(numbers), 20_000),
        nothing,
        np.zeros(0, np.int64),
        none,
        activity,
        collectives,
        np.ones(links),
    )
    for start in (0, 333):
        Player(clock, tape, start, range(links))
    clock.run()
    return clock.events


def main() -> None:
    """Run everything."""
    machine = platform.processor() or platform.machine()
    print(f"{machine}, Python {platform.python_version()}, {datetime.date.today()}\n")
    for maker, chunks in ((gpipe, 1), (one_f_one_b, 1), (interleaved, 4)):
        measure(f"schedule {maker.__name__}, 64 x 512, {chunks} chunks", partial(maker, Pipeline(64, chunks, 512)))
    measure("validate 1f1b, 64 x 512", partial(validate, one_f_one_b(Pipeline(64, 1, 512))))
    for overlap in (True, False):
        name = "sends overlap" if overlap else "sends block"
        tape = measure(f"lower GPT-1T, {name}", partial(one_trillion, overlap)).tape  # type: ignore[attr-defined]
        measure(f"execute GPT-1T, {name}", partial(execute, tape), len(tape))
        timeline = measure(f"sweep GPT-1T, {name}", partial(sweep, tape), len(tape))
        measure(f"critical path of GPT-1T, {name}", partial(critical_path, tape, timeline))  # type: ignore[arg-type]
    tape = lock_step(1024, 100)
    measure("execute 1,024 lanes that meet 50 times", partial(execute, tape), len(tape))
    measure("sweep 1,024 lanes that meet 50 times", partial(sweep, tape), len(tape))
    tape = beside(16, 1000)
    measure("execute compute beside collectives, 16 x 2 x 1,000", partial(execute, tape, max_min), len(tape))
    measure("two jobs that meet on 200 links, 2 x 500 collectives", partial(two_jobs, 200, 500), 1_000)


if __name__ == "__main__":
    main()
