"""The SimPy executor: a tape alone on a clock of its own. Large ones are run in compiled code, to the same end."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from simulator.engine import compiled
from simulator.engine.clock import Clock, Progress
from simulator.engine.load import Load
from simulator.engine.player import Player
from simulator.engine.score import score
from simulator.engine.speeds import Solver
from simulator.engine.tape import NEVER, Tape, Timeline, clock_overflow


def execute(tape: Tape, solver: Solver | None = None, progress: Progress | None = None) -> Timeline:
    """Run a tape, event by event.

    `solver` divides shared resources (see `speeds.Solver`); it may be left out where no operation names an activity.
    `progress` gets the number of events now and then. Raises DeadlockError naming the lanes that wait for each
    other, InputError where time runs past NEVER, ValueError where the tape is malformed.
    """
    made = score(tape)
    clock = Clock(solver=solver)
    try:
        if compiled.large(made) and (timeline := compiled.played(made, solver, progress)) is not None:
            return timeline
        player = Player(clock, made)
        clock.run(progress)
    except OverflowError:
        if 0 < clock.now < NEVER:
            raise
        raise clock_overflow() from None
    timeline = player.timeline()
    return replace(timeline, events=timeline.events + clock.fluid.events)


def execute_recorded(
    tape: Tape,
    solver: Solver,
    progress: Progress | None,
    resources: Collection[int],
    names: Sequence[str],
    most: int,
) -> tuple[Timeline, Load]:
    """The same with the record of what some resources carried, by `names` of operations; at most `most` intervals of
    each. OverflowError where time runs past NEVER."""
    made = score(tape)
    if (
        compiled.large(made)
        and (found := compiled.recorded(made, solver, progress, resources, names, most)) is not None
    ):
        return found
    clock = Clock(solver=solver)
    player = Player(clock, made, label=names.__getitem__)
    load = clock.record(resources, most=most)
    clock.run(progress)
    timeline = player.timeline()
    return replace(timeline, events=timeline.events + clock.fluid.events), load
