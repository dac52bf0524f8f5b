"""Results of several jobs: their files, their JSON form, and one of them on its own."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from simulator import scenario_fields
from simulator.errors import InputError
from simulator.report.result.html import document
from simulator.report.result.page import page
from simulator.results import dumps, read, save, to_json
from simulator.results.jobs import at_once, of_all, of_job, shared_by
from simulator.results.places import listed, place_in_words
from simulator.results.result import Result
from tests.effort import examples
from tests.factories import assert_same
from tests.several import beside, jobs_result, simulated


@pytest.mark.parametrize("made", [jobs_result, simulated, beside], ids=["by hand", "trainings", "a service"])
def test_saved_and_read_and_saved_gives_the_same_bytes(made: Callable[[], Result], tmp_path: Path) -> None:
    result = made()
    save(result, tmp_path / "one")
    again = read(tmp_path / "one")
    assert to_json(again) == to_json(result)
    assert again.meetings == result.meetings
    for one, other in zip(again.jobs, result.jobs, strict=True):
        assert (one.name, one.devices, one.shown_from, one.alone) == (
            other.name,
            other.devices,
            other.shown_from,
            other.alone,
        )
        if one.result.service is None:
            assert_same(one.result, other.result)
    save(again, tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def damaged(path: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Change the header of a saved result."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    header = json.loads(members["result.json"])
    edit(header)
    members["result.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    """A change of the value at a path, which is last."""
    *way, last, value = path

    def edit(header: Any) -> None:
        for key in way:
            header = header[key]
        header[last] = value

    return edit


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (put("jobs", 0, "name", "chat"), "two of its jobs have one name"),
        (put("jobs", 0, "name", 3), "'3' is not text"),
        (put("jobs", 0, "start_s", "0"), "'0' is not a number"),
        (put("jobs", 0, "end_s", -1.0), "a job ends before it starts"),
        (put("jobs", 0, "end_s", float("inf")), "a job ends before it starts"),
        (put("jobs", 0, "shown_from", -1), "a job begins nowhere"),
        (put("jobs", 0, "devices", [-1]), "lies nowhere"),
        (put("jobs", 0, "alone", {"mfu": "high"}), "'high' is not a number"),
        (put("jobs", 0, "result", "kind", "jobs"), "its jobs are none"),
        (put("jobs", 0, "result", None), "not a mapping"),
        (put("jobs", []), "its jobs are none"),
        (put("kind", "training"), "its jobs are none"),
        (put("meetings", 0, "capacity", 0.0), "has no capacity"),
        (put("meetings", 0, "links", 0), "has no capacity"),
        (put("meetings", 0, "full_s", 3.0), "full for longer than jobs met"),
        (put("meetings", 0, "rates", 1, 0, 0), "in no order"),
        (put("meetings", 0, "rates", -1, 0, 10**400), "after the end of time"),
        (put("meetings", 0, "rates", 1, 1, {"ghost": 1.0}), "used by no job"),
        (put("meetings", 0, "at_once", {"ghost": 1.0}), "used by no job"),
        (put("meetings", 0, "bytes", {"train": -1.0}), "no amount"),
        (put("meetings", 0, "rates", 1, 1, {"train": float("nan")}), "no amount"),
    ],
)
def test_damaged_headers_give_one_message(edit: Callable[[dict[str, Any]], None], message: str, tmp_path: Path) -> None:
    save(jobs_result(), tmp_path / "run")
    damaged(tmp_path / "run", edit)
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path / "run")
    assert len(str(caught.value).splitlines()) == 1


VALUES = st.sampled_from([None, -1, 0, 10**400, 1e308, float("nan"), "", "leaf", [], [[]], {}, {"a": "b"}, True])


@st.composite
def places(draw: st.DrawFn, value: Any) -> list[Any]:
    """A path into nested lists and mappings."""
    found: list[Any] = []
    while value and isinstance(value, dict | list) and (not found or draw(st.integers(0, 5))):
        found.append(draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value)))))
        value = value[found[-1]]
    return found


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_changed_value_is_one_message_or_draws(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "changed"
    save(jobs_result(), path)
    with zipfile.ZipFile(path) as archive:
        header = json.loads(archive.read("result.json"))
    part = {key: header[key] for key in ("jobs", "meetings", "metrics", "scenario")}
    way = data.draw(places(part))
    damaged(path, put(*way, data.draw(VALUES)))
    try:
        result = read(path)
    except InputError as error:
        assert len(str(error).splitlines()) == 1
        return
    page(result)
    document(result)
    dumps(to_json(result))


def test_truncated_files(tmp_path: Path) -> None:
    path = tmp_path / "run"
    save(jobs_result(), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 4999):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError):
            read(path)


def test_the_json_form_has_each_job_and_each_meeting() -> None:
    told = json.loads(dumps(to_json(jobs_result())))
    train, chat = told["jobs"]
    assert [train["name"], train["kind"], chat["kind"]] == ["train", "training", "serving"]
    assert train["metrics"]["step_time_s"] == told["metrics"]["train: step_time_s"]
    assert train["alone"]["step_time_s"] == pytest.approx(0.8 * train["metrics"]["step_time_s"])
    assert (train["slowdown"], train["end_s"], len(train["devices"])) == (1.25, 2.0, 192)
    assert chat["service"]["replicas"]
    assert told["meetings"] == [
        {
            "link": "leaf up 3",
            "kind": "leaf up",
            "links": 4,
            "capacity_bytes_per_s": 25e9,
            "together_s": 2.0,
            "full_s": 2.0,
            "bytes": {"train": 44e9, "chat": 31e9},
            "bytes_together": {"train": 24e9, "chat": 26e9},
        }
    ]


def test_figures_of_jobs_stand_together_in_the_order_of_the_jobs() -> None:
    names = list(to_json(jobs_result())["metrics"])
    assert names[:4] == ["makespan_s", "worst_slowdown", "mean_slowdown", "shared_link_s"]
    owners = [name.partition(": ")[0] for name in names[4:]]
    assert owners == sorted(owners, key=["train", "chat"].index)
    assert names[4] == "train: step_time_s"


def test_one_job_on_its_own() -> None:
    found = of_job(jobs_result(), "chat")
    assert (found.kind, found.name) == ("serving", "a training beside a service: chat, beside 1 other")
    with pytest.raises(InputError, match="there is no job `caht`; did you mean `chat`"):
        of_job(jobs_result(), "caht")
    with pytest.raises(InputError, match="known: `chat`, `train`"):
        of_job(jobs_result(), "zzzzz")
    with pytest.raises(InputError, match="the scenario has no `jobs`"):
        of_job(found, "chat")


def test_what_jobs_say_alike_is_said_once() -> None:
    found = shared_by({"a": ["x", "y", "x"], "b": ["y", "z"]})
    assert found == {("a", "b"): ["y"], ("a",): ["x"], ("b",): ["z"]}
    assert of_all(jobs_result(), "assumptions") == ("train: placement packed: 192 devices of nodes 0 to 23",)
    assert at_once(jobs_result().meetings[0]) == {"train": 12e9, "chat": 13e9}


def test_places_in_words() -> None:
    node_of = scenario_fields.node_of({"cluster": {"nodes": 2, "node": {"devices": 8}}})
    assert listed([0, 1, 2, 3, 8]) == "0 to 3, 8"
    assert listed([0, 1, 4]) == "0, 1, 4"
    assert listed(list(range(0, 60, 2))) == "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, ... 58"
    assert place_in_words([8], node_of) == "1 device of node 1"
    assert place_in_words([0, 1, 8, 9], node_of) == "4 devices of nodes 0, 1"
