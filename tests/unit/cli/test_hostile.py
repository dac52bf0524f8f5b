"""Sizes that nobody can mean: one clear message, exit 2, at once."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path
from time import process_time

import pytest

from simulator.cli import main

QUICKSTART = "scenarios/quickstart.yaml"


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("training.sequence_length=1000000000", "53 days"),
        ("cluster.node.scale_up.bandwidth=1e-300 GB/s", "53 days"),
        ("model.vocabulary=100000000000000000000000", "out of range"),
        ("training.global_batch=128000000", "passes"),
        ("training.parallel.vpp=1000000000", "passes"),
        ("model.layers=10000000", "out of range"),
        ("cluster.nodes=1000000000", "8,000,000,000 devices"),
        ("training.micro_batch=1000000000000", "out of range"),
        ("training.schedule=" + 5000 * "x" + ".csv", "too long"),
        ("training.parallel.tp=-8", "out of range"),
        ("cluster.node={extends: nodes/dgx-h100, devices: 2048, scale_up: {kind: mesh}}", "up to 512 are"),
        ("cluster.node={extends: nodes/dgx-h100, devices: 2048, scale_up: {kind: ring}}", "up to 256 are"),
    ],
)
def test_a_size_that_nobody_can_mean(override: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", QUICKSTART, override, "--quiet"]) == 2
    said = capsys.readouterr()
    assert words in said.err
    assert "Traceback" not in said.err
    assert not said.out


@pytest.mark.parametrize(
    "arguments", [["profiles", 5000 * "x"], ["validate", "/dev/zero"], ["validate", "--most", "nan"]]
)
def test_names_and_files_that_cannot_be(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("serving.batching.instances=1000000000", "out of range"),
        ("serving.batching.instances=1e9", "out of range"),
        ("requests.count=1000000000000", "out of range"),
    ],
)
def test_a_system_that_nobody_can_mean(override: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "scenarios/serving/prefill-first-a100.yaml", override, "--quiet"]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "published: [" + "{metric: mfu, value: x, source: s}, " * 15_000 + "]\n",
        "published: [" + "x, " * 30_000 + "]\n",
        "".join(f"key{i}: 1\n" for i in range(30_000)),
    ],
)
def test_very_many_problems_are_counted_at_once(text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It took minutes: a list was made anew for each of its items, and a near name looked for each unknown key."""
    (tmp_path / "s.yaml").write_text("extends: quickstart\n" + text)
    begin = process_time()
    assert main(["explain", str(tmp_path / "s.yaml")]) == 2
    assert process_time() - begin < 20
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    values = 15_000 if "metric" in text else 30_000
    assert lines[-1] == f"clustersim: and {values - 10:,} more problems"


@pytest.mark.parametrize(
    "arguments",
    [
        ["n" * 200_000],
        ["run", "n" * 200_000],
        ["run", QUICKSTART, "--" + "n" * 200_000],
        ["run", QUICKSTART, "n" * 200_000 + "=1"],
        ["run", QUICKSTART, "training." + "n" * 200_000 + "=1"],
        ["run", QUICKSTART, "training.micro_batch=" + "n" * 200_000],
        ["run", QUICKSTART, "--json", "n" * 200_000],
        ["schema", "n" * 200_000],
        ["sweep", QUICKSTART, "--by", "n" * 200_000],
        ["check", "n" * 200_000, "--baseline", "b"],
        ["import", "n" * 200_000, "--cluster", "n" * 200_000],
    ],
)
def test_what_a_user_writes_is_quoted_in_part(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert len(capsys.readouterr().err) < 2000


def test_a_backend_that_matplotlib_does_not_have_is_told_before_the_work(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "simulator", "run", QUICKSTART, "--plots", str(tmp_path)]
    done = subprocess.run(words, env=os.environ | {"MPLBACKEND": "nonsense"}, capture_output=True, text=True)
    assert done.returncode == 2
    assert "'nonsense' is not a valid value for backend; unset MPLBACKEND" in done.stderr
    assert not done.stdout


def test_a_cache_cannot_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sweep", QUICKSTART, "training.micro_batch=1,2", "--cache", "-"]) == 2
    assert "--cache writes a file and cannot print; write a file name" in capsys.readouterr().err
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("file", "overrides"),
    [
        (
            "scenarios/serving/prefill-first-a100.yaml",
            ["requests.count=5", "+requests.shared_prefix={groups: 50000000, tokens: {fixed: 100}}"],
        ),
        (
            QUICKSTART,
            ["cluster.node={extends: nodes/dgx-h100, devices: 16384}", "training.global_batch=16384"],
        ),
    ],
)
def test_what_is_large_and_not_used_takes_no_memory(
    file: str, overrides: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Arrays of all groups of prefixes for five requests, of all pairs of devices on one switch."""
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        assert main(["run", file, *overrides, "--quiet"]) == 0
        assert tracemalloc.get_traced_memory()[1] - before < 300e6
    finally:
        tracemalloc.stop()
    assert not capsys.readouterr().err


def test_half_a_surrogate_pair_of_a_trace_is_quoted_as_what_can_be_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text('{"timestamp": "\\ud800", "input_length": 600, "output_length": 5}\n')
    changes = ["~requests.arrivals", "~requests.lengths", "~requests.count", f"+requests.trace={file}"]
    assert main(["run", "scenarios/serving/prefill-first-a100.yaml", *changes, "--quiet"]) == 2
    assert f"{file}:1: timestamp: `?` is no time" in capsys.readouterr().err
