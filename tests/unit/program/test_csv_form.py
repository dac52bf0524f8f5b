"""Schedules as CSV files."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.program import csv_form
from simulator.program.actions import Action, Kind, parse
from simulator.program.csv_form import read_csv, write_csv
from simulator.program.passes import add_communication
from simulator.program.schedule import Schedule
from simulator.specs.text import yaml_text
from simulator.training.schedules import Pipeline, interleaved, one_f_one_b
from tests.unit.program.test_actions import actions


def written(folder: Path, content: str | bytes) -> Path:
    path = folder / "schedule.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path: Path) -> list[str]:
    with pytest.raises(InputError) as caught:
        read_csv(path, "s.csv")
    return str(caught.value).splitlines()


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_a_rank(tmp_path: Path, end: str) -> None:
    ranks = read_csv(written(tmp_path, end.join(["0F0, 0F1 ,0B0,0B1", "1F0,1B0,1F1,1B1", ""])))
    assert [[str(action) for action in row] for row in ranks] == [
        ["0F0", "0F1", "0B0", "0B1"],
        ["1F0", "1B0", "1F1", "1B1"],
    ]


def test_bubbles_are_skipped(tmp_path: Path) -> None:
    ranks = read_csv(written(tmp_path, ",,0F0,,0B0,\n\n\n"))
    assert [[str(action) for action in row] for row in ranks] == [["0F0", "0B0"]]


def test_a_rank_without_instructions(tmp_path: Path) -> None:
    assert [len(row) for row in read_csv(written(tmp_path, "0F0\n\n1F0\n"))] == [1, 0, 1]


def test_a_byte_order_mark_is_no_instruction(tmp_path: Path) -> None:
    assert read_csv(written(tmp_path, b"\xef\xbb\xbf0F0\n")) == [[Action(0, Kind.F, 0)]]


@pytest.mark.parametrize("communication", [False, True])
@pytest.mark.parametrize("schedule", [one_f_one_b(Pipeline(4, 1, 8)), interleaved(Pipeline(2, 3, 4))])
def test_round_trip_of_schedules(tmp_path: Path, schedule: Schedule, communication: bool) -> None:
    ranks = schedule.actions()
    ranks = add_communication(ranks) if communication else ranks
    write_csv(ranks, tmp_path / "s.csv")
    assert read_csv(tmp_path / "s.csv") == ranks


@given(st.lists(st.lists(actions, min_size=1, max_size=5), min_size=1, max_size=4))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, ranks: list[list[Action]]) -> None:
    path = tmp_path_factory.mktemp("csv") / "s.csv"
    write_csv(ranks, path)
    assert read_csv(path) == ranks


def test_same_schedule_same_bytes(tmp_path: Path) -> None:
    for name in "ab":
        write_csv(interleaved(Pipeline(4, 2, 8)).actions(), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_every_wrong_cell_is_named_with_its_place(tmp_path: Path) -> None:
    assert refusal(written(tmp_path, "0F0,oF1\n0B0, 1F\n")) == [
        "s.csv:1:5: `oF1` is no instruction; write stage, kind, microbatch, for example `2F0` or `1SEND_F3`",
        "s.csv:2:6: `1F` lacks its microbatch; write for example `1F0`",
    ]


def test_only_the_first_problems_are_told(tmp_path: Path) -> None:
    assert len(refusal(written(tmp_path, "x,x,x\n" * 1000))) == csv_form.MAX_PROBLEMS
    assert len(refusal(written(tmp_path, "x," * 100_000))) == csv_form.MAX_PROBLEMS


@pytest.mark.parametrize("content", ["", "\n\n", " , ,\n"])
def test_files_that_hold_nothing(tmp_path: Path, content: str) -> None:
    assert re.match("s.csv: (is empty|holds no instruction); ", refusal(written(tmp_path, content))[0])


def test_a_binary_file(tmp_path: Path) -> None:
    refused = refusal(written(tmp_path, b"0F0,\xff\xfe\x00"))
    assert refused == ["s.csv: is no text in UTF-8; name a CSV file of one line a rank"]
    assert len(refusal(written(tmp_path, b"0F0,\x00\x00"))) == 1


def test_nested_brackets(tmp_path: Path) -> None:
    assert len(refusal(written(tmp_path, "(" * 20_000))) == 1


def test_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path) == ["s.csv: is a directory; name a CSV file of one line a rank in it"]


def test_a_pipe_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert refusal(tmp_path / "pipe") == ["s.csv: is not a regular file; name a CSV file of one line a rank"]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none.csv") == ["s.csv: cannot be read: No such file or directory"]
    assert "cannot be read" in refusal(Path("a\0b"))[0]


def test_an_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path, "0F0")
    monkeypatch.setattr(Path, "open", refuse)
    assert refusal(path) == ["s.csv: cannot be read: Permission denied"]


def test_a_huge_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "MAX_BYTES", 2**20)
    assert refusal(written(tmp_path, "0F0," * 2**18 + "0F0"))[0].startswith("s.csv: is larger than 1 MiB")


def test_an_output_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        write_csv([[parse("0F0")]], tmp_path)
    with pytest.raises(InputError, match="does not exist"):
        write_csv([[parse("0F0")]], tmp_path / "none" / "s.csv")
