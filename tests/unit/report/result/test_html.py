import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from simulator.report.result.html import document
from simulator.report.text import palette
from simulator.results.metrics import compare
from simulator.results.result import Result, Sensitivity
from tests.browser import acted, browsed, needs_browser
from tests.factories import out_of_memory, training_result
from tests.outline import Outline

HOSTILE = '</script><script>alert(1)</script><img src="http://evil.example/x" onerror=alert(2)>\x1b[31m\u202e&amp;'


def hostile() -> Result:
    """A result from a file of bad intent."""
    result = training_result()
    figure = {"value": 1.0, "status": HOSTILE, "source": HOSTILE}
    scenario = {"cluster": {"nodes": 2, "node": {"devices": 4, "accelerator": {"name": HOSTILE, HOSTILE: figure}}}}
    return replace(
        result,
        name=HOSTILE,
        warnings=(HOSTILE,),
        assumptions=(HOSTILE,),
        provenance={HOSTILE: HOSTILE},
        classes=tuple(replace(c, name=HOSTILE) for c in result.classes),
        scenario=scenario,
        spans=replace(result.spans, names=(HOSTILE, *result.spans.names[1:])),
        links=tuple(replace(load, name=HOSTILE) for load in result.links),
        comparisons=(compare("mfu", 0.4, 0.5, HOSTILE, HOSTILE),),
        memory=tuple(replace(use, at_peak={HOSTILE: use.peak}) for use in result.memory),
        breakdown=tuple({**parts, HOSTILE: 0.1} for parts in result.breakdown),
        sensitivities=(Sensitivity(HOSTILE, HOSTILE, 1.0, 0.1),),
    )


@pytest.mark.parametrize("result", [training_result(), out_of_memory(), hostile()], ids=["fits", "full", "hostile"])
def test_the_file_stands_alone(result: Result) -> None:
    outline = Outline(document(result))
    assert {name for _, name, _ in outline.attributes}.isdisjoint({"src", "href", "style", "xlink:href"})
    assert not [name for _, name, _ in outline.attributes if name.startswith("on")]
    assert {"script", "style", "svg", "main"} <= outline.elements.keys()
    assert {"img", "link", "iframe", "object", "base", "form"}.isdisjoint(outline.elements)
    assert "url(" not in "".join(outline.texts["style"])
    assert "@import" not in "".join(outline.texts["style"])
    assert "fetch" not in "".join(outline.texts["script"])


def test_no_address_where_the_result_has_none() -> None:
    assert not re.search("https?:|//[a-z]", document(training_result()))


def test_only_the_own_style_and_script_are_let_in() -> None:
    text = document(training_result())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy
    rules = policy[1].replace("&#x27;", "'")
    assert rules.startswith("default-src 'none'; ")
    assert "unsafe" not in rules
    for name in ("style", "script"):
        content = re.search(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        assert content
        assert f"{name}-src 'sha256-{b64encode(sha256(content[1].encode()).digest()).decode()}'" in rules


def test_hostile_names_are_text() -> None:
    text = document(hostile())
    outline = Outline(text)
    assert "alert(1)" in text
    assert len(re.findall("<script", text)) == outline.elements["script"] == 2
    assert "<img" not in text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_what_it_says() -> None:
    sections = "".join(Outline(document(training_result())).texts["h2"])
    for name in ("Published and simulated", "Pipeline", "Where the step goes", "Device memory", "Links", "Warnings"):
        assert name in sections
    text = document(training_result())
    for words in ("arXiv:2104.04473 Table 1", "no effect on one stage", "precision is not given", "<td>tiers</td>"):
        assert words in text.replace(' class="path"', "")
    assert "Out of memory" not in text
    assert "Out of memory" in document(out_of_memory())


def test_links_over_time_and_what_the_critical_path_is_made_of() -> None:
    result = training_result()
    text = document(result)
    sections = "".join(Outline(text).texts["h3"])
    for name in (
        "What the busiest link of each kind carries",
        "Operations",
        "Communication, by the link",
        "Kernels, by",
    ):
        assert name in sections
    assert text.count('<div class="load">') == len(result.links)
    unknown = tuple(replace(load, by_operation={}) for load in result.links)
    assert "What the busiest link" not in document(replace(result, links=unknown))


def test_profiles_with_their_sources() -> None:
    figure = {"value": 3.35e12, "status": "datasheet", "source": "a data sheet"}
    text = document(training_result(scenario={"cluster": {"memory": {"bandwidth": figure}}}))
    assert '<td class="path">cluster.memory.bandwidth</td><td class="n" data-v="3.35e+12">3.35 TB/s</td>' in text
    assert "a data sheet" in text


def test_hover_texts_are_json_with_a_row_for_each_class() -> None:
    text = document(training_result())
    data = re.search(r'<script type="application/json" id="gantt-0">(.*?)</script>', text)
    assert data
    chart = json.loads(data[1])
    assert [row["name"] for row in chart["rows"]] == ["stage 0", "stage 1", "stage 2", "stage 3"]
    assert sum(chart["rows"][0]["lanes"][0][:2]) <= chart["parts"]


def test_a_large_step_stays_small() -> None:
    text = document(training_result(stages=64, microbatches=512))
    assert len(text.encode()) < 2e6
    assert "are merged" in text
    assert Outline(text).elements["svg"] < 200


def test_the_same_result_gives_the_same_bytes() -> None:
    assert document(training_result()) == document(training_result())


def test_a_result_with_almost_nothing_in_it() -> None:
    empty = replace(
        training_result(stages=1, microbatches=1),
        breakdown=(),
        memory=(),
        links=(),
        comparisons=(),
        warnings=(),
        assumptions=(),
        provenance={},
        scenario={},
        metrics={},
    )
    assert Outline(document(empty)).elements["main"] == 1


@pytest.mark.slow
@needs_browser
@pytest.mark.parametrize("result", [training_result(), hostile()], ids=["usual", "hostile"])
def test_a_browser_opens_it_without_complaint(result: Result, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(document(result), encoding="utf-8")
    dom, log = browsed(tmp_path / "report.html", tmp_path / "profile")
    assert "CONSOLE" not in log
    assert '<html lang="en" class="scripted">' in dom
    assert 'class="plot live"' in dom  # the script was let in and ran to its end


@pytest.mark.slow
@needs_browser
def test_the_policy_stops_what_was_added(tmp_path: Path) -> None:
    text = document(training_result()).replace("</body>", "<script>document.title = 'added'</script></body>")
    (tmp_path / "report.html").write_text(text, encoding="utf-8")
    dom, log = browsed(tmp_path / "report.html", tmp_path / "profile")
    assert "<title>gpt-1t on 3,072 A100</title>" in dom
    assert "CONSOLE" in log


TOLD = """
const plot = one("svg[data-rows]"), tip = one("#tip"), end = one("[data-axis=step]").dataset.end;
const views = () => all("[data-axis=step] svg.plot").map(s => s.getAttribute("viewBox"));
one("button[data-do=in]").click();
one("#theme").click();
const wide = one("[data-axis=step] .axis").textContent;
pointer(plot, "pointermove", 0, 0.99);
const operation = tip.textContent, zoomed = views();
pointer(one(".load + svg"), "pointermove", 0.5, 0.5);
const load = tip.textContent;
key(plot, "ArrowLeft");
const moved = plot.getAttribute("viewBox");
key(plot, "0");
const whole = plot.getAttribute("viewBox");
pointer(plot, "pointerdown", 0.2, 0.5, {shiftKey: true, pointerId: 7});
pointer(plot, "pointermove", 0.6, 0.5, {shiftKey: true, pointerId: 7});
pointer(plot, "pointerup", 0.6, 0.5, {shiftKey: true, pointerId: 7});
const chosen = plot.getAttribute("viewBox");
one("button[data-do=all]").click();
pointer(plot, "pointerdown", 0.4, 0.5, {pointerId: 1});
pointer(plot, "pointerdown", 0.6, 0.5, {pointerId: 2});
pointer(plot, "pointermove", 0.2, 0.5, {pointerId: 1});
pointer(plot, "pointermove", 1.0, 0.5, {pointerId: 2});
const pinched = plot.getAttribute("viewBox");
pointer(plot, "pointerup", 0.2, 0.5, {pointerId: 1});
pointer(plot, "pointerup", 1.0, 0.5, {pointerId: 2});
one("button[data-do=all]").click();
plot.dispatchEvent(new view.WheelEvent("wheel", {deltaY: -1, ctrlKey: true, ...at(plot, 0, 0.5)}));
const wheeled = plot.getAttribute("viewBox");
return {theme: root.dataset.theme, wide, operation, load, zoomed, moved, whole, chosen, pinched, wheeled, end};
"""


@pytest.mark.slow
@needs_browser
def test_zoom_hover_and_theme(tmp_path: Path) -> None:
    """Chart, links and memory share a time axis, which buttons, keys, wheel, fingers and a choice change."""
    found = acted(document(training_result()), TOLD, tmp_path)
    assert found["theme"] in ("dark", "light")
    # a quarter of 340 ms into the step of stage 3, whose forwards of 10 ms start at 30 ms
    assert found["operation"] == "forward, stage 3, microbatch 5\nbegin 80 ms\nend 90 ms\nduration 10 ms"
    assert float(found["end"]) == pytest.approx(0.34)
    assert found["wide"] == "100 ms150 ms200 ms250 ms"  # round marks of the piece from 85 ms to 255 ms
    assert len(found["zoomed"]) > 2
    assert all(box.startswith("250 ") and box.split()[2] == "500" for box in found["zoomed"])
    assert re.search(r"load of .*: [\d.]+ .?B/s\nat ", found["load"])

    def window(name: str) -> list[float]:
        left, _, width, _ = map(float, found[name].split())
        return [left, width]

    assert window("moved") == [0, 500]
    assert window("whole") == [0, 1000]
    assert window("chosen") == pytest.approx([200, 400], abs=2)
    assert window("pinched") == pytest.approx([350, 250], abs=2)
    assert window("wheeled") == [0, 800]


def test_what_does_not_fit_is_said_before_its_figures_and_with_each() -> None:
    text = document(out_of_memory())
    assert text.index('class="alarm"') < text.index('class="tiles unreal"')
    cards = re.findall(r"<dt>(.*?)</dt>", text)
    assert cards and all(card == "peak memory" or card.endswith(", if it fitted") for card in cards)
    assert "if it fitted</dt>" not in document(training_result())


def test_phases_have_colours_that_no_operation_has() -> None:
    kinds = (
        "forward",
        "backward",
        "weight gradient",
        "overlapped passes",
        "send forward",
        "receive backward",
        "reduce gradients",
        "optimizer",
    )
    assert not {palette.operation(kind) for kind in kinds} & set(palette.PHASES)


def test_links_are_shown_in_both_directions_or_counted() -> None:
    names = ("scale-up", "NIC up", "NIC down", "leaf up", "leaf down", "spine up", "spine down", "core up", "core down")
    sent = next(load for load in training_result().links if load.by_operation)
    loads = tuple(replace(sent, name=name, utilisation=1 - i / 10) for i, name in enumerate(names))
    text = document(training_result(links=loads))
    strips = text[text.index("What the busiest link") : text.index("Shares are of")]
    assert "spine up" in strips and "spine down" in strips and "core" not in strips
    assert "2 kinds of link that carry less stand in the table" in text


def test_names_of_chains_are_explained_and_events_have_commas() -> None:
    result = training_result()
    named = replace(result.classes[0], name="stage 0, chains like 40")
    text = document(replace(result, classes=(named, *result.classes[1:]), provenance={"events": 5003, "seed": 12345}))
    assert text.count("`chains like 40` are chain 40 and those") == 1
    assert "chain" not in document(result).partition("<main>")[2]
    assert ">5,003<" in text and ">12345<" in text
