"""`clustersim run --detail` and the other outputs of a serving run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from simulator.cli import main
from simulator.report.export.vllm_form import vllm_form
from simulator.results import read
from tests.unit.cli.conftest import QUICKSTART, ROOT

SERVING = str(ROOT / "scenarios" / "serving" / "quickstart.yaml")


def test_files_of_a_serving_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {
        "--json": "out.json",
        "--detail": "detail.json",
        "--html": "report.html",
        "--save": "run.result",
        "--trace": "trace.json.gz",
    }
    options = [word for option, name in names.items() for word in (option, str(tmp_path / name))]
    assert main(["run", SERVING, "requests.count=40", *options]) == 0
    out, error = capsys.readouterr()
    assert "requests finished" in out
    assert error == ""
    assert sorted(os.listdir(tmp_path)) == sorted(names.values())
    result = read(tmp_path / "run.result")
    document = json.loads((tmp_path / "detail.json").read_text())
    assert document == vllm_form(result)
    for ttft, gaps, latency in zip(document["ttfts"], document["itls"], document["latencies"], strict=True):
        assert ttft + sum(gaps) == pytest.approx(latency)
    assert json.loads((tmp_path / "out.json").read_text())["metrics"] == result.metrics


def test_details_of_training_are_refused_before_the_work(
    simulated: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = simulated()
    assert main(["run", QUICKSTART, "--detail", str(tmp_path / "x.json")]) == 2
    assert "this scenario trains" in capsys.readouterr().err
    assert not calls
    assert main(["run", SERVING, "--detail", SERVING]) == 2
    assert "would overwrite the scenario" in capsys.readouterr().err
