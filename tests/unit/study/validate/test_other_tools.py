"""Other tools beside ours on the page of errors."""

from benchmarks import others
from benchmarks.validation import PAGE, line
from simulator.study.validate.training import Outcome


def test_the_page_has_the_table_that_its_own_errors_give() -> None:
    page = PAGE.read_text(encoding="utf-8")
    own = next(row for row in page.splitlines() if row.startswith("| all in scope |"))
    assert "\n".join(others.lines(own)) in page


def test_ours_are_the_errors_of_the_rows_in_scope() -> None:
    rows = [Outcome("a", None, measured_s=1.0, predicted_s=1.1), Outcome("b", None, measured_s=1.0, predicted_s=0.7)]
    text = others.lines(line("all in scope", rows, {"a": 0.2, "b": -0.4}))
    assert "| ours | 2 | 20.0 % | 20.0 % | 28.0 % | -10.0 % |" in text
    assert "| ours, source left out | 2 | 30.0 % | | | |" in text
    assert sum("543" in row for row in text) == len(others.TOOLS) + 1
    assert not any("left out |" in row for row in others.lines(line("all in scope", rows)))
