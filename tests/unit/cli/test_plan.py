"""`clustersim plan`, end to end on short runs."""

import json
import os
from pathlib import Path

import pytest

from simulator.cli import main
from tests.unit.cli.conftest import ROOT

SERVING = str(ROOT / "scenarios" / "serving" / "quickstart.yaml")
POOLS = str(ROOT / "scenarios" / "serving" / "disaggregated-70b-h100.yaml")
JOBS = str(ROOT / "scenarios" / "jobs" / "placement.yaml")
SLO = "+slo={ttft: 1 s, tpot: 50 ms}"
SHORT = ("requests.count=120", "--tolerance", "10 %")


def test_a_plan_and_all_that_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"--json": "plan.json", "--html": "plan.html"}
    options = [word for option, name in names.items() for word in (option, str(tmp_path / name))]
    plots = tmp_path / "plots"
    plots.mkdir()
    assert main(["plan", SERVING, SLO, *SHORT, "--curve", "3", *options, "--plots", str(plots)]) == 0
    out, error = capsys.readouterr()
    assert "Requests may come at up to" in out
    assert error == ""
    assert sorted(os.listdir(plots)) == ["attainment.png", "attainment.svg", "goodput.png", "goodput.svg"]
    told = json.loads((tmp_path / "plan.json").read_text())
    (layout,) = told["layouts"]
    assert layout["state"] == "found"
    assert layout["at_best"]["attainment"] >= 0.9
    assert layout["rate"] < layout["missed_at"] <= 1.1 * layout["rate"]
    assert "largest rate" in (tmp_path / "plan.html").read_text()


def test_json_is_all_that_is_printed_and_always_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        assert main(["plan", SERVING, SLO, *SHORT, "--curve", "0", "--json", "-"]) == 0
        printed.append(capsys.readouterr())
    assert printed[0] == printed[1]
    assert printed[0].err == ""
    assert json.loads(printed[0].out)["kind"] == "plan"


def test_layouts_on_several_processes_are_those_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for jobs in ("1", "2"):
        axes = ["--vary", "serving.parallel.tp=1,2,16", "--vary", "serving.batching.max_sequences=64,128"]
        assert main(["plan", SERVING, SLO, *SHORT, *axes, "--jobs", jobs, "--json", "-"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert told[0] == told[1]
    states = {layout["name"]: layout["state"] for layout in told[0]["layouts"]}
    assert states["tp 1, max_sequences 64"] == states["tp 2, max_sequences 128"] == "found"
    assert states["tp 16, max_sequences 64"] == "refused"
    assert not any(layout["settled"] or layout["best_per_device"] for layout in told[0]["layouts"])  # 120 are too few


def test_the_cheapest_layout_that_carries_a_rate(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--layouts", "auto", "--rate", "6 /s", "--json", "-", "requests.count=400", "--tolerance", "30 %"]
    assert main(["plan", SERVING, SLO, "cluster.node.devices=2", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    (chosen,) = [layout for layout in told["layouts"] if layout["cheapest"]]
    assert chosen["carries_target"]
    assert chosen["devices"] == min(layout["devices"] for layout in told["layouts"] if layout["carries_target"])


def test_pools_are_planned_as_one_system(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", POOLS, *SHORT, "--curve", "0", "--json", "-"]) == 0
    (layout,) = json.loads(capsys.readouterr().out)["layouts"]
    assert (layout["replicas"], layout["devices"]) == (3, 8)
    assert layout["rate_per_device"] == pytest.approx(layout["rate"] / 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([SERVING, "+slo={ttft: 1 s, tpot: 1 ms}"], "cannot be met"),
        ([SERVING, SLO, "--rate", "500 /s"], "500/s is not carried"),
        ([SERVING, SLO, "serving.context=1"], "Cannot serve: all 120 requests are rejected"),
        ([SERVING, SLO, "model=models/llama-3.1-70b"], "Does not fit into memory: needs 1"),
    ],
)
def test_what_cannot_be_is_exit_code_4_with_the_best_found(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *arguments, *SHORT, "--curve", "0"]) == 4
    assert message in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([JOBS], "this one runs several jobs"),
        ([SERVING], "slo: nothing is promised"),
        ([SERVING, "+slo={attainment: 0.5}"], "slo: nothing is promised"),
        ([SERVING, SLO, "requests.arrivals={closed_loop: {clients: 4}}"], "users who wait"),
        ([SERVING, SLO, "requests.arrivals={at_once: true}"], "all at once"),
        ([SERVING, SLO, "--vary", "serving.paralel.tp=1,2"], "did you mean `parallel`"),
        ([SERVING, SLO, "--vary", "serving.parallel.tp"], "lists no values"),
        ([SERVING, SLO, "--vary", "serving.parallel.tp=1,x"], "`x` is not a whole number"),
        ([SERVING, SLO, "serving.parallel.tp=16"], "the cluster has 8"),
        ([SERVING, SLO, "--tolerance", "0"], "'0' is out of range"),
        ([SERVING, SLO, "--tolerance", "nan"], "--tolerance"),
        ([SERVING, SLO, "--rate", "20"], "has no unit"),
        ([SERVING, SLO, "--rate", "-1 /s"], "--rate"),
        ([SERVING, SLO, "--curve", "-1"], "no whole number from 0 to 200"),
        ([SERVING, SLO, "--jobs", "0"], "no whole number from 1"),
        ([SERVING, SLO, "--json", SERVING], "would overwrite the scenario"),
        ([SERVING, SLO, "--html", "-"], "cannot print"),
        ([SERVING, SLO, "--plots", "no/such/folder"], "needs a folder that exists"),
        (["no-such-file.yaml"], "no-such-file"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert message in error
    assert "Traceback" not in error
    assert len(error.splitlines()) == 1


TINY = ("requests={arrivals: {poisson: 4 /s}, lengths: {prompt: {fixed: 300}, output: {fixed: 20}}, count: 100}",)
SMALL = (*TINY, "cluster.node.devices=2", "--frontier", "--sequences", "64", "--chunks", "512", "--simulations", "12")


def test_a_frontier_is_drawn_written_and_started(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--json", str(tmp_path / "f.json"), "--html", str(tmp_path / "f.html"), "--plots", str(tmp_path)]
    assert main(["plan", SERVING, "+slo={ttft: 1 s, tpot: 50 ms}", *SMALL, *files, "--write-flags", "vllm"]) == 0
    out = capsys.readouterr().out
    assert "tokens/s/GPU over tokens/s/user" in out
    assert "vllm serve llama-2-7b" in out
    told = json.loads((tmp_path / "f.json").read_text())
    assert told["kind"] == "frontier"
    assert told["points"][told["winner"]]["state"] == "meets"
    assert (tmp_path / "frontier.png").stat().st_size > 10_000
    assert "The front" in (tmp_path / "f.html").read_text()


def test_objectives_of_a_frontier_out_of_reach_end_with_4_and_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", SERVING, "+slo={tpot: 1 ms}", *SMALL]) == 4
    assert "Nearest: " in capsys.readouterr().out


def test_options_of_the_other_way_of_planning_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", SERVING, SLO, "--frontier", "--rate", "4 /s"]) == 2
    assert "--rate is of a plan without --frontier" in capsys.readouterr().err
    assert main(["plan", SERVING, SLO, "--chunks", "512"]) == 2
    assert "--chunks is of --frontier" in capsys.readouterr().err
