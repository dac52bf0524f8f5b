"""Whole workflows: rollouts that conserve requests and tokens, iterations as their stages say, bad input named."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from simulator.cli import main
from simulator.errors import InputError
from simulator.report.workflow import html
from simulator.report.workflow.page import page
from simulator.results.documents.workflow import WorkflowDocument
from simulator.run.simulate import simulate
from simulator.run.workflow.partial import Rollouts, out_by
from simulator.run.workflow.simulate import simulate_workflow
from simulator.serving.fleet.system import resolve
from simulator.serving.workload.generate import generate
from simulator.specs.resolve import load_file, load_scenario
from simulator.specs.scenario import Scenario, ServingScenario
from simulator.specs.workflow import Workflow

SMALL = """
version: 1
name: small
cluster: {extends: clusters/dgx-h100, nodes: 2}
pools: {left: {nodes: 1}, right: {nodes: 1}}
iterations: 2
stages:
  - name: rollout
    after: [{stage: sync, lag: 1}]
    on: POOL
    model: models/llama-3.2-1b
    stack: vllm
    serving: {replicas: 2, parallel: {tp: 1}}
    requests: {lengths: {prompt: {fixed: 64}, output: {uniform: [8, 64]}}, count: 40}
  - name: train
    after: [rollout]
    on: right
    model: models/llama-3.2-1b
    stack: megatron-core
    training: {global_batch: 16, sequence_length: 512, steps: 2, micro_batch: 1, parallel: {tp: 2}}
  - name: sync
    after: [train]
    on: [right]
    hands_over: {of: train, to: rollout}
"""


def run(tmp_path: Path, text: str, *changes: str) -> WorkflowDocument:
    """A workflow from its text."""
    (tmp_path / "w.yaml").write_text(text)
    return simulate_workflow(load_file(Workflow, tmp_path / "w.yaml", changes).spec)


@pytest.fixture(scope="module")
def colocated(tmp_path_factory: pytest.TempPathFactory) -> WorkflowDocument:
    return run(tmp_path_factory.mktemp("w"), SMALL.replace("POOL", "right"))


def test_a_colocated_iteration_is_the_sum_of_its_stages(colocated: WorkflowDocument) -> None:
    stages = {stage.name: stage.seconds for stage in colocated.stages}
    assert all(seconds > 0 for seconds in stages.values())
    assert colocated.metrics["iteration_s"] == pytest.approx(sum(stages.values()), rel=1e-9)
    assert colocated.metrics["makespan_s"] == pytest.approx(2 * sum(stages.values()), rel=1e-9)
    assert sum(stage.critical for stage in colocated.stages) == pytest.approx(1)


def test_a_split_iteration_is_the_longer_of_its_stages(tmp_path: Path) -> None:
    text = SMALL.replace("POOL", "left").replace("lag: 1", "lag: 2").replace("on: [right]", "on: [left, right]")
    found = run(tmp_path, text, "iterations=8")
    stages = {stage.name: stage.seconds for stage in found.stages}
    assert found.metrics["iteration_s"] == pytest.approx(max(stages["rollout"], stages["train"]) + stages["sync"])


def test_a_stage_takes_what_it_takes_alone(colocated: WorkflowDocument) -> None:
    scenario = load_scenario(
        "quickstart",
        [
            "cluster={extends: clusters/dgx-h100, nodes: 1}",
            "model=models/llama-3.2-1b",
            "stack=megatron-core",
            "training={global_batch: 16, sequence_length: 512, micro_batch: 1, parallel: {tp: 2}}",
        ],
    ).spec
    assert isinstance(scenario, Scenario)
    step = simulate(scenario).metrics["step_time_s"]
    assert colocated.metrics["train: stage_s"] == pytest.approx(2 * step, rel=1e-6)


def rollouts(enough: float) -> Rollouts:
    """Of forty requests of different lengths."""
    changes = [
        "requests.count=40",
        "-requests.arrivals",
        "requests.lengths={prompt: {fixed: 64}, output: {uniform: [8, 200]}}",
    ]
    scenario = load_scenario("serving/quickstart", [one for one in changes if not one.startswith("-")]).spec
    assert isinstance(scenario, ServingScenario)
    scenario = scenario.model_copy(
        update={"requests": scenario.requests.model_copy(update={"arrivals": type(scenario.requests.arrivals)()})}
    )
    return Rollouts(scenario, resolve(scenario), enough)


@pytest.mark.parametrize("enough", [0.3, 0.5, 0.9])
def test_partial_rollouts_conserve_requests_and_tokens(enough: float) -> None:
    """What was asked for is what came out, and what is still to come of those that go on."""
    found = rollouts(enough)
    each = [found.of(i) for i in range(5)]
    assert all(one.finished + one.carried == 40 for one in each)
    fresh = [
        generate(found.scenario.requests.model_copy(update={"count": count}), found.scenario.seed + i)
        for i, count in enumerate([40] + [one.finished for one in each[:-1]])
    ]
    asked = sum(int(one.output.sum()) for one in fresh)
    prompt, done, still = found._left
    assert sum(one.tokens for one in each) + int(still.sum()) == asked
    assert len(prompt) == each[-1].carried
    assert all(before.carried or not after.reread for before, after in itertools.pairwise(each))
    assert int(done.sum()) >= 0


def test_whole_rollouts_leave_nothing() -> None:
    one = rollouts(1.0).of(3)
    assert (one.carried, one.reread, one.finished) == (0, 0, 40)


def test_less_is_enough_earlier() -> None:
    ticks = [rollouts(enough).of(0).ticks for enough in (0.2, 0.6, 1.0)]
    assert ticks == sorted(ticks)
    assert ticks[0] < ticks[-1]


def test_tokens_of_a_request_come_evenly_between_its_first_and_its_last() -> None:
    first, finish, output = np.array([10, 10, -1, 10]), np.array([20, 110, -1, 10]), np.array([11, 101, 5, 1])
    assert out_by(20, first, finish, output).tolist() == [11, 11, 0, 1]
    assert out_by(9, first, finish, output).tolist() == [0, 0, 0, 0]


def test_pages_say_what_ran(colocated: WorkflowDocument) -> None:
    text, markup = page(colocated), html.page(colocated)
    bars = markup[markup.index('class="bars named"') :]
    assert 'class="axis"' in bars[: bars.index("</div>")], "the axis begins where the bars do, beside their names"
    for words in ("rollout", "train", "sync", "an iteration", "tokens/s"):
        assert words in text
        assert words in markup
    assert markup.count("<rect") >= len(colocated.runs)


BAD = {
    "circle": ("after: [rollout]", "after: [rollout, sync]", "train -> sync -> train|sync -> train -> sync"),
    "stage": ("after: [rollout]", "after: [rolout]", "there is no stage `rolout`; did you mean `rollout`?"),
    "pool": ("on: right\n    model", "on: wright\n    model", "there is no pool `wright`"),
    "devices": (
        "    on: right\n    model: models/llama-3.2-1b\n    stack: meg",
        "    model: models/llama-3.2-1b\n    stack: meg",
        "stage `train` has no devices",
    ),
    "ends": ("of: train", "of: rollout", "it is no stage that trains"),
    "unknown end": ("to: rollout", "to: rollouts", "there is no stage `rollouts`"),
    "twice": ("name: train", "name: rollout", "two stages are called `rollout`"),
    "small": ("right: {nodes: 1}", "right: {nodes: 2}", "pool `right` does not fit"),
    "both": ("right: {nodes: 1}", "right: {nodes: 1, devices: 3}", "write either `nodes` or `devices`, not both"),
    "arrivals": (
        "requests: {",
        "enough: 0.5\n    requests: {arrivals: {poisson: 3 /s}, ",
        "requests are all there at the start",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_input_is_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new, message = BAD[name]
    text = SMALL.replace("POOL", "right")
    assert old in text
    (tmp_path / "w.yaml").write_text(text.replace(old, new, 1))
    assert main(["workflow", str(tmp_path / "w.yaml")]) == 2
    said = capsys.readouterr().err
    assert any(one in said for one in message.split("|")), said
    assert "Traceback" not in said


def test_a_stage_that_does_not_fit_is_infeasible(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "w.yaml").write_text(SMALL.replace("POOL", "right").replace("llama-3.2-1b", "llama-3.1-405b"))
    assert main(["workflow", str(tmp_path / "w.yaml")]) == 4
    assert "INFEASIBLE" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["grpo-7b-split", "distillation", "evaluation-beside-training", "data-acquisition"])
def test_shipped_workflows_load(name: str) -> None:
    assert load_file(Workflow, name).spec.stages


def test_a_workflow_is_no_scenario() -> None:
    with pytest.raises(InputError):
        load_scenario("workloads/workflows/data-acquisition.yaml")
