"""Suspected causes: the shipped list, matching by row and direction, bad files."""

import re
from pathlib import Path

import pytest

from simulator.errors import InputError
from simulator.interop.rows.jsonl import parse_line, read_lines
from simulator.specs import data_root
from simulator.study.validate.causes import Cause, known_causes, suspected

FAST = Cause(rows=("a-1", "b-*"), direction="too fast", what="fast", suspected="one")
SLOW = Cause(rows=("b-*",), direction="too slow", what="slow", suspected="other")
SHIPPED = data_root() / "workloads" / "measurements" / "training.jsonl"


@pytest.mark.parametrize(
    ("row", "error", "cause"),
    [
        ("a-1", -0.1, "one"),
        ("a-1", 0.1, ""),
        ("a-12", -0.1, ""),
        ("b-7", -0.2, "one"),
        ("b-7", 0.2, "other"),
        ("b-7", None, ""),
        ("c", -0.5, ""),
    ],
)
def test_a_cause_explains_its_rows_in_its_direction(row: str, error: float | None, cause: str) -> None:
    assert suspected((FAST, SLOW), row, error) == cause


def test_every_pattern_of_the_shipped_list_matches_a_shipped_row() -> None:
    ids = [str(parse_line(line).get("id")) for line in read_lines(SHIPPED)]
    for cause in known_causes():
        for pattern in cause.rows:
            assert any(re.fullmatch(pattern.replace("*", ".*"), name) for name in ids), pattern


def test_a_file_that_is_wrong_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "causes.yaml"
    file.write_text("causes:\n  - {rows: [a], direction: sideways, what: x, suspected: y}\n")
    with pytest.raises(InputError, match="direction"):
        known_causes(file)
