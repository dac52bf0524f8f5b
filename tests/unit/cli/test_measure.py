"""`clustersim measure` as it is typed, with a stand-in for PyTorch: what it writes, shows and refuses."""

import sys
from pathlib import Path

import pytest

from simulator.calibration.kernels import own
from simulator.cli import main
from simulator.specs.kernels import KernelProfile
from simulator.specs.resolve import load_spec
from tests.stand_in_torch import StandIn


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    stand_in = StandIn()
    monkeypatch.setitem(sys.modules, "torch", stand_in)
    return stand_in


def test_what_is_measured_is_what_calibrate_reads(
    torch: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file, folder = tmp_path / "h100.jsonl", tmp_path / "fitted"
    words = ["measure", "--out", str(file), "--only", "memory,launch,block", "--seconds", "0.1"]
    assert main(words) == 0
    page = capsys.readouterr().out
    assert "NVIDIA H100 80GB HBM3" in page and "one block, forward and backward" in page and "predicted" in page
    assert [path.name for path in tmp_path.iterdir()] == ["h100.jsonl"]
    monkeypatch.setattr(own, "EVALUATIONS", 10)
    assert main(["calibrate", "kernels", str(file), "--out", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "read, not fitted: 1 of block_fwd bf16" in said and "block_fwd_bwd before this fit" in said
    stream = load_spec(KernelProfile, str(folder / "h100-sxm.yaml")).stream
    assert stream.launch == pytest.approx(torch.device.launch, rel=0.05)
    assert stream.memory == pytest.approx(torch.device.bandwidth / 3.35e12, rel=0.05)


def test_a_dry_run_writes_nothing_and_needs_no_pytorch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["measure", "--dry-run", "--out", str(tmp_path / "x.jsonl"), "--only", "gemm, block"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("Would measure 194 cases") and "cannot be imported" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "`--out FILE` is missing"),
        (["--out", "{}/none/x.jsonl"], "its folder does not exist"),
        (["--out", "{}"], "is a folder"),
        (["--out", "-"], "--out writes a file and cannot print"),
        (["--out", "{}/x.jsonl", "--only", "gem"], "nothing of kind `gem` is measured"),
        (["--out", "{}/x.jsonl", "--seconds", "0"], "is no number of seconds"),
        (["--out", "{}/x.jsonl", "--device", "cuda:9"], "PyTorch sees no device `cuda:9`"),
        (["--out", "{}/x.jsonl", "--accelerator", "h1000"], "h1000"),
    ],
)
def test_what_is_refused_before_anything_is_measured(
    words: list[str], message: str, torch: StandIn, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["measure", *(word.format(tmp_path) for word in words)]) == 2
    assert message in capsys.readouterr().err
    assert torch.device.kernels == [] and list(tmp_path.iterdir()) == []


def test_without_pytorch_nothing_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["measure", "--out", str(tmp_path / "x.jsonl")]) == 2
    assert "measuring needs PyTorch" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
