"""Step times on the pages."""

import numpy as np

from simulator.report.result.html import document
from simulator.report.result.page import page
from simulator.report.step import step_times
from simulator.results import Result
from tests.factories import training_result


def several(*seconds: float) -> Result:
    ticks = (np.array(seconds) * 1e12).astype(np.int64)
    return training_result(step_times=ticks, provenance={"step_shown": 2})


def test_figures_of_the_distribution() -> None:
    found = {mark.name: mark for mark in step_times.marks(several(1.0, 3.0, 2.0, 2.0, 7.0))}
    assert [found[name].seconds for name in ("shortest", "mean", "median", "longest")] == [1.0, 3.0, 2.0, 7.0]
    assert found["longest"].excess == 2.5
    assert found["p90"].seconds == np.percentile([1, 2, 2, 3, 7], 90)


def test_every_step_is_in_one_bar() -> None:
    drawn = step_times.bars(several(*np.linspace(1, 2, 100)))
    assert sum(bar.steps for bar in drawn) == 100
    assert (drawn[0].begin, drawn[-1].end) == (1.0, 2.0)
    assert len(drawn) <= step_times.MOST_BINS


def test_pages_show_them() -> None:
    result = several(1.0, 3.0, 2.0, 2.0, 7.0)
    text = page(result)
    assert "Step times of 5 steps" in text and "median" in text and "1 to 2.5 s" in text
    assert "step 2 (of 0 to 4), of median time" in " ".join(text.split())
    html = document(result)
    assert "<h2>Step times</h2>" in html and "distribution of 5 steps" in html


def test_one_step_and_equal_steps_have_no_distribution() -> None:
    assert "Step times" not in page(training_result())
    assert "<h2>Step times</h2>" not in document(training_result())
    equal = several(2.0, 2.0, 2.0)
    assert step_times.bars(equal) == []
    assert "3 steps, all equal" in page(equal)
    assert "3 steps, all equal" in document(equal)


def test_pages_bear_results_of_any_origin() -> None:
    strange = training_result(step_times=np.array([0, 2**62, 5]), provenance={"step_shown": "x"})
    assert "one is shown" in page(strange)
    assert document(strange)
