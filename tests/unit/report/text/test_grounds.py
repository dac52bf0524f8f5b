"""What figures stand on is on every page."""

from typing import NamedTuple

from simulator.report.catalogue import profiles
from simulator.report.compare import html as compare_html
from simulator.report.compare import page as compare_page
from simulator.report.notebook.card import card, comparison_card, sweep_card
from simulator.report.result import html
from simulator.report.result.page import page
from simulator.report.sweep import html as sweep_html
from simulator.report.sweep import page as sweep_page
from simulator.report.text.grounds import grounds
from simulator.results.ground import Ground, StatedGround, Validation, stated
from simulator.study.compare.comparison import compare
from simulator.study.compare.document import document
from simulator.study.sweep.sweep import sweep
from tests.factories import training_result

FIRM = Ground("measured and validated", {}, "", Validation(157, 0.049, "it"))
WEAK = Ground("estimate", {}, "kernels (cdna2, estimate)")


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_of_one_run() -> None:
    for drawn in (page, html.document, card):
        assert f"Ground: {FIRM.sentence}" in one_line(drawn(training_result(ground=FIRM)))
        assert f"Ground: {WEAK.sentence}" in one_line(drawn(training_result(ground=WEAK)))
        assert "Ground:" not in drawn(training_result())


def test_an_estimate_looks_like_one() -> None:
    assert 'class="ground estimate"' in html.document(training_result(ground=WEAK))
    assert 'class="ground estimate"' not in html.document(training_result(ground=FIRM))


def test_of_runs_side_by_side() -> None:
    alike = document(compare([training_result(ground=FIRM)] * 2, ["a", "b"]))
    apart = document(compare([training_result(ground=FIRM), training_result(ground=WEAK)], ["a", "b"]))
    assert [run.ground.kind for run in apart.runs] == ["measured and validated", "estimate"]
    for drawn in (compare_page.page, compare_html.page, comparison_card):
        assert f"Ground: {FIRM.sentence}" in one_line(drawn(alike))
        assert f"Ground: b: {WEAK.sentence}" in one_line(drawn(apart))


def test_of_the_points_of_a_sweep() -> None:
    table = sweep("scenarios/training/megatron-1.7b.yaml", ["training.micro_batch=8,16"])
    told = table.described()
    assert [row.ground.kind for row in told.rows] == ["measured and validated"] * 2
    assert table.columns()["ground"] == ["measured and validated"] * 2
    sentence = f"Ground: {told.rows[0].ground.sentence}"
    how = sweep_page.Effort(2, 0)
    for text in (sweep_page.page(told, how), sweep_html.page(told), sweep_card(told)):
        assert sentence in one_line(text)


class Entry(NamedTuple):
    """What has a name and stands on something."""

    name: str
    ground: StatedGround


def test_long_lists_of_names_are_cut() -> None:
    entries = [Entry(f"tp {i}", stated(WEAK)) for i in range(6)]
    mixed = [*entries, Entry("last", stated(FIRM)), Entry("refused", stated(Ground()))]
    assert grounds(entries) == [WEAK.sentence]
    assert grounds(mixed)[0].startswith("tp 0; tp 1; tp 2 and 3 more: estimate")
    assert grounds(mixed[-1:]) == []


def test_of_profiles() -> None:
    listed = profiles.profiles("accelerators", width=200, colour=False)
    assert "ground" in listed
    assert "# Ground: estimate" in profiles.profiles("accelerators/mi250x", width=100, colour=False)
    assert "Ground" not in profiles.profiles("models/llama-3-8b", width=100, colour=False)
