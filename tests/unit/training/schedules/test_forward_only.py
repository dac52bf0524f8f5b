"""Forward passes alone: order, times in closed form, what is refused."""

from fractions import Fraction

import pytest

from simulator.errors import InputError
from simulator.program.actions import Kind
from simulator.program.csv_form import write_csv
from simulator.program.validate import validate
from simulator.study.schedule import AskedCosts, AskedSchedule, make, run
from simulator.training.build import build_job
from simulator.training.schedules import Pipeline, forward_only, own_name
from tests import jobs
from tests.orders import lines


def test_chunks_of_prompts_in_order() -> None:
    made = validate(forward_only(Pipeline(2, 1, 2, slices=2)))
    assert lines(made) == ["0F0 0F1 0F2 0F3", "1F0 1F1 1F2 1F3"]
    assert made.only([Kind.F]).backward is False
    assert own_name("InferenceSchedule") == "forward-only"
    assert [own_name(name) for name in ("ZB-H1", "ZB1P", "zb-h3")] == ["zb-h1", "zb-h1", "zb-h3"]


@pytest.mark.parametrize(("ranks", "prompts", "slices"), [(1, 3, 2), (4, 1, 1), (4, 1, 8), (6, 5, 3)])
def test_idle_is_a_chunk_for_every_rank_but_one(ranks: int, prompts: int, slices: int) -> None:
    """(p - 1) F / k, with nothing kept; beside it whole prompts, and the bound is met."""
    asked = AskedSchedule("forward-only", ranks, prompts, costs=AskedCosts(forward=Fraction(7)), slices=slices)
    found = run(asked, make(asked))
    assert [device.idle for device in found.by_device] == pytest.approx([(ranks - 1) * 7 / slices] * ranks)
    assert found.makespan == pytest.approx(found.least_makespan)
    assert found.against.makespan == pytest.approx((prompts + ranks - 1) * 7)
    assert (found.peak, found.costs.input_gradient, found.costs.weight_gradient) == (0, 0, 0)


def test_later_chunks_see_more_keys() -> None:
    """One prompt, half attention, two chunks on two ranks: 3/8 and 5/8 of F each, so 3/8 + 5/8 + 5/8."""
    costs = AskedCosts(attention=Fraction(1, 2))
    asked = AskedSchedule("forward-only", 2, 1, costs=costs, slices=2)
    assert run(asked, make(asked)).makespan == 13 / 8


def test_a_file_without_backward_passes(tmp_path: object) -> None:
    path = f"{tmp_path}/order.csv"
    write_csv(forward_only(Pipeline(3, 1, 4)).actions(), path)
    asked = AskedSchedule(path)
    assert run(asked, make(asked)).makespan == 6


def test_no_training_step() -> None:
    with pytest.raises(InputError, match="give no gradients"):
        build_job(jobs.scenario(batch=16, pp=4, training={"schedule": "forward-only"}))


def test_backward_passes_are_refused() -> None:
    made = forward_only(Pipeline(2, 1, 1))
    kinds = made.kind.copy()
    kinds[1] = Kind.B
    with pytest.raises(InputError, match="lacks 1F0"):
        validate(type(made)(kinds, made.stage, made.microbatch, made.rank_start, backward=False))
    with pytest.raises(InputError, match="runs one chunk of the model a rank, not 2"):
        forward_only(Pipeline(2, 2, 1))
