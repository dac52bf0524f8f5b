"""The gallery of pipeline schedules: all of them are in it, formulas hold, and published bubbles come out."""

import re

import pytest

from docs import generate_reference  # noqa: F401  (puts the modules of pages on the path)
from simulator.training.schedules import SCHEDULES

import schedule_facts  # isort: skip
import schedule_pages  # isort: skip


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


@pytest.mark.parametrize("row", schedule_facts.UNEVEN, ids=lambda row: f"{row.method}-{row.sequence}-{row.vocabulary}")
def test_steps_of_uneven_stages_at_measured_passes(row: schedule_facts.Stages) -> None:
    """arXiv:2411.05288, artifact: too fast by what is not in the passes, and by no more than 3 %."""
    assert row.step_s * 0.97 < schedule_pages._step_of(row) < row.step_s
