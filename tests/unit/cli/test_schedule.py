"""`clustersim schedule`: pipeline schedules drawn and weighed."""

import json
import re
from pathlib import Path

import pytest

from simulator.cli import main
from simulator.training.schedules import SCHEDULES

SIZES = ["--stages", "4", "--microbatches", "8"]
Capture = pytest.CaptureFixture[str]


def test_without_a_name_every_schedule_is_listed_with_a_sentence(capsys: Capture) -> None:
    assert main(["schedule"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in SCHEDULES.names():
        assert any(line.split()[:1] == [name] and len(line.split()) > 4 for line in lines)


def test_a_schedule_is_drawn_and_held_against_1f1b(capsys: Capture) -> None:
    assert main(["schedule", "interleaved-1f1b", *SIZES, "--chunks", "2"]) == 0
    shown = capsys.readouterr().out
    assert "device 0  F0F1F2F3f0f1f2f3F4F5F6······b0  F7b1" in shown
    assert re.search(r"makespan +28\.5 +33\n", shown)
    assert re.search(r"bubble, idle share of the makespan +15\.79 % +27\.27 %\n", shown)
    assert "device 3    24   4.5         0          2.5" in shown


def test_every_form_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    outputs = ["--svg", "a.svg", "--png", "a.png", "--csv", "a.csv", "--json", "a.json"]
    assert main(["schedule", "1f1b", *SIZES, *outputs, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert Path("a.svg").read_text().startswith("<svg")
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert Path("a.csv").read_text().splitlines()[3].startswith("3F0,3B0,3F1,3B1")
    found = json.loads(Path("a.json").read_text())
    assert (found["schema"], found["kind"], found["makespan"]) == (1, "schedule", 33)
    assert "memory_limit" not in found
    assert main(["schedule", "a.csv", "--json", "-"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["passes"] == found["passes"]
    assert again["by_device"] == found["by_device"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["1f1c", *SIZES], "did you mean `1f1b`?"),
        (["1f1b", "--stages", "4"], "needs `--microbatches`"),
        (["1f1b", *SIZES, "--chunks", "2"], "one chunk a rank, not 2; write `interleaved-1f1b` or `--chunks 1`"),
        (["v-half", *SIZES, "--chunks", "3"], "write `--chunks 2`"),
        (["interleaved-1f1b", "--stages", "4", "--microbatches", "9", "--chunks", "2"], "no multiple"),
        (["1f1b", "--stages", "0", "--microbatches", "4"], "'0' is no whole number from 1 to 4,096"),
        (["1f1b", *SIZES, "--forward=-1"], "'-1' is no number from 0 to 1,000,000"),
        (["1f1b", *SIZES, "--send", "inf"], "'inf' is no number"),
        (["1f1b", *SIZES, "--forward", "1e400"], "'1e400' is no number"),
        (["1f1b", *SIZES, "--forward", "1e-12"], "more than 9 decimals"),
        (["1f1b", *SIZES, "--memory-limit", "0"], "more than 0"),
        (["1f1b", *SIZES, "--svg", "nowhere/a.svg"], "its folder does not exist"),
        (["1f1b", *SIZES, "--svg", "-"], "cannot print"),
        (["none.csv"], "none.csv: cannot be read"),
        ([*SIZES], "`--stages` needs the name of a schedule"),
        (["dualpipe", "--stages", "5", "--microbatches", "16"], "even number of ranks"),
        (["chimera", "--stages", "5", "--microbatches", "10"], "even number of ranks"),
        (["dualpipe", "--stages", "8", "--microbatches", "6"], "16 or more, not 6"),
        (["chimera", "--stages", "8", "--microbatches", "5"], "units of 8 microbatches"),
    ],
)
def test_what_is_refused(arguments: list[str], words: str, capsys: Capture) -> None:
    assert main(["schedule", *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_a_memory_limit_that_is_not_met_has_its_exit_code(capsys: Capture) -> None:
    assert main(["schedule", "gpipe", *SIZES, "--memory-limit", "4"]) == 4
    assert "takes `--memory-limit 8`" in capsys.readouterr().err


def test_a_memory_limit_that_no_order_meets_names_the_least(capsys: Capture) -> None:
    assert main(["schedule", "auto", *SIZES, "--chunks", "2", "--memory-limit", "0.5"]) == 4
    assert "no schedule keeps 0.5 or less: 1 is the least" in capsys.readouterr().err
    assert main(["schedule", "auto", *SIZES, "--chunks", "2", "--memory-limit", "1", "--quiet"]) == 0


def test_a_pass_that_nobody_knows_is_named_with_its_place(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("0F0,0B0,0X0\n1F0,1B0\n")
    assert main(["schedule", str(path)]) == 2
    assert "odd.csv:1:9: `0X0` is no instruction" in capsys.readouterr().err
