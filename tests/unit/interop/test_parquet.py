"""Timed kernels in Parquet: the rows that the same table has as CSV, and products as aiconfigurator keeps them."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from simulator.cli import main
from simulator.errors import InputError
from simulator.interop.parquet import DRAWN
from simulator.interop.rows.benchmarks import read_benchmarks

COLUMNS: dict[str, list[Any]] = {
    "op": ["gemm", "attention_fwd", "gemm", "stream_copy", "nothing"],
    "dtype": ["bf16", "bf16", "fp8", None, "bf16"],
    "m": [8, None, 4096, None, 1],
    "n": [16, None, 4096, None, 1],
    "k": [32, None, 4096, None, 1],
    "batch": [None, 2, None, None, None],
    "heads": [None, 8, None, None, None],
    "kv_heads": [None, 8, None, None, None],
    "seqlen": [None, 512, None, None, None],
    "head_dim": [None, 128, None, None, None],
    "causal": [None, True, None, None, None],
    "bytes": [None, None, None, 1 << 30, None],
    "time_s": [1e-5, 2e-5, -1.0, 8e-4, 1e-5],
    "seen_by": ["a", "b", "c", "d", "e"],
}


def written(path: Path, columns: dict[str, list[Any]], metadata: dict[str, str] | None = None) -> Path:
    parquet.write_table(pyarrow.table(columns).replace_schema_metadata(metadata), path)
    return path


def as_csv(path: Path, columns: dict[str, list[Any]]) -> Path:
    rows = zip(*columns.values(), strict=True)
    lines = [",".join("" if cell is None else str(cell) for cell in cells) for cells in rows]
    path.write_text("\n".join(["# device: mine", "# accelerator: h200-sxm", ",".join(columns), *lines]) + "\n")
    return path


@pytest.mark.parametrize("name", ["rows.parquet", "rows.PQ", "rows.dat"])
@pytest.mark.parametrize("floats", [False, True], ids=["whole", "floats beside gaps"])
def test_rows_are_those_of_the_same_table_as_csv(name: str, floats: bool, tmp_path: Path) -> None:
    sides = [column for column, cells in COLUMNS.items() if isinstance(next(filter(None, cells)), int)]
    typed = COLUMNS | {
        side: [cell if cell is None else float(cell) for cell in COLUMNS[side]]
        for side in sides
        if floats and side != "causal"
    }
    said = {"device": "mine", "accelerator": "h200-sxm", "else": "x" * 100_000}
    found = read_benchmarks(written(tmp_path / name, typed, said))
    same = read_benchmarks(as_csv(tmp_path / "rows.csv", COLUMNS))
    plain = [(row.op, row.dtype, row.shape, row.metrics) for row in same.rows]
    assert [(row.op, row.dtype, row.shape, row.metrics) for row in found.rows] == plain and len(plain) == 3
    assert found.header == same.header
    assert [row.id for row in found.rows] == [f"{name}:{place}" for place in (1, 2, 4)]
    assert [line.partition(": ")[0] for line in found.refused] == [f"{tmp_path / name}:{place}" for place in (3, 5)]


def products(count: int) -> dict[str, list[Any]]:
    """Shapes of `count` values of k, each three times, in a table as aiconfigurator has it."""
    k = [256 * (1 + i) for i in range(count) for _ in range(3)]
    return {
        "framework": ["VLLM"] * len(k),
        "device": ["NVIDIA H200"] * len(k),
        "op_name": ["gemm"] * len(k),
        "gemm_dtype": ["bfloat16"] * len(k),
        "m": [64] * len(k),
        "n": [512] * len(k),
        "k": k,
        "latency": [0.001 * side * noise for side, noise in zip(k, [1.0, 0.9, 7.0] * count, strict=True)],
    }


def test_products_of_aiconfigurator_count_once_by_their_median(tmp_path: Path) -> None:
    found = read_benchmarks(written(tmp_path / "gemm_perf.parquet", products(3)))
    assert [(row.dtype, row.shape) for row in found.rows] == [
        ("bf16", {"m": 64, "n": 512, "k": k}) for k in (256, 512, 768)
    ]
    assert [row.metrics["time_s"] for row in found.rows] == pytest.approx([256e-6, 512e-6, 768e-6])
    assert (found.header.device, found.header.accelerator) == ("NVIDIA H200", "h200-sxm")
    assert found.refused == ()


def test_an_even_sample_of_many_shapes_is_taken_and_the_rest_said(tmp_path: Path) -> None:
    found = read_benchmarks(written(tmp_path / "gemm_perf.parquet", products(2 * DRAWN)))
    assert [row.shape["k"] for row in found.rows] == [256 * (1 + 2 * i) for i in range(DRAWN)]
    assert [line.partition(": ")[2] for line in found.refused] == ["2,000 shapes beyond the 2,000 drawn evenly"]


def test_what_a_fit_of_products_alone_would_misread_is_left_out_with_its_count(tmp_path: Path) -> None:
    table = products(4)
    table["gemm_dtype"][:3] = ["fp8"] * 3
    table["m"][3:6] = [20] * 3
    table["latency"][6:9] = [None] * 3
    found = read_benchmarks(written(tmp_path / "gemm_perf.parquet", table))
    assert [row.shape["k"] for row in found.rows] == [1024]
    fp8, ragged, empty = (line.partition(": ")[2] for line in found.refused)
    assert fp8.startswith("3 products in fp8, whose times hold casts")
    assert ragged == "3 products of more than 16 rows that are no multiple of 16"
    assert empty == "3 products without whole sides and a time"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"op_name": ["context_attention"], "isl": [512], "latency": [0.1]}, "TABLES ROWS"),
        ({"op": ["gemm"], "m": [8]}, "no column `time_s`"),
        (products(1) | {"device": ["NVIDIA H200", "NVIDIA H200", "NVIDIA L40S"]}, "several devices"),
        ({"op": ["gemm"], "time_s": [[1e-5]]}, "has no row that can be used"),
    ],
)
def test_a_table_that_says_too_little_is_refused(columns: dict[str, list[Any]], words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read_benchmarks(written(tmp_path / "table.parquet", columns))
    assert words in str(caught.value) and "table.parquet" in str(caught.value)


@pytest.mark.parametrize("columns", [products(1), COLUMNS], ids=["products", "own"])
def test_two_columns_of_one_name_are_refused(columns: dict[str, list[Any]], tmp_path: Path) -> None:
    table = pyarrow.table(columns)
    parquet.write_table(table.append_column("m", table.column("m")), tmp_path / "table.parquet")
    with pytest.raises(InputError, match="two columns have one name"):
        read_benchmarks(tmp_path / "table.parquet")


def test_a_format_that_is_no_word_is_left_out(tmp_path: Path) -> None:
    table = products(1) | {"gemm_dtype": [["bfloat16"]] * 3}
    with pytest.raises(InputError, match="has no row that can be used"):
        read_benchmarks(written(tmp_path / "gemm_perf.parquet", table))


@pytest.mark.parametrize(
    ("cell", "causal"),
    [(False, False), (1, True), (0.0, False), ("false", False), ("TRUE", True), (2, None), ([1], None)],
)
def test_causal_is_what_the_cell_says(cell: Any, causal: bool | None, tmp_path: Path) -> None:
    columns = {name: cells[1:2] for name, cells in COLUMNS.items() if cells[1] is not None}
    two = {name: cells + cells for name, cells in columns.items()} | {"causal": [cell, cell]}
    two |= {"op": ["attention_fwd"] * 2}
    path = written(tmp_path / "rows.parquet", two)
    if causal is None:
        with pytest.raises(InputError, match="`causal` is neither true nor false"):
            read_benchmarks(path)
    else:
        assert [row.shape["causal"] for row in read_benchmarks(path).rows] == [causal] * 2


def test_what_is_no_parquet_is_refused_in_a_line(tmp_path: Path) -> None:
    whole = written(tmp_path / "whole.parquet", COLUMNS).read_bytes()
    random, refused = np.random.default_rng(0), 0
    for number in range(60):
        damaged = bytearray(whole[: int(random.integers(4, len(whole)))] if number % 2 else whole)
        for place in random.integers(0, len(damaged), 8):
            damaged[place] = random.integers(256)
        path = tmp_path / "damaged.parquet"
        path.write_bytes(bytes(damaged))
        try:
            read_benchmarks(path)
        except InputError as error:
            assert "damaged.parquet" in str(error) and len(str(error)) < 1000
            refused += 1
    assert refused >= 30  # all that were cut off
    (tmp_path / "folder.parquet").mkdir()
    for name, words in (("folder.parquet", "no regular file"), ("none.parquet", "No such file")):
        with pytest.raises(InputError, match=words):
            read_benchmarks(tmp_path / name)


def test_without_pyarrow_a_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "rows.parquet", COLUMNS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match="Parquet needs pyarrow, which is not installed; install it"):
        read_benchmarks(path)
    assert main(["calibrate", "kernels", str(path)]) == 2  # refused before it is read, as every fit is
    said = capsys.readouterr().err
    assert "need pyarrow, which is not installed" in said and "clustersim[calibrate]" in said
