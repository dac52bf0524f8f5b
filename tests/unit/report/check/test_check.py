"""Regression checks as JUnit XML, annotations of GitHub, Markdown and pages, also of hostile names."""

import dataclasses
import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest

from simulator.errors import Problem
from simulator.report.check.github import annotations, escaped, escaped_property, harmless
from simulator.report.check.junit import junit
from simulator.report.check.page import page
from simulator.report.check.phrases import change, lines, table
from simulator.report.text.intervals import ends
from simulator.results.documents.check import CheckDocument
from simulator.results.spread import Interval
from simulator.study.check import baseline
from simulator.study.check.cases import Case
from simulator.study.check.check import Tolerances, check
from simulator.study.check.regression import Checked, document, exit_code
from tests.factories import training_result

NASTY = "a,b: 100%\r\n::error::<&|`]]>\x1b[31m\x00"
MOMENT = datetime(2026, 3, 1, 12, 0, 0, 5)
BEFORE = baseline.observe(training_result())
WORSE = dataclasses.replace(
    BEFORE,
    metrics=BEFORE.metrics | {"step_time_s": BEFORE.metrics["step_time_s"] * 1.02},
    parts=BEFORE.parts | {"operations": {"reduce gradients": 0.2}, "memory": {"new kind": 1e9}},
)


def case(name: str) -> Case:
    """A scenario in a folder."""
    return Case(f"plans/{name}.yaml", Path(f"plans/{name}.yaml"), Path(f"base/plans/{name}.json"), name)


def everything(name: str = "x") -> CheckDocument:
    """The JSON form of a check with one scenario in each state."""
    verdict = check(BEFORE, WORSE, Tolerances(), {"reduce gradients": "NIC up"})
    same = check(BEFORE, BEFORE, Tolerances(), {})
    checked = [
        Checked(case("same"), "same", BEFORE, BEFORE, same, seconds=0.5),
        Checked(case(name), "moved", BEFORE, WORSE, verdict, seconds=0.25),
        Checked(case("missing"), "missing", None, BEFORE),
        Checked(case("refused"), "refused", problems=(Problem(f"is {name}", "plans/refused.yaml", 3, 7, "a.b"),)),
        Checked(case("new"), "new", None, BEFORE),
        Checked(case("rewritten"), "rewritten", BEFORE, WORSE, verdict),
        Checked(replace(case("gone"), name=None, argument="plans"), "gone"),
        Checked(case("removed"), "removed"),
    ]
    assert exit_code(checked) == 2
    return document(checked, "base", Tolerances(), [f"a note on {name}"])


SECONDS = (0.5, 0.25, 0, 0, 0, 0, 0, 0)

# The JUnit schema of Ant: for each element its required and optional attributes, and its children in order.
SCHEMA: dict[str, tuple[set[str], set[str], str]] = {
    "testsuites": (set(), set(), r"(testsuite )*"),
    "testsuite": (
        {"name", "timestamp", "hostname", "tests", "failures", "errors", "time", "id", "package"},
        set(),
        r"properties (testcase )*system-out system-err ",
    ),
    "properties": (set(), set(), r"(property )*"),
    "testcase": ({"name", "classname", "time"}, set(), r"(error |failure )?"),
    "failure": ({"type"}, {"message"}, ""),
    "error": ({"type"}, {"message"}, ""),
    "system-out": (set(), set(), ""),
    "system-err": (set(), set(), ""),
}
TYPES = {
    "timestamp": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d",
    "tests": r"\d+",
    "failures": r"\d+",
    "errors": r"\d+",
    "id": r"\d+",
    "time": r"\d+\.\d+",
    "hostname": r"\S+",
    "name": r"(?s).+",
    "package": r".+",
    "classname": r"(?s).+",
}


def assert_valid(element: xml.Element) -> None:
    """An element and all below it are as the schema wants them."""
    required, optional, children = SCHEMA[element.tag]
    assert required <= set(element.attrib) <= required | optional
    for name, value in element.attrib.items():
        assert re.fullmatch(TYPES.get(name, r"(?s).*"), value), (name, value)
    assert re.fullmatch(children, "".join(f"{child.tag} " for child in element))
    for child in element:
        assert_valid(child)


@pytest.mark.parametrize("name", ["x", NASTY])
def test_junit_is_as_its_schema_wants_it(name: str) -> None:
    text = junit(everything(name), SECONDS, MOMENT)
    root = xml.fromstring(text)
    assert root.tag == "testsuites"
    assert_valid(root)
    (suite,) = root
    cases = suite.findall("testcase")
    assert [suite.get(key) for key in ("tests", "failures", "errors", "time")] == ["8", "3", "1", "0.750"]
    assert len(cases) == 8
    assert suite.get("timestamp") == "2026-03-01T12:00:00"
    told = [[], ["failure"], ["failure"], ["error"], [], [], ["failure"], []]
    assert [[child.tag for child in one] for one in cases] == told
    assert {one.get("classname") for one in cases[2:]} == {"plans"}


def test_junit_holds_the_three_lines() -> None:
    told = everything()
    failure = xml.fromstring(junit(told, SECONDS, MOMENT)).find(".//failure")
    assert failure is not None
    assert failure.get("message") == lines(told.scenarios[1])[0]
    assert (failure.text or "").splitlines() == lines(told.scenarios[1])


def test_values_of_workflow_commands_are_escaped() -> None:
    assert escaped("100%\r\n::, a") == "100%25%0D%0A::, a"
    assert escaped_property("a,b: 100%\r\n") == "a%2Cb%3A 100%25%0D%0A"
    assert escaped("%0A") == "%250A"


@pytest.mark.parametrize("name", ["x", NASTY])
def test_annotations_are_one_line_each_and_stand_at_the_file(name: str) -> None:
    found = annotations(everything(name))
    assert len(found) == 5
    for line in found:
        assert line.isprintable()
        assert len(re.findall(r"^::(error|notice) [^:]*::", line)) == 1
    moved, missing, refused, gone, note = found
    assert moved.startswith(f"::error file={escaped_property(f'plans/{name}.yaml')},title=moved%3A plans/")
    assert "+2.0 %25" in moved
    assert moved.count("%0A") == 2 + escaped_property(name).count("%0A") * 2
    assert "clustersim check plans/missing.yaml --baseline base --update" in missing
    assert refused.startswith("::error file=plans/refused.yaml,line=3,col=7,title=cannot be checked%3A plans/refused")
    assert gone.startswith("::error file=plans/gone.yaml,title=no scenario%3A plans/gone.yaml::its scenario is gone")
    assert gone.endswith("clustersim check plans --baseline base --update")
    assert note.startswith("::notice title=clustersim check::a note on")


def test_no_line_of_a_page_can_be_a_workflow_command() -> None:
    shown = harmless(page(everything(NASTY)))
    assert "::" not in shown
    assert "##[" not in harmless("##[error] x")


@pytest.mark.parametrize("name", ["x", NASTY])
def test_the_table_has_its_columns_whatever_names_hold(name: str) -> None:
    rows = [line for line in table(everything(name)).splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {8}
    assert all(line.isprintable() for line in table(everything(name)).splitlines())
    assert "<" not in "".join(rows)


def test_the_page_has_what_failed_first_in_three_lines() -> None:
    shown = page(everything(), width=400)
    assert shown.splitlines()[0] == (
        " 8 scenarios: 1 same, 1 moved, 1 without a baseline, 1 gone, 1 that cannot be checked, 1 new, 1 rewritten, "
        "1 removed"
    )
    at = shown.splitlines().index(f" {'MOVED':12}  plans/x.yaml")
    what, through, why = (line.strip() for line in shown.splitlines()[at + 1 : at + 4])
    assert what.startswith("step time")
    assert "(+2.0 %), worse" in what
    assert "reduce gradients (dp) over NIC up +" in through
    assert why.endswith("if it should: clustersim check plans/x.yaml --baseline base --update")
    assert shown.splitlines()[-3].startswith(" same ") or " same " in shown.splitlines()[-4]
    assert all(line.isprintable() for line in page(everything(NASTY)).splitlines())


def test_changes_are_shown_however_small() -> None:
    assert [change(ratio) for ratio in (0.02, -0.5, 3e-8, None)] == ["+2.0 %", "-50.0 %", "+3e-06 %", "new"]


def test_a_figure_that_moved_says_where_measured_runs_are_expected() -> None:
    now = WORSE.metrics["step_time_s"]
    verdict = check(BEFORE, WORSE, Tolerances(), {})
    for low, words in ((0.9, "lies inside"), (0.99, "lies outside")):
        known = {"step_time_s": Interval(low * now, 1.5 * now, 0.8, 3, "a basis")}
        told = document([Checked(case("x"), "moved", BEFORE, WORSE, verdict, intervals=known)], "base", Tolerances())
        (entry,) = told.scenarios
        assert (entry.moved[0].metric, entry.moved[0].interval) == ("step_time_s", known["step_time_s"])
        assert entry.moved[0].inside == (low == 0.9)
        assert lines(entry)[3].startswith("step time of measured runs is expected at ")
        assert f"(a basis); the figure before {words}" in lines(entry)[3]
        assert ends("step_time_s", known["step_time_s"]) in table(told)
        assert f"(a basis); the figure before {words}" in " ".join(page(told).split())
    assert len(lines(everything().scenarios[1])) == 3
