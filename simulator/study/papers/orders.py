"""Figures of a pipeline schedule alone: its order at given costs, without a model or a machine."""

from decimal import Decimal
from fractions import Fraction
from typing import Literal

from simulator.results.documents.schedule import ScheduleDocument
from simulator.specs.base import Count, Spec
from simulator.study.schedule import AskedCosts, AskedSchedule, make, run


class Order(Spec):
    """A schedule as `clustersim schedule` runs it."""

    schedule: str
    """Its name."""
    devices: Count
    """Of the pipeline."""
    microbatches: Count
    chunks: Count | None = None
    """Of each device; None: one, or two where the schedule refuses one."""
    costs: tuple[Decimal, Decimal, Decimal, Decimal] = (Decimal(1), Decimal(1), Decimal(1), Decimal(0))
    """Times of F, I, W and of a send, of a microbatch on a device, in any unit."""
    pair: Decimal | None = None
    """Time of a forward and a backward pass side by side; None: as long as one after the other."""
    limit: float | None = None
    """Most microbatches whose activations a device may keep."""
    kept_for_weights: Decimal = Decimal(1)
    """Share of what a microbatch keeps from F on that it keeps from I to W."""
    barrier: bool = True
    """Whether devices wait for each other at the end of a step, for `auto`."""
    paths: tuple[tuple[int, ...], ...] = ()
    """Stages that microbatches go through in turn; as the schedule does where left out."""
    quantity: Literal["makespan", "idle", "bubble", "own bubble", "activations"]
    """Time of a step; the most that a device idles in it; its share of the step, or of the time between the first and
    the last pass of a device, in per cent; the most microbatches that a device keeps."""

    @property
    def asked(self) -> AskedSchedule:
        """What to make and run."""
        pair = None if self.pair is None else Fraction(self.pair)
        forward, back, weights, send = map(Fraction, self.costs)
        costs = AskedCosts(forward, back, weights, send, pair, kept_for_weights=Fraction(self.kept_for_weights))
        sizes = self.devices, self.microbatches, self.chunks
        return AskedSchedule(self.schedule, *sizes, costs, self.limit, None, self.paths, self.barrier)


def of_order(order: Order) -> float:
    """The figure that is asked for."""
    found = run(order.asked, make(order.asked))
    return _figure(found, order.quantity)


def _figure(found: ScheduleDocument, quantity: str) -> float:
    if quantity == "bubble":
        return 100 * found.bubble
    if quantity == "own bubble":
        return 100 * found.own_bubble
    if quantity == "activations":
        return found.peak
    return max(device.idle for device in found.by_device) if quantity == "idle" else found.makespan
