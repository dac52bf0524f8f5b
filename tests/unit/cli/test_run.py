import gzip
import json
import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import simulator as sim
from simulator.cli import main
from simulator.results import dumps, read, to_json
from tests.factories import assert_same, out_of_memory, training_result
from tests.unit.cli.conftest import QUICKSTART

Capture = pytest.CaptureFixture[str]
Simulated = Callable[..., list[dict[str, Any]]]


def test_page(simulated: Simulated, capsys: Capture) -> None:
    simulated()
    assert main(["run", QUICKSTART]) == 0
    out, error = capsys.readouterr()
    assert "step time" in out
    assert "simulated in" in out
    assert "\x1b" not in out
    assert error == ""


def test_overrides_stand_anywhere(simulated: Simulated) -> None:
    calls = simulated()
    assert main(["run", "training.micro_batch=2", "--quiet", QUICKSTART]) == 2  # the file comes first
    assert main(["run", QUICKSTART, "training.micro_batch=2", "--quiet", "training.sequence_length=4096"]) == 0
    training = calls[0]["scenario"].training
    assert (training.micro_batch, training.sequence_length) == (2, 4096)


@pytest.mark.parametrize(
    ("arguments", "fold"),
    [([], None), (["--fold", "tiers"], "tiers"), (["--no-fold"], "none"), (["--fold", "auto"], "auto")],
)
def test_options_reach_the_simulation(arguments: list[str], fold: str | None, simulated: Simulated) -> None:
    calls = simulated()
    assert main(["run", QUICKSTART, "--quiet", "--executor", "max-plus", *arguments]) == 0
    assert (calls[0]["fold"], calls[0]["executor"]) == (fold, "max-plus")


def test_json_on_standard_output_and_nothing_else(simulated: Simulated, capsys: Capture) -> None:
    simulated()
    assert main(["run", QUICKSTART, "--json", "-"]) == 0
    out, error = capsys.readouterr()
    assert out == dumps(to_json(training_result()))
    assert error == ""


def test_quiet(simulated: Simulated, capsys: Capture) -> None:
    simulated()
    assert main(["run", QUICKSTART, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_files(simulated: Simulated, tmp_path: Path, capsys: Capture) -> None:
    simulated()
    places = {name: tmp_path / name for name in ("out.json", "trace.json.gz", "step.result")}
    options = zip(("--json", "--trace", "--save"), map(str, places.values()), strict=True)
    assert main(["run", QUICKSTART, *(word for option in options for word in option)]) == 0
    assert places["out.json"].read_text() == dumps(to_json(training_result()))
    assert json.loads(gzip.decompress(places["trace.json.gz"].read_bytes()))["traceEvents"]
    assert_same(read(places["step.result"]), training_result())
    assert "step time" in capsys.readouterr().out
    assert sorted(os.listdir(tmp_path)) == sorted(places)


def test_out_of_memory_is_a_page_and_exit_4(simulated: Simulated, tmp_path: Path, capsys: Capture) -> None:
    simulated(out_of_memory())
    assert main(["run", QUICKSTART, "--json", str(tmp_path / "out.json")]) == 4
    out, error = capsys.readouterr()
    assert "OUT OF MEMORY" in out
    assert error == ""
    assert json.loads((tmp_path / "out.json").read_text())["feasible"] is False


@pytest.mark.parametrize("option", ["--json", "--trace", "--save"])
@pytest.mark.parametrize(("place", "message"), [("", "is a folder"), ("missing/out", "folder does not exist")])
def test_outputs_are_checked_before_the_work(
    option: str, place: str, message: str, simulated: Simulated, tmp_path: Path, capsys: Capture
) -> None:
    calls = simulated()
    assert main(["run", QUICKSTART, option, str(tmp_path / place)]) == 2
    assert message in capsys.readouterr().err
    assert calls == []
    assert os.listdir(tmp_path) == []


def test_all_wrong_outputs_are_told_at_once(simulated: Simulated, tmp_path: Path, capsys: Capture) -> None:
    calls = simulated()
    same = str(tmp_path / "same")
    assert main(["run", QUICKSTART, "--json", same, "--trace", "-", "--save", same]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [("cannot print" in line, "would overwrite --json" in line) for line in lines] == [
        (True, False),
        (False, True),
    ]
    assert calls == []


def test_the_scenario_is_not_overwritten(simulated: Simulated, tmp_path: Path, capsys: Capture) -> None:
    simulated()
    copy = tmp_path / "mine.yaml"
    copy.write_text(Path(QUICKSTART).read_text())
    assert main(["run", str(copy), "--json", str(tmp_path / "." / "mine.yaml")]) == 2
    assert "would overwrite the scenario" in capsys.readouterr().err
    assert copy.read_text() == Path(QUICKSTART).read_text()


def test_a_disk_that_fills_up_leaves_nothing(
    simulated: Simulated, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    simulated()
    monkeypatch.setattr(os, "fsync", full)
    assert main(["run", QUICKSTART, "--trace", str(tmp_path / "trace.json")]) == 2
    assert capsys.readouterr() == (
        "",
        f"clustersim: {tmp_path / 'trace.json'}: cannot be written: No space left on device\n",
    )
    assert os.listdir(tmp_path) == []


def test_a_scenario_of_hostile_text(simulated: Simulated, capsys: Capture) -> None:
    simulated(replace(training_result(), name="\x1b[2J\udcff name"))
    assert main(["run", QUICKSTART]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_sensitivities_are_on_the_page_and_in_json(tmp_path: Path, capsys: Capture) -> None:
    assert main(["run", QUICKSTART, "--sensitivities", "--json", str(tmp_path / "out.json")]) == 0
    assert "What to change" in capsys.readouterr().out
    document = json.loads((tmp_path / "out.json").read_text())
    rows = {row["name"]: row for row in document["sensitivities"]}
    assert list(rows) == ["flop_rate", "hbm_bandwidth", "scale_up_bandwidth", "latency"]
    for row in rows.values():
        assert row["gain"] == pytest.approx(1 - row["step_time_s"] / document["metrics"]["step_time_s"])


def test_without_being_asked_nothing_is_simulated_again(capsys: Capture) -> None:
    assert main(["run", QUICKSTART, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["sensitivities"] == []


def test_report_and_plots(simulated: Simulated, tmp_path: Path, capsys: Capture) -> None:
    simulated()
    (tmp_path / "plots").mkdir()
    report = tmp_path / "report.html"
    assert main(["run", QUICKSTART, "--quiet", "--html", str(report), "--plots", str(tmp_path / "plots")]) == 0
    assert report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert {path.suffix for path in (tmp_path / "plots").iterdir()} == {".png", ".svg"}
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--html", "{}"], "is a folder"),
        (["--html", "{}/none/report.html"], "does not exist"),
        (["--html", "-"], "--html writes a file and cannot print"),
        (["--html", "{}/same", "--save", "{}/same"], "--save would overwrite --html"),
        (["--plots", "{}/none"], "--plots needs a folder that exists"),
    ],
)
def test_reports_that_cannot_be_written_are_refused_before_the_work(
    options: list[str], words: str, simulated: Simulated, tmp_path: Path, capsys: Capture
) -> None:
    calls = simulated()
    assert main(["run", QUICKSTART, *(option.format(tmp_path) for option in options)]) == 2
    assert words in capsys.readouterr().err
    assert calls == []


def test_a_run_that_rejects_every_request_is_infeasible(tmp_path: Path, capsys: Capture) -> None:
    few = ["requests.count=20", "serving.context=1"]
    names = [str(tmp_path / name) for name in ("out.json", "out.html")]
    assert main(["run", "serving/quickstart", *few, "--json", names[0], "--html", names[1]]) == 4
    page = " ".join(capsys.readouterr().out.split())
    assert "INFEASIBLE all 20 requests are rejected: 20 exceed the context of 1 tokens" in page
    assert json.loads((tmp_path / "out.json").read_text())["feasible"] is False
    html = (tmp_path / "out.html").read_text()
    assert "Infeasible: " in html
    assert html.count("20 exceed the context of 1 tokens") == page.count("20 exceed the context of 1 tokens") == 1
    assert "a larger serving.context (now 1 tokens)" in html
    assert not re.search("if it fitted|not known|Over time|serving.parallel.tp or", html)
    sweep = ["sweep", "serving/quickstart", "requests.count=20", "serving.context=1,2,16384", "--no-cache", "--jobs=1"]
    assert main(sweep) == 0
    assert "3 points: 1 fits, 2 with all requests rejected" in capsys.readouterr().out
    assert main(["compare", "serving/quickstart", *few, "--vary", "seed=1,2"]) == 4
    assert "all 20 requests are rejected" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("model=models/llama-2-70b", "OUT OF MEMORY"),
        ("+serving.kv_cache.memory_share=0", "INFEASIBLE `serving.kv_cache` leaves no room for keys and values"),
    ],
)
def test_a_service_without_room_is_written_all_the_same(
    change: str, words: str, tmp_path: Path, capsys: Capture
) -> None:
    out = tmp_path / "out.json"
    assert main(["run", "serving/quickstart", change, "--json", str(out)]) == 4
    assert words in " ".join(capsys.readouterr().out.split())
    told = json.loads(out.read_text())
    assert (told["feasible"], told["breakdown"], told["metrics"]) == (False, {}, {})


def test_a_host_that_is_too_small_is_exit_4_with_its_ledger(tmp_path: Path, capsys: Capture) -> None:
    """Llama 3 70B whose activations all wait in the hosts: 1.4 TB of the first stage."""
    layout = ("cluster=clusters/dgx-h100", "cluster.nodes=4", "training.parallel.tp=8", "training.parallel.pp=4")
    model = ("model=models/llama-3-70b", "stack=megatron-core", "training.micro_batch=8", "training.global_batch=128")
    memory = ("training.sequence_length=8192", "training.recompute=none", "training.offload_layers=20")
    page, saved = tmp_path / "host.html", tmp_path / "host.sim"
    arguments = ["run", QUICKSTART, *layout, *model, *memory]
    assert main(arguments) == 0
    assert "activations, stage 0  1.44 TB" in capsys.readouterr().out
    small = "cluster.node.host_memory.value=1 TB"
    assert main([*arguments, small, "--html", str(page), "--save", str(saved)]) == 4
    shown = capsys.readouterr().out
    assert "OUT OF MEMORY  the devices of a node keep 1,440.2 GB in a host of 1,000.0 GB" in shown
    assert "activations, stage 0  1.44 TB" in shown and "fewer training.offload_layers (now 20 a stage)" in shown
    assert "in a host of 1,000.0 GB" in page.read_text()
    host = read(saved).host
    assert host is not None and host.capacity == 1e12 and sum(host.at_peak.values()) == host.peak


def test_the_head_of_the_page_names_the_overrides(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(QUICKSTART), "training.micro_batch=2", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["provenance"]["overrides"] == ["training.micro_batch=2"]
    assert sim.run(QUICKSTART, ["training.micro_batch=2"]).provenance["overrides"] == ["training.micro_batch=2"]
    assert main(["run", str(QUICKSTART), "training.micro_batch=2"]) == 0
    assert " with training.micro_batch=2\n" in capsys.readouterr().out
