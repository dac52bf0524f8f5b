from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from simulator.errors import InputError
from simulator.report.result.plots import save_plots
from simulator.report.step import plots
from simulator.report.svg import figures
from simulator.report.text import palette
from tests.factories import out_of_memory, training_result


@pytest.mark.parametrize("name", plots.PLOTS)
@pytest.mark.parametrize("result", [training_result(), out_of_memory()], ids=["fits", "full"])
def test_a_plot_draws_on_the_axes_that_it_is_given(name, result) -> None:
    axes = Figure().subplots()
    assert plots.PLOTS[name](result, axes) is axes
    assert axes.has_data() or axes.collections
    assert axes.get_xlabel()


def test_new_axes_where_none_are_given() -> None:
    from matplotlib import pyplot

    axes = plots.links(training_result())
    assert [label.get_text() for label in axes.get_yticklabels()] == ["NIC up", "scale-up"]
    pyplot.close(axes.figure)


def test_files_are_the_same_each_time(tmp_path: Path) -> None:
    result = training_result(name="costs $1 and _more_ $x^$", step_times=np.array([10**12, 2 * 10**12, 10**12]))
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        save_plots(result, tmp_path / folder)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert names == sorted(f"{name}.{kind}" for name in plots.PLOTS for kind in figures.FORMATS)
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "other" / name).read_bytes()


def test_one_step_has_no_distribution(tmp_path: Path) -> None:
    save_plots(training_result(), tmp_path)
    assert not list(tmp_path.glob("step-times*"))


def test_memory_is_drawn_over_the_whole_step() -> None:
    result = out_of_memory()
    use = result.memory[0]
    late = replace(use, time=use.time + 10**11, level=use.level)
    end = int(max(result.spans.end.max(), late.time[-1])) / 1e12
    axes = plots.memory_over_time(replace(result, memory=(late,)), Figure().subplots())
    time, held = axes.lines[0].get_data()
    assert (time[0], time[-1]) == (0.0, end) == axes.get_xlim()
    assert held[0] * 1e9 == pytest.approx(late.level.min())
    assert held[-1] * 1e9 == pytest.approx(late.level[-1])


def test_dashed_lines_are_in_the_legend_once() -> None:
    for draw in (plots.memory, plots.memory_over_time):
        legend = draw(training_result(), Figure().subplots()).get_legend()
        assert legend is not None
        assert [text.get_text() for text in legend.get_texts()].count("memory of the device") == 1


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        save_plots(training_result(), tmp_path / "none")


@pytest.mark.parametrize("layout", [None, "constrained", "tight"])
@pytest.mark.parametrize("shape", [(1, 2), (2, 1)], ids=["beside", "above"])
def test_legends_of_two_plots_in_one_figure_are_whole(shape: tuple[int, int], layout: Any) -> None:
    figure = Figure(figsize=(9, 5), layout=layout)
    for axes, draw in zip(figure.subplots(*shape), (plots.breakdown, plots.memory), strict=True):
        draw(training_result(), axes)
    figure.draw_without_rendering()
    found = [axes.get_legend() for axes in figure.axes]
    boxes = [legend.get_window_extent() for legend in found if legend is not None]
    assert len(boxes) == 2
    assert not boxes[0].overlaps(boxes[1])
    for axes, box in zip(figure.axes, boxes, strict=True):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0
        assert box.y1 <= axes.xaxis.get_tightbbox().y0, "it lies over the words of the axis"


def test_many_short_operations_have_the_colour_of_the_legend() -> None:
    """And not the paler one of their borders."""
    result, many = training_result(), 480
    edges = np.linspace(0, 10**12, many + 1).astype(np.int64)
    first = {name: np.full(many, getattr(result.spans, name)[0]) for name in ("lane", "name", "stage", "microbatch")}
    spans = replace(result.spans, start=edges[:-1], end=edges[1:], flows=np.zeros((0, 2), np.int64), **first)
    figure = Figure(dpi=100)
    canvas = FigureCanvasAgg(figure)
    axes = plots.gantt(replace(result, spans=spans), figure.add_axes((0, 0, 1, 1)))
    canvas.draw()
    x, y = axes.transData.transform((0.5, 0)).astype(int)
    pixels = np.asarray(canvas.buffer_rgba())[::-1][y, x - 50 : x + 50, :3]
    wanted = to_rgb(palette.LIGHT[palette.operation(spans.names[spans.name[0]])])
    assert np.abs(pixels.mean(axis=0) / 255 - wanted).max() < 0.02
