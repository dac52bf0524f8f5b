"""Spreads of runs from shipped residuals, and the intervals of figures that follow."""

from dataclasses import replace

import numpy as np
import pytest

from simulator.report.compare import html as compare_html
from simulator.report.compare import page as compare_page
from simulator.report.text import wording
from simulator.report.text.grounds import expected_memory
from simulator.results.ground import stated
from simulator.results.spread import STEP, TTFT, Spread, interval, intervals
from simulator.run.dispatch import simulate
from simulator.run.extent import Extent
from simulator.run.ground import Conditions
from simulator.run.spread.conformal import Widening
from simulator.run.spread.grounded import grounded
from simulator.run.spread.near import ENGINE, STACK, Alike, Like, apart
from simulator.run.spread.residuals import Residuals, read, shipped, written
from simulator.specs import load_scenario
from simulator.specs.resolve import load_run
from simulator.study.compare.comparison import compare
from simulator.study.compare.document import document as compare_document

TIGHT = "cluster.node.accelerator.memory.capacity=20 GB"
OURS = Conditions("training", "H100", "Megatron 1", "16 bits", "dense", "nccl")


def _like(devices: int = 8, **changes: str) -> Like:
    return Like(OURS._replace(**changes), Extent(devices, ("ZeRO-1",)), "NVIDIA", 2022)


def _rows(source: str, bias: float, like: Like) -> Alike:
    return Alike(like, source, np.full(6, 3.0), bias + np.linspace(-0.05, 0.05, 6))


def test_a_rate_falls_where_the_time_rises() -> None:
    spread = Spread(0.8, 1.25, 7, 3)
    assert interval("step_time_s", 10.0, spread).low == pytest.approx(8.0)
    assert interval("tokens_per_s", 100.0, spread).low == pytest.approx(80.0)
    assert interval("tokens_per_s", 100.0, spread).high == pytest.approx(125.0)


def test_only_figures_that_runs_speak_for_have_intervals() -> None:
    spread = {STEP: Spread(0.9, 1.1, 3, 2), TTFT: Spread(0.5, 2.0)}
    found = intervals({"step_time_s": 2.0, "bubble_fraction": 0.1, "mean_ttft_ms": 40.0}, spread)
    assert set(found) == {"step_time_s", "mean_ttft_ms"}
    assert found["mean_ttft_ms"].high == pytest.approx(80.0)


def test_a_row_says_nothing_of_its_own_source() -> None:
    known = Residuals([_rows("a", 0.0, _like()), _rows("b", 0.5, _like())], Widening(0.25, 1.0, 0.0))
    both, without = known.spread(_like()), known.spread(_like(), but="b")
    assert both is not None and without is not None
    assert both.high > 1.5 > 1.1 > without.high
    assert (both.sources, without.sources) == (2, 1)


@pytest.mark.parametrize(
    ("one", "two", "distance"),
    [
        ("NVIDIA's performance recipes on Megatron-Core", "Megatron-Core 0.6 to 0.12", ENGINE),
        ("NVIDIA's NeMo containers", "Megatron-LM of 2022", ENGINE),
        ("KempnerForge", "PyTorch FSDP2", ENGINE),
        ("Megatron-DeepSpeed of 2021", "Megatron-Core 0.6 to 0.12", STACK),
    ],
)
def test_recipes_of_an_engine_are_near_to_it(one: str, two: str, distance: float) -> None:
    assert apart(_like(stack=one), _like(stack=two)) == distance


def test_more_than_two_features_of_layout_count_no_more() -> None:
    own = _like()
    many = own._replace(extent=Extent(8, ("ZeRO-1", "tp", "pp", "cp", "ep")))
    two = own._replace(extent=Extent(8, ("ZeRO-1", "tp", "pp")))
    assert apart(own, many) == apart(own, two) > 0


def test_where_no_run_is_alike_it_is_said_in_what_they_differ() -> None:
    known = Residuals([_rows("a", 0.0, _like()), _rows("b", 0.0, _like())], Widening(0.25, 1.0, 1.0))
    near, far = known.spread(_like()), known.spread(_like(device="TPU v5p", stack="MaxText"))
    assert near is not None and far is not None
    assert near.rows == 12 and not near.differ
    assert far.rows == 0 and far.differ == "another device and other software"
    assert far.high / far.low > near.high / near.low
    assert "extrapolated" in far.basis


def test_a_run_of_a_user_is_held_as_rows_that_were_found_later() -> None:
    """Where rows were found after the fits, their errors decide for unseen runs and not for known sources."""
    found = [_rows("c", 0.4, _like()), _rows("d", 0.4, _like())]
    known = [_rows(name, 0.0, _like()._replace(unseen=False)) for name in "ab"]
    both = Residuals([*known, *found], Widening(0.1, 1.0, 0.0), Widening(0.1, 2.0, 0.0))
    own, same = both.spread(_like()), both.spread(_like()._replace(unseen=False))
    assert own is not None and same is not None
    assert own.low > 1.0 > same.low
    assert own.high > 1.4 > same.high
    assert both.knows("a") and not both.knows("c")
    without = Residuals([*known, *found], Widening(0.1, 1.0, 0.0))
    assert without.spread(_like()) == without.spread(_like()._replace(unseen=False))


def test_rows_found_later_are_marked_where_they_are_written() -> None:
    rows = written([(_like(), "a", STEP, 1.1), (_like()._replace(unseen=False), "b", STEP, 0.9)])
    assert [row.get("found", False) for row in rows] == [True, False]
    back = read({"rows": rows, "widening": {}})[("training", STEP)]
    assert list(back.unseen) == [True, False]


def test_devices_and_software_weigh_more_than_formats() -> None:
    assert apart(_like(), _like(stack="DeepSpeed")) > apart(_like(), _like(format="fp8")) > 0
    assert apart(_like(), _like(stack="Megatron 2")) < apart(_like(), _like(stack="DeepSpeed"))
    assert apart(_like(), _like()) == 0


def test_what_is_written_is_read_back() -> None:
    found = [(_like(16), "a", STEP, 1.1), (_like(64), "a", STEP, 0.9), (_like(8, device="A100"), "b", STEP, 1.0)]
    document = {"rows": written(found), "widening": {"training/step": {"reach": 0.2, "base": 1.0, "slope": 0.5}}}
    back = read(document)[("training", STEP)]
    assert sorted(back.residuals) == pytest.approx(sorted(np.log([1.1, 0.9, 1.0])), abs=1e-4)
    assert back.widening == Widening(0.2, 1.0, 0.5)
    assert len(back.rows) == 2


def test_memory_has_an_interval_or_says_that_it_has_none() -> None:
    training = simulate(load_scenario("scenarios/quickstart.yaml").scenario)
    low, high = training.intervals["peak_memory_bytes"].low, training.intervals["peak_memory_bytes"].high
    assert low < training.metrics["peak_memory_bytes"] < high < 6 * low
    assert training.ground.never_validated == ()
    assert "peak memory" in wording.expected(training)
    tight = simulate(load_scenario("scenarios/quickstart.yaml", [TIGHT]).scenario)
    assert not tight.feasible
    assert wording.expected(tight).startswith("peak memory")
    both = [stated(training.ground), replace(stated(training.ground), spreads={})]
    assert expected_memory(both).endswith("of some never validated")
    assert expected_memory(both[1:]) == "peak memory never validated"
    serving = grounded(load_run("scenarios/serving/quickstart.yaml").scenario)
    assert serving.never_validated == ("memory",)
    assert stated(serving).never_validated == ("memory",)


def test_every_study_says_how_far_memory_may_lie() -> None:
    one = simulate(load_scenario("scenarios/quickstart.yaml").scenario)
    compared = compare_document(compare([one, one], ["one", "other"]))
    for text in (compare_page.page(compared), compare_html.page(compared)):
        assert "peak memory 0." in " ".join(text.split())


def test_shipped_intervals_of_unseen_runs_hold_what_they_promise() -> None:
    """Four kinds of figures have rows that were found after the fits; later tokens' have fewest sources."""
    for about in (("training", "step"), ("serving", "ttft"), ("serving", "request"), ("serving", "tpot")):
        of_unseen = shipped()[about].of_unseen
        assert of_unseen is not None
        assert (0.7 if about[1] == "tpot" else 0.75) <= of_unseen.coverage <= 0.85


@pytest.mark.parametrize(
    "key", [("training", "memory"), ("training", "step"), ("serving", "ttft"), ("serving", "tpot")]
)
def test_shipped_intervals_hold_what_they_promise_of_left_out_sources(key: tuple[str, str]) -> None:
    """The coverage that calibration found is stated with the shipped residuals: 75 to 85 %."""
    known = shipped()[key]
    assert known.widening is not None
    assert 0.75 <= known.widening.coverage <= 0.85
