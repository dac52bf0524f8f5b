"""Forward passes alone: inference, and prompts whose chunks follow each other through the pipeline.

A chunk of a prompt needs the keys and values of those before it, which every rank has once it ran them, so that the
next chunk enters while the one before is a rank further on.

Sources: DeepSpeed, deepspeed/runtime/pipe/schedule.py, InferenceSchedule; chunked pipeline parallelism of prefill,
Mooncake, arXiv:2407.00079, section 5.1.
"""

from simulator.errors import InputError, Problem
from simulator.program.schedule import Schedule
from simulator.training.schedules.base import SCHEDULES, ChunksError, Pipeline
from simulator.training.schedules.orders import F, from_rows


@SCHEDULES.add("forward-only")
def forward_only(pipeline: Pipeline) -> Schedule:
    """Forward passes alone, one after the other; with slices the chunks of prompts, each after those before it."""
    if pipeline.chunks != 1:
        message = f"schedule `forward-only` runs one chunk of the model a rank, not {pipeline.chunks}"
        raise ChunksError(Problem(message, hint="write `vpp: 1`"))
    slices = 1 if pipeline.slices is None else pipeline.slices
    if slices < 1:
        raise InputError(Problem(f"{slices} slices of a prompt", hint="write 1 or more"))
    numbers = range(pipeline.microbatches * slices)
    rows = [[(F, rank, number) for number in numbers] for rank in range(pipeline.ranks)]
    return from_rows(rows, slices, backward=False)
