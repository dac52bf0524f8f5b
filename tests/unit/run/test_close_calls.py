"""Memory that is too close to call, and what MFU counts of attention."""

import numpy as np
import pytest

from simulator.report.compare import page as compare_page
from simulator.report.result import html
from simulator.report.result.page import page
from simulator.report.sweep import page as sweep_page
from simulator.results.infeasibility import CLOSE, close_call, undecided
from simulator.results.result import MemoryUse
from simulator.results.summary import to_json
from simulator.run.dispatch import simulate
from simulator.run.ground import memory_error
from simulator.specs import load_scenario
from simulator.study.compare.comparison import compare
from simulator.study.compare.document import document
from simulator.study.sweep.sweep import sweep

QUICKSTART = "scenarios/quickstart.yaml"


def use(peak: float, **kinds: float) -> MemoryUse:
    return MemoryUse(0, 100.0, peak, kinds, np.zeros(1, np.int64), np.zeros(1))


@pytest.mark.parametrize(("peak", "close"), [(94.0, False), (96.0, True), (104.0, True), (106.0, False)])
def test_within_the_error_on_either_side(peak: float, close: bool) -> None:
    told = close_call([use(10.0), use(peak)], 0.045, 62)
    assert undecided([told]) == close
    assert not close_call([use(peak)], 0.045, 0)


def test_what_takes_the_rest_decides_nothing() -> None:
    cache = {"weights": 40.0, "kv cache": 58.0}
    assert close_call([use(98.0, **cache)], 0.045, 62)
    assert not close_call([use(98.0, **cache)], 0.045, 62, spare="kv cache")


def test_every_page_marks_it() -> None:
    error, rows = memory_error()
    assert 0 < error < 0.2
    assert rows > 10
    tight = ["cluster.node.accelerator.memory.capacity=44.5 GB"]
    result = simulate(load_scenario(QUICKSTART, tight).scenario)
    assert result.feasible
    assert to_json(result)["memory_too_close"]
    for text in (page(result), html.document(result)):
        assert CLOSE in " ".join(text.split())
    roomy = simulate(load_scenario(QUICKSTART).scenario)
    assert not to_json(roomy)["memory_too_close"]
    told = document(compare([result, roomy], ["tight", "roomy"]))
    assert f"yes, {CLOSE}" in compare_page.page(told)
    assert compare_page.fits(document(compare([roomy, roomy]))) == {}
    swept = sweep(QUICKSTART, ["cluster.node.accelerator.memory.capacity=44.5 GB,80 GB"]).described()
    assert [row.memory_too_close for row in swept.rows] == [True, False]
    text = sweep_page.page(swept, sweep_page.Effort(2, 0))
    assert f"2 fit (1 with {CLOSE}: ?)" in text
    assert "GB ?" in text


def test_the_causal_half_is_a_metric_of_its_own() -> None:
    found = simulate(load_scenario(QUICKSTART).scenario)
    model = load_scenario(QUICKSTART).scenario.model
    s, h = 8192, model.hidden
    matrices = 2 * s * (h * model.head_dim * (2 * model.heads + 2 * model.kv_heads) + 3 * h * model.ffn)
    square = 4 * s**2 * model.heads * model.head_dim
    head = 2 * s * h * model.vocabulary
    full, half = (model.layers * (matrices + part) + head for part in (square, square * (s + 1) / (2 * s)))
    assert found.metrics["mfu_causal"] / found.metrics["mfu"] == pytest.approx(half / full)
    assert "MFU counts the full square of attention" in page(found)
    assert "with its causal half" in html.document(found)
    short = simulate(load_scenario(QUICKSTART, ["training.sequence_length=1024"]).scenario)
    assert "counts the full square" not in page(short)
    both = simulate(load_scenario(QUICKSTART, ["training.causal=false"]).scenario)
    assert "mfu_causal" not in both.metrics
