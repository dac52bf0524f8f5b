"""`clustersim calibrate collectives` at the command line: what is written and what refused, with exit codes."""

from pathlib import Path

import pandas as pd
import pytest

from simulator.calibration.collectives.model import predicted
from simulator.cli.entry import main
from simulator.specs import load_spec
from simulator.specs.libraries.collectives import CollectiveProfile

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of nccl-tests on one DGX H100, a tenth slower than its profile, with a damaged line."""
    table = pd.DataFrame({"size": [float(1 << power) for power in range(12, 32, 2)]})
    table = table.assign(source="made", op="all_reduce", ranks=8, nodes=1, algorithm="auto", cluster="dgx-h100")
    times = 1.1e6 * predicted(table, load_spec(CollectiveProfile, "nccl-h100"))
    gpu = "[0x1b] NVIDIA H100 80GB HBM3"
    lines = [f"#  Rank  {rank} Group  0 Pid  {rank + 1} on node0 device  {rank} {gpu}" for rank in range(8)]
    lines += [
        f"{size:.0f} {size // 4:.0f} float sum -1 {us:.2f} 1.0 1.0 0 {us:.2f} 1.0 1.0 0"
        for size, us in zip(table["size"], times, strict=True)
    ]
    path = tmp_path / "all_reduce_perf.log"
    path.write_text("\n".join([*lines, "1048576 26"]) + "\n")
    return path


def test_a_log_becomes_a_profile_of_what_it_identifies(log: Path, capsys: Capture) -> None:
    out = log.parent / "fitted"
    assert main(["calibrate", "collectives", str(log), "--cluster", "dgx-h100", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert f"refused: {log}:19: 2 columns where the head names 13" in said
    assert "nccl-h100: not identified by its rows: " in said and "warning" not in said
    text = (out / "nccl-h100.yaml").read_text()
    assert "NVLS" in text and "scale_out" not in text


def test_a_log_of_another_cluster_is_refused_and_nothing_is_written(log: Path, capsys: Capture) -> None:
    out = log.parent / "fitted"
    assert main(["calibrate", "collectives", str(log), "--cluster", "dgx-a100", "--out", str(out)]) == 2
    said = capsys.readouterr()
    assert "the log names NVIDIA H100 80GB HBM3, and `dgx-a100` has NVIDIA A100" in said.out
    (line,) = said.err.splitlines()
    assert "nccl-a100: not written, for rows held back from 1 MiB are off by" in line
    assert "another cluster than `dgx-a100`" in line
    assert not out.exists()


def test_a_log_of_damaged_lines_is_an_error(log: Path, capsys: Capture) -> None:
    log.write_text("\n".join(line for line in log.read_text().splitlines() if line[0] == "#" or len(line) < 12))
    assert main(["calibrate", "collectives", str(log), "--cluster", "dgx-h100"]) == 2
    assert f"{log}:9: 2 columns where the head names 13" in capsys.readouterr().err
