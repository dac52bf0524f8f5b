"""Blind tests: their rows are readable and of sources that nothing else names, their first answers are written once."""

import json
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import blind
from simulator.errors import InputError
from simulator.interop.rows.jsonl import Refused, parse_line, read_lines, read_row
from simulator.interop.rows.network import NetworkRow
from simulator.interop.rows.serving import ServingRow
from simulator.interop.rows.training import Row

FORMS: dict[str, Any] = {"training": Row, "serving": ServingRow, "network": NetworkRow}
MOST = {"blind": 6, "blind2": 16, "blind3": 21, "blind4": 19, "blind5": 6}
"""Rows of a source, by test."""
CASES = [(test, kind) for test in blind.TESTS for kind in FORMS if test.files[kind].exists()]
UNREAD = {"blind5": {"without key `global_batch`"}}
"""Reasons for which rows of a test may be none of the form."""
HOST = "https://github.com"
"""Address of rows whose repository was not recorded."""
ASKED = {"blind": 3, "blind2": 3, "blind3": 1, "blind4": 2, "blind5": 3}
"""Kinds of rows, by test."""


def rows(path: Path) -> list[dict[str, Any]]:
    return [parse_line(line) for line in read_lines(path)]


def test_no_file_of_a_test_is_lost() -> None:
    assert Counter(test.name for test, _ in CASES) == ASKED


@pytest.mark.parametrize(("test", "kind"), CASES)
def test_rows_are_of_the_form_and_say_where_and_when_they_were_read(test: blind.Blind, kind: str) -> None:
    found = rows(test.files[kind])
    for row in found:
        try:
            read_row(FORMS[kind], row)
        except Refused as why:
            assert str(why) in UNREAD.get(test.name, ())
        day = row.get("published") or row.get("found") or row["read_on"]
        assert row["url"].startswith("http") and len(day) >= len("2024") and row["source_kind"], row
    assert max(Counter(row["source"] for row in found).values()) <= MOST[test.name]
    assert len({row["id"] for row in found}) == len(found)


@pytest.mark.parametrize(("test", "kind"), CASES)
def test_no_other_file_names_their_sources(test: blind.Blind, kind: str) -> None:
    for path in set(blind.FOLDER.glob("*.jsonl")) - set(test.files.values()):
        text = path.read_text()
        for row in rows(test.files[kind]):
            assert row["url"] == HOST or f'"{row["url"]}"' not in text, (path.name, row["id"])
            assert f'"{row["source"]}"' not in text, (path.name, row["id"])
            assert f'"id": "{row["id"]}"' not in text


def stand_in(name: str, error: float | None, interval: tuple[float, float] | None = None) -> SimpleNamespace:
    """An outcome as validation gives it, of a published 10 s."""
    row = SimpleNamespace(experts=8, attention="", task="pretrain", flags="", device="H100")
    stands_on = SimpleNamespace(device="h100-sxm", stack="fsdp2")
    refused = "" if error is not None else "device `X`"
    return SimpleNamespace(
        id=name, error=error, measured=10.0, interval=interval, refused=refused, row=row, conditions=stands_on
    )


def test_errors_and_intervals_by_group() -> None:
    outcomes = [stand_in("a", 0.1, (8.0, 12.0)), stand_in("b", -0.3, (11.0, 13.2)), stand_in("c", None)]
    found = {"training": {one.id: blind.answer("training", one) for one in outcomes}}
    assert found["training"]["c"] == {"refused": "device `X`"}
    assert found["training"]["b"]["held"] is False and found["training"]["b"]["width"] == pytest.approx(0.2)
    text = list(blind.tables(found))
    assert "| all | 3 | 2 | 20.0 % | 20.0 % | -10.0 % | 2 | 50 % | 35 % |" in text
    assert "| model mixture of experts | 2 | 2 | 20.0 % | 20.0 % | -10.0 % | 2 | 50 % | 35 % |" in text
    assert "- device `X`: 1" in text


def test_a_time_without_an_interval_is_named_by_its_library() -> None:
    outcome = stand_in("n", 0.2)
    outcome.conditions, outcome.library, outcome.row.op = None, "nccl", "all_reduce"
    found = blind.answer("network", outcome)
    assert found == {"error": 0.2, "device": "H100", "stack": "nccl", "model": "all_reduce"}


def test_first_answers_are_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter((0.1, 0.2))
    page = tmp_path / "page.md"
    test = blind.Blind("third")
    monkeypatch.setattr(blind, "ANSWERS", tmp_path)
    page.write_text("before\n{}\nold\n{}\nafter\n".format(*test.marks))
    monkeypatch.setattr(blind, "PAGE", page)
    monkeypatch.setattr(blind, "TESTS", (test,))
    monkeypatch.setattr(blind, "run", lambda files, jobs: {"training": [one()]})
    monkeypatch.setattr(blind, "ship", lambda test, outcomes: None)
    monkeypatch.setattr("sys.argv", ["blind"])
    said: list[str] = []

    def one() -> SimpleNamespace:
        return stand_in("a", next(answers))

    def first() -> Any:
        return json.loads(test.first.read_text())["rows"]["training"]["a"]["error"]

    blind.main(said.append)
    assert first() == 0.1
    blind.main(said.append)
    assert first() == 0.1
    assert "10.0 %" in said[2] and "20.0 %" in said[3]
    assert "| **training, first** | 1 | 1 | 10.0 %" in page.read_text() and "old" not in page.read_text()
    assert "| training, now | 1 | 1 | 20.0 %" in page.read_text()
    with pytest.raises(InputError, match="never written again"):
        blind.freeze({}, test.first, "commit")


def test_files_that_are_not_there_are_left_out(tmp_path: Path) -> None:
    assert blind.run({"training": tmp_path / "none.jsonl"}, 1) == {}
