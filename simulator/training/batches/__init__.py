"""The microbatches of a step whose sequences differ in length, and which ranks run them.

Lengths are drawn with the scenario's seed. A microbatch holds what a policy puts together; each has passes and sends of
its own in the schedule, and data-parallel ranks wait for each other where they meet. What finds no room, or waits for
others of its length, is trained on in a later step.
"""

from simulator.training.batches.base import NOTHING, Batch, Shape
from simulator.training.batches.groups import Speed
from simulator.training.batches.lengths import read_lengths
from simulator.training.batches.plan import Work, plan

__all__ = ["NOTHING", "Batch", "Shape", "Speed", "Work", "plan", "read_lengths"]
