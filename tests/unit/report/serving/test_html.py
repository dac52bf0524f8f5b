import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from simulator.report.result.html import document
from simulator.report.result.plots import save_plots
from simulator.report.serving import fleet
from simulator.report.serving.contents import WORDS, Cdf, cdfs, series, thinned
from simulator.report.serving.html import SLOTS, busy_slots
from simulator.report.serving.plots import PLOTS
from simulator.report.step.profile_figures import figures
from simulator.report.svg import curves
from simulator.report.text import palette
from simulator.results.result import Replica, Result
from simulator.results.serving.fleet import FleetRecord
from simulator.results.serving.request_time import PARTS
from tests.browser import acted, browsed, needs_browser
from tests.services import Slo, asked, disaggregated, iterations, serve, serving_result
from tests.unit.report.result.test_html import HOSTILE, Outline

REQUESTS = asked()
RESULT = serving_result(serve(REQUESTS, blocks=130))
BARE = serving_result(serve([]), Slo(), comparisons=())
APART = serving_result(disaggregated(), Slo(None, None, 1.0))


def hostile() -> Result:
    """A result from a file of bad intent."""
    service = RESULT.service
    assert service is not None
    replicas = tuple(replace(one, name=HOSTILE, device=HOSTILE, parts={HOSTILE: 1.0}) for one in service.replicas)
    scenario = {"model": {"name": HOSTILE}, "slo": {"ttft": HOSTILE, "tpot": -1.0}}
    return replace(
        RESULT, name=HOSTILE, service=replace(service, replicas=replicas), scenario=scenario, warnings=(HOSTILE,)
    )


@pytest.mark.parametrize("result", [RESULT, BARE, APART, hostile()], ids=["usual", "bare", "apart", "hostile"])
def test_the_file_stands_alone(result: Result) -> None:
    outline = Outline(document(result))
    assert {name for _, name, _ in outline.attributes}.isdisjoint({"src", "href", "style", "xlink:href"})
    assert not [name for _, name, _ in outline.attributes if name.startswith("on")]
    assert outline.elements["script"] == 1
    assert not re.search("nan|inf|e[-+]", "".join(value for _, name, value in outline.attributes if name == "d"))


def test_sections() -> None:
    outline = Outline(document(RESULT))
    headings = outline.texts["h2"]
    for name in ("Latency", "Objectives", "Where the time of a request goes", "Over time", "Single requests"):
        assert name in headings
    assert "Pipeline" not in headings
    assert "times are of one step" not in document(RESULT)


def test_size_does_not_grow_with_the_run() -> None:
    small, large = (len(document(serving_result(serve(asked(count, 20.0))))) for count in (300, 1500))
    assert large < small + 120_000
    assert large < 400_000


def test_a_line_for_each_objective() -> None:
    assert document(RESULT).count('class="goal"') == 3  # TTFT, TPOT and the box
    assert document(serving_result(slo=None)).count('class="goal"') == 0


def test_same_bytes() -> None:
    assert document(RESULT) == document(RESULT)


def test_distributions() -> None:
    assert RESULT.service is not None
    found = cdfs(RESULT.service)
    assert list(found) == ["ttft", "tpot", "itl", "e2el"]
    gaps = np.concatenate([np.diff(one.tokens) for one in REQUESTS if len(one.tokens) > 1]) / 1e9
    for limit in (20.5, 25, 60, 200):
        below = found["itl"].share[found["itl"].value <= limit]
        assert (below[-1] if len(below) else 0.0) == pytest.approx((gaps <= limit).mean())
    thin = thinned(Cdf(np.arange(100_000.0), np.linspace(0, 1, 100_000)), 500)
    assert len(thin.value) <= 505
    assert (thin.value[0], thin.share[-1]) == (0, 1)


def test_series_keep_what_they_sum_up() -> None:
    assert RESULT.service is not None
    drawn = series(RESULT.service, 50)
    width = drawn.edge[1] - drawn.edge[0]
    assert drawn.rate.sum() * width == pytest.approx(sum(len(one.tokens) for one in REQUESTS), abs=1)
    done = [one for one in REQUESTS if one.status == 0]
    paused = sum(end - begin for one in done for begin, end in one.pauses)
    waited = sum(one.scheduled - one.arrival for one in done) + paused
    assert drawn.queue.sum() * width == pytest.approx(waited / 1e12, rel=1e-6)
    worked = sum(one.tokens[-1] - one.scheduled for one in done) - paused
    assert drawn.running.sum() * width == pytest.approx(worked / 1e12, rel=1e-6)
    assert 0 < drawn.usage.max() <= 1 + 1e-9


def levels(finish: tuple[int, int], cached: int, *rows: tuple[int, ...]) -> list[float]:
    """Cache blocks in use, of 20, in quarters of a run of 400 ps of two requests that begin at 0 and at 300."""
    whole, column = disaggregated(), np.array
    requests = replace(
        whole.requests,
        scheduled=column([0, 300]),
        finish=column(finish),
        replica=column([0, 0]),
        cached=column([cached, 0]),
    )
    one = Replica("replica", "all", "both", 1, "A100", 20, 16, 1.0, iterations(*rows), 200e-12)
    return series(replace(whole, replicas=(one,), requests=requests, transfers=None), 4).usage.tolist()


def test_cache_blocks_stay_in_use_between_iterations() -> None:
    apart = (0, 1, 100, 0, 0, 10, 1, 0, 10, 0), (300, 1, 100, 0, 1, 0, 0, 10, 12, 0)
    assert levels((400, 400), 0, *apart) == pytest.approx([0.5, 0.5, 0.5, 0.6])
    assert levels((100, 400), 0, *apart) == pytest.approx([0.5, 0.0, 0.0, 0.6])
    assert levels((100, 400), 8, *apart) == pytest.approx([0.5, 0.5, 0.5, 0.6])


def test_blocks_of_batches_that_take_turns_count_once() -> None:
    turns = (
        (0, 1, 200, 0, 0, 10, 1, 0, 10, 0),
        (100, 1, 200, 0, 1, 0, 0, 10, 12, 0),
        (200, 1, 200, 0, 1, 0, 0, 10, 8, 0),
    )
    assert levels((400, 400), 0, *turns) == pytest.approx([0.5, 0.6, 0.4, 0.4])


def test_the_fleet_says_how_often_replicas_were_down() -> None:
    service, failed = RESULT.service, np.array([1], np.int64)
    assert service is not None
    record = FleetRecord(failed=failed, failed_at=failed * 10, repaired_at=failed * 20, lost=failed)
    figures = {**RESULT.metrics, "replica_failures": 1.0, "availability": 0.983, "retries": 2.0}
    found = "".join(fleet.section(replace(RESULT, metrics=figures), replace(service, fleet=record)))
    assert "1 failure  ·  replicas not down 98.3 % of their time  ·  2 requests tried again" in found


def test_curves_leave_out_what_nobody_sees() -> None:
    x = np.linspace(0, 1, 100_000)
    drawn = curves.curves([curves.Curve(x, x, 0)], "line")
    assert len(drawn) < 300_000


@pytest.mark.parametrize("name", PLOTS)
@pytest.mark.parametrize("result", [RESULT, BARE, APART, hostile()], ids=["usual", "bare", "apart", "hostile"])
def test_a_plot_draws_on_the_axes_that_it_is_given(name: str, result: Result) -> None:
    axes = Figure().subplots()
    assert result.service is not None
    assert PLOTS[name](result, result.service, axes) is axes
    assert axes.get_xlabel()


def test_parts_of_busy_time_have_the_same_colours_in_both_forms() -> None:
    service = RESULT.service
    assert service is not None
    axes = PLOTS["replicas"](RESULT, service, Figure().subplots())
    drawn = [bars.patches[0].get_facecolor() for bars in axes.containers]
    slots = busy_slots(service)
    assert drawn == [to_rgba(palette.LIGHT[slot]) for slot in slots.values()]
    legend = document(RESULT).partition("<h2>Replicas</h2>")[2].partition("</ul>")[0]
    assert re.findall(r'c(\d+)"', legend)[: len(slots)] == [str(slot) for slot in slots.values()]


def test_files_are_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(PLOTS) - {"objectives"}:
        monkeypatch.delitem(PLOTS, name)
    written = save_plots(hostile(), tmp_path)
    assert [path.name for path in written] == ["objectives.png", "objectives.svg"]
    again = tmp_path / "again"
    again.mkdir()
    save_plots(hostile(), again)
    for path in written:
        assert path.stat().st_size > 5_000
        assert path.read_bytes() == (again / path.name).read_bytes()


@pytest.mark.slow
@needs_browser
def test_a_browser_opens_it_without_complaint(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(document(hostile()), encoding="utf-8")
    dom, log = browsed(tmp_path / "report.html", tmp_path / "profile")
    assert "CONSOLE" not in log
    assert '<html lang="en" class="scripted">' in dom


OVER_TIME = """
const plots = all("[data-axis=run] svg.plot"), other = one("[data-axis=requests] svg.plot");
key(plots[1], "+");
pointer(plots[2], "pointermove", 0.5, 0.5);
const said = one("#tip").textContent;
pointer(one(".timeline:not([data-axis]) svg.plot"), "pointermove", 1, 0.5);
const width = plot => plot.getAttribute("viewBox").split(" ")[2];
return {zoomed: plots.map(width), other: width(other), said, share: one("#tip").textContent};
"""


@pytest.mark.slow
@needs_browser
def test_what_happens_over_time_zooms_together_and_tells_its_values(tmp_path: Path) -> None:
    found = acted(document(RESULT), OVER_TIME, tmp_path)
    assert found["zoomed"] == ["500"] * 4
    assert found["other"] == "1000"
    assert re.fullmatch(r"cache blocks in use over time: [\d.]+ %\nat [\d.]+ m?s", found["said"])
    assert re.match(r"distribution of TTFT: (99\.\d|100) %\n", found["share"])


def test_figures_of_profiles_have_the_units_of_their_fields() -> None:
    known = {"value": 0.0015, "status": "measured", "source": "here"}
    scenario = {"serving": {}, "stack": {"iteration_overhead": known}, "cluster": {"made": {"up": known}}}
    assert [figure.value for figure in figures(scenario)] == ["1.50 ms", "0.00150"]


def test_every_part_of_a_request_has_a_colour_and_a_word() -> None:
    assert set(SLOTS) == set(PARTS) == set(WORDS)
    assert len(set(SLOTS.values())) == len(PARTS)
