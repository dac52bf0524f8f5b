"""What every HTML page promises: it stands alone, stays small, escapes names, and works in a browser at any width."""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from simulator.report.compare import html as compare_html
from simulator.report.plan import html as plan_html
from simulator.report.result.html import document
from simulator.report.sweep import html as sweep_html
from simulator.report.validation.html import page as validation_page
from simulator.run.simulate import simulate
from simulator.specs import load_scenario
from simulator.study.compare.comparison import compare
from simulator.study.compare.document import document as compare_document
from simulator.study.sweep.table import Row, SweepTable, View
from tests.browser import acted, needs_browser
from tests.factories import out_of_memory, training_result
from tests.outline import Outline
from tests.plans import several_layouts
from tests.unit.report.result.test_html import HOSTILE
from tests.unit.report.result.test_html import hostile as hostile_training
from tests.unit.report.serving.test_html import RESULT as SERVED
from tests.unit.report.serving.test_html import hostile as hostile_serving
from tests.unit.report.validation.test_html import BY
from tests.unit.report.validation.test_html import hostile as hostile_validation


def _compared() -> str:
    runs = [training_result(name=HOSTILE, assumptions=(HOSTILE, "common")), training_result(assumptions=("common",))]
    return compare_html.page(compare_document(compare(runs)))


def _planned() -> str:
    first, *others = several_layouts().layouts
    layouts = (replace(first, name=HOSTILE), *others)
    told = replace(several_layouts(), name=HOSTILE, warnings=(HOSTILE,), assumptions=(HOSTILE,), layouts=layouts)
    return plan_html.page(told)


def _swept() -> str:
    rows = tuple(
        Row(
            i,
            (HOSTILE,),
            {HOSTILE: HOSTILE, "b": 2 if i == 4 else 1},
            "refused" if i == 4 else "ok",
            HOSTILE if i == 4 else "",
            {} if i == 4 else {"step_time_s": 1.0 + i, "peak_memory_bytes": 5e9 - i * 1e9},
            (),
            "",
        )
        for i in range(5)
    )
    known = {"version": "0", "seed": 0}
    axes = {HOSTILE: (HOSTILE,), "b": (1, 2)}
    table = SweepTable(
        HOSTILE,
        "training",
        axes,
        rows,
        where=(HOSTILE,),
        provenance=known,
        subject={"model": HOSTILE},
        changes=(HOSTILE,),
    )
    view = View(by="step_time_s", pareto=("step_time_s", "peak_memory_bytes"), heat=(HOSTILE, "b", "step_time_s"))
    return sweep_html.page(table.described(view))


PAGES: dict[str, Callable[[], str]] = {
    "training": lambda: document(hostile_training()),
    "serving": lambda: document(hostile_serving()),
    "compare": _compared,
    "plan": _planned,
    "validation": lambda: validation_page(hostile_validation(), BY),
    "usual training": lambda: document(training_result()),
    "usual serving": lambda: document(SERVED),
    "sweep": _swept,
    "out of memory": lambda: document(out_of_memory()),
}


@cache
def page_of(name: str) -> str:
    return PAGES[name]()


@pytest.mark.parametrize("name", PAGES)
def test_it_stands_alone_and_names_are_text(name: str) -> None:
    text = page_of(name)
    outline = Outline(text)
    assert {name for _, name, _ in outline.attributes}.isdisjoint({"src", "href", "style", "xlink:href", "srcdoc"})
    assert not [name for _, name, _ in outline.attributes if name.startswith("on")]
    assert {"img", "link", "iframe", "object", "base", "form", "image", "use"}.isdisjoint(outline.elements)
    code = "".join(outline.texts["style"] + outline.texts["script"])
    assert not re.search(r"url\(|@import|fetch\(|XMLHttp|WebSocket|innerHTML|eval\(", code)
    assert "\x1b" not in text and "\u202e" not in text
    assert "default-src &#x27;none&#x27;" in text


@pytest.mark.parametrize("name", PAGES)
def test_without_scripts_all_is_there(name: str) -> None:
    """Headings, figures and pictures are part of the file; only controls wait for the script."""
    outline = Outline(page_of(name))
    assert outline.texts["h1"] and outline.texts["h2"]
    style = "".join(outline.texts["style"])
    assert ".scripted header button { display: block; }" in style and ".tools { display: none;" in style


def test_paper_phones_and_readers_are_thought_of() -> None:
    style = "".join(Outline(page_of("training")).texts["style"])
    for words in (
        "@media print",
        "@media screen{@media (prefers-color-scheme:dark)",
        "@media (max-width: 40rem)",
        "prefers-reduced-motion",
        ":focus-visible",
        "forced-colors",
    ):
        assert words in style


def test_compare_says_what_was_assumed_and_what_simulated_it() -> None:
    text = page_of("compare")
    for words in ("<h2>Assumptions</h2>", "<li>common</li>", "<h2>Provenance</h2>", 'class="path" scope="col">seed'):
        assert words in text
    assert text.count("<li>common</li>") == 1


@pytest.mark.slow
def test_the_largest_shipped_step_stays_below_two_megabytes() -> None:
    text = document(simulate(load_scenario("training/megatron-1t").spec))
    assert len(text.encode()) < 2_000_000
    assert "33 of 64 device classes are shown." in text
    assert "Neighbouring operations are merged" in text
    assert "figures of the profiles with their sources" in text


ACTIONS = """
const wide = [root.scrollWidth, view.innerWidth];
one("#theme").click();
const first = root.dataset.theme;
one("#theme").click();
const sorted = all("table.sortable").map(table => {
  const head = [...table.tHead.rows[0].cells].find(cell => cell.querySelector("button"));
  head.querySelector("button").click();
  return head.getAttribute("aria-sort");
});
const named = all("svg").every(s => s.getAttribute("aria-label") || s.querySelector("title") || s.closest("li"));
const reached = all("svg[tabindex='0']").length;
for (const svg of all("svg.live")) {
  pointer(svg, "pointermove", 0.3, 0.4);
  key(svg, "+");
  pointer(svg, "pointermove", 0.6, 0.4);
}
return {wide, themes: [first, root.dataset.theme].sort(), sorted, named, reached, scripted: root.className,
  smuggled: all("img").length, title: page.title};
"""


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("name", PAGES)
def test_a_browser_opens_it_without_complaint(name: str, width: int, tmp_path: Path) -> None:
    """No message on the console (`acted` looks), no scrolling to the side; colours switch, tables sort."""
    found: dict[str, Any] = acted(page_of(name), ACTIONS, tmp_path, width)
    assert found["scripted"] == "scripted"
    assert found["wide"][0] <= found["wide"][1]
    assert found["themes"] == ["dark", "light"]
    assert set(found["sorted"]) <= {"ascending"}
    assert found["named"]
    assert found["smuggled"] == 0
    if "training" in name or "serving" in name:
        assert found["reached"] > 1
