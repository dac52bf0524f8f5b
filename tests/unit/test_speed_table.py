"""Lines of the speed table, and the yardstick beside which they are measured."""

from collections.abc import Iterator
from datetime import date

import pytest

from benchmarks import __main__ as speed
from benchmarks import yardstick

HELP, STEP = "`clustersim --help`", "GPT-1T step, 3,072 devices, 64 stages x 512 microbatches"


def test_the_work_is_always_the_same() -> None:
    assert yardstick.work() == (4959407, 33387169.0, 501)
    assert yardstick.seconds(1) > 0


def test_the_reference_follows_from_a_step_that_both_have_run() -> None:
    slower = yardstick.STEP_HERE_S / yardstick.STEP_REFERENCE_S
    assert yardstick.slowness(yardstick.YARDSTICK_HERE_S) == pytest.approx(slower)
    assert yardstick.slowness(2 * yardstick.REFERENCE_S) == pytest.approx(2.0)


def test_a_line_says_what_the_reference_would_take() -> None:
    assert (
        speed.line(STEP, 2.05, 130.4, 1.5, 1.9) == f"| {STEP} | 2.05 | 1.90 | 1.08 | 130 MB | 1.5 s | {date.today()} |"
    )


def test_each_line_is_scaled_by_the_minutes_in_which_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def yardsticks() -> Iterator[float]:
        for times in (1.0, 3.0, 5.0):
            yield times * yardstick.REFERENCE_S

    taken = yardsticks()
    monkeypatch.setattr(yardstick, "seconds", lambda: next(taken))
    monkeypatch.setattr(speed, "measure", lambda _: (8.0, 100.0))
    lines = speed.cases([HELP, STEP])
    assert [line.split(" | ")[1:4] for line in lines.values()] == [["8.00", "2.00", "4.00"], ["8.00", "4.00", "2.00"]]


def test_lines_from_before_the_yardstick_stay_with_dashes_on_the_same_machine() -> None:
    old = f"| what | CPU s |\n| --- | --- |\n| {HELP} | 0.07 | 15 MB | 0.25 s | 2026-11-23 |\n"
    page = f"# Speed\n\nMeasured on {speed.machine()}.\n\n{old}"
    new = speed.line(STEP, 2.0, 130.0, 1.5, 2.0)
    both = speed.table({STEP: new}, page)
    assert f"| {HELP} | 0.07 | - | - | 15 MB | 0.25 s | 2026-11-23 |\n{new}\n" in both
    assert f"{yardstick.REFERENCE_S:.3f} s" in both
    rows = [row for row in both.splitlines() if row.startswith("|")]
    assert {row.count("|") for row in rows} == {8}
    assert speed.table({}, both) == both
    assert HELP not in speed.table({STEP: new}, page.replace("Measured on", "Measured on another machine, not"))
