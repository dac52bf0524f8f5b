"""Pages, HTML and plots of comparisons, from results with made-up figures."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from simulator.report.compare import html as compare_html
from simulator.report.compare import page as compare_page
from simulator.report.compare import plots as compare_plots
from simulator.report.notebook.card import comparison_card
from simulator.results.result import Result
from simulator.study.compare.comparison import compare
from simulator.study.compare.document import document
from tests.factories import out_of_memory, training_result
from tests.outline import Outline
from tests.services import serving_result

LONG = "a scenario of a very long name that somebody wrote without a thought of columns, number {}"


def runs(count: int) -> list[Result]:
    """Steps of more and more bubble."""
    found = []
    for number in range(count):
        first = training_result()
        step = first.metrics["step_time_s"]
        breakdown = tuple({**part, "bubble": part["bubble"] + number * step / 10} for part in first.breakdown)
        figures = {"tokens_per_s": first.metrics["tokens_per_s"] / (1 + number / 10)}
        found.append(replace(first, breakdown=breakdown, metrics=first.metrics | figures))
    return found


def told(results: list[Result], names: list[str] | None = None) -> dict[str, Any]:
    """The document of a comparison."""
    return document(compare(results, names))


DOCUMENTS = {
    "two": lambda: told(runs(2), ["plain", "interleaved"]),
    "long names": lambda: told(runs(3), [LONG.format(i) for i in range(3)]),
    "one long word": lambda: told(runs(2), ["x" * 150, "y"]),
    "many": lambda: told(runs(20), [f"tp {i}" for i in range(20)]),
    "many long": lambda: told(runs(20), [LONG.format(i) for i in range(20)]),
    "formulas": lambda: told(runs(2), ["costs $1 and _more_", "$x^$"]),
    "infeasible": lambda: told([training_result(), out_of_memory()], ["a", "b"]),
    "serving": lambda: told([serving_result(), serving_result()], ["a", "b"]),
    "mixed": lambda: told([training_result(), serving_result(), *runs(2)]),
    "nothing": lambda: told([replace(serving_result(), metrics={}, service=None, feasible=False) for _ in range(2)]),
}


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("width", [60, 80, 100])
def test_pages_keep_to_their_width(name: str, width: int) -> None:
    lines = compare_page.page(DOCUMENTS[name](), width=width, everything=True).splitlines()
    assert max(map(len, lines)) <= width
    assert not any("…" in line for line in lines)


def test_two_runs_stand_side_by_side() -> None:
    text = compare_page.page(DOCUMENTS["two"]())
    assert re.search(r"^ +plain +interleaved$", text, re.MULTILINE)
    assert re.search(r"^ tokens per second +[\d,]+ \* +[\d,]+$", text, re.MULTILINE)
    assert "Held against plain (points: hundredths of its time)" in text
    assert "· interleaved takes 10.0 % more time: 10.0 points more bubble" in text


def test_long_names_are_numbered_and_written_out_once() -> None:
    text = compare_page.page(DOCUMENTS["long names"]())
    assert re.search(r"^ +1 +2 +3$", text, re.MULTILINE)
    assert re.search(r"^ 1 +a scenario of a very long name", text, re.MULTILINE)
    assert re.search(r"^ step time +", text, re.MULTILINE)


@pytest.mark.parametrize(("name", "row"), [("many", r"tp 19"), ("many long", r"20")])
def test_of_many_runs_each_is_a_row(name: str, row: str) -> None:
    text = compare_page.page(DOCUMENTS[name]())
    assert re.search(rf"^ {row} +\d", text, re.MULTILINE)
    assert not re.search(r"^ step time +", text, re.MULTILINE)
    lines = text.splitlines()
    for head in (line for line in lines if line.strip().startswith("step")):
        assert len(head) <= 100


def test_no_figure_is_lost_in_any_form() -> None:
    for name in ("two", "long names", "many"):
        found = DOCUMENTS[name]()
        text = compare_page.page(found, everything=True)
        for metric in found.metrics:
            for cell in compare_page.cells(metric, found.metrics[metric], found):
                assert cell.text in text


def test_few_figures_unless_all_are_asked_for() -> None:
    found = DOCUMENTS["serving"]()
    few, all_ = compare_page.page(found), compare_page.page(found, everything=True)
    assert "standard deviation of ITL" in all_
    assert "standard deviation of ITL" not in few
    assert re.search(r"\d+ further figures with --all", few)
    assert "further" not in all_
    assert "energy of the run" in all_


def test_what_does_not_fit_is_marked() -> None:
    text = compare_page.page(DOCUMENTS["infeasible"]())
    assert re.search(r"feasible +yes +no", text)
    assert "feasible" not in compare_page.page(DOCUMENTS["two"]())


@pytest.mark.parametrize("name", DOCUMENTS)
def test_html_is_whole_and_refers_to_nothing_outside(name: str) -> None:
    page = compare_html.page(DOCUMENTS[name]())
    Outline(page)
    assert not re.search(r"(?:src|href)=|https?://", page)
    assert "Content-Security-Policy" in page
    assert not re.search(r"\bnan\b", re.sub(r"<script.*?</script>|<style.*?</style>", "", page, flags=re.DOTALL))


def test_html_has_sentences_bars_and_a_table() -> None:
    page = compare_html.page(DOCUMENTS["two"]())
    assert "interleaved takes 10.0 % more time: 10.0 points more bubble" in page
    assert page.count("what its time consists of") == 2
    assert "<strong>" in page
    mixed = compare_html.page(DOCUMENTS["mixed"]())
    assert "<h3>Where the step goes</h3>" in mixed
    assert "<h3>Where the time of a request goes</h3>" in mixed


def test_bars_are_on_one_scale_of_equal_work() -> None:
    page = compare_html.page(DOCUMENTS["two"]())
    bars = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    ends = []
    for bar in bars:
        last = re.findall(r'x="([\d.]+)" y="1" width="([\d.]+)"', bar)[-1]
        ends.append(float(last[0]) + float(last[1]))
    assert ends == pytest.approx([1000 / 1.1, 1000], rel=1e-3)


def test_long_names_are_numbered_in_html() -> None:
    page = compare_html.page(DOCUMENTS["long names"]())
    assert f"1 {LONG.format(0)}" in page
    assert f"· {LONG.format(0)}" not in page


@pytest.mark.parametrize("draw", [compare_html.page, compare_page.page, comparison_card])
def test_text_of_a_scenario_is_no_markup(draw: Any) -> None:
    told_of = replace(told(runs(2), ["<b>one</b>", "two \x1b[31m <i>x</i>"]), notes=("<u>note</u>",))
    text = draw(told_of)
    assert "\x1b" not in text
    if draw is not compare_page.page:
        assert not re.search(r"<b>|<i>x|<u>", text)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_plots_are_written_where_there_is_something_to_draw(name: str, tmp_path: Path) -> None:
    found = DOCUMENTS[name]()
    kinds = {run.kind for run in found.runs if run.parts}
    written = compare_plots.save_plots(found, tmp_path)
    wanted = [*(["figures"] if found.metrics else []), *(["parts"] if kinds else [])]
    assert sorted(path.name for path in written) == [f"{one}.{end}" for one in wanted for end in ("png", "svg")]


def test_equal_comparisons_give_equal_plots(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        compare_plots.save_plots(DOCUMENTS["two"](), tmp_path / folder)
    for file in (tmp_path / "a").iterdir():
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes()


@pytest.mark.parametrize("draw", compare_plots.PLOTS.values())
def test_a_plot_draws_on_the_axes_that_it_is_given(draw: Any) -> None:
    for name in ("two", "mixed", "nothing"):
        axes = Figure().subplots()
        assert draw(DOCUMENTS[name](), axes) is axes
        assert axes.get_xlabel()


def test_every_run_is_a_bar_and_those_that_do_not_fit_are_faded() -> None:
    results = [*runs(12), out_of_memory()]
    found = told(results, [f"tp {i}" for i in range(13)])
    for draw in compare_plots.PLOTS.values():
        axes = draw(found, Figure().subplots())
        assert {patch.get_alpha() for patch in axes.patches} == {1.0, compare_plots._FADED}
    assert [text.get_text() for text in axes.get_legend().get_texts()][-2:] == ["tp 11", "tp 12 (does not fit)"]
    looks = {(patches[0].get_facecolor(), patches[0].get_hatch()) for patches in axes.containers}
    assert len(looks) == 12
    assert "not shown" not in axes.get_xlabel()
    many = compare_plots.figures(told(runs(50)), Figure().subplots())
    assert len(many.containers) == 40
    assert many.get_xlabel().endswith("9 more runs are not shown")


def test_a_change_beyond_the_axis_is_written_at_its_bar() -> None:
    first = training_result()
    far = replace(first, metrics=first.metrics | {"bubble_fraction": 87 * first.metrics["bubble_fraction"]})
    axes = compare_plots.figures(told([first, far], ["a", "b"]), Figure().subplots())
    assert max(patch.get_width() for patch in axes.patches) == 100
    assert [text.get_text() for text in axes.texts] == ["+8,600 %"]


def varied(number: int, *, fits: bool = True) -> dict[str, Any]:
    """Runs of one scenario, each with another microbatch; the last one may not fit."""
    runs = []
    for i in range(number):
        scenario = {"name": "a scenario", "model": {"name": "GPT (made up)"}, "training": {"micro_batch": i + 1}}
        lines = ("common", *(["of some"] if i % 2 else []))
        runs.append(training_result(scenario=scenario, assumptions=lines, feasible=fits or i < number - 1))
    return document(compare(runs, [f"micro_batch {i + 1}" for i in range(number)], ["training.zero=1"]))


def test_pages_say_what_was_compared() -> None:
    found = varied(3)
    assert found.shared == {"scenario": "a scenario", "model": "GPT (made up)"}
    assert found.differing == {"training.micro_batch": ("1", "2", "3")}
    for text in (compare_page.page(found), compare_html.page(found)):
        assert "a scenario: 3 runs side by side" in text
        assert "all with training.zero=1" in text
        assert "differ in training.micro_batch 1, 2, 3" in text


def test_of_many_runs_each_is_a_row_and_assumptions_stand_together() -> None:
    text = compare_html.page(varied(6))
    assert re.search(r"<th[^>]*>run</th><th[^>]*>step time</th>", text)
    assert text.count('<td class="source">of some</td>') == 1
    assert "micro_batch 2; micro_batch 4; micro_batch 6" in text
    assert re.search(r"<th[^>]*>figure</th><th[^>]*>micro_batch 1</th>", compare_html.page(varied(3)))


def test_bars_of_what_does_not_fit_say_so() -> None:
    text = compare_html.page(varied(3, fits=False))
    assert "micro_batch 3 (does not fit)</span>" in text
    assert text.count('class="trough moot"') == 1


def test_stalls_are_told_beside_exposed_communication() -> None:
    first = training_result()
    slow = tuple(dict(parts) | {"stall": 0.01, "bubble": parts["bubble"] - 0.01} for parts in first.breakdown)
    notes = document(compare([first, replace(first, breakdown=slow)], ["a", "b"])).notes
    assert any("comes on top of it: 0 s of a and 10.0 ms of b" in note for note in notes)
    assert not any("stall" in note for note in document(compare([first, first])).notes)


def test_many_runs_have_heads_of_few_lines() -> None:
    lines = compare_page.page(DOCUMENTS["many"](), width=80).splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith(" tp 0"))
    assert lines[first - 3] == "" and "tokens/s" in " ".join(lines[first - 2 : first])
