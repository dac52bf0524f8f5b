"""No flush between steps: PipeDream-2BW, 1F1B that goes on while gradients of a step wait for its last microbatch.

The order is that of 1F1B over the microbatches of all steps. Two versions of the weights make that consistent: a
microbatch of the next step goes forward and backward with the old version while the last ones of this step are on their
way, so that gradients are applied one update late. Nothing is idle at equal stages.

Source: arXiv:2006.09503, section 3.
"""

from dataclasses import replace

from simulator.errors import InputError, Problem
from simulator.program.schedule import Schedule
from simulator.training.schedules.base import SCHEDULES, Pipeline
from simulator.training.schedules.one_forward import one_f_one_b

STEPS = 4
"""Steps of an order: two to fill the pipeline, the one that counts, and one that follows it."""


@SCHEDULES.add("pipedream-2bw")
def pipedream_2bw(pipeline: Pipeline) -> Schedule:
    """1F1B without a flush between steps: two versions of the weights, gradients one update late; the step shown is one
    of a steady state."""
    ranks, microbatches = pipeline.ranks, pipeline.microbatches
    if microbatches < ranks:
        message = f"schedule `pipedream-2bw` needs {ranks} microbatches or more, not {microbatches}"
        hint = "with fewer, two versions of the weights are not enough"
        raise InputError(Problem(message, hint=hint))
    return replace(one_f_one_b(replace(pipeline, microbatches=STEPS * microbatches)), steps=STEPS)
