"""The service part of a result file: what of it is text, what are columns, and what must fit together."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.results.result import Iterations, Replica, RequestRecords, Service, TokenGaps, Transfers

Columns = dict[str, NDArray[Any]]
Column = Callable[[str, str, int], NDArray[Any]]
"""Reads a column by its name, type and number of dimensions."""

_REQUESTS = tuple(field.name for field in fields(RequestRecords))
_ITERATIONS = tuple(field.name for field in fields(Iterations))
_WORDS = ("name", "pool", "role", "device")
_COUNTS = ("devices", "blocks", "block_size")
_SIZES = ("weights", "busy")
_ROLES = ("both", "prefill", "decode")


MOST_ITERATIONS = 2**26
"""Iterations of all replicas that a file may hold at most, written out."""
_LATEST = 2.0**62
"""Picoseconds that the clock counts at most."""


class Misfit(ValueError):
    """What a file says of its service does not fit together."""


def header(service: Service) -> dict[str, Any]:
    """What of a service is no column."""
    replicas = [
        {name: getattr(replica, name) for name in (*_WORDS, *_COUNTS, *_SIZES)}
        | {"parts": dict(replica.parts), "batches": replica.batches, "grows": replica.grows}
        for replica in service.replicas
    ]
    return {"replicas": replicas, "transfers": service.transfers is not None}


def columns(service: Service) -> Columns:
    """The columns of a service by their names in the file."""
    found = {f"service.requests.{name}": getattr(service.requests, name).astype("<i8") for name in _REQUESTS}
    for number, replica in enumerate(service.replicas):
        rows = replica.iterations
        found |= {f"service.replicas.{number}.{name}": getattr(rows, name).astype("<i8") for name in _ITERATIONS}
    found |= {f"service.gaps.{name}": getattr(service.gaps, name).astype("<i8") for name in ("gap", "count")}
    found["service.pauses"] = service.pauses.astype("<i8")
    if service.transfers is not None:
        found |= {f"service.transfers.{n}": getattr(service.transfers, n).astype(d) for n, d in _TRANSFERS.items()}
    return found


def service(said: Mapping[str, Any], column: Column) -> Service:
    """The service of a file; raises Misfit, KeyError, TypeError or ValueError where it does not make sense."""
    requests = RequestRecords(**_table("service.requests", _REQUESTS, column))
    replicas = tuple(_replica(one, f"service.replicas.{i}", column) for i, one in enumerate(said["replicas"]))
    gaps = TokenGaps(**_table("service.gaps", ("gap", "count"), column))
    pauses = column("service.pauses", "<i8", 2)
    transfers = _transfers(column) if said["transfers"] is True else None
    every = sum(float(replica.iterations.count.sum(dtype=np.float64)) for replica in replicas)
    _require(every <= MOST_ITERATIONS, "too many iterations")
    _check_requests(requests, len(replicas))
    _require(_least(gaps.gap, 0) and _least(gaps.count, 0), "a gap between tokens is negative")
    _require(pauses.shape[1] == 3 and _within(pauses[:, 0], len(requests.arrival)), "a pause belongs to no request")
    _require(bool((pauses[:, 1] <= pauses[:, 2]).all()), "a pause ends before it begins")
    if transfers is not None:
        _require(_least(transfers.start, 0), "a transfer begins before the start")
        _require(_within(transfers.request, len(requests.arrival)), "a transfer belongs to no request")
        _require(bool((transfers.start <= transfers.end).all()), "a transfer ends before it begins")
    return Service(requests, replicas, gaps, pauses, transfers)


_TRANSFERS = {"request": "<i8", "start": "<i8", "end": "<i8", "bytes": "<f8"}


def _table(prefix: str, names: tuple[str, ...], column: Column) -> Columns:
    found = {name: column(f"{prefix}.{name}", "<i8", 1) for name in names}
    _require(len({len(values) for values in found.values()}) == 1, f"columns of {prefix} differ in length")
    return found


def _transfers(column: Column) -> Transfers:
    found = {name: column(f"service.transfers.{name}", dtype, 1) for name, dtype in _TRANSFERS.items()}
    _require(len({len(values) for values in found.values()}) == 1, "columns of service.transfers differ in length")
    return Transfers(**found)


def _replica(said: Mapping[str, Any], prefix: str, column: Column) -> Replica:
    rows = Iterations(**_table(prefix, _ITERATIONS, column))
    words = {name: _typed(said[name], str) for name in _WORDS}
    counts = {name: _typed(said[name], int) for name in _COUNTS}
    sizes = {name: float(_typed(said[name], (int, float))) for name in _SIZES}
    parts = {str(name): float(_typed(value, (int, float))) for name, value in _typed(said["parts"], dict).items()}
    _require(words["role"] in _ROLES, "a replica has an unknown role")
    _require(min(counts.values()) >= 0, "a replica has less than nothing")
    _require(
        all(_least(getattr(rows, name), 0) for name in _ITERATIONS if name != "growth"), "an iteration is negative"
    )
    _require(bool((np.diff(rows.start) >= 0).all()), "iterations are not in the order of time")
    count, first, growth = (getattr(rows, name).astype(np.float64) for name in ("count", "first", "growth"))
    last = rows.start + count * first + growth * count * np.maximum(count - 1, 0) / 2
    _require(bool((np.abs(last) < _LATEST).all()), "an iteration ends after the end of time")
    shortest = rows.first + rows.growth * np.maximum(rows.count - 1, 0)
    _require(_least(shortest, 0), "an iteration ends before it begins")
    known: dict[str, Any] = {**words, **counts, **sizes}
    batches, grows = _typed(said.get("batches", 1), int), said.get("grows", True) is not False
    return Replica(iterations=rows, parts=parts, batches=batches, grows=grows, **known)


def _check_requests(requests: RequestRecords, replicas: int) -> None:
    """What the pages rely on: the order of arrival, of the moments of a life, and places that exist."""
    _require(_least(requests.arrival, -1), "a request arrives before the start")
    counts = ("prompt", "output", "generated", "cached", "preemptions", "priority")
    _require(all(_least(getattr(requests, name), 0) for name in counts), "a request has less than no tokens")
    _require(_within(requests.replica + 1, replicas + 1), "a request was on a replica that is not there")
    _require(_within(requests.status, 3), "a request has an unknown status")
    done = requests.status == 0
    _require(_least(requests.arrival[done], 0), "a request finished that never came")
    lived = (requests.arrival, requests.scheduled, requests.first_token, requests.finish)
    pairs = pairwise(lived)
    _require(all(bool((a[done] <= b[done]).all()) for a, b in pairs), "a request ends before it begins")
    _require(_least(requests.generated[done], 1), "a request finished without a token")


def _typed(value: Any, kind: Any) -> Any:
    _require(isinstance(value, kind) and not isinstance(value, bool), f"{str(value)[:40]!r} is of the wrong kind")
    return value


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise Misfit(message)


def _least(column: NDArray[Any], least: int) -> bool:
    return column.size == 0 or bool(column.min() >= least)


def _within(column: NDArray[Any], size: int) -> bool:
    return column.size == 0 or bool(column.min() >= 0 and column.max() < size)
