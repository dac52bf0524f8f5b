"""The SimPy executor: a tape alone on a clock of its own."""

from dataclasses import replace

from simulator.engine.clock import Clock, Progress
from simulator.engine.player import Player
from simulator.engine.speeds import Solver
from simulator.engine.tape import NEVER, Tape, Timeline, clock_overflow


def execute(tape: Tape, solver: Solver | None = None, progress: Progress | None = None) -> Timeline:
    """Run a tape, event by event.

    `solver` divides shared resources (see `speeds.Solver`); it may be left out where no operation names an activity.
    `progress` gets the number of events now and then. Raises DeadlockError naming the lanes that wait for each
    other, InputError where time runs past NEVER, ValueError where the tape is malformed.
    """
    clock = Clock(solver=solver)
    player = Player(clock, tape)
    try:
        clock.run(progress)
    except OverflowError:
        if clock.now < NEVER:
            raise
        raise clock_overflow() from None
    timeline = player.timeline()
    return replace(timeline, events=timeline.events + clock.fluid.events)
