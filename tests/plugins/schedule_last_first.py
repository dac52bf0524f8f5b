"""A pipeline schedule as a plug-in: all forward passes, then the backward passes from the last microbatch to the
first."""

from simulator.errors import InputError, Problem
from simulator.program.actions import Action, Kind
from simulator.program.schedule import Schedule, from_actions
from simulator.training.schedules import SCHEDULES, Pipeline


@SCHEDULES.add("last-first")
def last_first(pipeline: Pipeline) -> Schedule:
    """What was computed last is given back first, as on a stack."""
    if pipeline.chunks != 1:
        raise InputError(Problem("schedule `last-first` runs one chunk a rank", hint="write `vpp: 1`"))
    there = [(Kind.F, microbatch) for microbatch in range(pipeline.microbatches)]
    back = [(Kind.B, microbatch) for microbatch in reversed(range(pipeline.microbatches))]
    return from_actions([[Action(rank, kind, m) for kind, m in there + back] for rank in range(pipeline.ranks)])
