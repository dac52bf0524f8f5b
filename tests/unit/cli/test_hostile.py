"""Sizes that nobody can mean: one clear message, exit 2, at once."""

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
