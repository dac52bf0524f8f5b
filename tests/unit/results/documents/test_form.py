"""Documents of studies: written and read back they are the same."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter

from simulator.results.documents.check import CheckDocument
from simulator.results.documents.comparison import ComparisonDocument
from simulator.results.documents.form import plain
from simulator.results.documents.plan import PlanDocument
from simulator.results.documents.sweep import SweepDocument
from simulator.results.documents.validation import ErrorStatistics
from simulator.study.compare.comparison import compare
from simulator.study.compare.document import document as compared
from tests.factories import out_of_memory, training_result
from tests.plans import several_layouts
from tests.unit.report.check.test_check import everything
from tests.unit.report.sweep.test_sweep import swept
from tests.unit.report.validation.test_html import SOME, read_back

READ: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "comparison": (
        TypeAdapter(ComparisonDocument).validate_python,
        compared(compare([training_result(), out_of_memory()])),
    ),
    "sweep": (TypeAdapter(SweepDocument).validate_python, swept()),
    "plan": (TypeAdapter(PlanDocument).validate_python, several_layouts(4.0)),
    "check": (
        TypeAdapter(CheckDocument).validate_python,
        everything(),
    ),
    "validation": (read_back, SOME),
}


@pytest.mark.parametrize("name", READ)
def test_what_is_written_reads_back_as_the_same(name: str) -> None:
    read, document = READ[name]
    text = json.dumps(plain(document), allow_nan=False)
    again = read(json.loads(text))
    assert again == document
    assert json.dumps(plain(again)) == text


def test_what_is_not_known_is_left_out_where_the_form_says_so() -> None:
    assert plain(ErrorStatistics()) == {"rows": 0}
    assert list(plain(ErrorStatistics(1, 0.1, 0.1, 0.1, -0.1))) == ["rows", "mean", "median", "p90", "signed"]
    summary = plain(SOME)["summary"]
    assert "sampled_from" not in summary and "by" not in summary
    assert set(summary["by_source"]) == {"paper"}
