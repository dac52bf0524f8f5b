"""The fixture `simulated`, in pytest runs of their own."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(folder: Path, text: str) -> str:
    """What pytest prints of a file of tests; the plugin is named, so that nothing need be installed."""
    (folder / "tests").mkdir(exist_ok=True)
    (folder / "tests" / "test_x.py").write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "simulator.pytest_plugin", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def test_it_is_found_where_the_package_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"clustersim": "simulator.pytest_plugin"}


def test_nothing_else_imports_it() -> None:
    names = "'pytest' in sys.modules, 'simulator.pytest_plugin' in sys.modules"
    code = f"import sys, simulator.run, simulator.cli; print({names})"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


def test_it_imports_nothing_heavy() -> None:
    code = "import sys, simulator.pytest_plugin; print(*{'numpy', 'networkx', 'pydantic', 'rich'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == []


def test_metrics_overrides_and_the_cache(tmp_path: Path) -> None:
    shown = next(
        block.partition("```")[0]
        for block in (ROOT / "docs" / "howto" / "ci.md").read_text(encoding="utf-8").split("```python\n")[1:]
    )
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "small.yaml").write_text("extends: quickstart\nname: s\ntraining: {global_batch: 8}\n")
    told = run(
        tmp_path,
        shown
        + """

def test_beside_the_test(simulated):
    run = simulated("small.yaml")
    assert run is simulated("small.yaml")
    assert run.metrics["mfu"] == run.mfu == run.result.metrics["mfu"]
    assert abs(sum(run.parts.values()) / run.step_time_s - 1) < 1e-9
    assert "mfu" in dir(run)
    assert simulated("small.yaml", "training.global_batch=16").step_time_s > run.step_time_s
    assert simulated("small.yaml", training__parallel={"tp": 4}) is not run
    assert not hasattr(run, "_private")


def test_serving(simulated):
    assert simulated("serving/tellme-kv260").mean_ttft_ms > 0
""",
    )
    assert "4 passed" in told


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('simulated("quickstart").mfu > 0.99', "<quickstart: step_time_s"),
        ('simulated("quickstart").mfy', "has no figure `mfy`; did you mean `mfu`?"),
        ('simulated("quickstart").zzz', "has no figure `zzz`; known: `step_time_s`, "),
        ('simulated("nowhere").mfu', "there is no scenario `nowhere`"),
        ('simulated("quickstart", training__batsch=2).mfu', "training.batsch"),
        ('simulated("quickstart", training__micro_batch=object())', "cannot be written into a scenario"),
        ('simulated("training/edge-cell-oom").mfu', "does not fit into memory"),
        ('simulated("training/edge-cell-oom").feasible', "assert False"),
    ],
)
def test_failures_say_what_is_wrong(body: str, words: str, tmp_path: Path) -> None:
    told = run(tmp_path, f"def test_it(simulated):\n    assert {body}\n")
    assert "1 failed" in told
    assert words in told
    assert "simulator/specs" not in told
    assert "During handling" not in told


def test_equal_names_in_other_folders_and_changed_files_are_other_runs(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        """
def write(batch):
    open("mine.yaml", "w").write(f"extends: quickstart\\nname: s\\ntraining: {{global_batch: {batch}}}\\n")

def test_first(simulated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(8)
    one = simulated("mine.yaml")
    assert simulated("mine.yaml") is one
    write(160)
    assert simulated("mine.yaml").step_time_s > one.step_time_s

def test_second(simulated, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(32)
    assert simulated("mine.yaml").result.scenario["training"]["global_batch"] == 32
""",
    )
    assert "2 passed" in told, told


def test_the_whole_result_is_that_of_the_python_interface(tmp_path: Path) -> None:
    told = run(
        tmp_path,
        """
def test_result(simulated):
    result = simulated("quickstart").result
    assert len(repr(result)) < 500
    assert result.mfu == simulated("quickstart").mfu
    assert result.plot.breakdown() is not None
""",
    )
    assert "1 passed" in told, told
