"""Commands on scenarios of several jobs: what they write, and what they refuse with one message."""

import json
import re
from pathlib import Path

import pytest

from simulator.cli import main
from simulator.results import read
from tests.several import BESIDE, SCENARIOS, SMALL, SPINE

SHORT = [*SMALL]
FEW = ["jobs.1.requests.count=12", "jobs.0.training.steps=1"]


def test_a_run_writes_everything_and_all_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {"--json": "run.json", "--html": "run.html", "--trace": "run.trace.json", "--save": "run.result"}
    files = [word for option, name in names.items() for word in (option, str(tmp_path / name))]
    assert main(["run", str(SPINE), *SHORT, *files, "--plots", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    told = json.loads((tmp_path / "run.json").read_text(encoding="utf-8"))
    saved = read(tmp_path / "run.result")
    assert saved.metrics == told["metrics"]
    assert [job["name"] for job in told["jobs"]] == ["large", "small"]
    full = told["meetings"][0]["full_s"]
    assert full == told["metrics"]["shared_link_s"] == saved.meetings[0].full_s
    assert f"{1e3 * full:.0f} ms" in page and f"{1e3 * full:.0f} ms" in (tmp_path / "run.html").read_text("utf-8")
    worst = f"{told['metrics']['worst_slowdown']:.4f} x"
    assert worst in page and worst in (tmp_path / "run.html").read_text("utf-8")
    counters = [
        e for e in json.loads((tmp_path / "run.trace.json").read_text("utf-8"))["traceEvents"] if e["ph"] == "C"
    ]
    most = max(sum(event["args"].values()) for event in counters if event["name"].startswith("leaf up 0 and"))
    assert most == pytest.approx(told["meetings"][0]["capacity_bytes_per_s"], rel=1e-6)
    assert (tmp_path / "meetings.svg").is_file() and (tmp_path / "slowdowns.png").is_file()
    assert told["provenance"]["overrides"] == SHORT


def test_one_job_in_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    detail = str(tmp_path / "detail.json")
    assert main(["run", str(BESIDE), *FEW, "--job", "service", "--detail", detail]) == 0
    assert "Latency" in capsys.readouterr().out
    assert len(json.loads(Path(detail).read_text(encoding="utf-8"))["ttfts"]) == 12
    assert main(["run", str(BESIDE), *FEW, "--job", "training", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "training"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", str(BESIDE), "--detail", "x.json"], "runs several jobs; name a job that serves: --job service"),
        (["run", str(SPINE), "--detail", "x.json"], "and this scenario runs several jobs; leave it out"),
        (["run", str(BESIDE), "--job", "training", "--detail", "x.json"], "and this scenario trains"),
        (["run", str(BESIDE), "--job", "trainnig"], "there is no job `trainnig`; did you mean `training`"),
        (["run", str(SCENARIOS.parent / "quickstart.yaml"), "--job", "a"], "the scenario has no `jobs`"),
        (["run", str(SPINE), "--sensitivities"], "is for scenarios that train, and this one runs several jobs"),
        (["run", str(SPINE), "--executor", "max-plus"], "`executor` has no meaning for a scenario that runs several"),
        (["run", str(SPINE), "--no-leap"], "`leap` has no meaning for a scenario that runs several jobs"),
        (["plan", str(SPINE)], "this one runs several jobs; plan the job that serves as a scenario of its own"),
        (["explain", str(SPINE), "jobs.0.nodes=9"], "job `large` needs 9 whole nodes"),
        (["compare", str(SPINE), "--vary", "jobs.0.placement=packed,tidy"], "`tidy`"),
        (["sweep", str(SPINE), "jobs.7.training.micro_batch=1"], "jobs.7"),
    ],
)
def test_what_is_refused_is_one_message(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert not said.out
    assert message in said.err
    assert "internal error" not in said.err


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("jobs.0.training.sequence_length=131072", "INFEASIBLE  training: needs"),
        ("jobs.1.model=models/llama-3.1-405b", "INFEASIBLE  service: needs"),
        ("+jobs.1.serving.context=100", "INFEASIBLE  service: all 12 requests are rejected"),
    ],
)
def test_a_job_that_cannot_run(change: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--html", str(tmp_path / "run.html"), "--trace", str(tmp_path / "run.trace")]
    saved = str(tmp_path / "run.result")
    assert main(["run", str(BESIDE), *FEW, change, *files, "--save", saved, "--plots", str(tmp_path)]) == 4
    assert why in capsys.readouterr().out
    assert read(saved).feasible is False
    assert main(["compare", saved, saved]) == 4


def test_explain_can_be_saved_and_means_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(BESIDE)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"dp: null +# derived: 32 = 32 devices / \(1\)", said)
    (tmp_path / "again.yaml").write_text(said, encoding="utf-8")
    assert main(["explain", str(tmp_path / "again.yaml")]) == 0
    again = capsys.readouterr().out
    assert [line.partition(" # ")[0].rstrip() for line in again.splitlines()] == [
        line.partition(" # ")[0].rstrip() for line in said.splitlines()
    ]


def test_packed_against_spread(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = ["--json", str(tmp_path / "it.json"), "--html", str(tmp_path / "it.html"), "--plots", str(tmp_path)]
    assert main(["compare", str(SPINE), *SHORT, "--vary", "jobs.0.placement=packed,spread", *files]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert "differ in jobs.0.placement packed, spread" in page
    assert "large, small · Llama 2 7B · 64 x NVIDIA A100 SXM4 80GB" in page
    assert "large: slowdown against running alone 1.0000 x" in page
    assert "until all jobs are done" in page.partition("Held against placement packed")[2]
    told = json.loads((tmp_path / "it.json").read_text(encoding="utf-8"))
    assert told["metrics"]["worst_slowdown"]["best"] == ["placement packed"]
    assert set(told["runs"][0]["parts_s"]) == {"before", "alone", "shared"}
    assert "what the last job takes alone" in (tmp_path / "it.html").read_text(encoding="utf-8")


def test_kinds_that_are_not_alike(capsys: pytest.CaptureFixture[str]) -> None:
    quick = str(SCENARIOS.parent / "quickstart.yaml")
    assert main(["compare", quick, str(SPINE)]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "training (quickstart) and several jobs (two-jobs-one-spine) do not do the same work" in said


def test_a_sweep_over_keys_of_jobs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    axes = ["jobs.0.placement=packed,spread", "jobs.1.training.micro_batch=1,64"]
    arguments = ["sweep", str(SPINE), *axes, *SHORT, "--no-cache", "--html", str(tmp_path / "it.html")]
    code = main(arguments)
    said = capsys.readouterr()
    assert code == 0, said.err
    page = " ".join(said.out.split())
    assert "large, small · Llama 2 7B" in page
    assert "Best points by slowdown of the job that suffers most" in page
    assert "2 refused" in page and "jobs.1.training.global_batch" in page


def test_a_baseline_is_kept_and_what_moves_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        SPINE.read_text(encoding="utf-8")
        .replace("steps: 4", "steps: 1")
        .replace("global_batch: 128", "global_batch: 32")
    )
    Path("a.yaml").write_text(text, encoding="utf-8")
    assert main(["check", "a.yaml", "--baseline", "b", "--update"]) == 0
    assert main(["check", "a.yaml", "--baseline", "b"]) == 0
    Path("a.yaml").write_text(text.replace("oversubscription: 4", "oversubscription: 16"), encoding="utf-8")
    capsys.readouterr()
    assert main(["check", "a.yaml", "--baseline", "b"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "time until all jobs are done" in said
    assert "large: exposed data-parallel communication" in said
    assert "of the times of all jobs" in said
    kept = json.loads(Path("b/a.json").read_text(encoding="utf-8"))
    assert "large: exposed_dp" in kept["parts"]["operations"]
    assert "small: activations" in kept["parts"]["memory"]
    assert kept["metrics"]["large: slowdown"] >= 1


def test_the_schema_of_several_jobs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "jobs"]) == 0
    drawn = json.loads(capsys.readouterr().out)
    assert {"#/$defs/TrainingJob", "#/$defs/ServingJob"} == {
        one["$ref"] for one in drawn["properties"]["jobs"]["items"]["oneOf"]
    }
