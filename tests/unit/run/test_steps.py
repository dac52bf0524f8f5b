"""Results of several steps."""

from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.results import Result, to_json
from simulator.run import steps as steps_of_run
from simulator.run.simulate import simulate
from simulator.run.steps import Steps
from tests import jobs

PERCENTILES = ("p50", "p90", "p95", "p99", "max")


def result(steps: int = 8, *, nodes: int = 1, fold: Any = None, software: Any = None, **noise: Any) -> Result:
    parts = {"tp": 2, "pp": 2, "zero": 0}
    said = {"steps": steps, "noise": noise}
    return simulate(jobs.scenario(nodes=nodes, training=said, software=software, **parts), fold=fold)


def test_equal_steps_change_no_figure() -> None:
    one, many = result(1), result(50)
    assert {name: many.metrics[name] for name in one.metrics} == one.metrics
    assert {many.metrics[f"step_time_{name}_s"] for name in PERCENTILES} == {one.metrics["step_time_s"]}
    assert many.breakdown == one.breakdown
    assert not len(one.step_times) and len(many.step_times) == 50
    assert "steps" not in one.provenance and many.provenance["steps"] == 50


def test_a_day_of_steps() -> None:
    metrics = result(4).metrics
    assert metrics["tokens_per_day"] == metrics["tokens_per_s"] * 86_400
    assert ("cost_per_day_usd" in metrics) == ("cost_usd" in metrics)
    if "cost_usd" in metrics:
        assert metrics["cost_per_day_usd"] == pytest.approx(metrics["cost_usd"] * 86_400 / metrics["step_time_s"])


def test_metrics_are_of_the_mean_and_the_rest_of_the_median_step() -> None:
    found = result(9, jitter=0.1)
    ticks = found.step_times
    assert found.metrics["step_time_s"] == pytest.approx(ticks.mean() / 1e12, rel=1e-12)
    assert found.metrics["step_time_p50_s"] == np.median(ticks) / 1e12
    assert found.metrics["step_time_max_s"] == ticks.max() / 1e12
    shown = ticks[found.provenance["step_shown"]]
    assert shown == np.median(ticks) == found.spans.end.max()
    for parts in found.breakdown:
        assert sum(parts.values()) == pytest.approx(shown / 1e12, rel=1e-9)
    assert sum(found.critical_path.seconds.values()) == pytest.approx(shown / 1e12, rel=1e-9)


def test_the_quicker_of_two_in_the_middle_is_shown() -> None:
    assert Steps(np.array([5, 1, 4, 2])).shown == 3
    assert Steps(np.array([3, 3, 3])).shown == 0


def test_json_has_the_times_only_of_several_steps() -> None:
    assert "step_times_s" not in to_json(result(1, jitter=0.1))
    assert len(to_json(result(3, jitter=0.1))["step_times_s"]) == 3


def test_a_slow_link_that_carries_nothing_is_a_warning() -> None:
    idle = result(1, nodes=1, slow_links={"links": ["NIC 0"], "factor": 0.5})
    assert any("nothing travels over these links" in text for text in idle.warnings)
    used = result(1, nodes=1, slow_links={"links": ["node 0: 0 > switch"], "factor": 0.5})
    assert not any("nothing travels" in text for text in used.warnings)


def test_replicas_too_many_to_show_apart_are_shown_together(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = jobs.scenario(tp=1, pp=1, training={"steps": 5, "noise": {"jitter": 0.05}})
    apart = simulate(scenario)
    monkeypatch.setattr(steps_of_run, "MOST_SHOWN", 1)
    together = simulate(scenario)
    assert (len(apart.classes), len(together.classes)) == (8, 1)
    np.testing.assert_array_equal(apart.step_times, together.step_times)
    assert any("replicas that pay the same are shown together" in text for text in together.assumptions)


@pytest.mark.parametrize(("limit", "overlap"), [("MOST_SWEPT", False), ("MOST_EXECUTED", True)])
def test_too_much_work_is_refused(limit: str, overlap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_of_run, limit, 3000)
    with pytest.raises(InputError, match="steps in which devices differ") as caught:
        result(500, software=jobs.stack(overlap_gradients=overlap), jitter=0.1)
    (problem,) = caught.value.problems
    assert problem.path == "training.steps"
    assert ("overlap_gradients: false" in problem.hint) == overlap
