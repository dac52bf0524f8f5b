"""What notebooks show: cards, frames, plots by name."""

import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from simulator.errors import InputError
from simulator.metrics import METRICS
from simulator.report.notebook.card import card, comparison_card, sweep_card
from simulator.report.notebook.frames import FRAMES, frame
from simulator.report.notebook.plotting import ComparisonPlots, Plots
from simulator.report.serving import plots as serving_plots
from simulator.report.step import plots
from simulator.results.documents.sweep import SweepDocument
from simulator.study.compare.comparison import compare
from simulator.study.compare.document import document
from simulator.study.sweep.table import Row, SweepTable, View
from simulator.units import TICKS_PER_SECOND
from tests.browser import acted, needs_browser
from tests.factories import out_of_memory, training_result
from tests.outline import Outline
from tests.services import disaggregated, serving_result
from tests.several import jobs_result

TRAINING = ("gantt", "breakdown", "memory", "memory_over_time", "links", "step_times")
SERVING = ("breakdown", "memory", "latency", "objectives", "requests", "request_time", "load", "throughput", "cache")
JOBS = ("slowdowns", "meetings")


def full_service():
    """A service that does not fit into memory."""
    return replace(serving_result(), metrics={}, service=None, feasible=False)


RESULTS = {
    "training": training_result,
    "full": out_of_memory,
    "serving": serving_result,
    "full service": full_service,
    "disaggregated": lambda: serving_result(disaggregated()),
    "jobs": jobs_result,
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_card_is_whole_small_and_refers_to_nothing_outside(name: str) -> None:
    text = card(RESULTS[name]())
    Outline(text)
    assert len(text) < 10_000
    assert not re.search(r"(?:src|href)=|https?://|<script|\bnan\b", text)
    assert RESULTS[name]().name in text


# What notebooks say of elements that a card might use: JupyterLab, nbviewer, VS Code, furo.
HOSTS = """
.host dt, dt {float: left; width: 20%; font-weight: bold; clear: left} .host dd {float: left; width: 80%; padding: 9px}
.host table {margin: auto; table-layout: fixed; font-size: 12px} .host tr:nth-child(odd) {background: #f5f5f5}
.host td, .host th, table, tr {border: none !important; padding: 9px; text-align: right} .host ul {padding-left: 40px}
.host p {margin: 0 0 20px} .host * + p {margin-top: 20px} .host svg, .host img {max-width: 10%; height: auto}
.host strong, .host b {font-size: 20px} .host h1, .host li, .host a, .host code, .host pre {margin: 9px; padding: 9px}
.host {line-height: 2; font-size: 20px; font-family: monospace; text-align: right; letter-spacing: 2px; color: #123456}
"""


def swept(points: int, refused: int) -> SweepDocument:
    """The document of a sweep whose first points are refused."""
    rows = [
        Row(i, (f"tp={i}",), {"tp": i}, "ok" if i >= refused else "refused", "", {"mfu": 0.1 * i} if i else {}, (), "")
        for i in range(points)
    ]
    return SweepTable("s", "training", {"tp": tuple(range(points))}, tuple(rows)).described(View(by="mfu"))


def shown() -> dict[str, str]:
    """A card of each kind."""
    compared = document(compare([training_result(), out_of_memory()]))
    cards = {name: card(make()) for name, make in RESULTS.items()}
    return cards | {"sweep": sweep_card(swept(3, refused=0)), "comparison": comparison_card(compared)}


@pytest.mark.parametrize("name", [*RESULTS, "sweep", "comparison"])
def test_a_card_is_of_elements_that_no_host_styles(name: str) -> None:
    text = shown()[name]
    assert set(re.findall(r"<(\w+)", text)) <= {"div", "span"}
    assert set(re.findall(r'class="([^"]*)"', text)) == {"clustersim"}


@needs_browser
def test_cards_look_the_same_in_every_host(tmp_path: Path) -> None:
    drawn = """return all('.clustersim *').map(element => {
      const box = element.getBoundingClientRect(), style = view.getComputedStyle(element);
      return [box.left, box.width, box.height, style.fontSize, style.fontWeight, style.textAlign, style.float];
    })"""
    found = []
    for host in ("", HOSTS):
        body = "".join(f'<div class="host">{text}</div>' for text in shown().values())
        (folder := tmp_path / ("host" if host else "none")).mkdir()
        found.append(acted(f"<!DOCTYPE html><style>{host}</style><body>{body}</body>", drawn, folder, width=900))
    assert found[0] == found[1]
    assert all(box[1] > 0 for box in found[0][:3])


@needs_browser
def test_text_of_a_card_has_the_colour_of_the_page(tmp_path: Path) -> None:
    page = f'<!DOCTYPE html><body style="color: rgb(1, 2, 3); background: #000">{shown()["training"]}</body>'
    drawn = "return [...new Set(all('.clustersim, .clustersim *').map(e => view.getComputedStyle(e).color))]"
    assert acted(page, drawn, tmp_path) == ["rgb(1, 2, 3)"]


def test_a_card_has_figures_a_bar_and_warnings() -> None:
    text = card(training_result(warnings=tuple(f"warning {i}" for i in range(7))))
    assert METRICS["mfu"].label in text
    assert "where the time goes" in text
    assert "warning 4" in text
    assert "warning 5" not in text
    assert "and 2 more" in text


def test_a_card_says_what_does_not_fit() -> None:
    assert re.search(r"Does not fit into memory: .*needs 46.9 GB of 40.0 GB|Does not fit", card(out_of_memory()))


def test_text_of_a_scenario_is_no_markup_in_a_card() -> None:
    text = card(training_result(name="<b>\x1b</b>", warnings=("<script>alert()</script>",)))
    assert not re.search(r"<b>|\x1b|<script>", text)


def test_the_card_of_a_sweep_has_its_best_points() -> None:
    text = sweep_card(swept(3, refused=1))
    assert "3 points, 1 that do not fit or are refused; the best 2 by model FLOP utilisation (MFU)" in text
    assert text.index("20.0 %") < text.index("10.0 %")
    assert "1 point, 1 that do not fit or are refused<" in sweep_card(swept(1, refused=1))


@pytest.mark.parametrize("what", FRAMES)
@pytest.mark.parametrize("name", RESULTS)
def test_every_frame_of_every_result(name: str, what: str) -> None:
    result = RESULTS[name]()
    if what in ("requests", "iterations", "replicas") and result.service is None:
        with pytest.raises(InputError, match=f"has no {what}"):
            frame(result, what)
    elif what in ("jobs", "meetings") and not result.jobs:
        with pytest.raises(InputError, match="has no jobs"):
            frame(result, what)
    else:
        assert all(isinstance(column, str) for column in frame(result, what).columns)


def test_the_frame_of_metrics_is_one_row() -> None:
    result = training_result()
    table = frame(result)
    assert list(table.index) == [result.name]
    assert {name: table[name].iloc[0] for name in result.metrics} == result.metrics


def test_the_frame_of_iterations_has_those_of_all_replicas_in_order() -> None:
    result = next(made() for made in RESULTS.values() if made().service is not None)
    table = frame(result, "iterations")
    assert result.service is not None
    assert len(table) == sum(len(one.iterations.count) for one in result.service.replicas)
    assert (table["end_s"] >= table["start_s"] + table["first_s"] - 1e-12).all()
    assert set(table["replica"]) <= {one.name for one in result.service.replicas}
    assert table["count"].sum() == sum(int(one.iterations.count.sum()) for one in result.service.replicas)


def test_the_frame_of_operations_has_seconds_and_names() -> None:
    result = training_result()
    table = frame(result, "operations")
    assert len(table) == len(result.spans.start)
    assert table["end_s"].max() == pytest.approx(result.metrics["step_time_s"])
    assert set(table["name"]) == {"forward", "backward", "send forward", "reduce gradients"}
    assert set(table["device_class"]) == {"stage 0", "stage 1", "stage 2", "stage 3"}
    assert table[table["lane"] == "pipeline"]["name"].isin(["send forward", "reduce gradients"]).all()


def test_breakdown_and_memory_are_by_class() -> None:
    result = training_result()
    table = frame(result, "breakdown")
    assert table.drop(columns="ranks").sum(axis=1).to_numpy() == pytest.approx(result.metrics["step_time_s"])
    memory = frame(result, "memory")
    assert memory.drop(columns=["capacity", "peak"]).sum(axis=1).to_numpy() == pytest.approx(memory["peak"].to_numpy())


def test_the_frame_of_requests_agrees_with_the_metrics() -> None:
    result = serving_result()
    assert result.service is not None
    table = frame(result, "requests")
    done = table[table["status"] == "finished"]
    assert len(done) == result.metrics["completed"]
    assert 1e3 * done["e2el_s"].mean() == pytest.approx(result.metrics["mean_e2el_ms"])
    assert 1e3 * done["ttft_s"].mean() == pytest.approx(result.metrics["mean_ttft_ms"])
    assert 1e3 * done["tpot_s"].mean() == pytest.approx(result.metrics["mean_tpot_ms"])
    parts = [f"{name}_s" for name in ("queue", "prefill", "handover", "preempted", "stalled", "decode")]
    assert done[parts].sum(axis=1).to_numpy() == pytest.approx(done["e2el_s"].to_numpy())
    rejected = table[table["status"] == "rejected"]
    assert rejected["finish_s"].isna().all()
    assert rejected["replica"].isna().all()
    assert table["arrival_s"].to_numpy() == pytest.approx(result.service.requests.arrival / TICKS_PER_SECOND)


def test_an_unknown_frame_and_no_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="did you mean `requests`"):
        frame(serving_result(), "request")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"pip install 'clustersim\[frames\]'"):
        frame(training_result())


@pytest.mark.parametrize("name", TRAINING)
def test_plots_of_training(name: str) -> None:
    axes = Figure().subplots()
    result = training_result(step_times=np.array([10**12, 2 * 10**12]))
    assert getattr(Plots(result), name)(ax=axes) is axes
    assert axes.get_xlabel()


@pytest.mark.parametrize("name", SERVING)
def test_plots_of_serving(name: str) -> None:
    axes = Figure().subplots()
    assert getattr(Plots(serving_result()), name)(axes) is axes
    assert axes.get_xlabel()


@pytest.mark.parametrize("name", JOBS)
def test_plots_of_several_jobs(name: str) -> None:
    axes = Figure().subplots()
    assert getattr(Plots(jobs_result()), name)(axes) is axes
    assert axes.get_xlabel()
    for other in (training_result(), serving_result()):
        with pytest.raises(InputError, match=f"`{name}` is a plot of a run that runs several jobs"):
            getattr(Plots(other), name)()
    with pytest.raises(InputError, match="`memory` is a plot of a run that trains or serves"):
        Plots(jobs_result()).memory()


def test_the_frames_of_several_jobs() -> None:
    jobs, met = frame(jobs_result(), "jobs"), frame(jobs_result(), "meetings")
    assert list(jobs.index) == ["train", "chat"]
    assert jobs["slowdown"].tolist() == [1.25, 1.0]
    assert jobs["alone.step_time_s"]["train"] == pytest.approx(0.8 * jobs["step_time_s"]["train"])
    assert met[["link", "job", "bytes_together"]].values.tolist() == [
        ["leaf up 3", "train", 24e9],
        ["leaf up 3", "chat", 26e9],
    ]


def test_a_card_of_several_jobs_has_a_row_for_each() -> None:
    text = card(jobs_result())
    assert "1.25 x" in text and "192" in text and "340 ms a step" in text


def test_new_axes_where_none_are_given() -> None:
    from matplotlib import pyplot

    for result, name in ((training_result(), "links"), (serving_result(), "latency"), (serving_result(), "breakdown")):
        axes = getattr(Plots(result), name)()
        assert axes.has_data()
        pyplot.close(axes.figure)


@pytest.mark.parametrize("name", sorted(set(TRAINING) ^ set(SERVING)))
def test_plots_of_the_other_kind_are_refused(name: str) -> None:
    other = serving_result() if name in TRAINING else training_result()
    with pytest.raises(InputError, match=f"`{name}` is a plot of a run that (trains|serves)"):
        getattr(Plots(other), name)()


def test_what_is_refused_names_every_plot_that_there_is() -> None:
    for result, names, asked in ((training_result(), TRAINING, "latency"), (serving_result(), SERVING, "gantt")):
        with pytest.raises(InputError) as refused:
            getattr(Plots(result), asked)()
        listed = refused.value.problems[0].hint.removeprefix("it has ").replace(" and ", ", ").split(", ")
        assert set(listed) == set(names)
        assert all(f"{name}()" in repr(Plots(result)) for name in names)


def test_every_plot_of_the_command_line_is_there_by_name() -> None:
    assert len(plots.PLOTS) == len(TRAINING)
    assert len(serving_plots.PLOTS) == len(SERVING) - 1  # which has that of memory too


@pytest.mark.parametrize("ax", [5, "ax", [1, 2]])
def test_what_are_no_axes_is_refused(ax: object) -> None:
    told = document(compare([training_result(), training_result()]))
    for draw in (Plots(training_result()).gantt, Plots(serving_result()).latency, ComparisonPlots(told).parts):
        with pytest.raises(InputError, match=r"ax: .* is no axes of matplotlib"):
            draw(ax=ax)


def test_one_step_has_no_distribution() -> None:
    with pytest.raises(InputError, match=r"is one step only: .*set `training.steps`"):
        Plots(training_result()).step_times()


def test_a_single_row_is_a_bar_and_no_block() -> None:
    result = training_result()
    for one, name in ((replace(result, links=result.links[:1]), "links"), (serving_result(), "breakdown")):
        axes = Figure().subplots()
        getattr(Plots(one), name)(axes)
        low, high = sorted(axes.get_ylim())
        assert all(patch.get_height() <= 0.4 * (high - low) for patch in axes.patches)


def test_a_service_that_does_not_fit_has_no_latency() -> None:
    with pytest.raises(InputError, match="nothing was served"):
        Plots(full_service()).latency()


@pytest.mark.parametrize("name", sorted({*SERVING} - {"memory"}))
def test_a_service_that_rejects_every_request_has_no_plots(name: str) -> None:
    service = serving_result().service
    assert service is not None
    requests = replace(service.requests, status=np.ones_like(service.requests.status))
    result = replace(serving_result(), feasible=False, service=replace(service, requests=requests))
    with pytest.raises(InputError, match="nothing was served: every request is rejected"):
        getattr(Plots(result), name)()
