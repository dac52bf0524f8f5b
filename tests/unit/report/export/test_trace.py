import gzip
import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.report.export.trace import write_trace
from simulator.report.result import html
from simulator.results.result import Result, Spans
from simulator.run.simulate import simulate
from tests import jobs
from tests.factories import training_result

Event = dict[str, Any]


def trace(result: Result, folder: Path) -> list[Event]:
    path = folder / "trace.json"
    write_trace(result, path)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["displayTimeUnit"] == "ns"
    events: list[Event] = document["traceEvents"]
    return events


def of(events: list[Event], phase: str) -> list[Event]:
    return [event for event in events if event["ph"] == phase]


def nanoseconds(microseconds: float) -> int:
    """As Perfetto reads a number: to the nearest nanosecond."""
    found = round(microseconds * 1000)
    assert abs(found - microseconds * 1000) < 1e-3
    return found


def assert_sound(events: list[Event]) -> None:
    """What Perfetto needs to show every event."""
    assert {event["ph"] for event in events} <= set("MXsfC")
    assert all(event["ts"] >= 0 for event in events if event["ph"] != "M")
    assert all(event["dur"] >= 0 for event in of(events, "X"))
    threads = {(e["pid"], e["tid"]) for e in of(events, "M") if e["name"] == "thread_name"}
    processes = {e["pid"] for e in of(events, "M") if e["name"] == "process_name"}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] in "Xsf"} <= threads
    assert {event["pid"] for event in events} <= processes
    assert not {tid for _, tid in threads} & processes
    assert len({tid for _, tid in threads}) == len(threads)
    assert_no_overlap(of(events, "X"))
    assert_arrows_are_bound(events)


def assert_no_overlap(slices: list[Event]) -> None:
    lanes: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in slices:
        begin = nanoseconds(event["ts"])
        lanes[event["tid"]].append((begin, begin + nanoseconds(event["dur"])))
    for spans in lanes.values():
        spans.sort()
        assert all(after[0] >= before[1] for before, after in pairwise(spans))


def assert_arrows_are_bound(events: list[Event]) -> None:
    leaving = {event["id"]: event for event in of(events, "s")}
    arriving = {event["id"]: event for event in of(events, "f")}
    assert leaving.keys() == arriving.keys()
    assert len(leaving) == len(of(events, "s")) == len(of(events, "f"))
    slices: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in of(events, "X"):
        begin = nanoseconds(event["ts"])
        slices[event["tid"]].append((begin, begin + nanoseconds(event["dur"])))
    for number, event in leaving.items():
        assert nanoseconds(event["ts"]) < nanoseconds(arriving[number]["ts"])
        assert arriving[number]["bp"] == "e"
        for bound in (event, arriving[number]):
            assert any(begin <= nanoseconds(bound["ts"]) < end for begin, end in slices[bound["tid"]])


def test_trace_of_a_step(tmp_path: Path) -> None:
    result = training_result()
    events = trace(result, tmp_path)
    assert_sound(events)
    counts = Counter(event["ph"] for event in events)
    assert counts["X"] == len(result.spans.start)
    assert counts["s"] == len(result.spans.flows)
    levels = [event for event in of(events, "C") if event["name"] == "device memory"]
    assert len(levels) == sum(len(use.time) for use in result.memory)
    assert len({event["name"] for event in of(events, "C")}) == 1 + len(result.links)


def test_counters_of_links_carry_what_the_links_carry(tmp_path: Path) -> None:
    result = training_result(microbatches=32)
    events = trace(result, tmp_path)
    for load in result.links:
        points = [(e["ts"] / 1e6, e["args"]["bytes/s"]) for e in of(events, "C") if e["name"] == load.name]
        carried = sum(rate * (after - begin) for (begin, rate), (after, _) in pairwise(points))
        assert carried == pytest.approx(load.bytes, rel=1e-5)
        assert points[-1][1] == 0


def test_no_counter_of_a_link_of_which_nobody_knows_when_it_carried(tmp_path: Path) -> None:
    result = training_result()
    unknown = tuple(replace(load, by_operation={}, users=()) for load in result.links)
    events = trace(replace(result, links=unknown), tmp_path)
    assert {event["name"] for event in of(events, "C")} == {"device memory"}


def test_names(tmp_path: Path) -> None:
    events = trace(training_result(), tmp_path)
    assert of(events, "M")[0]["args"] == {"name": "stage 0 · 48 ranks, rank 0 shown"}
    assert "compute" in {event["args"].get("name") for event in of(events, "M")}
    first = of(events, "X")[0]
    assert (first["name"], first["cat"], first["args"]) == ("forward 0", "forward", {"stage": 0, "microbatch": 0})
    assert of(events, "X")[-1]["name"] == "reduce gradients"
    assert of(events, "X")[-1]["args"] == {}
    assert of(events, "C")[0]["args"] == {"bytes": 42_900_000_000}


def hand_made(start: list[int], end: list[int], lane: list[int], flows: list[tuple[int, int]]) -> Result:
    none = np.full(len(start), -1, np.int32)
    ticks = (np.array(column, np.int64) for column in (start, end))
    spans = Spans(
        *ticks,
        np.array(lane, np.int32),
        none * 0,
        none,
        none,
        ((0, "compute"), (1, "compute")),
        ("work",),
        np.array(flows, np.int64).reshape(-1, 2),
    )
    return replace(training_result(stages=2), spans=spans, memory=())


def test_rounding_makes_no_overlap(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    edges = np.sort(rng.integers(0, 200_000, 501)).tolist()
    result = hand_made(edges[:-1], edges[1:], [0] * 500, [])
    assert_sound(trace(result, tmp_path))


def test_arrows_between_operations_that_start_together_or_take_no_time(tmp_path: Path) -> None:
    start, end = [0, 0, 5000, 9000, 9000], [5000, 5000, 5000, 9900, 9100]
    flows = [(0, 1), (2, 3), (0, 4), (0, 3), (0, 3)]
    events = trace(hand_made(start, end, [0, 1, 0, 1, 0], flows), tmp_path)
    assert_sound(events)
    assert len(of(events, "s")) == 3  # one leaves from, one leads to an operation without length


def test_empty_trace(tmp_path: Path) -> None:
    events = trace(hand_made([], [], [], []), tmp_path)
    assert {event["ph"] for event in events} == {"M"}


def test_compressed_by_its_name_with_the_same_bytes_every_time(tmp_path: Path) -> None:
    paths = [tmp_path / "a.json.gz", tmp_path / "b.json.gz", tmp_path / "c.json"]
    for path in paths:
        write_trace(training_result(), path)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert gzip.decompress(paths[0].read_bytes()) == paths[2].read_bytes()


def test_text_is_escaped(tmp_path: Path) -> None:
    spans = replace(training_result().spans, names=('f"\\\n', "backward", "send", "reduce"))
    events = trace(replace(training_result(), spans=spans, name='a "scenario"'), tmp_path)
    assert of(events, "X")[0]["name"] == 'f"\\\n 0'


def test_more_events_than_are_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = trace(training_result(), tmp_path)
    for batch in (1, 2, len(whole)):
        monkeypatch.setattr("simulator.report.export.trace._PER_WRITE", batch)
        assert trace(training_result(), tmp_path) == whole


def test_unwritable(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder"):
        write_trace(training_result(), tmp_path)


@pytest.mark.parametrize(("vpp", "word"), [(1, "stage"), (2, "chunk")])
def test_chunks_of_a_device_are_not_called_stages(tmp_path: Path, vpp: int, word: str) -> None:
    """Neither in the trace nor in what a pointer shows on the chart of a report."""
    result = simulate(jobs.scenario(pp=2, vpp=vpp, dp=4))
    named = {key for event in of(trace(result, tmp_path), "X") for key in event["args"]}
    assert named == {word, "microbatch"}
    page = html.document(result)
    assert f'"forward, {word} {vpp}"' in page
    assert ("forward, stage" in page) == (word == "stage")
