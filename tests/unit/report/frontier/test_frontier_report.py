"""Pages, HTML and plots of frontiers, from documents with made-up figures."""

from dataclasses import replace
from pathlib import Path

import pytest

from simulator.report.frontier import html, page, phrases, plots
from simulator.results.documents.frontier import FrontierCounts, FrontierDocument, FrontierPoint
from simulator.results.documents.plan import PlannedSystem, PlanProvenance, ReachedObjective, StatedObjectives
from simulator.results.ground import StatedGround


def point(name: str, user: float, device: float, **changes: object) -> FrontierPoint:
    """A point within the objectives."""
    made = FrontierPoint(
        name=name,
        mode="aggregated",
        overrides=("serving.replicas=2",),
        rate=device / 100,
        tokens_per_s_per_user=user,
        tokens_per_s_per_device=device,
        decodes_per_device=device / user,
        idle_devices=0,
        state="meets",
        reason="",
        on_front=True,
        short=False,
        attainment=0.95,
        objectives={"ttft": ReachedObjective(1.0, 0.95, 0.8)},
        metrics={"p99_ttft_ms": 900.0},
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def told(feasible: bool = True) -> FrontierDocument:
    """A frontier of four points."""
    late = {"on_front": False, "state": "misses", "attainment": 0.4}
    late["objectives"] = {"ttft": ReachedObjective(1.0, 0.4, 2.5)}
    points = (
        point("4 x (tp 2), 64 sequences, chunks of 1024", 60.0, 200.0),
        point("1 prefill (tp 2) : 1 decode (tp 4), 64 sequences", 40.0, 500.0, mode="disaggregated"),
        point("8 x (tp 1), 64 sequences, chunks of 1024", 30.0, 400.0, on_front=False),
        point("8 x (tp 1), 256 sequences, chunks of 1024", 20.0, 600.0, **late),
    )
    if not feasible:
        points = (points[3],)
    return FrontierDocument(
        name="made up",
        feasible=feasible,
        slo=StatedObjectives(1.0, 0.05, None, 0.9),
        system=PlannedSystem("H100", "a model", "an engine"),
        ground=StatedGround(None, "estimate", {}, None, 0, None, 0, (), ()),
        devices=8,
        counts=FrontierCounts(
            candidates=100, shape=10, memory=20, objectives=0, rate=5, bound=50, unlikely=11, simulated=4
        ),
        rates=(2.0, 4.0),
        points=points,
        winner=1 if feasible else None,
        runner_up=2 if feasible else None,
        nearest=None if feasible else 0,
        why=("it wins",) if feasible else (),
        could=700.0,
        assumptions=(),
        warnings=("a warning",),
        provenance=PlanProvenance("0", 0, "abc", 4),
    )


def test_the_page_names_winner_reasons_and_where_candidates_went() -> None:
    lines = page.page(told(), elapsed_s=3.0)
    text = " ".join(lines.split())
    assert "500 tokens/s on each of 8 devices, 40.0 tokens/s for a user" in text
    assert "· it wins" in text
    assert "(winner)" in text
    assert "(runner-up)" in text
    for said in (
        "100 in all",
        "20 ruled out by memory",
        "50 ruled out by bounds",
        "11 left as unlikely",
        "700 tokens/s",
    ):
        assert said in text
    drawn = [line for line in lines.splitlines() if "|" in line]
    assert sum(line.count("o") for line in drawn) == 2
    assert sum(line.count("x") for line in drawn) == 1


def test_what_comes_nearest_is_said_where_nothing_meets() -> None:
    text = " ".join(page.page(told(feasible=False)).split())
    assert "No layout meets the objectives. Nearest: 8 x (tp 1), 256 sequences" in text
    assert "TTFT 1.00 s: 40.0 % of requests are within it, the wanted share within 2.50 s" in text


def test_a_page_for_browsers_has_all_points_and_the_area_behind_the_front() -> None:
    text = html.page(told())
    assert text.count('data-tip="') == 4
    assert "polygon" in text
    assert "prefill and decode apart" in text


def test_the_plot_is_written_as_png_and_svg(tmp_path: Path) -> None:
    assert [path.name for path in plots.save_plots(told(), tmp_path)] == ["frontier.png", "frontier.svg"]
    assert plots.save_plots(replace(told(), points=(), winner=None, runner_up=None), tmp_path) == []


@pytest.mark.parametrize("mode", ["aggregated", "disaggregated"])
def test_each_kind_of_systems_has_a_front_of_its_own(mode: str) -> None:
    front = phrases.front_of(told(), mode)
    assert [one.mode for one in front] == [mode] * len(front)
    assert len(front) == {"aggregated": 2, "disaggregated": 1}[mode]
