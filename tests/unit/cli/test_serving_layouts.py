"""Layouts and loads of serving that cannot be, as they are typed: one message each, and the exit code."""

import pytest

from simulator.cli import main
from tests.unit.cli.conftest import ROOT

EXPERTS = str(ROOT / "scenarios" / "serving" / "deepseek-v3.yaml")
DENSE = str(ROOT / "scenarios" / "serving" / "quickstart.yaml")
SHORT = "requests.count=20"


@pytest.mark.parametrize(
    ("file", "change", "said"),
    [
        (
            EXPERTS,
            "serving.parallel={tp: 2, dp: 4, ep: 4, etp: 1}",
            ("attention lies on tp 2 x dp 4 = 8 devices", "experts on etp 1 x ep 4 = 4"),
        ),
        (
            EXPERTS,
            "serving.parallel={tp: 1, dp: 16, ep: 16}",
            ("a replica takes tp 1 x dp 16 x pp 1 = 16 devices, the cluster has 8",),
        ),
        (DENSE, "+serving.precision={activations: ternary}", ("activations cannot be ternary",)),
        (
            DENSE,
            "+serving.precision={weights: fp8, activations: fp8}",
            ("multiplies nothing in fp8", "leave `activations` out"),
        ),
        (DENSE, "requests.arrivals={closed_loop: {clients: 0}}", ("requests.arrivals.closed_loop.clients",)),
        (DENSE, "serving.batching.max_sequences=0", ("serving.batching.max_sequences",)),
    ],
    ids=["meshes", "ranks", "format", "lacking", "concurrency", "sequences"],
)
def test_what_cannot_be_is_refused_with_both_sides(
    file: str, change: str, said: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", file, change, SHORT]) == 2
    error = capsys.readouterr().err
    for each in said:
        assert each in " ".join(error.split())
    assert "Traceback" not in error


def test_flags_that_nobody_knows_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    command = "vllm serve Qwen/Qwen3-32B --tensor-parallel-sizes 2 --frobnicate 1"
    assert main(["import", command, "--cluster", "dgx-h100"]) == 0
    out = capsys.readouterr().out
    assert "--tensor-parallel-sizes (did you mean" in out
    assert "--frobnicate: not known here" in out
    assert main(["plan", DENSE, "--frontiers"]) == 2
    assert "--frontier" in capsys.readouterr().err
