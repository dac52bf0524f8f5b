"""Workflows are checked and swept as scenarios are."""

import json
from pathlib import Path

import pytest

from simulator.cli import main
from simulator.errors import InputError
from simulator.results.ground import KINDS as GROUNDS
from simulator.run.dispatch import simulate
from simulator.run.workflow.simulate import simulate_workflow
from simulator.specs import data_root
from simulator.specs.resolve import load_run
from simulator.specs.workflow import Workflow
from simulator.study.check import regression
from simulator.study.check.check import Tolerances
from simulator.study.fingerprint import key
from simulator.study.sweep.sweep import sweep

TIMED = """
version: 1
name: timed
cluster: {extends: clusters/dgx-h100, nodes: 1}
pools: {all: {nodes: 1}}
iterations: 3
stages:
  - {name: first, takes: 1 s, items: 4, servers: 2, on: all}
  - {name: second, after: [first], takes: 3 s, on: all}
  - {name: aside, takes: 1 ms}
"""
SMALL = """
version: 1
name: small
cluster: {extends: clusters/dgx-h100, nodes: 1}
pools: {all: {nodes: 1}}
iterations: 1
stages:
  - name: train
    on: all
    model: models/llama-3.2-1b
    stack: megatron-core
    training: {global_batch: 8, sequence_length: 512, micro_batch: 1, parallel: {tp: 2}}
  - name: rollout
    after: [train]
    on: all
    model: models/llama-3.2-1b
    stack: vllm
    serving: {replicas: 1, parallel: {tp: 1}}
    requests: {lengths: {prompt: {fixed: 64}, output: {fixed: 4}}, count: 4}
"""


@pytest.fixture
def timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workflow of service times in the working folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "timed.yaml").write_text(TIMED)
    return Path("timed.yaml")


def test_a_result_has_the_figures_of_the_document_and_its_longest_path(timed: Path) -> None:
    workflow = load_run(timed).spec
    assert isinstance(workflow, Workflow)
    result = simulate(workflow)
    assert result.metrics == simulate_workflow(workflow).metrics
    assert result.critical_path.by_operation == pytest.approx({"first": 3 * 2.0, "second": 3 * 3.0})
    assert sum(result.critical_path.by_operation.values()) == pytest.approx(result.metrics["makespan_s"])


def test_a_sweep_ranks_by_the_time_of_an_iteration(timed: Path) -> None:
    table = sweep(timed, ["stages.0.servers=1,2,4"], ["iteration_s < 6 s"])
    assert {row.values["stages.0.servers"]: row.metrics["iteration_s"] for row in table.rows} == {2: 5.0, 4: 4.0}
    assert [row.values["stages.0.servers"] for row in table.best()] == [4, 2]
    assert (table.kind, table.dropped) == ("workflow", 1)
    assert table.subject["stages"] == "first, second, aside"


def test_points_that_do_not_fit_or_are_refused_are_rows_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    axes = ["stages.0.training.micro_batch=1,3", "stages.0.model=models/llama-3.2-1b,models/gpt-1t"]
    found = {tuple(row.values.values()): row for row in sweep(tmp_path / "small.yaml", axes).rows}
    assert {where: row.status for where, row in found.items()} == {
        (1, "models/llama-3.2-1b"): "ok",
        (1, "models/gpt-1t"): "out of memory",
        (3, "models/llama-3.2-1b"): "refused",
        (3, "models/gpt-1t"): "refused",
    }
    assert found[1, "models/gpt-1t"].reason.startswith("train does not fit: needs ")
    assert "stages.0.training.global_batch" in found[3, "models/gpt-1t"].reason
    assert found[1, "models/llama-3.2-1b"].ground.kind in GROUNDS  # of its stages, not empty


@pytest.mark.parametrize(
    ("axis", "message"),
    [("stages.0.server=1,2", "unknown key `server`"), ("stages.0.takes=1 s,often", "often"), ("model=a,b", "stages")],
)
def test_what_could_suit_no_point_is_refused(axis: str, message: str, timed: Path) -> None:
    with pytest.raises(InputError, match=message):
        sweep(timed, [axis])


def test_a_check_names_the_stage_that_moved_and_the_key_that_was_changed(timed: Path) -> None:
    (case,), _ = regression.cases_of([str(timed)], "base")
    assert regression.run([case], Tolerances(), update=True)[0].state == "new"
    assert regression.check_case(case, Tolerances()).state == "same"
    timed.write_text(TIMED.replace("takes: 3 s", "takes: 4 s"))
    (case,), _ = regression.cases_of(["."], "base")
    checked = regression.check_case(case, Tolerances())
    assert checked.verdict is not None
    assert [(one.metric, one.change) for one in checked.verdict.moved][:1] == [("makespan_s", pytest.approx(0.2))]
    assert [(one.name, one.after) for one in checked.verdict.causes] == [("second", pytest.approx(12))]
    assert checked.verdict.edited == ("stages.1.takes 3.00 s to 4.00 s",)


def test_commands_take_workflows(timed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", str(timed), "stages.0.servers=1,2", "--no-cache", "--quiet", "--csv", "t.csv"]) == 0
    assert Path("t.csv").read_text().startswith("point,stages.0.servers,status")
    assert main(["check", str(timed), "--baseline", "base"]) == 1
    assert "NO BASELINE" in capsys.readouterr().out
    assert main(["explain", str(timed)]) == 2
    assert "is a workflow" in capsys.readouterr().err


def test_run_shows_a_workflow_as_its_own_command_does(timed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = []
    for command in ("run", "workflow"):
        assert main([command, str(timed), "--html", f"{command}.html"]) == 0
        pages.append((capsys.readouterr().out, Path(f"{command}.html").read_bytes()))
    assert pages[0] == pages[1]
    assert "an iteration" in pages[0][0]


def test_workflows_are_compared_by_their_iterations(timed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(timed), "--vary", "stages.1.takes=3 s,4 s", "--html", "both.html", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    (other,) = found["differences"]
    before, after = found["metrics"]["iteration_s"]["values"]
    assert other["metric"] == "iteration_s"
    assert other["ratio"] == pytest.approx(after / before - 1)
    assert max(other["parts"], key=other["parts"].get) == "second"
    assert "Stages on which an iteration hangs" in Path("both.html").read_text()
    assert main(["compare", str(timed), str(data_root() / "scenarios/quickstart.yaml")]) == 0
    assert "do not do the same work" in " ".join(capsys.readouterr().out.split())


def test_a_trace_of_a_stage_is_part_of_the_key(tmp_path: Path) -> None:
    trace = tmp_path / "lengths"
    text = SMALL.replace("lengths: {prompt: {fixed: 64}, output: {fixed: 4}}, count: 4", f"trace: {trace}")
    (tmp_path / "small.yaml").write_text(text)
    keys = set()
    for rows in ("arrived_at,num_prefill_tokens,num_decode_tokens\n0,8,2\n", "0"):
        trace.write_text(rows)
        keys.add(key(load_run(tmp_path / "small.yaml").spec))
    assert len(keys) == 2
