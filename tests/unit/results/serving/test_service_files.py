import io
import json
import zipfile
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.errors import InputError
from simulator.results import dumps, read, save, to_json
from simulator.results.result import Service
from tests.services import asked, disaggregated, serve, serving_result


def flat(value: Any) -> list[Any]:
    """Everything in a service, arrays as lists."""
    if isinstance(value, np.ndarray):
        return [value.dtype.str, value.tolist()]
    if isinstance(value, tuple):
        return [flat(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return [flat(getattr(value, field.name)) for field in fields(value)]
    return [value]


SMALL = serving_result(serve(asked(60), blocks=130, leap=False))
SERVICES = {"both": serve(asked(60), blocks=130), "apart": disaggregated(), "none": serve([])}


@pytest.mark.parametrize("service", SERVICES.values(), ids=SERVICES)
def test_round_trip(service: Service, tmp_path: Path) -> None:
    result = serving_result(service)
    save(result, tmp_path / "run.result")
    again = read(tmp_path / "run.result")
    assert again.kind == "serving"
    assert again.service is not None
    assert flat(again.service) == flat(service)
    save(again, tmp_path / "again.result")
    assert (tmp_path / "again.result").read_bytes() == (tmp_path / "run.result").read_bytes()


def changed(path: Path, header: Any = None, **columns: Any) -> None:
    """Change the header and columns (by their name with `__` for `.`) of a saved result."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    if header is not None:
        document = json.loads(members["result.json"])
        header(document["service"])
        members["result.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            key = name.removesuffix(".npy").replace(".", "__")
            if key in columns:
                array = np.lib.format.read_array(io.BytesIO(data)).copy()
                columns[key](array)
                buffer = io.BytesIO()
                np.lib.format.write_array(buffer, array)
                data = buffer.getvalue()
            archive.writestr(name, data)


def put(place: Any, value: int) -> Any:
    """A change of one place of a column."""
    return lambda column: column.__setitem__(place, value)


def test_how_a_replica_batches_comes_back_and_is_one_batch_where_nothing_is_said(tmp_path: Path) -> None:
    service = SERVICES[next(iter(SERVICES))]
    whole = replace(service, replicas=tuple(replace(one, batches=3) for one in service.replicas))
    save(serving_result(whole), tmp_path / "run.result")
    again = read(tmp_path / "run.result").service
    assert again is not None and {one.batches for one in again.replicas} == {3}

    def older(header: Any) -> None:
        for one in header["replicas"]:
            del one["batches"]

    changed(tmp_path / "run.result", older)
    again = read(tmp_path / "run.result").service
    assert again is not None and {one.batches for one in again.replicas} == {1}


def test_older_files_say_nothing_of_peers_and_of_the_cache_only_how_rows_began(tmp_path: Path) -> None:
    save(serving_result(SERVICES[next(iter(SERVICES))]), tmp_path / "run.result")
    newer = read(tmp_path / "run.result").service

    def older(header: Any) -> None:
        del header["usage"]

    changed(tmp_path / "run.result", older)
    service = read(tmp_path / "run.result").service
    assert newer is not None and service is not None
    for one, other in zip(newer.replicas, service.replicas, strict=True):
        assert (other.iterations.mean_blocks == other.iterations.last_blocks).all()
        assert (other.iterations.last_blocks == one.iterations.blocks).all() and not other.iterations.waited.any()


def test_older_files_say_nothing_of_members_that_are_done(tmp_path: Path) -> None:
    service = SERVICES[next(iter(SERVICES))]
    rows = service.replicas[0].iterations
    done = replace(service.replicas[0], iterations=replace(rows, done=np.full(len(rows.count), 3)))
    save(serving_result(replace(service, replicas=(done, *service.replicas[1:]))), tmp_path / "run.result")
    newer = read(tmp_path / "run.result").service
    assert newer is not None and (newer.replicas[0].iterations.done == 3).all()

    def older(header: Any) -> None:
        del header["done"]

    changed(tmp_path / "run.result", older)
    service_again = read(tmp_path / "run.result").service
    assert service_again is not None and not service_again.replicas[0].iterations.done.any()
    assert (service_again.replicas[0].iterations.mean_blocks == rows.mean_blocks).all()


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"service__requests__replica": put(0, 9)}, "replica that is not there"),
        ({"service__requests__replica": put(0, -2)}, "replica that is not there"),
        ({"service__requests__status": put(0, 4)}, "unknown status"),
        ({"service__requests__arrival": put(1, -5)}, "before the start"),
        ({"service__requests__finish": put(1, 0)}, "ends before it begins"),
        ({"service__requests__generated": put(1, 0)}, "without a token"),
        ({"service__requests__prompt": put(1, -1)}, "less than no tokens"),
        ({"service__gaps__count": put(0, -1)}, "gap between tokens is negative"),
        ({"service__replicas__0__count": put(0, 1 << 40)}, "too many|end of time"),
        ({"service__replicas__0__first": put(0, 1 << 62)}, "end of time"),
        (
            {"service__replicas__0__growth": put(0, -(1 << 50)), "service__replicas__0__count": put(0, 2)},
            "before it begins",
        ),
        ({"service__replicas__0__start": put(0, 1 << 60)}, "order of time"),
        ({"service__replicas__0__decodes": put(0, -1)}, "negative"),
        ({"service__pauses": put((0, 0), 5000)}, "pause belongs to no request"),
        ({"service__pauses": put((0, 2), 0)}, "pause ends before"),
    ],
)
def test_what_does_not_fit_together_is_refused(columns: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = tmp_path / "run.result"
    save(SMALL, path)
    changed(path, **columns)
    with pytest.raises(InputError, match=words):
        read(path)


@pytest.mark.parametrize("key", ["replicas", "transfers"])
def test_a_header_without_a_key(key: str, tmp_path: Path) -> None:
    save(SMALL, tmp_path / "run.result")
    changed(tmp_path / "run.result", header=lambda said: said.pop(key))
    with pytest.raises(InputError, match="is no result file"):
        read(tmp_path / "run.result")


@pytest.mark.parametrize(
    ("key", "value"), [("role", "cook"), ("name", 3), ("devices", -1), ("busy", "long"), ("parts", [1])]
)
def test_a_replica_of_bad_intent(key: str, value: Any, tmp_path: Path) -> None:
    save(SMALL, tmp_path / "run.result")
    changed(tmp_path / "run.result", header=lambda said: said["replicas"][0].update({key: value}))
    with pytest.raises(InputError, match="is no result file"):
        read(tmp_path / "run.result")


def test_json_form() -> None:
    document = json.loads(dumps(to_json(serving_result())))
    assert document["kind"] == "serving"
    names = list(document["metrics"])
    assert names.index("duration") < names.index("mean_ttft_ms") < names.index("energy_j")
    said = document["service"]
    assert sum(said["request_time_s"].values()) * 1e3 == pytest.approx(document["metrics"]["mean_e2el_ms"])
    assert [replica["name"] for replica in said["replicas"]] == ["replica 0", "replica 1"]
    assert said["replicas"][0]["busy_s"] == pytest.approx(sum(said["replicas"][0]["parts"].values()))
    assert said["transfers"] == 0
    assert len(dumps(to_json(serving_result()))) < 10_000, "no single requests"
