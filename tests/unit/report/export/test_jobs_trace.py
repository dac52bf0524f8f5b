"""The trace of several jobs: each under its name and at its time, and the links on which they met."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simulator.report.export.trace import events, write_trace
from simulator.results.result import Result
from tests.several import beside, jobs_result, simulated

Event = dict[str, Any]


def trace(result: Result, folder: Path) -> list[Event]:
    write_trace(result, folder / "trace.json")
    found: list[Event] = json.loads((folder / "trace.json").read_text(encoding="utf-8"))["traceEvents"]
    return found


def processes(found: list[Event]) -> dict[int, str]:
    named = [(event["pid"], event["args"]["name"]) for event in found if event["name"] == "process_name"]
    assert len(dict(named)) == len(named), "no process has two names"
    return dict(named)


@pytest.mark.parametrize("made", [jobs_result, simulated, beside])
def test_numbers_of_one_job_are_no_others(made: Any, tmp_path: Path) -> None:
    found = trace(made(), tmp_path)
    known = processes(found)
    assert {event["pid"] for event in found} == set(known)
    threads = [(e["pid"], e["tid"]) for e in found if e["name"] == "thread_name"]
    assert len({tid for _, tid in threads}) == len(threads)
    assert not {tid for _, tid in threads} & set(known)
    assert {(e["pid"], e["tid"]) for e in found if e["ph"] in "Xsf"} <= set(threads)
    arrows = [event["id"] for event in found if event["ph"] == "s"]
    assert len(set(arrows)) == len(arrows)


def test_each_job_is_what_it_is_alone_under_its_name_and_at_its_time(tmp_path: Path) -> None:
    result = jobs_result()
    found = trace(result, tmp_path)
    train = {pid for pid, name in processes(found).items() if name.startswith("train: ")}
    assert any(name.startswith("chat: replica 0") for name in processes(found).values())
    own = [json.loads(event) for event in events(result.jobs[0].result)]
    slices = [event for event in found if event["ph"] == "X" and event["pid"] in train]
    alone = [event for event in own if event["ph"] == "X"]
    assert [event["ts"] - 1e6 for event in slices] == pytest.approx([event["ts"] for event in alone], abs=1e-6)
    assert [(e["name"], e["dur"], e["args"]) for e in slices] == [(e["name"], e["dur"], e["args"]) for e in alone]


def test_steps_on_the_common_clock(tmp_path: Path) -> None:
    result = simulated()
    found = trace(result, tmp_path)
    large = [event for event in found if event["ph"] == "X" and event["pid"] == 1 and event["tid"] == 2]
    assert [event["name"] for event in large] == ["step 0", "step 1"]
    assert large[-1]["ts"] + large[-1]["dur"] == pytest.approx(result.jobs[0].end_s * 1e6, abs=2e-3)
    assert result.jobs[0].shown_from / 1e6 == pytest.approx(large[result.jobs[0].result.provenance["step_shown"]]["ts"])


def test_counters_of_the_links_on_which_they_met_are_those_of_the_result(tmp_path: Path) -> None:
    result = simulated()
    found = trace(result, tmp_path)
    for meeting in result.meetings:
        name = f"{meeting.link} and 7 alike"
        rows = [event for event in found if event["ph"] == "C" and event["name"] == name]
        assert [set(event["args"]) for event in rows] == [{"large", "small"}] * len(meeting.rates)
        assert [event["args"]["large"] for event in rows] == [round(by.get("large", 0.0)) for _, by in meeting.rates]


def test_names_of_jobs_are_text(tmp_path: Path) -> None:
    result = jobs_result()
    train = replace(result.jobs[0], name='a "pid":7')
    found = trace(replace(result, jobs=(train, result.jobs[1]), meetings=()), tmp_path)
    assert any(name.startswith('a "pid":7: stage 0') for name in processes(found).values())
