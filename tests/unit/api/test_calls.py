"""`import simulator as sim`: scenarios, runs, comparisons, sweeps, results from files."""

from pathlib import Path

import numpy as np
import pytest

import simulator as sim
from simulator import results
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
from tests.factories import assert_same

ROOT = Path(__file__).parents[3]
QUICKSTART = ROOT / "scenarios" / "quickstart.yaml"
SERVING = "serving/quickstart"
SHORT = {"requests.count": 60}


@pytest.fixture(scope="module")
def quick() -> sim.Result:
    """A short step."""
    return sim.run(QUICKSTART, {"training.global_batch": 16})


def test_a_run_is_that_of_the_command_line(quick: sim.Result) -> None:
    plain = simulate(load_scenario(str(QUICKSTART), ["training.global_batch=16"]).scenario)
    assert isinstance(quick, results.Result)
    assert_same(results.Result(**{name: getattr(quick, name) for name in quick.__dataclass_fields__}), plain)


@pytest.mark.parametrize(
    "overrides",
    [
        {"training.global_batch": 16, "training.parallel": {"tp": 4, "pp": 1, "dp": 2}},
        ["training.global_batch=16", "training.parallel={tp: 4, pp: 1, dp: 2}"],
        {"training.global_batch": np.int64(16), "training.parallel": {"tp": 4, "pp": 1, "dp": 2}},
    ],
)
def test_overrides_in_every_form(overrides) -> None:
    loaded = sim.load(str(QUICKSTART), overrides)
    assert loaded.spec.training.parallel.tp == 4
    assert loaded.spec.training.global_batch == 16
    assert loaded.origins["training.global_batch"].startswith("override")


def test_text_stays_text_and_quantities_have_units() -> None:
    loaded = sim.load(SERVING, {"name": "7: [a]", "+slo": {"ttft": "750 ms"}, "~serving.context": None, **SHORT})
    assert loaded.name == "7: [a]"
    assert loaded.spec.slo.ttft == 0.75
    assert loaded.kind == "serving"
    assert sim.load(SERVING, {"requests.arrivals": {"poisson": "3 /s"}}).spec.requests.arrivals.poisson == 3
    assert sim.load(QUICKSTART, {"cluster": Path("clusters/selene"), "cluster.nodes": 1}).spec.cluster.nodes == 1


def test_a_loaded_scenario_is_changed_and_run(quick: sim.Result) -> None:
    loaded = sim.load(QUICKSTART, {"training.global_batch": 16})
    assert loaded.change(["training.micro_batch=2"]).overrides == ("training.global_batch=16", "training.micro_batch=2")
    assert_same(sim.run(loaded), quick)
    assert sim.run(loaded, {"training.micro_batch": 2}).scenario["training"]["micro_batch"] == 2
    assert_same(sim.run(loaded.spec), quick)
    wider = {"training.micro_batch": 2}
    assert sim.run(loaded.spec, wider).metrics == sim.run(loaded, wider).metrics
    shown = f"training, {str(QUICKSTART)!r}, ['training.global_batch=16']"
    assert repr(loaded) == f"Scenario('Llama-3-8B on one DGX H100', {shown})"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ("training.micro_batch=2", "a mapping or a list"),
        ([1], "is no override"),
        ({1: 2}, "is no key"),
        ({"training.micro_batch": object()}, "cannot be written in a scenario"),
        ({"training.micro_batch": {1, 2}}, "cannot be written in a scenario"),
        ({"~training.tokens": 1}, "has no value"),
        ({"training.micro_batches": 2}, "did you mean"),
        ({"training.micro_batch": float("nan")}, "micro_batch"),
        ({"training.global_batch": "many"}, "global_batch"),
    ],
)
def test_bad_overrides(overrides, message: str) -> None:
    with pytest.raises(sim.InputError, match=message):
        sim.run(QUICKSTART, overrides)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sim.run("nowhere.yaml"), "nowhere"),
        (lambda: sim.run(None), "a NoneType is no scenario"),
        (lambda: sim.run(SERVING, SHORT, fold="none"), "no meaning"),
        (lambda: sim.run(SERVING, SHORT, sensitivities=True), "no meaning"),
        (lambda: sim.run(QUICKSTART, leap=False), "no meaning"),
        (lambda: sim.read(QUICKSTART), "is no result file"),
        (lambda: sim.compare(QUICKSTART), "nothing to compare"),
        (lambda: sim.compare(QUICKSTART, QUICKSTART, names=["a"]), "1 names for 2 runs"),
        (lambda: sim.sweep(QUICKSTART, {}), "nothing is varied"),
        (lambda: sim.validate("nowhere.jsonl"), "nowhere"),
    ],
)
def test_bad_calls(call, message: str) -> None:
    with pytest.raises(sim.InputError, match=message):
        call()


def test_sensitivities_come_with_the_run() -> None:
    result = sim.run(QUICKSTART, {"training.global_batch": 16}, sensitivities=True)
    assert {one.name for one in result.sensitivities} >= {"flop_rate", "hbm_bandwidth"}


def test_results_are_saved_and_read_again(quick: sim.Result, tmp_path: Path) -> None:
    quick.save(tmp_path / "a.result")
    again = sim.read(tmp_path / "a.result")
    assert type(again) is sim.Result
    assert_same(again, quick)
    quick.save(tmp_path / "a.json")
    assert '"schema": 1' in (tmp_path / "a.json").read_text()
    quick.save(str(tmp_path / "a.html"))
    assert (tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")
    with pytest.raises(sim.InputError, match="does not exist"):
        quick.save(tmp_path / "none" / "a.result")


def test_a_result_prints_as_its_page_and_shows_as_a_card(quick: sim.Result) -> None:
    assert str(quick).lstrip().startswith("Llama-3-8B on one DGX H100")
    assert repr(quick).startswith("<Result of 'Llama-3-8B on one DGX H100': training, ")
    assert quick._repr_html_().startswith('<div class="clustersim">')
    assert len(quick.to_frame("operations")) == len(quick.spans.start)
    served = sim.run(SERVING, SHORT)
    assert "output tokens/s>" in repr(served)
    assert len(served.to_frame("requests")) == 60


def test_what_does_not_fit_is_a_result() -> None:
    result = sim.run("scenarios/training/edge-cell-oom.yaml")
    assert not result.feasible
    assert "does not fit into memory" in repr(result)


def test_comparisons_of_scenarios_and_results(quick: sim.Result, tmp_path: Path) -> None:
    found = sim.compare(quick, QUICKSTART, names=["small", "large"], overrides={"training.global_batch": 32})
    assert found.names == ("small", "large")
    assert found.sentences[0].startswith("large takes")
    assert str(found).lstrip().startswith("Llama-3-8B on one DGX H100: 2 runs side by side")
    assert "further figures in to_frame()" in str(found)
    assert repr(found) == "<Comparison of 'small', 'large'>"
    assert list(found.to_frame().index) == ["small", "large"]
    assert found.to_frame().filter(like="part.").loc["small"].sum() == pytest.approx(1.0)
    found.save(tmp_path / "c.html")
    found.save(tmp_path / "c.json")
    assert "large takes" in (tmp_path / "c.html").read_text()
    assert '"kind": "comparison"' in (tmp_path / "c.json").read_text()
    assert "large takes" in found._repr_html_()


def test_comparisons_of_variants_and_of_a_mapping(quick: sim.Result) -> None:
    short = {"training.global_batch": 16}
    vary = {"training.micro_batch": [1, 2], "training.schedule": ["1f1b"]}
    found = sim.compare(QUICKSTART, overrides=short, vary=vary)
    assert found.names == ("micro_batch 1, schedule 1f1b", "micro_batch 2, schedule 1f1b")
    found = sim.compare({"a": quick, "b": sim.load(QUICKSTART, short)}, {"c": QUICKSTART}, overrides=short)
    assert found.names == ("a", "b", "c")
    assert all(difference.ratio == 0 for difference in found.differences)
    several = sim.compare(QUICKSTART, QUICKSTART, overrides=short, vary={"training.micro_batch": [1, 2]})
    assert several.names[1] == "Llama-3-8B on one DGX H100 micro_batch 2"


def test_nothing_is_simulated_where_one_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from simulator.api import calls

    monkeypatch.setattr(calls, "simulate", lambda spec: pytest.fail("simulated"))
    with pytest.raises(sim.InputError):
        sim.compare(QUICKSTART, "nowhere.yaml")


def test_a_sweep(tmp_path: Path) -> None:
    axes = {"training.micro_batch": [1, 2, 3], "training.parallel.pp": [2]}
    swept = sim.sweep(QUICKSTART, axes, {"training.global_batch": 16}, where=["micro_batch < 3"])
    assert type(swept) is sim.Sweep
    table = swept.to_frame()
    assert list(table["training.micro_batch"]) == [1, 2]
    one = sim.run(QUICKSTART, {"training.global_batch": 16, "training.micro_batch": 2})
    assert table["mfu"].iloc[1] == one.metrics["mfu"]
    assert "2 points" in swept._repr_html_()
    assert repr(swept).endswith("over training.micro_batch, training.parallel.pp: 2 points>")
    loaded = sim.load(QUICKSTART, {"training.global_batch": 16})
    cache = tmp_path / "cache.db"
    assert [row.metrics for row in sim.sweep(loaded, axes, cache=cache).rows[:2]] == [row.metrics for row in swept.rows]
    assert sim.sweep(loaded.spec, axes, cache=cache).reused > 0


def test_validation_has_the_form_of_the_command_line() -> None:
    found = sim.validate(kind="training", sample=1)
    assert set(found) == {"summary", "rows"}
    assert found["summary"]["rows"] == len(found["rows"]) > 0
