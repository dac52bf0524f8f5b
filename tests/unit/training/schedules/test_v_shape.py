"""Schedules in a V: sound for all sizes, with the chunks where they belong."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.program.actions import parse
from simulator.program.timing import Costs, time_schedule
from simulator.program.validate import validate
from simulator.training.schedules import Maker, Pipeline, v_half, v_min, zb_v
from tests.orders import lines

MAKERS = [zb_v, v_half, v_min]


def test_zb_v_of_one_microbatch() -> None:
    assert lines(zb_v(Pipeline(2, 2, 1))) == ["0F0 3F0 3I0 3W0 0I0 0W0", "1F0 2F0 2I0 2W0 1I0 1W0"]


def test_v_min_of_two_ranks() -> None:
    assert lines(v_min(Pipeline(2, 2, 2))) == [
        "0F0 0F1 3F0 3I0 3W0 3F1 0I0 3I1 0W0 3W1 0I1 0W1",
        "1F0 2F0 1F1 2F1 2I0 1I0 2W0 1W0 2I1 1I1 2W1 1W1",
    ]


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize(("ranks", "microbatches"), [(1, 1), (1, 4), (2, 3), (3, 1), (3, 9), (4, 5), (6, 24), (7, 20)])
def test_sound(maker: Maker, ranks: int, microbatches: int) -> None:
    schedule = validate(maker(Pipeline(ranks, 2, microbatches)))
    assert schedule.rank_of_stage().tolist() == [min(s, 2 * ranks - 1 - s) for s in range(2 * ranks)]
    assert schedule.microbatches == microbatches


@pytest.mark.parametrize(("maker", "name"), [(v_half, "v-half"), (v_min, "v-min")])
def test_as_short_and_as_frugal_as_the_search_of_the_authors(maker: Maker, name: str) -> None:
    """The files hold what their greedy search makes of four ranks and eight microbatches at equal costs."""
    text = (Path(__file__).parent / f"{name}.txt").read_text().splitlines()
    theirs = time_schedule(validate([[parse(cell) for cell in row.split()] for row in text]), Costs.equal(8))
    ours = time_schedule(maker(Pipeline(4, 2, 8)), Costs.equal(8))
    assert (ours.makespan, ours.peak.max()) == (theirs.makespan, theirs.peak.max())


def test_v_half_sees_costs() -> None:
    """Where I is long and W short the building block waits in every period, and the list scheduler is shorter."""
    ticks = Costs.equal(8, 2, 3, 1)
    seen, unseen = (v_half(Pipeline(4, 2, 16, costs=costs)) for costs in (ticks, None))
    assert time_schedule(seen, ticks).makespan < time_schedule(unseen, ticks).makespan


def test_v_half_keeps_less_where_that_fits_alone_or_takes_about_as_long() -> None:
    """Where the last stage keeps twice as much (logits) the building block is 1.5 % shorter and keeps one unit more."""
    kept = np.array([1, 1, 1, 1, 1, 1, 1, 2.0])
    ticks = replace(Costs.equal(8, 3, 4, 2), kept=kept, kept_for_weights=kept)
    asked = Pipeline(4, 2, 32, costs=ticks)
    for pipeline, makespan, peak in (
        (asked, 605, 8),
        (replace(asked, near=0.02), 614, 7),
        (replace(asked, limit=7), 614, 7),
    ):
        timing = time_schedule(v_half(pipeline), ticks)
        assert (timing.makespan, timing.peak.max()) == (makespan, peak)


@pytest.mark.parametrize("maker", MAKERS)
def test_other_numbers_of_chunks_are_refused(maker: Maker) -> None:
    with pytest.raises(InputError, match=r"runs two chunks a rank, .*, not 1; write `vpp: 2`"):
        maker(Pipeline(4, 1, 8))
