"""`clustersim check`, end to end, and the GitHub action that runs it."""

import json
import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
import yaml

from simulator.cli import main
from tests.unit.cli.conftest import ROOT

ACTION = ROOT / ".github" / "actions" / "check" / "action.yml"
SMALL = "extends: quickstart\nname: small\ntraining: {global_batch: 8}\n"


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a folder of one small scenario."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / "small.yaml").write_text(SMALL)
    return tmp_path


def check(*arguments: str) -> int:
    """The exit code of a check of the folder."""
    return main(["check", "plans", "--baseline", "base", *arguments])


def edit() -> None:
    """Make the scenario another one."""
    Path("plans/small.yaml").write_text(SMALL.replace("global_batch: 8", "global_batch: 16"))


def test_from_no_baseline_to_one_that_moved(capsys: pytest.CaptureFixture[str]) -> None:
    assert check() == 1
    assert "clustersim check plans/small.yaml --baseline base --update" in " ".join(capsys.readouterr().out.split())
    assert check("--update") == 0
    assert "| plans/small.yaml | new |" in capsys.readouterr().out
    assert check() == 0
    assert capsys.readouterr().out.startswith(" 1 scenario: 1 same\n")
    edit()
    assert check() == 1
    out, error = capsys.readouterr()
    assert "MOVED  plans/small.yaml" in out
    assert error == ""
    assert check("--update") == 0
    assert "| plans/small.yaml | step time |" in capsys.readouterr().out
    assert check("--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_all_outputs_at_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    check("--update", "--quiet")
    edit()
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    Path("summary.md").write_text("before\n")
    assert check("--junit", "check.xml", "--json", "check.json", "--github", "--jobs", "2") == 1
    out = capsys.readouterr().out
    assert "\n::error file=plans/small.yaml,title=moved%3A plans/small.yaml::step time" in out
    told = json.loads(Path("check.json").read_text())
    assert (told["passed"], [entry["state"] for entry in told["scenarios"]]) == (False, ["moved"])
    assert len(xml.parse("check.xml").findall(".//failure")) == 1
    summary = Path("summary.md").read_text()
    assert summary.startswith("before\n**1 scenario: 1 moved**")
    assert "| plans/small.yaml | step time |" in summary


def test_json_is_all_that_is_printed_and_always_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    check("--update", "--quiet")
    printed = []
    for _ in range(2):
        assert check("--json", "-", "--github") == 0
        printed.append(capsys.readouterr())
    assert printed[0] == printed[1]
    assert printed[0].err == ""
    assert json.loads(printed[0].out)["passed"] is True


def test_annotations_leave_standard_output_to_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("--json", "-", "--github") == 1
    out, error = capsys.readouterr()
    assert json.loads(out)["scenarios"][0]["state"] == "missing"
    assert error.startswith("::error file=plans/small.yaml,")


def test_a_tolerance_lets_small_changes_pass() -> None:
    check("--update", "--quiet")
    Path("plans/small.yaml").write_text(SMALL.replace("8}", "8, sequence_length: 8200}"))
    assert check("--quiet") == 1
    assert check("--quiet", "--tolerance", "5%") == 0
    assert check("--quiet", "--tolerance", "5%", "--tolerance", "mfu=0%") == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plans", "--baseline", "base", "--tolerance", "mfy=1%"], "did you mean `mfu`?"),
        (["plans", "--baseline", "plans/small.yaml"], "is no folder"),
        (["nothing", "--baseline", "base"], "there is no scenario `nothing`"),
        ([".", "--baseline", "base", "--jobs", "none"], "is no whole number"),
        (["plans"], "--baseline"),
        (["--baseline", "base"], "PATH"),
        (["plans", "--baseline", "base", "--junit", "-"], "writes a file and cannot print"),
        (["plans", "--baseline", "base", "--junit", "plans/small.yaml"], "would overwrite"),
        (["plans", "--baseline", "base", "--json", "nowhere/x.json"], "its folder does not exist"),
        (["plans", "--baseline", "a\0b"], "clustersim: "),
    ],
)
def test_bad_input(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", *arguments]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert "Traceback" not in said.err
    assert not said.out
    assert not Path("base").exists()


def test_what_cannot_be_checked_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    check("--update", "--quiet")
    file = Path("base/plans/small.json")
    file.write_text(file.read_text()[:300])
    assert check("--quiet") == 2
    assert "is cut or damaged" in capsys.readouterr().err
    assert check("--update", "--quiet") == 0
    Path("plans/small.yaml").write_text("extends: quickstart\ntraining: {global_batsch: 8}\n")
    assert check() == 2
    assert "did you mean `global_batch`?" in " ".join(capsys.readouterr().out.split())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to this user")
def test_a_folder_that_is_read_only(capsys: pytest.CaptureFixture[str]) -> None:
    Path("base").mkdir()
    Path("base").chmod(0o500)
    assert check("--update") == 2
    assert "name another folder with --baseline" in capsys.readouterr().err


def test_the_action_passes_its_inputs_on_and_runs_nothing_in_them(workplace: Path) -> None:
    steps = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"]
    script = steps[-1]["run"]
    assert "${{" not in script
    (workplace / "bin").mkdir()
    program = workplace / "bin" / "clustersim"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > words\nexit 1\n')
    program.chmod(0o755)
    values = {
        "PATHS": "plans  more/x.yaml\n$(touch harm)",
        "BASELINE": "my base",
        "TOLERANCE": "1% mfu=2%",
        "JUNIT": "",
        "JOBS": "2",
        "PATH": f"{workplace / 'bin'}:{os.environ['PATH']}",
    }
    assert set(steps[-1]["env"]) == set(values) - {"PATH"}
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], env=values, cwd=workplace, check=False)
    assert done.returncode == 1
    assert (workplace / "words").read_text().splitlines() == [
        "check",
        "plans",
        "more/x.yaml",
        "$(touch",
        "harm)",
        "--baseline",
        "my base",
        "--jobs",
        "2",
        "--github",
        "--tolerance",
        "1%",
        "--tolerance",
        "mfu=2%",
    ]
    assert not (workplace / "harm").exists()


def test_the_workflow_of_the_docs_uses_inputs_of_the_action() -> None:
    text = (ROOT / "docs" / "howto" / "ci.md").read_text(encoding="utf-8")
    shown = next(block for block in text.split("```yaml\n")[1:] if block.startswith("name: plans"))
    used = yaml.safe_load(shown.partition("```")[0])["jobs"]["check"]["steps"][-1]
    assert used["uses"].partition("/.")[2].partition("@")[0] == "github/actions/check"
    assert set(used["with"]) <= set(yaml.safe_load(ACTION.read_text(encoding="utf-8"))["inputs"])
