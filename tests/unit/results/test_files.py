import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from simulator.errors import InputError
from simulator.results import files, read, save
from simulator.results.result import Result, Spans
from tests.effort import examples
from tests.factories import assert_same, columns, training_result


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "step.result"


def test_round_trip(path: Path) -> None:
    result = training_result()
    save(result, path)
    assert_same(result, read(path))


def test_round_trip_of_next_to_nothing(path: Path) -> None:
    none = np.zeros(0, np.int64)
    short = none.astype(np.int32)
    spans = Spans(none, none, short, short, short, short, (), ())
    result = Result("training", "empty", {}, (), (), spans, (), feasible=False)
    save(result, path)
    assert_same(result, read(path))


def test_columns_cannot_be_changed(path: Path) -> None:
    save(training_result(), path)
    assert not any(column.flags.writeable for column in columns(read(path)))


def test_same_bytes(path: Path, tmp_path: Path) -> None:
    save(training_result(), path)
    save(training_result(), tmp_path / "again")
    assert path.read_bytes() == (tmp_path / "again").read_bytes()


def test_numbers_of_numpy_in_the_provenance(path: Path) -> None:
    save(training_result(provenance={"events": np.int64(5)}), path)
    assert read(path).provenance == {"events": 5}


def test_what_is_no_data_is_not_saved(path: Path) -> None:
    with pytest.raises(TypeError):
        save(training_result(provenance={"thing": object()}), path)
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip at all" * 100, b"\0" * 1000])
def test_foreign_files(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(InputError, match="no result file"):
        read(path)


def test_missing_file_and_folder(path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read(path)
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read(path.parent)


def test_truncated_at_any_place(path: Path) -> None:
    save(training_result(stages=2, microbatches=2), path)
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError):
            read(path)


@examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_changed_byte_is_an_input_error_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "changed"
    save(training_result(stages=2, microbatches=2), path)
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        read(path)
    except InputError as error:
        assert len(str(error).splitlines()) == 1


def change(path: Path, member: str, edit: Callable[[bytes], bytes | None]) -> None:
    """Save a Result of which one member is edited, or left out."""
    save(training_result(), path)
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            changed = edit(content) if name == member else content
            if changed is not None:
                archive.writestr(name, changed)


def header(**changes: Any) -> Callable[[bytes], bytes]:
    return lambda content: json.dumps(json.loads(content) | changes).encode()


def path_of(**changes: Any) -> dict[str, Any]:
    """The header of a critical path."""
    return {"seconds": {}, "by_class": [], "by_operation": {}, "by_link": {}, "by_roof": {}} | changes


def link_of(**changes: Any) -> dict[str, Any]:
    """The header of a link."""
    known = {"name": "NIC up", "links": 1, "capacity": 1, "bytes": 1, "utilisation": 1, "by_operation": {}, "users": []}
    return known | changes


def column(array: Any) -> Callable[[bytes], bytes]:
    def edit(_: bytes) -> bytes:
        buffer = io.BytesIO()
        np.lib.format.write_array(buffer, np.asarray(array), allow_pickle=True)
        return buffer.getvalue()

    return edit


def _first_part(content: bytes, seconds: float) -> bytes:
    """A header in which the first class computes for so long."""
    known = json.loads(content)
    known["breakdown"][0]["compute"] = seconds
    return json.dumps(known).encode()


OPERATIONS = len(training_result().spans.start)


@pytest.mark.parametrize(
    ("member", "edit", "message"),
    [
        ("result.json", header(schema=2), "its schema is 2 and this version reads 1"),
        ("result.json", header(schema=None), "its schema is None"),
        ("result.json", lambda _: b"[]", "not a mapping"),
        ("result.json", lambda _: b"{", "JSONDecodeError"),
        ("result.json", lambda _: b"[" * 100_000, "nested too deeply"),
        ("result.json", lambda _: b"\xff\xfe\xff", "no result file"),
        ("result.json", lambda _: None, "`result.json` is missing"),
        ("result.json", header(metrics={"mfu": "high"}), "'high' is not a number"),
        ("result.json", header(metrics=[1]), "not a mapping"),
        ("result.json", lambda content: _first_part(content, float("inf")), "a part of its time is no time"),
        ("result.json", lambda content: _first_part(content, float("nan")), "a part of its time is no time"),
        ("result.json", lambda content: _first_part(content, -1e308), "a part of its time is no time"),
        ("result.json", header(name=3), "'3' is not text"),
        ("result.json", header(classes=[]), "differ in number"),
        ("result.json", header(classes=[{"name": "x"}]), "KeyError"),
        ("result.json", header(warnings="none"), "list is missing"),
        ("result.json", header(spans={"lanes": [[0, "compute"]], "names": ["f"]}), "no lane or no name"),
        ("result.json", header(spans={"lanes": [[9, "compute"]], "names": ["f"]}), "belongs to no class"),
        ("spans.start.npy", lambda _: None, "`spans.start.npy` is missing"),
        ("spans.start.npy", lambda content: content[:-8], "not a whole array"),
        ("spans.start.npy", lambda _: b"\x93NUMPY\x09\x00", "not a whole array"),
        ("spans.start.npy", column(np.zeros(3, np.int64)), "differ in length"),
        ("spans.start.npy", column(np.zeros(OPERATIONS, np.float64)), "not a whole array"),
        ("spans.start.npy", column(np.full(OPERATIONS, 2**62)), "ends before it starts"),
        ("spans.start.npy", column(np.array([{"a": 1}], dtype=object)), "not a whole array"),
        ("spans.flows.npy", column(np.full((1, 2), 10**9)), "leads nowhere"),
        ("spans.flows.npy", column(np.zeros((1, 3), np.int64)), "leads nowhere"),
        ("critical_path.operations.npy", column(np.full(1, 10**9)), "critical path leads nowhere"),
        ("critical_path.operations.npy", lambda _: None, "`critical_path.operations.npy` is missing"),
        ("result.json", header(critical_path=path_of(by_class=[{}])), "critical path and classes differ"),
        ("result.json", header(critical_path=path_of(seconds={"a": "b"})), "'b' is not a number"),
        ("result.json", header(critical_path=path_of(by_link={"NIC up": None})), "'None' is not a number"),
        ("result.json", header(sensitivities=[{"name": "nics", "change": 1, "step_time_s": 1, "gain": 0}]), "not text"),
        ("result.json", header(links=[link_of(users=[10**6])]), "a link is used by no class"),
        ("result.json", header(links=[link_of(by_operation={"forward": "much"})]), "'much' is not a number"),
        ("memory.0.level.npy", column(np.zeros(1)), "memory columns differ"),
        ("result.json", header(kind="baking"), "of an unknown kind"),
        ("result.json", header(scenario={"training": [{"global_batch": 10**400}]}), "is no setting"),
        ("spans.start.npy", lambda content: content.replace(b"(", b"[", 1), "not a whole array"),
        ("spans.start.npy", lambda content: content.replace(b")", b"(", 1), "not a whole array"),
    ],
)
def test_files_that_do_not_fit_together(
    path: Path, member: str, edit: Callable[[bytes], bytes | None], message: str
) -> None:
    change(path, member, edit)
    with pytest.raises(InputError, match=message):
        read(path)


def test_claimed_sizes_take_no_memory(path: Path) -> None:
    huge = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<i8', 'fortran_order': False, 'shape': (1000000000000,), }".ljust(117)
        + b"\n"
    )
    change(path, "spans.start.npy", lambda _: huge)
    with pytest.raises(InputError, match="not a whole array"):
        read(path)


def test_sizes_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(training_result(), path)
    monkeypatch.setattr(files, "MAX_COLUMNS", 1000)
    with pytest.raises(InputError, match="more than the"):
        read(path)
    monkeypatch.setattr(files, "MAX_HEADER", 100)
    with pytest.raises(InputError, match="more than the 100 that are read"):
        read(path)


def test_infeasible_stays_infeasible(path: Path) -> None:
    save(replace(training_result(), feasible=False), path)
    assert read(path).feasible is False
