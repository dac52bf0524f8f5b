"""`import simulator as sim`: scenarios, runs, comparisons, sweeps, results from files."""

import copy
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import simulator as sim
from simulator.errors import InputError
from simulator.metrics import METRICS
from simulator.results.result import Result, overridden
from simulator.run.dispatch import simulate
from simulator.specs import load_scenario
from simulator.specs.resolve import load_run
from tests.factories import assert_same

ROOT = Path(__file__).parents[3]
QUICKSTART = ROOT / "scenarios" / "quickstart.yaml"
SERVING = "serving/quickstart"
SHORT = {"requests.count": 60}
BATCH = "training.micro_batch"
TWO = {BATCH: [1, 2]}


@pytest.fixture(scope="module")
def quick() -> sim.Result:
    """A short step."""
    return sim.run(QUICKSTART, {"training.global_batch": 16})


def test_a_run_is_that_of_the_command_line(quick: sim.Result) -> None:
    changes = ["training.global_batch=16"]
    plain = overridden(simulate(load_scenario(str(QUICKSTART), changes).scenario), changes)
    assert isinstance(quick, Result)
    assert_same(Result(**{name: getattr(quick, name) for name in quick.__dataclass_fields__}), plain)


@pytest.mark.parametrize(
    "overrides",
    [
        {"training.global_batch": 16, "training.parallel": {"tp": 4, "pp": 1, "dp": 2}},
        ["training.global_batch=16", "training.parallel={tp: 4, pp: 1, dp: 2}"],
        {"training.global_batch": np.int64(16), "training.parallel": {"tp": 4, "pp": 1, "dp": 2}},
        (text for text in ("training.global_batch=16", "training.parallel={tp: 4, pp: 1, dp: 2}")),
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
    assert_same(overridden(sim.run(loaded.spec), loaded.overrides), quick)
    wider = {"training.micro_batch": 2}
    assert sim.run(loaded.spec, wider).metrics == sim.run(loaded, wider).metrics
    shown = f"training, {str(QUICKSTART)!r}, ['training.global_batch=16']"
    assert repr(loaded) == f"Scenario('Llama-3-8B on one DGX H100', {shown})"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (5, r"overrides: `5` \(int\) is no list of texts"),
        ("training.micro_batches=2", "did you mean"),
        ([1], "is no list of texts"),
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
        (lambda: sim.run(None), r"`None` \(NoneType\) is no scenario"),
        (lambda: sim.run(SERVING, SHORT, fold="none"), "no meaning"),
        (lambda: sim.run(SERVING, SHORT, sensitivities=True), "no meaning"),
        (lambda: sim.run(QUICKSTART, leap=False), "no meaning"),
        (lambda: sim.read(QUICKSTART), "is no result file"),
        (lambda: sim.compare(QUICKSTART), "nothing to compare"),
        (lambda: sim.compare(QUICKSTART, QUICKSTART, names=["a"]), "1 names for 2 runs"),
        (lambda: sim.sweep(QUICKSTART, {}), "nothing is varied"),
        (lambda: sim.validate("nowhere.jsonl"), "nowhere"),
        (lambda: sim.run(QUICKSTART, fold="foo"), "fold: .*write one of `auto`, `exact`, `tiers`, `none`"),
        (lambda: sim.run(QUICKSTART, fold="exac"), "did you mean `exact`"),
        (lambda: sim.run(QUICKSTART, executor="foo"), "executor: .*write one of `simpy`, `max-plus`"),
        (lambda: sim.run(SERVING, leap="no"), "leap: .*write True or False"),
        (lambda: sim.run(QUICKSTART, sensitivities="no"), "sensitivities: .*write True or False"),
        (lambda: sim.sweep(QUICKSTART, TWO, random=-1), "random: `-1`.*whole number"),
        (lambda: sim.sweep(QUICKSTART, TWO, random=True), "random: `True`.*whole number"),
        (lambda: sim.sweep(QUICKSTART, TWO, jobs=0), "jobs: `0`.*whole number"),
        (lambda: sim.sweep(QUICKSTART, TWO, jobs="2"), "jobs: .*whole number"),
        (lambda: sim.sweep(QUICKSTART, TWO, executor="foo"), "is no executor"),
        (lambda: sim.sweep(QUICKSTART, TWO, progress=3), "cannot be called"),
        (lambda: sim.sweep(QUICKSTART, TWO, cache=3), "cache: .*is no path"),
        (lambda: sim.sweep(QUICKSTART, TWO, where=[3]), "where: .*is no list of texts"),
        (lambda: sim.sweep(QUICKSTART, {BATCH: 2}), r'axes: .*put it into a list: {"training.micro_batch": \[2\]}'),
        (lambda: sim.sweep(QUICKSTART, {BATCH: {"a": 1}}), "put it into a list"),
        (lambda: sim.sweep(QUICKSTART, {BATCH: [object()]}), "cannot be written in a scenario"),
        (lambda: sim.sweep(QUICKSTART, {3: [1]}), "axes: .*is no key"),
        (lambda: sim.sweep(QUICKSTART, 3), "axes: .*is no list"),
        (lambda: sim.sweep(3, TWO), "is no scenario"),
        (lambda: sim.compare(QUICKSTART, vary={BATCH: 2}), "vary: .*put it into a list"),
        (lambda: sim.compare(QUICKSTART, vary={BATCH: []}), "vary: lists no values of `training.micro_batch`"),
        (lambda: sim.compare(QUICKSTART, vary=[BATCH]), "lists no values of a key"),
        (lambda: sim.compare(QUICKSTART, QUICKSTART, names="ab"), "1 names for 2 runs"),
        (lambda: sim.compare(QUICKSTART, QUICKSTART, names=["a", "a"]), "two runs are called `a`"),
        (lambda: sim.run(QUICKSTART, {"training": {"micro_batch": 2}}), "write `training.micro_batch` to change that"),
        (lambda: sim.sweep(QUICKSTART, TWO, cache="/"), "name another file for the cache"),
        (lambda: sim.compare({1: QUICKSTART}), "names: .*no list of texts"),
        (lambda: sim.compare(5, QUICKSTART), "is no scenario"),
        (lambda: sim.load(5), "path: .*is no path"),
        (lambda: sim.read(5), "path: .*is no path"),
        (lambda: sim.validate(kind="foo"), "kind: .*write one of `training`, `serving`"),
        (lambda: sim.validate(by="foo", sample=1), "not listed by `foo`"),
        (lambda: sim.validate(by=3), "by: .*no list of texts"),
        (lambda: sim.validate(sample=0), "sample: .*whole number"),
        (lambda: sim.validate(jobs=0), "jobs: .*whole number"),
        (lambda: sim.validate(3), "files: .*is no path"),
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


@pytest.mark.parametrize(
    ("name", "hint"),
    [("a.png", "savefig"), ("a.PDF", "savefig"), ("a.csv", "to_csv"), ("a.yaml", ".json"), ("a.pkl", "step.result")],
)
def test_an_ending_of_another_form_is_refused(quick: sim.Result, name: str, hint: str, tmp_path: Path) -> None:
    for shown in (quick, sim.compare(quick, quick)):
        with pytest.raises(sim.InputError, match=f"nothing of the form .*{re.escape(hint)}"):
            shown.save(tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_the_json_form_and_the_report_are_not_read_back(quick: sim.Result, tmp_path: Path) -> None:
    quick.save(tmp_path / "a.JSON")
    with pytest.raises(sim.InputError, match="JSON cannot be read back; save the result under another ending"):
        sim.read(tmp_path / "a.JSON")
    quick.save(tmp_path / "a.html")
    with pytest.raises(sim.InputError, match="a report cannot be read back"):
        sim.read(tmp_path / "a.html")
    with pytest.raises(sim.InputError, match="No such file"):
        sim.read(tmp_path / "none.json")


def test_figures_are_attributes_with_the_nearest_name_where_there_is_none(quick: sim.Result) -> None:
    assert quick.mfu == quick.metrics["mfu"]
    assert "mfu" in dir(quick) and "spans" in dir(quick)
    for name, hint in (("mfuu", "did you mean `mfu`"), ("span", "did you mean `spans`"), ("zzz", "known: .*`mfu`")):
        with pytest.raises(AttributeError, match=f"a result of training has no figure `{name}`; {hint}"):
            getattr(quick, name)
    with pytest.raises(KeyError, match="there is no figure `mfuu`; did you mean `mfu`"):
        quick.metrics["mfuu"]
    assert quick.metrics.get("mfuu") is None
    assert not hasattr(quick, "__array__")
    assert not set(METRICS) & {*dir(sim.Result)}
    for again in (pickle.loads(pickle.dumps(quick)), copy.deepcopy(quick), copy.copy(quick)):
        assert_same(again, quick)


def test_a_result_prints_as_its_page_and_shows_as_a_card(quick: sim.Result) -> None:
    assert str(quick).lstrip().startswith("Llama-3-8B on one DGX H100")
    assert repr(quick).startswith("<Result of 'Llama-3-8B on one DGX H100': training, ")
    assert quick._repr_html_().startswith('<div class="clustersim"')
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


@pytest.mark.parametrize(
    "values", [["training.micro_batch=1,2"], "training.micro_batch=1,2", {BATCH: "1,2"}, {BATCH: np.array([1, 2])}]
)
def test_values_of_keys_in_every_form(values) -> None:
    short = "training.global_batch=16"
    assert sim.compare(QUICKSTART, overrides=short, vary=values).names == ("micro_batch 1", "micro_batch 2")
    swept = sim.sweep(QUICKSTART, values, short, where="micro_batch < 2")
    assert [row.values for row in swept.rows] == [{BATCH: 1}]


def test_values_that_hold_commas_stay_whole() -> None:
    layouts = [{"tp": 4, "pp": 1, "dp": 2}, {"tp": 2, "pp": 2, "dp": 2}]
    short = {"training.global_batch": 16}
    swept = sim.sweep(QUICKSTART, {"training.parallel": layouts}, short)
    assert [row.values["training.parallel"] for row in swept.rows] == layouts
    named = sim.sweep(QUICKSTART, {"name": ["a, b: [c]", "d"]}, short)
    assert [row.values["name"] for row in named.rows] == ["a, b: [c]", "d"]


def test_a_finished_result_is_neither_varied_nor_changed(quick: sim.Result) -> None:
    with pytest.raises(sim.InputError, match="a finished result cannot be varied; give its scenario"):
        sim.compare(quick, vary=TWO)
    with pytest.raises(sim.InputError, match="a finished result cannot be changed"):
        sim.compare(quick, quick, overrides={BATCH: 2})


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


def test_a_sweep_prints_its_page_and_draws(tmp_path: Path) -> None:
    axes = {"training.parallel.tp": [1, 2], BATCH: [1, 2]}
    swept = sim.sweep(QUICKSTART, axes, {"training.global_batch": 16})
    assert "Best points by tokens per second" in str(swept)
    assert "4 tried now · clustersim" in str(swept)
    axes = Figure().subplots()
    assert swept.plot.heat("tp", "micro_batch", "mfu", ax=axes) is axes
    words = [text.get_text() for text in axes.texts]
    assert [word for word in words if word.startswith("needs")] == ["needs\n112 GB"]
    assert len(words) == 4
    axes = Figure().subplots()
    assert swept.plot.pareto("mfu", "peak_memory_bytes", ax=axes) is axes
    assert repr(swept.plot) == "<plots of a sweep: heat(x, y, metric), pareto(first, second)>"
    for call, message in (
        (lambda: swept.plot.heat("tq", "micro_batch", "mfu"), "nothing varies `tq`"),
        (lambda: swept.plot.heat("tp", "tp", "mfu"), "are one axis"),
        (lambda: swept.plot.pareto("mfu", "memory"), "unknown metric `memory`; perhaps `peak_memory_bytes`"),
        (lambda: swept.plot.pareto("mfu", "hfu", ax=3), "ax: `3`"),
        (lambda: swept.best("foo"), "unknown metric `foo`; known: .*`mfu`"),
        (lambda: swept.best("mfuu"), "unknown metric `mfuu`; did you mean `mfu`"),
        (lambda: swept.best(["mfu"]), "unknown metric"),
        (lambda: swept.best("mean_ttft_ms"), "no point has `mean_ttft_ms`"),
    ):
        with pytest.raises(sim.InputError, match=message):
            call()
    one = sim.sweep(QUICKSTART, {BATCH: [1]}, {"training.global_batch": 16})
    assert repr(one).endswith("over training.micro_batch: 1 point>")


def test_rows_without_use_say_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{\n"rows": [\n1\n]\n}\n')
    with pytest.raises(sim.InputError, match=r"a\.json:1: there are no rows: not a JSON object: Expecting"):
        sim.validate(tmp_path / "a.json")
    (tmp_path / "b.jsonl").write_text("\n")
    with pytest.raises(sim.InputError, match="there are no rows"):
        sim.validate(tmp_path / "b.jsonl")
    (tmp_path / "c.jsonl").write_text('{}\n[1]\n{"primary_metric": "step_s"}\n{}\n')
    message = "none of 4 rows can be simulated; give files of one JSON object a line"
    with pytest.raises(sim.InputError, match=message) as found:
        sim.validate(tmp_path / "c.jsonl")
    reasons = [str(problem) for problem in found.value.problems[1:]]
    assert "not a JSON object but list" in reasons
    assert any(reason.startswith("without keys") and reason.endswith("(and 1 like it)") for reason in reasons)


@pytest.mark.parametrize("by", ["source", ["source"], "source,device"])
def test_validation_is_listed_by_one_key_or_by_several(by, tmp_path: Path) -> None:
    with open(ROOT / "workloads" / "measurements" / "training.jsonl", encoding="utf-8") as rows:
        (tmp_path / "one.jsonl").write_text(next(rows))
    found = sim.validate(tmp_path / "one.jsonl", by=by)["summary"]
    assert found["simulated"] == 1
    assert ("by_source" in found, "by_device" in found) == (True, "device" in by)


def test_validation_has_the_form_of_the_command_line() -> None:
    found = sim.validate(kind="exchanges", sample=1)
    assert set(found) == {"summary", "rows"}
    assert found["summary"]["rows"] == len(found["rows"]) > 0


def test_no_overrides_are_none() -> None:
    assert sim.load(QUICKSTART, None).overrides == ()


def test_a_combination_that_is_refused_is_left_out_of_a_comparison() -> None:
    few = {"training.global_batch": 16}
    held = sim.compare(QUICKSTART, overrides=few, vary={"training.parallel.tp": [2, 3, 4]})
    assert held.names == ("tp 2", "tp 4")
    assert held.notes[0].startswith("tp 3 is left out: training.parallel: tp 3 x")
    with pytest.raises(sim.InputError, match="tp 3 x"):
        sim.compare(QUICKSTART, overrides=few, vary={"training.parallel.tp": [2, 3]})


def test_workflows_run_and_stand_side_by_side_as_on_the_command_line() -> None:
    loaded = sim.load("data-acquisition")
    assert loaded.kind == "workflow"
    run = sim.run(loaded, {"iterations": 3})
    again = simulate(load_run("data-acquisition", ["iterations=3"]).scenario)
    assert run.kind == "workflow"
    assert run.metrics == again.metrics
    assert run.iteration_s == sim.run(loaded.spec, {"iterations": 3}).iteration_s
    held = sim.compare("data-acquisition", vary={"iterations": [2, 3]})
    assert held.names == ("iterations 2", "iterations 3")
    assert held.to_frame()["iteration_s"].notna().all()
    with pytest.raises(InputError, match="`leap` has no meaning"):
        sim.run("data-acquisition", leap=False)
