"""`clustersim calibrate` as it is typed: what it refuses, and that it writes whole files into one folder only."""

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from simulator.calibration.collectives.all_reduce import CHIPS, ENGINES, times
from simulator.calibration.fitting import TABLES
from simulator.cli import main
from simulator.specs import data_root, load_spec
from simulator.specs.libraries.collectives import CustomAllReduce
from simulator.specs.text.yaml_text import plain, read
from simulator.specs.training import Stack

ROWS = data_root() / "workloads" / "measurements"
TABLE = {"kernel_source": ["TRTLLM"], "message_size": [1024], "num_gpus": [2], "latency": [0.01]}


def two_rows(folder: Path) -> Path:
    """A file with the first two rows of FSDP that count."""
    lines = (ROWS / "training.jsonl").read_text().splitlines()
    chosen = [line for line in lines if '"FSDP"' in line or '"framework": "PyTorch FSDP"' in line or "fsdp" in line]
    path = folder / "rows.jsonl"
    path.write_text("\n".join(chosen[:2]) + "\n")
    return path


def all_reduce_tables(folder: Path, table: pd.DataFrame) -> Path:
    """Tables of all-reduces for every device and engine."""
    devices = [device for devices, _ in CHIPS.values() for device in devices]
    for device, (engine, own) in product(devices, ENGINES.items()):
        for version, one in (("1.9.0", table.iloc[:0]), ("1.10.0rc2", table)):  # the later one counts
            place = folder / TABLES[device][0] / "comm" / engine / version
            place.mkdir(parents=True)
            one.assign(kernel_source=own.kernel).to_parquet(place / "custom_allreduce_perf.parquet")
    return folder


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["prices", "x"], "invalid choice"),
        (["kernels", "."], "kernels takes TABLES and ROWS, not 1 file"),
        (["stack"], "stack takes ROWS, or LOG..., not 0 files"),
        (["stack", str(ROWS / "training.jsonl"), str(ROWS / "serving.jsonl")], "logs need `--scenario FILE`"),
        (["stack", str(ROWS / "training.jsonl"), "--accelerator", "h100-sxm"], "has no meaning for stack"),
        (["stack", "nothing.jsonl"], "nothing.jsonl: there is no such file or folder"),
        (["stack", str(ROWS / "training.jsonl"), "--starts", "2"], "`--starts` has no meaning for stack"),
        (["stack", str(ROWS / "serving.jsonl"), "--intervals"], "`--intervals` has no meaning for rows that serve"),
        (["collectives", ".", "--profile", "nccl"], "there are no measurements for collective profile `nccl`"),
        (["collectives", ".", "--profile", "nccl-v100"], "AR_GPU2_1M_1024M_LUT: cannot be read"),
        (["kernels", ".", str(ROWS / "training.jsonl"), "--profile", "l40s"], "gemm_perf.parquet: cannot be read"),
        (["all-reduce", "."], "custom_allreduce_perf.parquet: cannot be read"),
        (["lengths", "."], "AzureLLMInferenceTrace_conv.csv"),
        (["lengths", ".", "--out", str(ROWS / "training.jsonl")], "cannot be made a folder"),
    ],
)
def test_what_is_refused(
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["calibrate", *arguments]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_profile_that_no_row_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "stack", str(two_rows(tmp_path)), "--samples", "1", "--profile", "megatron-cora"]) == 2
    assert "did you mean `megatron-core`?" in capsys.readouterr().err


def test_a_table_that_is_none_or_lacks_a_column(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = all_reduce_tables(tmp_path / "a", pd.DataFrame(TABLE).drop(columns="latency"))
    assert main(["calibrate", "all-reduce", str(folder)]) == 2
    assert "custom_allreduce_perf.parquet: has no column `latency`" in capsys.readouterr().err
    for path in folder.rglob("*.parquet"):
        path.write_text("no table")
    assert main(["calibrate", "all-reduce", str(folder)]) == 2
    assert "is no Parquet table" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ":1: not a JSON object"),
        ('{"op": "all_reduce"}', ":1: the row has no `metrics`"),
        (
            '{"id": "r7", "op": "all_reduce", "source": "s", "accelerator": "MI300X", "size_bytes": 8, '
            '"metrics": {"time_s": 1}}',
            "row `r7` has no 'num_ranks'",
        ),
    ],
)
def test_a_bad_row_is_named(text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "measurements").mkdir()
    (tmp_path / "measurements" / "network.jsonl").write_text(text + "\n")
    assert main(["calibrate", "collectives", str(tmp_path), "--profile", "rccl"]) == 2
    assert words in capsys.readouterr().err


def test_rows_of_both_kinds_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [(ROWS / name).read_text().splitlines()[0] for name in ("training.jsonl", "serving.jsonl")]
    (tmp_path / "rows.jsonl").write_text("\n".join(both))
    assert main(["calibrate", "stack", str(tmp_path / "rows.jsonl")]) == 2
    assert "has rows that train and rows that serve" in capsys.readouterr().err


def test_a_package_that_is_missing_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert main(["calibrate", "stack", str(ROWS / "training.jsonl")]) == 2
    assert "pip install 'clustersim[calibrate]'" in capsys.readouterr().err


def test_coefficients_that_made_a_table_are_found_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = {"launch": 4e-6, "hop": 3e-6, "member": 2e-7, "efficiency": 0.5}
    grid = [(ranks, size) for ranks in (2, 4, 8) for size in 2.0 ** np.arange(10, 22)]
    table = pd.DataFrame(grid, columns=["num_gpus", "message_size"])
    table["latency"] = 1e3 * times(table, made, CHIPS["nccl-a100"][1])
    folder, out = all_reduce_tables(tmp_path / "tables", table), tmp_path / "fitted"
    assert main(["calibrate", "all-reduce", str(folder), "--profile", "nccl-a100", "--out", str(out)]) == 0
    assert "nccl-a100 sglang: all rows: median 0." in capsys.readouterr().out
    written = plain(read(out / "all-reduce.figures.yaml"))["nccl-a100"]["engines"]
    for engine in ENGINES:
        figures = CustomAllReduce.model_validate(written[engine])
        assert {name: getattr(figures, name).value for name in made} == pytest.approx(made, rel=0.1)


@pytest.mark.slow
def test_a_stack_is_written_whole_and_only_where_it_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, out = two_rows(tmp_path), tmp_path / "new" / "fitted"
    shipped = {path: path.read_bytes() for path in (data_root() / "hardware_profiles" / "stacks").iterdir()}
    assert main(["calibrate", "stack", str(rows), "--out", str(out), "--left-out", str(tmp_path / "unseen.json")]) == 0
    assert "too few rows to fit it" in capsys.readouterr().out
    (path,) = out.iterdir()
    fitted, before = load_spec(Stack, str(path)), load_spec(Stack, path.stem)
    assert "clustersim calibrate stack" in fitted.compute_efficiency.source
    assert fitted.compute_efficiency.status == "estimate"
    assert fitted.name == before.name
    assert len(json.loads((tmp_path / "unseen.json").read_text())) == 2
    assert {path: path.read_bytes() for path in shipped} == shipped
