import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.report.export import serving_trace
from simulator.report.export.trace import write_trace
from tests.services import asked, disaggregated, iterations, serve, serving_result

RESULT = serving_result(serve(asked(), blocks=130))


def trace(result: Any, folder: Path) -> list[dict[str, Any]]:
    """The events of the trace of a result."""
    write_trace(result, folder / "trace.json")
    events: list[dict[str, Any]] = json.loads((folder / "trace.json").read_text())["traceEvents"]
    return events


def names(events: list[dict[str, Any]], kind: str) -> list[str]:
    """Names of processes or threads."""
    return [event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == kind]


def test_a_slice_for_each_row_of_each_replica(tmp_path: Path) -> None:
    assert RESULT.service is not None
    events = trace(RESULT, tmp_path)
    assert names(events, "process_name")[0] == "replica 0 · both · 2 x A100"
    for number, replica in enumerate(RESULT.service.replicas):
        slices = [event for event in events if event["ph"] == "X" and event["pid"] == number + 1]
        assert len(slices) == len(replica.iterations.start)
        assert sum(event["dur"] for event in slices) == pytest.approx(replica.busy * 1e6, rel=1e-6)
        assert sum(event["args"]["iterations"] for event in slices) == replica.iterations.count.sum()
        assert all(a["ts"] + a["dur"] <= b["ts"] + 1e-6 for a, b in pairwise(slices))
    kinds = {event["name"].partition(" x ")[0] for event in events if event["ph"] == "X"}
    assert kinds == {"decode", "prefill", "decode and prefill"}


def test_lives_of_requests_nest(tmp_path: Path) -> None:
    assert RESULT.service is not None
    tracks: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in trace(RESULT, tmp_path):
        if event.get("cat") == "request":
            tracks[event["id"]].append(event)
    assert len(tracks) == 196
    for events in tracks.values():
        open_: list[str] = []
        for event in events:
            if event["ph"] == "b":
                open_.append(event["name"])
            else:
                assert open_.pop() == event["name"]
        assert open_ == []
        assert all(a["ts"] <= b["ts"] for a, b in pairwise(events))
    paused = [event for events in tracks.values() for event in events if event["name"] == "preempted"]
    assert len(paused) == 2 * len(RESULT.service.pauses) > 0


def test_counters_fall_to_nothing_when_the_replica_idles(tmp_path: Path) -> None:
    counters = [event for event in trace(RESULT, tmp_path) if event["ph"] == "C" and event["pid"] == 1]
    assert {"waiting", "running"} <= counters[0]["args"].keys()
    assert counters[-1]["args"] == {"waiting": 0, "running": 0}


def test_moves_of_caches(tmp_path: Path) -> None:
    events = trace(serving_result(disaggregated(), None), tmp_path)
    moves = [event for event in events if event.get("cat") == "transfer"]
    assert [event["ph"] for event in moves] == ["b", "e", "b", "e"]
    assert moves[0]["name"] == "cache of request 0"
    assert moves[0]["args"] == {"bytes": 1e6}


def test_batches_in_flight_have_lanes(tmp_path: Path) -> None:
    service = serve(asked(5), replicas=1)
    rows = iterations(*((5 * 10**6 * i, 1, 10**7, 0, 1, 0, 0, 0, 0, 0) for i in range(20)))
    result = serving_result(replace(service, replicas=(replace(service.replicas[0], iterations=rows),)), None)
    events = trace(result, tmp_path)
    assert names(events, "thread_name") == ["iterations, batch 0", "iterations, batch 1"]
    assert len({event["tid"] for event in events if event["ph"] == "X"}) == 2


def test_long_runs_are_cut_and_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving_trace, "MOST_ROWS", 50)
    monkeypatch.setattr(serving_trace, "MOST_REQUESTS", 10)
    events = trace(RESULT, tmp_path)
    assert sum(event["ph"] == "X" for event in events) <= 52
    assert "the first 10 of 196" in " ".join(names(events, "process_name"))
    assert "slices" in names(events, "process_name")[0]


def test_nothing_happened(tmp_path: Path) -> None:
    assert RESULT.service is not None
    idle = tuple(replace(one, iterations=iterations()) for one in RESULT.service.replicas)
    empty = replace(RESULT, service=replace(serve([]), replicas=idle))
    assert not [event for event in trace(empty, tmp_path) if event["ph"] in "XC"]
    assert np.array_equal(idle[0].iterations.start, np.zeros(0))
