"""Stacks from logs of one's own: known numbers come back from noisy logs, and one layout does not tell two of them."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from simulator.calibration.stacks import own
from simulator.cli import main
from simulator.run.dispatch import simulate
from simulator.specs.resolve import load_file, load_scenario
from simulator.specs.training import Stack
from tests.unit.interop.logs.test_logs import megatron, titan

TRAINING = """version: 1
name: own run
cluster: {extends: clusters/dgx-h100, nodes: 1}
model: {extends: models/llama-3-8b, layers: 4}
stack: megatron-core
training: {global_batch: 64, micro_batch: 1, sequence_length: %d}
"""
SERVING = """version: 1
name: own server
cluster: {extends: clusters/dgx-h100, nodes: 1}
model: {extends: models/llama-3-8b, layers: 8}
stack: vllm
serving: {replicas: 1, parallel: {tp: 1}}
requests: {arrivals: {closed_loop: {clients: %d}}, lengths: {prompt: {fixed: %d}, output: {fixed: 32}}, count: %d}
"""


def changed(path: Path, **numbers: float) -> Any:
    """The scenario of a file with other numbers of its stack."""
    scenario = load_scenario(path).spec
    stack: Any = scenario.stack  # type: ignore[union-attr]
    fields = {name: getattr(stack, name).model_copy(update={"value": value}) for name, value in numbers.items()}
    return scenario.model_copy(update={"stack": stack.model_copy(update=fields)})


def trained(folder: Path, length: int, noise: float, **numbers: float) -> list[str]:
    """A log of Megatron's form and its scenario, as words of the command line."""
    path, random = folder / f"{length}.yaml", np.random.default_rng(length)
    path.write_text(TRAINING % length)
    seconds = simulate(changed(path, **numbers)).metrics["step_time_s"]
    times = [1e3 * float(seconds) * float(np.exp(noise * random.normal())) for _ in range(40)]
    log = folder / f"{length}.log"
    log.write_text("\n".join(megatron(i, f"{ms:.3f}", 64) for i, ms in enumerate(times, 1)))
    return [str(log), "--scenario", str(path)]


def fitted(folder: Path, words: list[str], name: str) -> Any:
    assert main(["calibrate", "stack", *words, "--out", str(folder / "out")]) == 0
    kind = Stack if name == "megatron-core" else __import__("simulator.specs.serving", fromlist=["x"]).ServingStack
    return load_file(kind, folder / "out" / f"{name}.yaml").spec


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulator of one line: kernels by the tokens of a sequence, a host by layers, the longer of which shows."""

    def step(scenario: Any) -> Any:
        stack, tokens = scenario.stack, scenario.training.sequence_length
        device = 1e-5 * tokens / stack.compute_efficiency.value
        host = 64 * stack.layer_overhead.value
        return SimpleNamespace(metrics={"step_time_s": max(device, host) + 0.2 * min(device, host)}, feasible=True)

    monkeypatch.setattr(own, "simulate", step)
    monkeypatch.setitem(globals(), "simulate", step)


@pytest.mark.usefixtures("quick")
def test_both_numbers_come_back_from_runs_of_short_and_long_sequences(tmp_path: Path) -> None:
    words = [
        w for n in (512, 1024, 8192) for w in trained(tmp_path, n, 0.02, compute_efficiency=0.72, layer_overhead=8e-4)
    ]
    stack = fitted(tmp_path, words, "megatron-core")
    assert stack.compute_efficiency.value == pytest.approx(0.72, rel=0.03)
    assert stack.layer_overhead.value == pytest.approx(8e-4, rel=0.1)
    assert (stack.compute_efficiency.status, stack.layer_overhead.status) == ("measured", "measured")
    assert "3 own runs (1024.log, 512.log, 8192.log)" in stack.compute_efficiency.source


@pytest.mark.usefixtures("quick")
def test_one_run_identifies_one_number_and_the_other_is_said_not_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = trained(tmp_path, 16384, 0.02, compute_efficiency=0.7)
    stack = fitted(tmp_path, words, "megatron-core")
    assert stack.compute_efficiency.value == pytest.approx(0.7, rel=0.03)
    assert stack.layer_overhead.status == "estimate"
    assert "layer_overhead: not identified by these runs" in capsys.readouterr().out


@pytest.mark.usefixtures("quick")
def test_one_layout_twice_does_not_tell_a_slow_kernel_from_a_slow_host(tmp_path: Path) -> None:
    words = trained(tmp_path, 4096, 0.02, compute_efficiency=0.7, layer_overhead=5e-4)
    stack = fitted(tmp_path, [words[0], *words, *words[1:]], "megatron-core")
    statuses = {stack.compute_efficiency.status, stack.layer_overhead.status}
    assert "estimate" in statuses
    assert "not identified by these runs" in stack.layer_overhead.source + stack.compute_efficiency.source


@pytest.mark.slow
def test_a_real_step_gives_its_efficiency_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own, "EVALUATIONS", 4)
    stack = fitted(tmp_path, trained(tmp_path, 8192, 0.01, compute_efficiency=0.75), "megatron-core")
    assert stack.compute_efficiency.value == pytest.approx(0.75, rel=0.02)
    assert stack.compute_efficiency.status == "measured" and stack.layer_overhead.status == "estimate"


@pytest.mark.slow
def test_results_of_a_serving_benchmark_give_an_iterations_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own, "EVALUATIONS", 8)
    words: list[str] = []
    for clients, prompt in ((1, 256), (16, 256), (64, 1024)):
        path, result = tmp_path / f"{clients}.yaml", tmp_path / f"{clients}.json"
        path.write_text(SERVING % (clients, prompt, 2 * clients))
        true = simulate(changed(path, kernel_efficiency=0.8, iteration_overhead=4e-3)).metrics
        figures = {key: true[key] for key in own.read_serving_log.__globals__["FIGURES"]}
        result.write_text(
            json.dumps({"backend": "vllm", "completed": 2 * clients, "max_concurrency": clients, **figures})
        )
        words += [str(result), "--scenario", str(path)]
    stack = fitted(tmp_path, words, "vllm")
    assert stack.iteration_overhead.value == pytest.approx(4e-3, rel=0.05)
    assert stack.kernel_efficiency.value == pytest.approx(0.8, rel=0.05)


@pytest.mark.parametrize(
    ("log", "scenarios", "words"),
    [
        (megatron(1, "900.0", 16), 1, "training.global_batch: the log says 16, its scenario 64"),
        ("no step at all", 1, "has no line of Megatron-LM or torchtitan"),
        (titan(1, "nan"), 1, "no step of it can be used"),
        (megatron(1, "900.0", 64), 2, "1 logs and 2 scenarios"),
    ],
)
def test_logs_and_scenarios_that_do_not_belong_together(
    log: str, scenarios: int, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.log").write_text(log)
    (tmp_path / "run.yaml").write_text(TRAINING % 1024)
    said = ["--scenario", str(tmp_path / "run.yaml")] * scenarios
    assert main(["calibrate", "stack", str(tmp_path / "run.log"), *said]) == 2
    assert words in capsys.readouterr().err
