"""`training.run.data` and `training.run.evaluation`: what steps of a run wait for besides."""

import pytest

from simulator.cli import main
from simulator.report.result.page import page
from simulator.results.result import Result
from simulator.run.dispatch import simulate
from simulator.run.long.waits import waits_of
from simulator.specs import load_scenario
from simulator.specs.long_runs.run import Samples
from simulator.specs.scenario import Scenario

QUICK = "scenarios/quickstart.yaml"
RATE = "{{value: {} GB/s, status: estimate, source: a test}}"
STORAGE = f"+cluster.storage={{bandwidth: {RATE.format(1)}, read_bandwidth: {RATE.format(4)}}}"


def loaded(run: str, *more: str) -> Scenario:
    scenario = load_scenario(QUICK, [f"+training.run={{{run}}}", STORAGE, *more]).scenario
    assert isinstance(scenario, Scenario)
    return scenario


def simulated(run: str, *more: str) -> Result:
    return simulate(loaded(run, *more))


@pytest.fixture(scope="module")
def plain() -> Result:
    return simulated("steps: 1000")


@pytest.mark.parametrize("size", ["1 MB", "400 MB"])
@pytest.mark.parametrize("ahead", [1, 4])
def test_steps_follow_each_other_as_two_lanes_do(size: str, ahead: int) -> None:
    """A reader that is at most so many steps ahead, and a device: beginnings of late steps lie a period apart."""
    cluster = loaded("steps: 1").cluster
    data = Samples.model_validate({"bytes": size})
    found = waits_of(cluster, 100, data, None)
    step, reading = 3.0, found.samples(cluster.nodes)
    assert reading == pytest.approx(100 * data.bytes / 4e9)
    read, begun = [0.0], [0.0]
    for number in range(200):
        free = begun[number - ahead + 1] if number >= ahead else 0.0  # the buffer of a step that has begun
        read.append(max(read[-1], free) + reading)
        begun.append(max(begun[-1] + (step if number else 0.0), read[-1]))
    assert begun[-1] - begun[-2] == pytest.approx(found.period(step, cluster.nodes))


def test_a_run_waits_for_samples_that_are_read_slower_than_steps(plain: Result) -> None:
    step = plain.metrics["step_time_s"]
    sequences = loaded("steps: 1").training.global_batch
    enough = f"{4e9 * step / sequences:.0f} B"
    hidden = simulated(f"steps: 1000, data: {{bytes: {4e9 * step / sequences * 0.99:.0f} B}}")
    assert hidden.metrics == plain.metrics
    twice = simulated("steps: 1000, data: {bytes: " + f"{2 * int(enough[:-2])} B" + "}")
    time = plain.metrics["run_time_s"] + 1000 * step
    assert twice.metrics["run_time_s"] == pytest.approx(time, rel=1e-6)
    assert twice.metrics["data_fraction"] == pytest.approx(1000 * step / time, rel=1e-6)
    assert twice.metrics["effective_time_ratio"] == pytest.approx(1000 * step / time, rel=1e-6)
    assert twice.metrics["run_tokens"] == plain.metrics["run_tokens"]
    assert any("steps wait for samples" in one for one in twice.warnings)
    prepared = simulated("steps: 1000, data: {bytes: 1 kB, rate: 10 B/s}")
    nodes = loaded("steps: 1").cluster.nodes
    saving = plain.metrics["run_time_s"] - 1000 * step
    assert prepared.metrics["run_time_s"] == pytest.approx(1000 * sequences * 1000 / (10 * nodes) + saving, rel=1e-6)


def test_evaluations_take_their_share_and_parts_sum_up(plain: Result) -> None:
    result = simulated("steps: 1000, data: {bytes: 1 kB}, evaluation: {every: 100, takes: 50 s}")
    assert result.metrics["run_time_s"] == pytest.approx(plain.metrics["run_time_s"] + 10 * 50, rel=1e-6)
    assert result.run is not None
    assert "data" not in result.run.seconds  # samples that are there in time are no part of the time
    assert result.run.seconds["evaluation"] == pytest.approx(500, rel=1e-6)
    assert sum(result.run.seconds.values()) == pytest.approx(result.metrics["run_time_s"])
    assert result.metrics["run_cost_usd"] / plain.metrics["run_cost_usd"] == pytest.approx(
        result.metrics["run_time_s"] / plain.metrics["run_time_s"]
    )
    stepping = plain.metrics["run_energy_j"]
    assert stepping < result.metrics["run_energy_j"] < stepping * 1.5  # devices idle meanwhile
    assert "evaluations" in page(result)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("steps: 10, evaluation: {every: 0, takes: 1 s}", "every"),
        ("steps: 10, evaluation: {every: 5, takes: 0 s}", "takes"),
        ("steps: 10, evaluation: {every: 5}", "takes"),
        ("steps: 10, data: {bytes: 0}", "bytes"),
        ("steps: 10, data: {rate: 1 GB/s}", "bytes"),
        ("steps: 10, data: {bytes: 1 MB, rate: 0 B/s}", "rate"),
    ],
)
def test_what_makes_no_sense_is_said(run: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", QUICK, f"+training.run={{{run}}}"]) == 2
    assert said in capsys.readouterr().err
