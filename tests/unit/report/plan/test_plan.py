"""Pages, HTML and plots of plans, from documents with made-up figures."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from simulator.report.plan import html as plan_html
from simulator.report.plan import page as plan_page
from simulator.report.plan import phrases
from simulator.report.plan import plots as plan_plots
from simulator.results.documents.plan import PlanDocument, ReachedObjective
from simulator.study.plan.document import document
from simulator.study.plan.plan import Options
from tests.outline import Outline
from tests.plans import Simulated, one_layout, planned, several_layouts


def unreachable() -> PlanDocument:
    """The document of a plan that cannot be."""
    return document([planned(Simulated(lambda rate: 0.2))], Options())


DOCUMENTS = {
    "one": one_layout,
    "several": several_layouts,
    "target": lambda: several_layouts(4.0),
    "too much": lambda: several_layouts(50.0),
    "unreachable": unreachable,
    "unbounded": lambda: document([planned(Simulated(lambda rate: 1.0))], Options()),
}


def test_the_page_of_one_layout_gives_rate_objectives_and_curve() -> None:
    told = one_layout()
    text = plan_page.page(told, elapsed_s=2.0)
    (layout,) = told.layouts
    assert f"Requests may come at up to {layout.rate:.4g}/s; at {layout.missed_at:.4g}/s too few" in text
    assert "most often for TPOT" in text
    assert re.search(r"TTFT +1\.00 s +100\.0 % +within", text)
    assert re.search(r"requests within objectives +95\.0 %", text)
    assert text.count("  largest\n") == 1
    assert sum(line.count("/s   ") for line in text.splitlines()) >= len(layout.curve)
    assert f"{told.provenance.simulations} simulations in 2.00 s" in text


def test_the_page_of_several_layouts_ranks_them_and_says_why_some_have_no_rate() -> None:
    text = plan_page.page(several_layouts(4.0))
    assert "Cheapest that carries 4/s: tp 1 on 1 device, 3.43 USD/h." in text
    assert text.index("tp 2 ") < text.index("tp 1  ")
    assert re.search(r"tp 2 .* best per device", text)
    assert re.search(r"tp 4: TPOT 50\.0 ms cannot be met; one at a time within", text)
    assert "tp 8: out of memory" in text
    assert "is not carried by any layout. The most is 9." in plan_page.page(several_layouts(50.0))


def test_the_page_says_what_cannot_be_met_and_by_how_much() -> None:
    text = plan_page.page(unreachable())
    assert "The objectives cannot be met: even one at a time only 20.0 % of the requests" in text
    assert "Objectives one at a time" in text
    assert re.search(r"within [\d.]+ ms \([+-]\d", text)


def test_a_rate_without_an_end_is_not_shown_as_one() -> None:
    text = plan_page.page(DOCUMENTS["unbounded"]())
    assert "met at every rate that was tried" in text
    assert re.search(r"largest rate, requests +> ", text)
    assert re.search(r"for each device +> ", text)
    assert "  largest\n" not in text


def test_of_several_layouts_a_rate_without_an_end_has_none_for_each_device_either() -> None:
    endless = [planned(Simulated(lambda rate: 1.0), f"serving.parallel.tp={tp}") for tp in (1, 2)]
    told = document(endless, Options())
    (row,) = [line for line in plan_page.page(told).splitlines() if line.startswith(" tp 2 ")]
    assert row.count("> ") == 2
    assert plan_html.page(told).count("&gt; ") >= 4


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("width", [60, 100])
def test_pages_keep_to_their_width(name: str, width: int) -> None:
    assert all(len(line) <= width for line in plan_page.page(DOCUMENTS[name](), width=width).splitlines())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_html_is_whole_and_refers_to_nothing_outside(name: str) -> None:
    page = plan_html.page(DOCUMENTS[name]())
    Outline(page)
    assert not re.search(r"(?:src|href)=", page)
    assert "Content-Security-Policy" in page
    assert "nan" not in re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL)


def test_html_draws_a_curve_for_each_layout_with_a_rate() -> None:
    page = plan_html.page(several_layouts())
    assert page.count('class="line k') == 2 * 2 + 1  # goodput and share of two layouts, and the share that is wanted
    assert page.count("<details>") == 3
    assert 'class="goal"' in plan_html.page(one_layout())


def test_text_of_a_scenario_is_no_markup() -> None:
    first, *others = several_layouts().layouts
    layouts = (replace(first, name="<u>tp</u> \x1b[31m"), *others)
    told = replace(several_layouts(), name="<b>$x$</b>", warnings=("<i>w</i>",), layouts=layouts)
    page = plan_html.page(told)
    assert not re.search(r"<b>|<i>w|<u>|\x1b", page)
    assert "\x1b" not in plan_page.page(told)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_plots_are_written_where_there_is_a_rate(name: str, tmp_path: Path) -> None:
    told = replace(DOCUMENTS[name](), name="costs $ and $")
    written = plan_plots.save_plots(told, tmp_path)
    wanted = [] if name == "unreachable" else ["attainment.png", "attainment.svg", "goodput.png", "goodput.svg"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(path.name for path in written) == wanted


def test_equal_plans_give_equal_plots(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        plan_plots.save_plots(one_layout(), tmp_path / name)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


def test_a_limit_that_is_far_away_is_told_as_a_multiple() -> None:
    goal = ReachedObjective(limit_s=0.001, attainment=0.1, reached_s=0.301)
    assert phrases.reached(goal) == "within 301 ms (301 times the limit)"
    assert phrases.reached(replace(goal, reached_s=0.0012)) == "within 1.20 ms (+20.0 %)"


def test_rates_have_three_digits_and_columns_are_explained() -> None:
    assert [phrases.rate(value) for value in (0.5, 2.0, 2.354, 47.0, 812.6, 2345.0)] == [
        "0.500/s",
        "2.00/s",
        "2.35/s",
        "47.0/s",
        "813/s",
        "2,345/s",
    ]
    for text in (plan_html.page(one_layout()), " ".join(plan_page.page(one_layout()).split())):
        assert "Replicas busy: share of the run" in text and "Goodput: requests within all objectives" in text
    for text in (plan_html.page(several_layouts()), plan_page.page(several_layouts())):
        assert "limited by" in text and "Limited by:" in text
