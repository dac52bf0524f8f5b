# my_schedules.py
from simulator.program.actions import Action, Kind
from simulator.program.schedule import Schedule, from_actions
from simulator.training.schedules import SCHEDULES, Pipeline


@SCHEDULES.add("one-by-one")
def one_by_one(pipeline: Pipeline) -> Schedule:
    """One microbatch at a time: no memory, all bubble."""
    order = [(kind, m) for m in range(pipeline.microbatches) for kind in (Kind.F, Kind.B)]
    return from_actions([[Action(rank, kind, m) for kind, m in order] for rank in range(pipeline.ranks)])
