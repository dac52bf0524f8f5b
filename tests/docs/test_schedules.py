"""The gallery of pipeline schedules: all of them are in it, formulas hold, and published bubbles come out."""

import re
from itertools import combinations

import pytest

from docs import generate_reference  # noqa: F401  (puts the modules of pages on the path)
from simulator.training.schedules import SCHEDULES

import schedule_facts  # isort: skip
import schedule_pages  # isort: skip
import stage_times  # isort: skip


def test_every_schedule_is_drawn_and_weighed() -> None:
    gallery, figures = schedule_pages.schedule_gallery(), schedule_pages.schedule_figures()
    for name in SCHEDULES.names():
        assert re.search(rf"^### {re.escape(name)}(, \d+ chunks)?$", gallery, re.MULTILINE)
        assert f"| `{name}`" in figures
    assert gallery.count("<svg") == figures.count("\n") - 2


def test_formulas_give_what_is_simulated() -> None:
    rows = [line.strip("| ").split(" | ") for line in schedule_pages.schedule_figures().splitlines()[2:]]
    for name, _, idle, idle_formula, kept, kept_formula, _ in rows:
        for formula, simulated in ((idle_formula, idle), (kept_formula, kept)):
            if formula.strip():
                assert formula.rsplit(" = ", 1)[1] == simulated.removesuffix(", own"), name


@pytest.mark.parametrize("row", schedule_facts.MEASURED, ids=lambda row: f"{row.model}-{row.m}")
def test_bubbles_of_zero_bubble_at_measured_costs(row: schedule_facts.Measured) -> None:
    """arXiv:2401.10241, tables 5 and 9; the costs are rounded to four digits."""
    for name, published in row.bubbles.items():
        assert schedule_pages._bubble_of(name, row) == pytest.approx(published, abs=1e-4)


@pytest.mark.parametrize(
    "row", stage_times.MEASURED_STAGES, ids=lambda row: f"{row.method}-{row.sequence}-{row.vocabulary}"
)
def test_steps_at_measured_passes(row: stage_times.Stages) -> None:
    """arXiv:2411.05288, artifact: within 2 %, of which the optimizer and the spread of microbatches are a part."""
    assert schedule_pages._step_of(row) == pytest.approx(row.step_s, rel=0.02)


def test_cutting_the_vocabulary_gains_what_was_measured() -> None:
    """The order of the five ways at each size is that of the measurement, but for ways within 1 % of each other."""
    for one, other in combinations(stage_times.MEASURED_STAGES, 2):
        if one[1:3] == other[1:3] and abs(one.step_s / other.step_s - 1) > 0.01:
            simulated = schedule_pages._step_of(one) < schedule_pages._step_of(other)
            assert simulated == (one.step_s < other.step_s), (one[:3], other[:3])
