from dataclasses import replace

import numpy as np
import pytest

from simulator.report.step import plots
from simulator.report.svg.gantt import (
    MOST_BOXES,
    MOST_DRAWN,
    MOST_ROWS,
    Window,
    chart,
    charts,
    close_ups,
    phases,
    sample,
)
from simulator.results.result import Result, Spans
from tests.factories import training_result


def one_f_one_b(stages: int, microbatches: int) -> Result:
    """Stages with warm-up, steady state and cool-down; a forward takes 1, a backward 2 ticks of a million."""
    rows = []
    for stage in range(stages):
        ahead = stages - stage
        order = ["F"] * ahead + ["B", "F"] * (microbatches - ahead) + ["B"] * ahead
        at = stage
        for kind in order:
            length = 1 if kind == "F" else 2
            rows.append((at, at + length, stage, "FB".index(kind)))
            at += length
    start, end, lane, name = (np.array(column) for column in zip(*rows, strict=True))
    spans = Spans(
        start * 10**6,
        end * 10**6,
        lane.astype(np.int32),
        name.astype(np.int32),
        lane.astype(np.int32),
        np.full(len(rows), -1, np.int32),
        tuple((stage, "compute") for stage in range(stages)),
        ("forward", "backward"),
    )
    return replace(training_result(stages=stages), spans=spans)


@pytest.mark.parametrize("number", [0, 1, 7, 40, 41, 64, 1000])
def test_a_sample_has_first_and_last_and_few(number: int) -> None:
    shown = sample(number)
    assert shown[:1] == [0][:number]
    assert shown[-1:] == [number - 1][:number]
    assert len(shown) <= MOST_ROWS + 1
    assert number > MOST_ROWS or shown == list(range(number))


def test_boxes_are_the_operations() -> None:
    drawn = chart(training_result(stages=4, microbatches=8))
    assert not drawn.merged
    assert [len(row.boxes) for row in drawn.rows] == [16] * 4
    first = drawn.rows[0].boxes[0]
    assert (first.text, first.stage, first.microbatch) == ("forward", 0, 0)
    assert [len(row.beside) for row in drawn.rows] == [9, 8, 8, 0]


def test_merged_boxes_keep_the_time_of_each_kind() -> None:
    result = one_f_one_b(4, 2000)
    drawn = chart(result)
    assert drawn.merged
    for index, row in enumerate(drawn.rows):
        assert len(row.boxes) <= MOST_BOXES
        spans = result.spans
        for kind in (0, 1):
            mine = (spans.lane == index) & (spans.name == kind)
            shown = sum((box.end - box.start) * share for box in row.boxes for k, share in box.parts if k == kind)
            assert shown == pytest.approx(float((spans.end - spans.start)[mine].sum()))


def test_merged_boxes_stay_within_their_phase() -> None:
    texts = [box.text.partition(":")[0] for box in chart(one_f_one_b(4, 2000)).rows[0].boxes]
    assert texts == ["warm-up", "steady state", "cool-down"]


def test_phases_follow_each_other_over_the_whole_step() -> None:
    result = one_f_one_b(4, 20)
    warm, steady, cool = phases(result)
    assert (warm.begin, cool.end) == (0, result.spans.end.max())
    assert (warm.end, steady.end) == (steady.begin, cool.begin)
    assert steady.begin == 4 * 10**6  # the first backward of each stage


def test_no_phases_without_a_pipeline_or_a_steady_state() -> None:
    assert phases(training_result(stages=1)) == ()
    assert phases(training_result(stages=4)) == ()  # all forward passes first
    assert close_ups(training_result(stages=4)) == ()


def test_close_ups_show_single_operations() -> None:
    result = one_f_one_b(8, 2000)
    windows = close_ups(result)
    assert len(windows) == 3
    assert not any(chart(result, window).merged for window in windows)


def test_boxes_are_cut_at_the_window() -> None:
    result = training_result()
    window = Window("a piece", 5 * 10**9, 15 * 10**9)
    boxes = [box for row in chart(result, window).rows for box in row.boxes]
    assert boxes
    assert all(window.begin <= box.start < box.end <= window.end for box in boxes)


def test_nothing_ran() -> None:
    none = np.zeros(0, np.int64)
    short = none.astype(np.int32)
    result = replace(training_result(), spans=Spans(none, none, short, short, short, short, (), ()))
    assert [row.boxes for row in chart(result).rows] == [()] * 4
    assert phases(result) == ()


def test_a_page_of_charts_is_bounded_by_showing_fewer_classes() -> None:
    few, many = training_result(stages=8, microbatches=32), training_result(stages=40, microbatches=240)
    assert [len(one.rows) for one in charts(few)] == [8]
    drawn = charts(many)
    assert sum(one.size for one in drawn) <= 1.2 * MOST_DRAWN
    assert len({len(one.rows) for one in drawn}) == 1
    assert 4 <= len(drawn[0].rows) < 40
    assert drawn[0].rows[-1].name == "stage 39"


def test_dotted_lines_of_the_plot_are_in_its_legend() -> None:
    legend = plots.gantt(one_f_one_b(4, 20)).get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()].count("steady state begins and ends") == 1
