"""Large pipelines are made and run, each pass once; `python benchmarks/executors.py` says how fast."""

import pytest

from simulator.program.actions import Kind
from simulator.program.timing import Costs, least_makespan, time_schedule
from simulator.training.schedules import SCHEDULES, Pipeline

ONE = ["gpipe", "1f1b", "zb-h1", "zb-h2", "dualpipe", "chimera", "vocab-1", "vocab-2", "interlaced"]
TWO = ["interleaved-1f1b", "zb-h1", "zb-v", "v-half", "v-min", "breadth-first", "hanayo", "dualpipev"]


@pytest.mark.parametrize(
    ("name", "passes"),
    [
        ("seq1f1b", 64 * 512 * 2 * 4),  # slices
        ("pipedream-2bw", 64 * 512 * 2 * 4),  # steps
        ("forward-only", 64 * 512),
        ("skippipe", 64 * 512 * 2 - 2 * 512),  # one stage of each microbatch
    ],
)
def test_of_other_numbers_of_passes(name: str, passes: int) -> None:
    made = SCHEDULES.get(name)(Pipeline(64, 1, 512))
    assert len(made) == passes
    assert time_schedule(made, Costs.equal(64)).makespan >= 512


@pytest.mark.parametrize(("name", "chunks"), [(name, 1) for name in ONE] + [(name, 2) for name in TWO])
@pytest.mark.parametrize(("ranks", "batch"), [(32, 128), pytest.param(64, 512, marks=pytest.mark.slow)])
def test_made_and_run(name: str, chunks: int, ranks: int, batch: int) -> None:
    made = SCHEDULES.get(name)(Pipeline(ranks, chunks, batch))
    parts = 2 * ranks * batch * (made.vocabulary_sums > 0)
    assert len(made) == ranks * chunks * batch * 2 + len(made.only([Kind.W])) + parts
    costs = Costs.equal(made.stages)
    bound = least_makespan(costs, made.rank_of_stage(), batch, made.copies)
    assert bound <= time_schedule(made, costs).makespan <= 3 * bound
