import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from simulator.report.svg.scatter import decades
from simulator.report.validation.html import page
from simulator.results.documents.validation import ValidationDocument
from tests.browser import acted, browsed, needs_browser
from tests.unit.report.result.test_html import HOSTILE, Outline

NUMBERS = {"rows": 2, "mean": 0.3, "median": 0.3, "p90": 0.4, "signed": -0.1}
NONE = {"rows": 0}


def row(name: str, error: float | None = 0.1, **changes: Any) -> dict[str, Any]:
    """A row of the document of a validation."""
    times = {"measured": 2.0, "predicted": None if error is None else 2.0 * (1 + error)}
    return {
        "id": name,
        "source": "paper",
        "device": "A100-80GB",
        "devices": 16,
        "model": "gpt",
        "in_scope": True,
        "metric": "step_s",
        "measured": 2.0,
        "predicted": times["predicted"],
        "error": error,
        "step_s": times,
        "memory_error": None,
        "line": None,
        "conditions": None,
        "feasible": True,
        "assumed": [],
        "cause": None,
        "refused": None,
    } | changes


def read_back(data: dict[str, Any]) -> ValidationDocument:
    """The document of a validation that its JSON form holds."""
    by = {key.removeprefix("by_"): value for key, value in data["summary"].items() if key.startswith("by_")}
    return TypeAdapter(ValidationDocument).validate_python({**data, "summary": {**data["summary"], "by": by}})


def document(*rows: dict[str, Any], **changes: Any) -> ValidationDocument:
    """A document with these rows and a summary of something."""
    summary = {
        "what": "the step time",
        "scope": "dense models",
        "rows": len(rows),
        "simulated": sum(r["error"] is not None for r in rows),
        "coverage": 0.5,
        "coverage_in_scope": 0.5,
        "error_over_sources": {},
        "refused": {"mixture of experts": 3},
        "error": NUMBERS,
        "in_scope": NUMBERS,
        "complete": NUMBERS,
        "with_assumptions": NONE,
        "memory": NONE,
        "called_out_of_memory": 0,
        "layout_rank_correlation": {"paper": 0.93, "other": None},
        "by_source": {"paper": NUMBERS},
        "by_device": {"A100-80GB": NUMBERS},
    } | changes
    return read_back({"summary": summary, "rows": list(rows)})


SOME = document(
    row("fast", -0.6, cause="the network was slow", assumed=["vocabulary 51,200"]),
    row("near", 0.01),
    row("fast too", -0.5, cause="the network was slow"),
    row("outside", 0.9, in_scope=False, memory_error=0.07),
    row("refused", None, refused="mixture of experts"),
)
BY = ("source", "device")


def hostile() -> ValidationDocument:
    """What a file of bad intent could say."""
    bad = row(HOSTILE, -0.5, source=HOSTILE, device=HOSTILE, model=HOSTILE, assumed=[HOSTILE], cause=HOSTILE)
    figures = {"refused": {HOSTILE: 1}, "by_source": {HOSTILE: NUMBERS}, "layout_rank_correlation": {HOSTILE: 0.5}}
    return document(bad, row(HOSTILE, None, refused=HOSTILE), **figures)


@pytest.mark.parametrize("found", [SOME, hostile(), document()], ids=["usual", "hostile", "empty"])
def test_the_file_stands_alone(found: ValidationDocument) -> None:
    text = page(found, BY)
    outline = Outline(text)
    assert {name for _, name, _ in outline.attributes}.isdisjoint({"src", "href", "style", "xlink:href"})
    assert not [name for _, name, _ in outline.attributes if name.startswith("on")]
    assert {"img", "link", "iframe", "object", "base", "form"}.isdisjoint(outline.elements)
    assert outline.elements["script"] == 1
    assert "Content-Security-Policy" in text
    assert "url(" not in "".join(outline.texts["style"])


def test_what_it_says() -> None:
    text = page(SOME, BY)
    sections = "".join(Outline(text).texts["h2"])
    for name in (
        "Simulated and measured",
        "Distribution",
        "By source",
        "By device",
        "Worst rows",
        "Ranking",
        "Peak memory",
        "Refused rows",
        "All rows",
    ):
        assert name in sections
    assert "30.0 %" in text and "40.0 %" in text and "-10.0 %" in text
    assert "0.93" in text and "mixture of experts" in text


def test_rows_in_scope_are_those_of_the_kind_and_nothing_is_said_of_memory_that_no_row_states() -> None:
    text = page(document(row("near"), scope="whales"), BY)
    assert "In scope: whales." in text
    assert "mean error of peak memory" not in text
    assert "mean error of peak memory" in page(document(row("near"), memory=NUMBERS), BY)


def test_points_beyond_the_frame_are_hollow_and_counted() -> None:
    text = page(SOME, BY)
    assert text.count("dot beyond") == 1
    assert "Hollow at the frame: 1 row beyond it." in text
    assert "Hollow" not in page(document(row("near")), BY)


def test_axes_are_in_units_of_their_size() -> None:
    axis = decades([2e-5, 3.0], "time")
    assert [mark.text for mark in axis.marks] == ["10 us", "100 us", "1 ms", "10 ms", "100 ms", "1 s", "10 s"]


def test_every_simulated_row_is_a_point_that_says_its_id() -> None:
    text = page(SOME, BY)
    for name, error in (("fast", "-60.0 %"), ("near", "+1.0 %"), ("outside", "+90.0 %")):
        assert len(re.findall(f'data-tip="{name}: measured 2.00 s, simulated [^"]*, [^"]*{error[1:]}"', text)) == 2
    assert 'data-tip="refused' not in text


def test_the_worst_rows_are_those_in_scope_with_their_causes() -> None:
    listed = re.search(r"<h2>Worst rows</h2>(.*?)</section>", page(SOME, BY), re.DOTALL)
    assert listed
    rows = re.findall(r'<tr><td class="path">([^<]*)</td>', listed[1])
    assert rows == ["fast", "fast too", "near"]
    assert "the network was slow" in listed[1] and "as for fast" in listed[1] and "vocabulary 51,200" in listed[1]
    shorter = re.search(r"<h2>Worst rows</h2>(.*?)</section>", page(SOME, BY, worst=1), re.DOTALL)
    assert shorter and "fast too" not in shorter[1]


def test_all_rows_sort_by_value() -> None:
    text = page(SOME, BY)
    body = re.search(r'<table class="sortable dense" id="rows">.*?<tbody>(.*?)</tbody>', text, re.DOTALL)
    assert body and body[1].count("<tr>") == 5
    assert 'data-v="-0.6"' in body[1] and "refused: " in body[1]


def test_a_thousand_rows_stay_below_two_megabytes() -> None:
    rows = [
        row(f"a-source-with-a-long-name-{i}", -0.3 + i / 1700, assumed=["vocabulary 51,200"] * 3) for i in range(1000)
    ]
    assert len(page(document(*rows), BY).encode()) < 2_000_000


def test_hostile_names_are_text() -> None:
    text = page(hostile(), BY)
    assert "alert(1)" in text
    assert text.count("<script") == 1
    assert "<img" not in text
    assert "\x1b" not in text and "\u202e" not in text


ACTIONS = """
const head = one("#rows th:nth-child(2) button");
head.click();
const up = one("#rows th:nth-child(2)").getAttribute("aria-sort");
head.click();
const box = one("#filter");
box.value = "fast";
box.dispatchEvent(new view.Event("input"));
pointer(one("svg.scatter .dot"), "pointermove", 0.5, 0.5);
return {up, down: one("#rows th:nth-child(2)").getAttribute("aria-sort"), tip: one("#tip").textContent,
  rows: all("#rows tbody tr").map(row => [row.cells[0].textContent, row.hidden])};
"""


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("found", [SOME, hostile(), document()], ids=["usual", "hostile", "empty"])
def test_a_browser_opens_it_without_complaint(found: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "v.html").write_text(page(found, BY), encoding="utf-8")
    dom, log = browsed(tmp_path / "v.html", tmp_path / "profile")
    assert "CONSOLE" not in log
    assert '<html lang="en" class="scripted">' in dom


@pytest.mark.slow
@needs_browser
def test_sorting_filtering_and_pointing(tmp_path: Path) -> None:
    found = acted(page(SOME, BY), ACTIONS, tmp_path)
    assert (found["up"], found["down"]) == ("ascending", "descending")
    order = [name for name, _ in found["rows"]]
    assert order == ["outside", "near", "fast too", "fast", "refused"]  # the largest error first
    assert [name for name, hidden in found["rows"] if not hidden] == ["fast too", "fast"]
    assert "measured 2.00 s" in found["tip"]
