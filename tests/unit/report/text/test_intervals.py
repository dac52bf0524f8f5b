"""Between which values measured runs are expected, on the pages of several runs and points."""

from dataclasses import replace

import pytest

from simulator.report.compare import html as compare_html
from simulator.report.compare import page as compare_page
from simulator.report.sweep import html as sweep_html
from simulator.report.sweep import page as sweep_page
from simulator.report.text.intervals import MOST, TITLE, bases
from simulator.results.documents.form import plain
from simulator.results.ground import Ground
from simulator.results.result import Result
from simulator.results.spread import REQUEST, STEP, TPOT, TTFT, Circumstances, Spread
from simulator.run.spread.near import AT_A_RATE
from simulator.study.compare.comparison import compare
from simulator.study.compare.document import document
from simulator.study.sweep.evaluate import Status
from simulator.study.sweep.table import Row, SweepTable
from tests.factories import out_of_memory, training_result
from tests.services import serving_result

STEPS = Ground("measured", {"kernels": "measured"}, spreads={STEP: Spread(0.5, 2.0, 3, 2)})
LONG = "a scenario of a very long name that somebody wrote without a thought of columns, number {}"
BASIS = "80 %, 3 published runs like this one"


def _trained(seconds: float) -> Result:
    result = training_result(ground=STEPS)
    return replace(result, metrics=result.metrics | {"step_time_s": seconds, "tokens_per_s": 1e6 / seconds})


def _served() -> Result:
    spreads = {TTFT: Spread(0.5, 4.0, 2), TPOT: Spread(0.8, 1.5, 2), REQUEST: Spread(0.9, 1.25, 2)}
    return replace(serving_result(), ground=Ground("measured", {"kernels": "measured"}, spreads=spreads))


def _swept(load: str = "") -> SweepTable:
    rows = []
    for size in (1, 2, 4):
        known = {"step_time_s": 10.0 * size, "tokens_per_s": 1000.0 / size, "peak_memory_bytes": 5e10}
        about = Circumstances("training", "a", "b", 2020, "c", "d", "dense", "", 8, (), load)
        ground = replace(STEPS, circumstances=about)
        key = "training.micro_batch"
        status: Status = "ok" if size < 4 else "out of memory"
        rows.append(Row(size - 1, (f"{key}={size}",), {key: size}, status, "", known, (), "", ground))
    return SweepTable("t", "training", {key: (1, 2, 4)}, tuple(rows), provenance={"version": "0", "seed": 0})


def _lines(page: str) -> list[str]:
    """The lines of the part of a page that is about intervals, words apart by one space."""
    lines = [" ".join(line.split()) for line in page.splitlines()]
    return lines[lines.index(TITLE) + 1 :]


def test_runs_side_by_side_have_a_row_each_and_what_that_is_made_from() -> None:
    told = document(compare([_trained(10.0), _trained(20.0)], ["plain", "other"]))
    lines = _lines(compare_page.page(told))
    assert lines[:4] == [
        "step tokens/s",
        "plain 5.00 s to 20.0 s 50,000 to 200,000",
        "other 10.0 s to 40.0 s 25,000 to 100,000",
        BASIS,
    ]
    assert lines[4] == compare_page.ALIKE
    text = compare_html.page(told)
    assert all(words in text for words in (TITLE, "5.00 s to 20.0 s", "10.0 s to 40.0 s", BASIS, compare_page.ALIKE))


def test_the_document_has_them_as_that_of_a_run() -> None:
    results = [_trained(10.0), _served()]
    for run, result in zip(plain(document(compare(results)))["runs"], results, strict=True):
        assert run["intervals"] == plain(result.intervals) != {}


def test_of_services_latencies_and_throughput() -> None:
    result = _served()
    first = _lines(compare_page.page(document(compare([result, result], ["a", "b"]))))
    assert first[0] == "TTFT TPOT tokens/s"
    assert first[1].count(" to ") == 3


def test_a_run_that_does_not_fit_has_none() -> None:
    told = document(compare([_trained(10.0), replace(out_of_memory(), ground=STEPS)], ["a", "b"]))
    assert not told.runs[1].intervals
    assert _lines(compare_page.page(told))[2:5] == ["b - -", f"a: {BASIS}", "b: no published run says anything"]


def test_no_part_where_no_published_run_speaks() -> None:
    told = document(compare([training_result(), training_result()]))
    assert TITLE not in compare_page.page(told)
    assert TITLE not in compare_html.page(told)


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("names", [["a", "b"], [LONG.format(i) for i in range(2)]])
def test_pages_keep_to_their_width(width: int, names: list[str]) -> None:
    for result in (_served(), _trained(10.0)):
        page = compare_page.page(document(compare([result, result], names)), width=width)
        assert TITLE in page
        assert max(map(len, page.splitlines())) <= width
        assert "…" not in page


def test_many_bases_are_a_few_lines() -> None:
    results = [
        replace(
            _trained(1.0), ground=Ground("measured", {"kernels": "measured"}, spreads={STEP: Spread(0.5, 2.0, rows)})
        )
        for rows in range(1, MOST + 3)
    ]
    lines = bases(document(compare(results)).runs)
    assert len(lines) == MOST + 1
    assert lines[-1].endswith("see --json")


def test_points_of_sweeps_have_them_on_pages_and_in_their_document() -> None:
    told = _swept().described()
    lines = _lines(sweep_page.page(told, sweep_page.Effort(3, 0)))
    assert lines[:4] == [
        "step tokens/s",
        "micro_batch 1 5.00 s to 20.0 s 500 to 2,000",
        "micro_batch 2 10.0 s to 40.0 s 250 to 1,000",
        BASIS,
    ]
    text = sweep_html.page(told)
    assert text.count("10.0 s to 40.0 s") == 2, "among the best, and among all"
    rows = _swept().document()["rows"]
    assert rows[1]["intervals"]["step_time_s"]["low"] == pytest.approx(10.0)
    assert [bool(row["intervals"]) for row in rows] == [True, True, False]


def test_points_whose_requests_come_at_a_rate_say_what_is_left_out() -> None:
    effort = sweep_page.Effort(3, 0)
    assert "queue near saturation" in sweep_page.page(_swept(AT_A_RATE).described(), effort)
    assert "queue near saturation" in sweep_html.page(_swept(AT_A_RATE).described())
    assert "queue near saturation" not in sweep_page.page(_swept().described(), effort)
