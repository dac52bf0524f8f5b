"""`clustersim compare`, end to end."""

import json
import os
from pathlib import Path

import pytest

from simulator.cli import main
from simulator.cli.compare import short_names
from tests.unit.cli.conftest import QUICKSTART, ROOT

TRAINING = ROOT / "scenarios" / "training"
PLAIN, INTERLEAVED = (str(TRAINING / f"gpt-175b-{name}.yaml") for name in ("plain", "interleaved"))
SERVING = str(ROOT / "scenarios" / "serving" / "quickstart.yaml")
OOM = str(TRAINING / "edge-cell-oom.yaml")
MICRO = ("--vary", "training.micro_batch=1,2")


def test_a_comparison_and_all_that_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plots = tmp_path / "plots"
    plots.mkdir()
    files = ["--json", str(tmp_path / "c.json"), "--html", str(tmp_path / "c.html"), "--plots", str(plots)]
    assert main(["compare", PLAIN, INTERLEAVED, *files]) == 0
    out, error = capsys.readouterr()
    assert error == ""
    assert "gpt-175b-interleaved takes" in out
    told = json.loads((tmp_path / "c.json").read_text())
    assert told["kind"] == "comparison"
    assert told["names"] == ["gpt-175b-plain", "gpt-175b-interleaved"]
    (difference,) = told["differences"]
    assert difference["sentence"] in " ".join(out.split())
    assert difference["sentence"] in (tmp_path / "c.html").read_text()
    assert sum(difference["parts"].values()) == pytest.approx(difference["ratio"])
    assert sorted(os.listdir(plots)) == ["figures.png", "figures.svg", "parts.png", "parts.svg"]


def test_json_is_all_that_is_printed_and_always_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    printed = []
    for _ in range(2):
        assert main(["compare", QUICKSTART, *MICRO, "--json", "-"]) == 0
        printed.append(capsys.readouterr())
    assert printed[0] == printed[1]
    assert json.loads(printed[0].out)["names"] == ["micro_batch 1", "micro_batch 2"]


def test_saved_results_are_compared_as_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved = str(tmp_path / "before.result")
    assert main(["run", QUICKSTART, "--save", saved, "--quiet"]) == 0
    assert main(["compare", saved, QUICKSTART, "training.micro_batch=2", "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["names"] == ["before", "quickstart"]
    assert told["metrics"]["peak_memory_bytes"]["best"] == ["before"]
    assert main(["compare", saved, saved]) == 0
    assert "before (2) takes as long as the first" in capsys.readouterr().out
    assert main(["compare", saved, QUICKSTART, *MICRO, "--json", "-"]) == 0
    names = json.loads(capsys.readouterr().out)["names"]
    assert names == ["before", "quickstart micro_batch 1", "quickstart micro_batch 2"]


def test_all_figures_where_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["compare", SERVING, "requests.count=60", "--vary", "serving.batching.max_sequences=4,64"]
    assert main(arguments) == 0
    few = capsys.readouterr().out
    assert "with --all" in few
    assert "P95 ITL" not in few
    assert main([*arguments, "--all"]) == 0
    assert "P95 ITL" in capsys.readouterr().out


def test_where_nothing_fits_the_exit_code_is_4(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", OOM, OOM]) == 4
    assert "do not fit into memory" in " ".join(capsys.readouterr().out.split())
    assert main(["compare", OOM, QUICKSTART, "--quiet"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([QUICKSTART], "nothing to compare it with"),
        (["training.micro_batch=2"], "no scenario is named"),
        ([QUICKSTART, "nowhere.yaml"], "nowhere.yaml"),
        ([QUICKSTART, SERVING, "--html", "-"], "--html writes a file"),
        ([QUICKSTART, SERVING, "--plots", "no-such-folder"], "needs a folder that exists"),
        ([QUICKSTART, SERVING, "--json", QUICKSTART], "would overwrite"),
        ([QUICKSTART, "--vary", "training.micro_batch="], "empty"),
        ([QUICKSTART, "--vary", "training.micro_batches=1,2"], "did you mean"),
        ([QUICKSTART, "--vary", "training.micro_batch=1,2", "training.parallel.tp=1,2"], "put `--vary` before it"),
        ([QUICKSTART, "--vary", "training.parallel.tp=2,3"], "tp 3"),
    ],
)
def test_bad_input(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", *arguments]) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert message in error
    assert "Traceback" not in error


def test_wrong_saved_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.result"
    broken.write_bytes(b"PK\x03\x04 and nothing else")
    assert main(["compare", str(broken), QUICKSTART]) == 2
    assert "is no result file" in capsys.readouterr().err
    saved = str(tmp_path / "a.result")
    assert main(["run", QUICKSTART, "--save", saved, "--quiet"]) == 0
    assert main(["compare", saved, saved, "training.micro_batch=2"]) == 2
    assert "a saved result cannot be changed" in capsys.readouterr().err


def test_names_of_files_are_as_short_as_tells_them_apart() -> None:
    assert short_names(["a/x.yaml", "b/y.yaml"]) == ["x", "y"]
    assert short_names(["a/c/x.yaml", "b/c/x.yaml", "z.result"]) == ["a/c/x", "b/c/x", "z"]
    assert short_names(["x.yaml", "x.yaml"]) == ["x", "x"]
    assert short_names(["x.yaml", "x.result"]) == ["x", "x"]
    assert short_names([]) == []


def test_a_combination_that_is_refused_is_left_out_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", QUICKSTART, "--vary", "training.parallel.tp=2,3,4", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == ["tp 2", "tp 4"]
    assert found["notes"][0].startswith("tp 3 is left out: ")


def test_a_value_that_its_key_never_takes_ends_the_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "quickstart", "--vary", "training.parallel.tp=2,4,abc"]) == 2
    assert "`abc` is not a whole number" in capsys.readouterr().err
