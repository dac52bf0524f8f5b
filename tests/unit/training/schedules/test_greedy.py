"""The list scheduler: orders that take longer than they may are given up, others are what they are."""

import numpy as np

from simulator.program.timing import Costs, time_schedule
from simulator.training.schedules.greedy import Rules, arrange
from simulator.training.schedules.orders import loop_home


def test_orders_that_take_too_long_are_given_up() -> None:
    """Four stages, twelve microbatches; one tick less than it takes is too few."""
    home, costs, caps = loop_home(4, 1), Costs.equal(4, 3, 2, 1), np.full(4, 3)
    for split in (True, False):
        whole = arrange(home, 12, costs, Rules(caps, split=split))
        assert whole is not None
        lasts = time_schedule(whole, costs).makespan
        again = arrange(home, 12, costs, Rules(caps, split=split, until=lasts))
        assert again is not None
        assert again.actions() == whole.actions()
        assert arrange(home, 12, costs, Rules(caps, split=split, until=lasts - 1)) is None
