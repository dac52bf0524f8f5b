"""Every shipped scenario still answers what its golden file, a baseline of `clustersim check`, holds.

A golden file says what the simulator answered when it was written, not what is right; a failure says what moved and
through which operations. `make baselines` writes them anew and prints the table for the pull request. Scenarios of
published systems have their claims, see tests/unit/test_papers.py.
"""

from pathlib import Path

import pytest

from simulator.report.check.phrases import lines
from simulator.study.check import regression
from simulator.study.check.cases import find, orphans
from simulator.study.check.check import Tolerances

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).resolve().parent
NAMED = (
    "scenarios/quickstart.yaml",
    "scenarios/training",
    "scenarios/serving",
    "scenarios/jobs",
    "workloads/workflows/data-acquisition.yaml",
    "workloads/workflows/distillation.yaml",
    "workloads/workflows/grpo-7b-split.yaml",
)


def names() -> list[str]:
    """The scenarios by their paths from the root; what a family has in common is no scenario itself."""
    files = [file for path in NAMED for file in (ROOT / path).rglob("*.yaml")]
    files += [ROOT / path for path in NAMED if path.endswith(".yaml")]
    return sorted(file.relative_to(ROOT).as_posix() for file in files if file.parent.name != "families")


@pytest.mark.slow  # `make regression` asks the same of all of them
@pytest.mark.parametrize("name", names())
def test_scenario_answers_what_it_did(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (case,), _ = find([name], GOLDEN.relative_to(ROOT))
    checked = regression.check_case(case, Tolerances())
    (entry,) = regression.document([checked], "tests/golden", Tolerances()).scenarios
    assert checked.state == "same", "\n".join([f"{name}:", *lines(entry), "or all at once: make baselines"])


def test_no_golden_file_is_without_its_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert orphans(NAMED, GOLDEN) == []


def test_the_makefile_checks_the_same() -> None:
    (line,) = [one for one in (ROOT / "Makefile").read_text(encoding="utf-8").splitlines() if one.startswith("CHECKED")]
    assert line.split()[2:] == [*NAMED, "--baseline", "tests/golden"]
