"""The HTML report and the plots of several jobs."""

import re
from collections import Counter
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.report.html.markup import Markup
from simulator.report.html.parts import scoped
from simulator.report.jobs import contents, plots
from simulator.report.result.html import document
from simulator.report.result.plots import save_plots
from simulator.report.svg.layers import HEIGHT, Layer, layers
from simulator.report.svg.pictures import Readout
from simulator.results.result import JobRecord
from tests.browser import browsed, needs_browser
from tests.several import jobs_result, simulated


class Reader(HTMLParser):
    """Headings, ids, and what refers to them."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.rows: list[str] = []
        self.axes: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        for name, found in (("id", self.ids), ("data-rows", self.rows), ("data-axis", self.axes)):
            if known.get(name):
                found.append(str(known[name]))


def test_each_job_has_its_sections_and_its_own_time() -> None:
    text = document(simulated())
    for job in ("large", "small"):
        for section in ("Pipeline", "Where the step goes", "Device memory", "Links"):
            assert f"<h2>{job}: {section}</h2>" in text
    reader = Reader()
    reader.feed(text)
    assert max(Counter(reader.ids).values()) == 1
    assert {"job0-gantt-0", "job1-gantt-0"} <= set(reader.ids)
    assert set(reader.rows) <= set(reader.ids)
    assert {"clock", "job0-step", "job1-step"} <= set(reader.axes)


def test_a_service_has_the_sections_of_one() -> None:
    text = document(jobs_result())
    assert "<h2>chat: Latency</h2>" in text
    assert "<h2>train: Pipeline</h2>" in text
    assert "25.0 GB/s" in text
    assert "slow-links" in text


def test_names_cannot_break_the_page() -> None:
    result = jobs_result()
    evil = '<b id="x">" data-axis="y'
    train = replace(result.jobs[0], name=evil)
    met = replace(result.meetings[0], bytes={evil: 1.0}, at_once={evil: 1.0}, rates=((0, {evil: 1.0}), (9, {})))
    text = document(replace(result, jobs=(train, result.jobs[1]), meetings=(met,)))
    assert "<b " not in text
    reader = Reader()
    reader.feed(text)
    assert "y" not in reader.axes and "x" not in reader.ids


def test_scoped_changes_attributes_alone() -> None:
    piece = Markup('<svg id="a" data-rows="a" data-axis="step">id=&quot;a&quot; {"t":"id=\\"a\\""}</svg>')
    found = scoped(piece, "j-")
    assert found == '<svg id="j-a" data-rows="j-a" data-axis="j-step">id=&quot;a&quot; {"t":"id=\\"a\\""}</svg>'


def test_links_with_the_same_load_are_drawn_once() -> None:
    names, meeting = contents.charts(simulated())[0]
    assert names == "leaf up 0 and 7 alike, leaf down 0 and 7 alike"
    assert len(contents.charts(simulated())) == 1
    assert contents.window(simulated())[1] == pytest.approx(meeting.rates[-1][0] / 1e12)


def test_layers_stand_on_each_other_and_tell_their_own_height() -> None:
    stack = [Layer("a", 0, np.array([0.25, 0.5, 0.0])), Layer("b", 3, np.array([0.5, 0.0, 0.0]))]
    drawn = layers(np.array([0.0, 0.5, 1.0]), stack, 0.9, "load", Readout(10.0, "B/s"))
    bands = re.findall(r'<path d="([^"]*)" class="c\d"/>', drawn)
    assert bands[1] == f"M0 {HEIGHT * 0.25:g}h500v{HEIGHT * 0.5:g}h-500z"
    assert 'data-name="a"' in drawn and 'data-name="b"' in drawn
    assert 'class="limit"' in drawn


def test_plots(tmp_path: Path) -> None:
    names = {path.name for path in save_plots(jobs_result(), tmp_path)}
    assert names == {"slowdowns.png", "slowdowns.svg", "meetings.png", "meetings.svg"}
    without = replace(jobs_result(), meetings=())
    assert {path.stem for path in save_plots(without, tmp_path)} == {"slowdowns"}
    with pytest.raises(InputError, match="no jobs met on a link"):
        plots.meetings(without)


def test_the_plot_of_a_meeting_never_passes_what_the_link_has() -> None:
    axes = plots.meetings(simulated())
    assert "leaf up 0 and 7 alike" in axes.get_title()
    capacity = simulated().meetings[0].capacity / 1e9
    tops = [patch.get_data().values.max() for patch in axes.patches]
    assert max(tops) == pytest.approx(capacity)


def test_slowdowns_are_more_time_than_alone() -> None:
    bars = [patch.get_width() for patch in plots.slowdowns(jobs_result()).patches]
    assert bars == pytest.approx([25.0, 0.0])


def test_a_job_without_a_slowdown() -> None:
    result = jobs_result()
    unknown: JobRecord = replace(result.jobs[0], slowdown=float("nan"))
    changed = replace(result, jobs=(unknown, result.jobs[1]))
    assert plots.slowdowns(changed).patches[0].get_width() == 0
    assert "<td" in document(changed)


@needs_browser
def test_a_browser_draws_it_without_complaint(tmp_path: Path) -> None:
    file = tmp_path / "jobs.html"
    file.write_text(document(jobs_result()), encoding="utf-8")
    page, log = browsed(file, tmp_path / "profile")
    assert "CONSOLE" not in log
    assert page.count('class="plot live"') >= 2
