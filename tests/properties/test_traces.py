"""Readers of traces: any text gives columns or one clear refusal, and what is written is read back."""

import csv
import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.interop.traces import read
from tests.effort import examples

STARTS = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n",
    "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n",
    "prompt,output,arrival_s,session,priority\n",
    '{"timestamp": 0, "input_length": 6, "output_length": 5, "hash_ids": [0]}\n',
    '{"input_toks": 9, "output_toks": 3, "arrival_time": 1}\n',
    '[{"conversations": ',
    '{"input_lens": ',
    "",
)
CELLS = st.one_of(
    st.integers(-3, 10**10).map(str),
    st.floats().map(str),
    st.text(max_size=5),
    st.just("2023-11-16 18:15:46.68"),
    st.datetimes().map(str),
)
KEYS = st.sampled_from(
    [
        "timestamp",
        "input_length",
        "output_length",
        "hash_ids",
        "input_toks",
        "output_toks",
        "arrival_time",
        "conversations",
        "from",
        "value",
        "num_tokens",
        "input_lens",
        "output_lens",
        "start_times",
        "x",
    ]
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)
TEXTS = st.one_of(
    st.text(max_size=80),
    st.lists(st.lists(CELLS, max_size=6).map(",".join), max_size=5).map("\n".join),
    VALUES.map(json.dumps),
    st.lists(VALUES, max_size=3).map(lambda v: "\n".join(map(json.dumps, v))),
)
TOKENS = st.integers(1, 10**8)
ROWS = st.lists(st.tuples(st.floats(0, 1e9), TOKENS, TOKENS, st.integers(0, 3)), min_size=1, max_size=20)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all examples of a test."""
    return tmp_path_factory.mktemp("traces")


def check(path: Path) -> None:
    """Read a file; columns fit together, or the refusal names the file."""
    try:
        trace = read(path)
    except InputError as refused:
        assert len(refused.problems) == 1
        assert refused.problems[0].file == str(path)
        return
    assert len(trace.prompt) == len(trace.output) > 0
    assert min(trace.prompt.min(), trace.output.min()) >= 1
    for column in (trace.arrival_s, trace.hashes, trace.session, trace.priority):
        assert column is None or len(column) == len(trace.prompt)
    if trace.arrival_s is not None:
        assert trace.arrival_s[0] == 0
        assert all(b >= a for a, b in pairwise(trace.arrival_s))


@examples(300)
@given(start=st.sampled_from(STARTS), text=TEXTS)
def test_any_text_is_read_or_refused(folder: Path, start: str, text: str) -> None:
    path = folder / "any"
    path.write_text(start + text, encoding="utf-8", errors="replace", newline="")
    check(path)


@examples(60)
@given(content=st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(folder: Path, content: bytes) -> None:
    path = folder / "bytes"
    path.write_bytes(b"prompt,output\n" + content)
    check(path)


def table(header: str, rows: list[list[Any]]) -> str:
    """CSV."""
    stream = io.StringIO()
    csv.writer(stream).writerows([header.split(","), *rows])
    return stream.getvalue()


@examples(60)
@given(rows=ROWS, data=st.data())
def test_what_is_written_is_read_back(
    folder: Path, rows: list[tuple[float, int, int, int]], data: st.DataObject
) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    path = folder / "written"
    form = data.draw(st.sampled_from(["plain", "burstgpt", "llmservingsim", "vllm"]))
    if form == "plain":
        text = table("arrival_s,prompt,output,priority", [list(row) for row in rows])
    elif form == "burstgpt":
        text = table("Timestamp,Model,Request tokens,Response tokens", [[t, "m", p, o] for t, p, o, _ in rows])
    elif form == "llmservingsim":
        lines = [{"input_toks": p, "output_toks": o, "arrival_time": t} for t, p, o, _ in rows]
        text = "\n".join(map(json.dumps, lines))
    else:
        names = ("start_times", "input_lens", "output_lens")
        text = json.dumps(dict(zip(names, list(zip(*rows, strict=True))[:3], strict=True)))
    path.write_text(text, encoding="utf-8", newline="")
    trace = read(path)
    assert trace.format == form
    assert trace.arrival_s is not None
    assert trace.arrival_s.tolist() == [row[0] - rows[0][0] for row in rows]
    assert trace.prompt.tolist() == [row[1] for row in rows]
    assert trace.output.tolist() == [row[2] for row in rows]
    if form == "plain":
        assert trace.priority is not None
        assert trace.priority.tolist() == [row[3] for row in rows]
