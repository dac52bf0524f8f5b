"""Schedules on a terminal and as pictures: every pass is there, at every size, with colours and without."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import pytest

from simulator.report.schedule.drawing import drawing
from simulator.report.schedule.page import page
from simulator.report.schedule.picture import save_png, save_svg, svg
from simulator.results.documents.schedule import ScheduleDocument
from simulator.study.schedule import AskedSchedule, actions_of, make, run

ZB = "workloads/schedules/zb-h1-4x8.csv"


def document(name: str, *sizes: int) -> ScheduleDocument:
    """A schedule of equal passes."""
    asked = AskedSchedule(name, *sizes)
    return run(asked, make(asked))


def rows(text: str) -> list[str]:
    """The lines of the chart with passes in them."""
    chart = text.split("What it comes to")[0]
    return [line[11:] for line in chart.splitlines() if line.startswith(" device ")]


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("colour", [False, True])
@pytest.mark.parametrize(
    "sizes", [("1f1b", 1, 1), ("1f1b", 8, 16), ("gpipe", 3, 12), (ZB,), ("interleaved-1f1b", 4, 8, 4)]
)
def test_bands_hold_every_microbatch_and_fit_the_page(sizes: tuple[str, int, int], width: int, colour: bool) -> None:
    shown = document(*sizes)
    text = page(shown, width=width, colour=colour)
    bare = re.sub(r"\x1b\[[\d;]*m", "", text)
    assert max(map(len, bare.splitlines())) <= width
    bands = rows(bare)
    assert len(bands) % shown.devices == 0
    numbers = re.findall(r"\d+", " ".join(bands))
    assert set(range(shown.microbatches)) <= {int(number) for number in numbers}
    assert ("\x1b[" in text) is colour


def test_letters_stand_for_colours() -> None:
    first = rows(page(document(ZB)))[0]
    assert first.startswith("F0F1F2F3······I0W0I1F4I2W1")
    chunks = page(document("interleaved-1f1b", 2, 4, 4), width=100)
    assert "chunks: aF, bF, cF, dF" in chunks
    assert "aF0aF1bF0bF1" in chunks


def test_long_schedules_are_an_overview_and_a_piece_of_it() -> None:
    text = page(document("gpipe", 64, 512), width=80)
    lines = rows(text)
    assert len(lines) == 2 * 17
    assert re.fullmatch(r"F+·+B+", lines[0])
    assert re.fullmatch(r"·+F+▒?B+·+", lines[16])
    assert "and 47 devices more" in text
    steady = rows(page(document("1f1b", 64, 512), width=80))
    assert "▒" * 30 in steady[40 // 4]


def test_a_picture_has_a_box_for_every_pass(tmp_path: Path) -> None:
    shown = document("interleaved-1f1b", 4, 8, 2)
    plan = drawing(shown)
    assert sum(len(areas) for areas in plan.areas.values()) == len(shown.passes) + 4  # and the legend
    assert all(x >= 0 and x + width <= plan.width for areas in plan.areas.values() for x, _, width, _ in areas)
    numbers = [word for word in plan.words if word.anchor == "middle"]
    assert len(numbers) == len(shown.passes)
    root = ElementTree.fromstring(svg(shown))
    assert len(root.findall(".//{*}text")) == len(plan.words)
    save_svg(shown, tmp_path / "a.svg")
    save_png(shown, tmp_path / "a.png")
    save_png(shown, tmp_path / "b.png")
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()


def test_pictures_of_long_schedules_stay_small() -> None:
    plan = drawing(document("1f1b", 300, 300))
    assert plan.width < 2700
    assert plan.height < 1800
    assert not [word for word in plan.words if word.anchor == "middle"]


def test_passes_side_by_side_share_their_time() -> None:
    """One under the other in a picture, one after the other on a terminal."""
    shown = document("1f1b", 1, 2)
    passes = replace(shown.passes, kind=("F", "F", "B", "B"), microbatch=(0, 1, 0, 1))
    passes = replace(passes, start=(0.0, 1.0, 1.0, 4.0), end=(1.0, 4.0, 4.0, 6.0))
    shown = replace(shown, passes=passes)
    assert [list(group) for group in passes.groups()] == [[0], [1, 2], [3]]
    assert [str(action) for action in actions_of(passes)[0]] == ["0F0", "(0F1;0B0)OVERLAP_F_B", "0B1"]
    assert rows(page(shown))[0].startswith("F0F1 B0 B1")
    (_, *forward), (_, *backward) = drawing(shown).areas.values()
    assert forward[1].height == backward[0].height == forward[0].height / 2
    assert forward[1].y + forward[1].height == backward[0].y
