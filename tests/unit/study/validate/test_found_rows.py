"""Rows that were found after the fits: readable, in no fit, and each with what it gave first."""

import json
from pathlib import Path

from benchmarks.rows import chosen
from benchmarks.unseen_rows import BEGIN, END, FIRST, ROWS, figures, given, section, write
from simulator.interop.rows.jsonl import parse_line, read_lines
from simulator.study.validate.published import KINDS

LINES = list(read_lines(ROWS))
SHIPPED = ROWS.with_name("training.jsonl")


def test_every_row_says_where_and_when_it_was_published_and_has_its_first_answer() -> None:
    rows = [parse_line(line) for line in LINES]
    first = json.loads(FIRST.read_text())["rows"]
    assert [str(row["id"]) for row in rows] == list(first)
    assert all(row["url"] and row["published"] and row["found"] for row in rows)
    assert all(isinstance(one, float) or one.startswith("refused: ") for one in first.values())


def test_no_row_is_among_those_of_the_fits() -> None:
    seen = [parse_line(line) for line in read_lines(SHIPPED)]
    assert not {str(row["id"]) for row in seen} & {str(parse_line(line)["id"]) for line in LINES}
    assert not {str(row["source"]) for row in seen} & {str(parse_line(line)["source"]) for line in LINES}


def test_rows_are_simulated_or_refused_and_the_page_has_both_answers(tmp_path: Path) -> None:
    wanted = ("tinyllama", "mosaic-mi250-g4")
    lines = [line for line in LINES if str(parse_line(line)["id"]).startswith(wanted)]
    now = given(KINDS["training"].validate(lines, 1))
    assert len(now) == 2
    (error,) = [one for one in now.values() if isinstance(one, float)]
    assert abs(error) < 0.5
    rows = dict.fromkeys(now, 0.25)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write(page, section({"both": list(now)}, {"commit": "c", "date": "d", "rows": rows}, now))
    text = page.read_text()
    assert "old" not in text and text.startswith("before") and text.endswith("after\n")
    assert f"| both | 2 | 2 | 25.0 % | 25.0 % | +25.0 % | {figures([error])} |" in text
    assert "- `mosaic-mi250-g4`: refused: device `MI250`" in text


def test_rows_of_another_file_are_chosen_by_their_source() -> None:
    assert [row.source for row in chosen(["source=tinyllama"], frozenset(), 1, ROWS)] == ["tinyllama"]
