"""Files of timed kernels, whatever others have written into them: refused row by row, with file and line."""

import json
from pathlib import Path
from typing import Any

import pytest

from simulator.errors import InputError
from simulator.interop.rows.benchmarks import MARK, read_benchmarks

GOOD: dict[str, Any] = {"op": "gemm", "dtype": "bf16", "shape": {"m": 8, "n": 16, "k": 32}, "metrics": {"time_s": 1e-5}}
HOSTILE = [
    ("{", "not a JSON object"),
    ("[" * 30000, "not a JSON object"),
    ("7", "not a JSON object but int"),
    (json.dumps(GOOD | {"op": "rm -rf"}), "operation `rm -rf` is none of gemm"),
    (json.dumps(GOOD | {"shape": {"m": 8, "n": 16}}), "shape without a whole number above 0 for k"),
    (json.dumps(GOOD | {"shape": {"m": 8, "n": 16, "k": 1 << 60}}), "for k"),
    (json.dumps(GOOD | {"shape": {"m": 8, "n": -16, "k": 0.5}}), "for n, k"),
    (json.dumps(GOOD | {"shape": {"m": True, "n": 16, "k": 32}}), "for m"),
    (json.dumps(GOOD | {"metrics": {}}), "no `time_s`"),
    (json.dumps(GOOD | {"metrics": {"time_s": -1}}), "`time_s` of -1; write seconds"),
    (json.dumps(GOOD | {"metrics": {"time_s": 1e300}}), "`time_s` of 1e+300"),
    ('{"op": "gemm", "metrics": {"time_s": NaN}}', "NaN is no number"),
    (json.dumps(GOOD | {"metrics": {"time_s": "; drop table"}}), "metrics"),
    (json.dumps({MARK: 99}), "the header is of version 99, not 1"),
    (json.dumps({MARK: 1, "versions": {"a": {}}}), "versions"),
    ("x" * 70000, "longer than"),
]


@pytest.mark.parametrize(("text", "words"), HOSTILE, ids=[words[:24] for _, words in HOSTILE])
def test_a_damaged_row_is_refused_with_its_line_and_the_others_are_read(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join([json.dumps(GOOD), text, json.dumps(GOOD)]) + "\n")
    found = read_benchmarks(path)
    assert [row.id for row in found.rows] == ["rows.jsonl:1", "rows.jsonl:3"]
    (refused,) = found.refused
    assert refused.startswith(f"{path}:2: ") and words in refused


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(json.dumps(GOOD).encode() + b"\n\xff\xfe\n")
    assert len(read_benchmarks(path).rows) == len(read_benchmarks(path).refused) == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gemm,bf16,8,16,32,1e-5,7", "7 values where the head names 6 columns"),
        ("gemm,bf16,8,16,,1e-5", "shape without a whole number above 0 for k"),
        ("gemm,bf16,8,16,32,=1+1", "metrics"),
        ("gemm,bf16,8,16,32,inf", "metrics"),
        ('gemm,"bf16,8,16,32,1e-5', "no line of comma-separated values"),
    ],
)
def test_a_damaged_line_of_a_table_is_refused(line: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        f"# device: a card\n# torch: 2.9\nop,dtype,m,n,k,time_s\ngemm,bf16,8,16,32,0.000010000000000000001\n{line}\n"
    )
    found = read_benchmarks(path)
    assert found.header.words == "a card, torch 2.9"
    assert [row.metrics["time_s"] for row in found.rows] == [pytest.approx(1e-5)]
    (refused,) = found.refused
    assert refused.startswith(f"{path}:5: ") and words in refused


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("rows.jsonl", "", "has no row that can be used"),
        ("rows.jsonl", "{}\n", "rows.jsonl:1: .*op"),
        ("rows.csv", "m,n,k,time_s\n", "no column `op`"),
        ("rows.csv", "op,m,m,time_s\n", "two columns have one name"),
        ("rows.csv", '"op\n', "no line of comma-separated values"),
    ],
)
def test_a_file_without_a_row_is_an_input_error(name: str, text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=words):
        read_benchmarks(tmp_path / name)
