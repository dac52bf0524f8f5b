"""What a maker of pipeline schedules is given, and the registry of makers.

A maker sees the pipeline that it makes an order for: how many ranks, chunks and microbatches, what passes cost and
keep, and how much may be kept. It returns which rank runs which pass in which order; when passes then run is for the
program.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from simulator.errors import InputError
from simulator.program.schedule import Paths, Schedule
from simulator.program.timing import Costs
from simulator.registry import Registry


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A pipeline that lacks its schedule."""

    ranks: int
    """Devices along the pipeline, p."""
    chunks: int
    """Model chunks on each rank, v; there are p v stages."""
    microbatches: int
    """Microbatches of a step, m."""
    costs: Costs | None = field(default=None, kw_only=True)
    """Passes and sends of the p v stages; None: all passes F, I and W last equally long, sends take no time."""
    limit: float = field(default=float("inf"), kw_only=True)
    """Most that a rank may keep, in the unit of `costs.kept`."""
    near: float = field(default=0.0, kw_only=True)
    """Relative difference of times that says nothing, as the costs are estimates."""
    barrier: bool = field(default=True, kw_only=True)
    """Whether ranks wait for each other at the end of a step; without, a step is as long as the longest time between
    first and last pass of a rank."""
    split: bool = field(default=True, kw_only=True)
    """Whether backward passes may be cut in two where a maker can do without."""
    slices: int | None = field(default=None, kw_only=True)
    """Slices of each microbatch along its sequence, for makers that cut it; None: as these see fit."""
    paths: Paths = field(default=(), kw_only=True)
    """Stages that microbatches go through, for makers that let them skip some; empty: as these see fit."""

    @property
    def stages(self) -> int:
        """Model chunks in all."""
        return self.ranks * self.chunks

    @property
    def known_costs(self) -> Costs:
        """The costs, or those of equal passes of one tick."""
        return self.costs or Costs.equal(self.stages)


class ChunksError(InputError):
    """A schedule runs another number of chunks a rank."""


Maker = Callable[[Pipeline], Schedule]
"""InputError where the sizes do not suit the schedule."""

SCHEDULES: Registry[Maker] = Registry("pipeline schedule")
"""Makers of schedules by name."""
