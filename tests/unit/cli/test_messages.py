"""What is said where something is wrong: the key to change, in the words of the project, and what to write."""

from pathlib import Path

import pytest

import simulator as sim
from simulator.cli import main
from tests.unit.cli.conftest import QUICKSTART, ROOT

SERVING = str(ROOT / "scenarios" / "serving" / "quickstart.yaml")
JOBS = str(ROOT / "scenarios" / "jobs" / "placement.yaml")
SLOW = "memory.bandwidth=1 B/s"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a command says that is refused."""
    assert main([*arguments, "--quiet"]) == 2
    said = capsys.readouterr()
    assert "Traceback" not in said.err
    assert not said.out
    return said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([QUICKSTART, "+serving={}"], "serving: `training` and `serving` are both there"),
        (["workloads/workflows/ppo-70b.yaml", "--no-leap"], "--no-leap has no meaning for a workflow; leave it out"),
        (["workloads/workflows/ppo-70b.yaml", "--save", "a.result"], "--save has no meaning for a workflow"),
        ([QUICKSTART, "+requests={count: 1}"], "take one of them away, or make two files"),
        ([QUICKSTART, "+slo={ttft: 1 s}"], "unknown key `slo`; only a scenario that serves has it"),
        ([SERVING, "+fold=exact"], "unknown key `fold`; only a scenario that trains has it"),
        (
            [QUICKSTART, "+perturbations=[]"],
            "unknown key `perturbations`; it stands beside `jobs:`, of which one will do",
        ),
        ([SERVING, "+perturbations=[]"], "unknown key `perturbations`; it stands beside `jobs:`, of which one will do"),
        ([SERVING, "+globalBatch=1"], "unknown key `globalBatch`"),
        ([QUICKSTART, "+globalBatch=1"], "did you mean `training.global_batch`?"),
        ([QUICKSTART, "+training.micro-batch=1"], "did you mean `micro_batch`?"),
        ([SERVING, "requests.arrivals={varying: []}"], "varying: is an empty list; write at least one"),
        ([QUICKSTART, "+training.documents=[-5]"], "training.documents.0: `-5` is out of range; write 1 or more"),
        ([SERVING, "requests.lengths={prompt: {uniform: [1, 2, 3]}}"], "uniform: has 3 values; write at most 2"),
        ([SERVING, "+slo={tpot: 50}"], "`50` has no unit: write a unit, for example `50 ms`"),
        ([SERVING, "requests.lengths={prompt: 1000}"], "write `{fixed: 1000}`, or another of `uniform`,"),
        ([SERVING, "requests.lengths={prompt: {fixed: 9}, output: {fixed: 0}}"], "output: it is never more than 0"),
        ([SERVING, "requests.lengths={prompt: {uniform: [0, 0.4]}, output: {fixed: 1}}"], "prompt: it is never more"),
        ([SERVING, "+requests.sessions={turns: {fixed: 0}, think: {fixed: 0}}"], "turns: it is never more than 0"),
        ([SERVING, "requests.arrivals.poisson=0.0002 /s"], "requests.arrivals: requests come for 5"),
        ([SERVING, "requests.arrivals={closed_loop: {clients: 1, think: {fixed: 9000}}}"], "shorten `think`"),
        ([SERVING, f"cluster.node.accelerator.{SLOW}"], "`cluster.node.accelerator.memory.bandwidth` is 1.00 B/s"),
        ([QUICKSTART, f"cluster.node.accelerator.{SLOW}"], "`cluster.node.accelerator.memory.bandwidth` is 1.00 B/s"),
        ([JOBS, f"cluster.node.accelerator.{SLOW}"], "jobs: the jobs last too long: the clock of the simulation"),
        ([QUICKSTART, "cluster.node.scale_up.latency=1000 d"], "`cluster.node.scale_up.latency` is 1000 d"),
        ([QUICKSTART, "+cluster.node.accelerator.sustained=0"], "sustained.value: `0` is out of range"),
        ([QUICKSTART, "training.stages=[40,-8]"], "training.stages: -8 layers: a stage has 0 layers or more; write 2"),
        ([SERVING, "+slo={ttft:1s}"], "write a space after the colon: `ttft: 1s`"),
        ([SERVING, "requests.lengths=nothing"], "no file of request lengths `nothing`; write the path of a file, or a"),
        ([QUICKSTART, "training.global_batch=1e30"], "is not a whole number of at most 1,000,000,000; write a"),
        ([QUICKSTART, "+training.tokens=1e30"], "training.tokens: `1e+30` is out of range; write 1e+18 or less"),
        (
            [QUICKSTART, "cluster=clusters/tpu-v5p-pod", "cluster.nodes=4"],
            "cluster.nodes: 4 nodes x 4 = 16 devices, but the network is a torus of 16 x 20 x 28 = 8,960 devices",
        ),
        ([QUICKSTART, "cluster=clusters/tpu-v5p-pod", "cluster.nodes=4"], "or `cluster.nodes: 2240`"),
    ],
)
def test_what_is_wrong_and_what_to_write(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert message in refused(capsys, "run", *arguments)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["+slo={ttft: 1 s}"], "slo: unknown key `slo`; only a scenario that serves has it"),
        (["--vary", "training.parallel.tp=1,2"], "--vary is of a scenario that serves; leave it out"),
    ],
)
def test_a_plan_of_a_scenario_that_trains(more: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert message in refused(capsys, "plan", QUICKSTART, *more)


def test_a_folder_that_holds_no_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"the folder `{tmp_path}` has no `config.json`" in refused(capsys, "run", SERVING, f"model={tmp_path}")


def test_a_key_with_dots_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dotted = tmp_path / "dotted.yaml"
    dotted.write_text(Path(QUICKSTART).read_text(encoding="utf-8") + "training.parallel.tp: 4\n", encoding="utf-8")
    assert "write it nested: `training: {parallel: {tp: ...}}`" in refused(capsys, "run", str(dotted))


def test_the_python_interface_says_everything_at_once() -> None:
    with pytest.raises(sim.InputError) as caught:
        sim.run(SERVING, {"requests.count": -1, "model": "zzz", "seed": "x"})
    assert [problem.path for problem in caught.value.problems] == ["model", "seed", "requests.count"]
    assert len(str(caught.value).splitlines()) == 3
    with pytest.raises(sim.InputError, match=r"path: `5` \(int\) is no path"):
        sim.load(5)  # type: ignore[arg-type]


def test_more_clients_than_requests_is_a_warning() -> None:
    loop = {"requests.arrivals": {"closed_loop": {"clients": 30}}, "requests.count": 20}
    assert any("30 clients are more than the 20 requests" in text for text in sim.run(SERVING, loop).warnings)
    spoken = sim.run(SERVING, {**loop, "+requests.sessions": {"turns": {"fixed": 4}, "think": {"fixed": 1}}})
    assert any("30 clients are more than the 5 conversations" in text for text in spoken.warnings)


def test_a_sweep_names_the_points_that_are_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    axes = ["training.parallel.tp=2,16", "training.micro_batch=1,64", "--no-cache", "--jobs", "1"]
    assert main(["sweep", QUICKSTART, *axes]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "tp 2, micro_batch 64: needs 883.0 GB of 85.5 GB" in text
    assert "2 points, for example tp 16, micro_batch 1: training.parallel: tp 16" in text
