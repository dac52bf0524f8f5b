"""Large pipelines: 64 ranks and 512 microbatches are made and run, each pass once."""

import pytest

from simulator.program.actions import Kind
from simulator.program.timing import Costs, least_makespan, time_schedule
from simulator.training.schedules import SCHEDULES, Pipeline

ONE = ["gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe", "chimera"]
TWO = ["interleaved-1f1b", "zb-h1", "zb-v", "v-half", "v-min", "breadth-first", "hanayo", "dualpipev"]


@pytest.mark.parametrize(("name", "chunks"), [(name, 1) for name in ONE] + [(name, 2) for name in TWO])
def test_made_and_run(name: str, chunks: int) -> None:
    made = SCHEDULES.get(name)(Pipeline(64, chunks, 512))
    assert len(made) == 64 * chunks * 512 * 2 + len(made.only([Kind.W]))
    costs = Costs.equal(made.stages)
    bound = least_makespan(costs, made.rank_of_stage(), 512, made.copies)
    assert bound <= time_schedule(made, costs).makespan <= 3 * bound
