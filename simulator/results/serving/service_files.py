"""The service part of a result file: what of it is text, what are columns, and what must fit together."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.results.parts import LATEST, part, require, said, within
from simulator.results.result import Iterations, Replica, RequestRecords, Service, TokenGaps, Transfers
from simulator.results.serving import iterations as of
from simulator.results.serving.adapters import AdapterUse
from simulator.results.serving.cache_tiers import CacheTierUse
from simulator.results.serving.finetuning import FinetuningUse
from simulator.results.serving.fleet import PHASES, REASONS, FleetRecord, LinkOutage, TenantRecord
from simulator.results.serving.model_routing import ModelUse

Columns = dict[str, NDArray[Any]]
Column = Callable[[str, str, int], NDArray[Any]]
"""Reads a column by its name, type and number of dimensions."""

_REQUESTS = dict.fromkeys((field.name for field in fields(RequestRecords)), "<i8")
_ITERATIONS = dict.fromkeys((field.name for field in fields(Iterations)), "<i8") | {"mean_blocks": "<f8"}
_LATER = {"usage": ("waited", "mean_blocks", "last_blocks"), "done": ("done",)}
"""Columns that older files lack, by the word of the header that says that they are there: such files say nothing of
peers and of members that are done, and of the use of the cache only how each row began."""
_GAPS = {"gap": "<i8", "count": "<i8"}
_TRANSFERS = {"request": "<i8", "start": "<i8", "end": "<i8", "bytes": "<f8"}
_PHASES, _FAILED = ("replica", "phase", "start", "end"), ("failed", "failed_at", "repaired_at", "lost")
_OF_REQUESTS = ("tried", "reason", "tenant")
_ATTEMPTS = ("request", "pool", "sent", "scheduled", "end", "prompt", "output", "kept")
_MODELS = ("difficulty", *_ATTEMPTS)
_FLEET = (*_PHASES, *_FAILED, *_OF_REQUESTS)
_GOALS = ("ttft", "tpot", "e2e", "attainment")
_ROLES = ("both", "prefill", "decode")


MOST_ITERATIONS = 2**26
"""Iterations of all replicas that a file may hold at most, written out."""


def header(service: Service) -> dict[str, Any]:
    """What of a service is no column."""
    replicas = [said(replica) for replica in service.replicas]
    found: dict[str, Any] = {"replicas": replicas, "transfers": service.transfers is not None}
    found |= dict.fromkeys(_LATER, True)
    if service.fleet is not None:
        found["tenants"] = [_tenant(tenant) for tenant in service.fleet.tenants]
        if service.fleet.outages:
            found["outages"] = [said(outage) for outage in service.fleet.outages]
    if service.records != "all":
        found["records"] = service.records
    if service.adapters is not None:
        found["adapters"] = said(service.adapters)
    if service.finetuning is not None:
        found["finetuning"] = said(service.finetuning)
    if service.models is not None:
        found["models"] = said(service.models)
    return found | ({"tiers": [said(tier) for tier in service.tiers]} if service.tiers else {})


def _tenant(tenant: TenantRecord) -> dict[str, Any]:
    """A tenant without the objectives that it does not have."""
    return {"name": tenant.name} | {name: value for name in _GOALS if (value := getattr(tenant, name)) is not None}


def columns(service: Service) -> Columns:
    """The columns of a service by their names in the file."""
    tables: list[tuple[str, Any, dict[str, str]]] = [("service.requests", service.requests, _REQUESTS)]
    tables += [(f"service.replicas.{i}", one.iterations, _ITERATIONS) for i, one in enumerate(service.replicas)]
    tables += [("service.gaps", service.gaps, _GAPS), ("service", service, {"pauses": "<i8"})]
    if service.transfers is not None:
        tables.append(("service.transfers", service.transfers, _TRANSFERS))
    if service.tiers:
        tables.append(("service", service, {"load_waits": "<i8"}))
    if service.fleet is not None:
        tables.append(("service.fleet", service.fleet, dict.fromkeys(_FLEET, "<i8")))
    if service.models is not None:
        tables.append(("service.models", service.models, dict.fromkeys(_MODELS, "<i8")))
    return {f"{p}.{name}": getattr(table, name).astype(t) for p, table, types in tables for name, t in types.items()}


def service(header: Mapping[str, Any], column: Column) -> Service:
    """The service of a file; raises Misfit, KeyError, TypeError or ValueError where it does not make sense."""
    requests = RequestRecords(**_table("service.requests", _REQUESTS, column))
    lacking = {name for word, names in _LATER.items() if header.get(word) is not True for name in names}
    types = {name: kind for name, kind in _ITERATIONS.items() if name not in lacking}
    replicas = tuple(_replica(one, f"service.replicas.{i}", column, types) for i, one in enumerate(header["replicas"]))
    gaps = TokenGaps(**_table("service.gaps", _GAPS, column))
    pauses = column("service.pauses", "<i8", 2)
    transfers = Transfers(**_table("service.transfers", _TRANSFERS, column)) if header["transfers"] is True else None
    every = sum(float(replica.iterations.count.sum(dtype=np.float64)) for replica in replicas)
    require(every <= MOST_ITERATIONS, "too many iterations")
    _check_requests(requests, len(replicas))
    require(_least(gaps.gap, 0) and _least(gaps.count, 0), "a gap between tokens is negative")
    require(pauses.shape[1] == 3 and within(pauses[:, 0], len(requests.arrival)), "a pause belongs to no request")
    require(bool((pauses[:, 1] <= pauses[:, 2]).all()), "a pause ends before it begins")
    if transfers is not None:
        require(_least(transfers.start, 0), "a transfer begins before the start")
        require(within(transfers.request, len(requests.arrival)), "a transfer belongs to no request")
        require(bool((transfers.start <= transfers.end).all()), "a transfer ends before it begins")
    tiers = tuple(_tier(one) for one in header.get("tiers", ()))
    waits = column("service.load_waits", "<i8", 1) if tiers else np.zeros(0, np.int64)
    require(_least(waits, 0), "a load ends before it begins")
    sizes = len(requests.arrival), len(replicas)
    outages = tuple(_outage(one) for one in header.get("outages", ()))
    fleet = _fleet(header["tenants"], outages, column, *sizes) if "tenants" in header else None
    records = header.get("records", "all")
    require(records in ("all", "sample", "none"), "it says of its records what there is not")
    adapters = _adapters(header["adapters"]) if "adapters" in header else None
    tuned = _finetuning(header["finetuning"]) if "finetuning" in header else None
    models = _models(header["models"], column, len(requests.arrival)) if "models" in header else None
    return Service(requests, replicas, gaps, pauses, transfers, tiers, waits, fleet, adapters, tuned, records, models)


def _models(header: Mapping[str, Any], column: Column, requests: int) -> ModelUse:
    """What several models did; raises Misfit where it does not fit the requests."""
    use = part(ModelUse, header, **{name: column(f"service.models.{name}", "<i8", 1) for name in _MODELS})
    pools = len(use.pools)
    require(len({len(getattr(use, name)) for name in _ATTEMPTS}) == 1, "columns of attempts differ in length")
    require(len(use.difficulty) == requests, "models tell of other requests")
    require(
        within(use.difficulty, len(use.classes)) and within(use.request, requests), "an attempt belongs to no request"
    )
    require(within(use.pool, pools) and within(use.kept, 2), "an attempt belongs to no pool")
    require(len(use.models) == len(use.judged) == pools, "models and pools differ in number")
    require(len(use.accuracy) == pools * len(use.classes), "accuracy is not by class and pool")
    require(all(len(of) in (0, pools) for of in (use.devices, use.cost, use.energy)), "amounts are not by pool")
    require(all(value <= 1 for value in use.accuracy) and use.judge >= 0, "an accuracy is above 1")
    require(all(min(of, default=0.0) >= 0 for of in (use.devices, use.cost, use.energy)), "an amount is negative")
    require(_least(use.sent, 0) and bool((use.sent <= use.end).all()), "an attempt ends before it begins")
    require(_least(use.prompt, 0) and _least(use.output, 0), "an attempt has less than no tokens")
    return use


def _adapters(header: Mapping[str, Any]) -> AdapterUse:
    use = part(AdapterUse, header)
    counts = use.count, use.requests, use.hits, use.loads, use.fetched, use.evicted, use.most
    require(min(counts) >= 0 and use.hits <= use.requests and use.fetched <= use.loads, "adapters have odd counts")
    require(min(use.largest, use.read, use.mean_wait, use.longest_wait) >= 0, "adapters have impossible figures")
    return use


def _finetuning(header: Mapping[str, Any]) -> FinetuningUse:
    use = part(FinetuningUse, header)
    counts = use.forward_tokens, use.tokens, use.sequences, use.updates, use.iterations_alone
    require(min(counts) >= 0 and use.tokens <= use.forward_tokens, "finetuning has odd counts")
    require(min(use.working, use.duration) >= 0, "finetuning has impossible figures")
    return use


def _tier(header: Mapping[str, Any]) -> CacheTierUse:
    tier = part(CacheTierUse, header)
    tokens = (tier.hit_tokens, tier.asked_tokens, tier.prompt_tokens)
    amounts = (tier.capacity, tier.most, tier.read, tier.written, *tokens)
    require(min(amounts) >= 0 and tier.hit_tokens <= tier.asked_tokens, "a tier of the cache has impossible figures")
    require(tier.memories > 0, "a tier of the cache has no memory")
    return tier


def _outage(header: Mapping[str, Any]) -> LinkOutage:
    outage = part(LinkOutage, header)
    require(0 <= outage.start <= outage.end <= LATEST, "a link works again before it fails")
    return outage


def _fleet(header: Any, outages: tuple[LinkOutage, ...], column: Column, requests: int, replicas: int) -> FleetRecord:
    """What came of a fleet; raises Misfit where it does not fit the requests and replicas."""
    require(isinstance(header, list), "tenants are no list")
    tenants = tuple(_of_tenant(one) for one in header)
    columns = {name: column(f"service.fleet.{name}", "<i8", 1) for name in _FLEET}
    for names in (_PHASES, _FAILED):
        require(len({len(columns[name]) for name in names}) == 1, "columns of a fleet differ in length")
    for name in _OF_REQUESTS:
        require(len(columns[name]) in (0, requests), "a fleet tells of other requests")
    require(within(columns["replica"], replicas) and within(columns["failed"], replicas), "a replica is not there")
    require(within(columns["phase"], len(PHASES)), "a phase of a replica is unknown")
    require(within(columns["reason"], len(REASONS)), "a reason is unknown")
    require(within(columns["tenant"], max(len(tenants), 1)), "a request belongs to no tenant")
    require(bool((columns["start"] <= columns["end"]).all()), "a phase ends before it begins")
    require(_least(columns["tried"], 0) and _least(columns["lost"], 0), "less than nothing was tried again or lost")
    return FleetRecord(**columns, tenants=tenants, outages=outages)


def _of_tenant(header: Any) -> TenantRecord:
    require(isinstance(header, dict) and isinstance(header.get("name"), str), "a tenant has no name")
    goals = {name: header[name] for name in _GOALS if name in header}
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in goals.values())
    require(numbers and set(header) <= {"name", *_GOALS}, "an objective of a tenant is no number")
    return TenantRecord(header["name"], **goals)


def _table(prefix: str, types: dict[str, str], column: Column) -> Columns:
    found = {name: column(f"{prefix}.{name}", dtype, 1) for name, dtype in types.items()}
    require(len({len(values) for values in found.values()}) == 1, f"columns of {prefix} differ in length")
    return found


def _replica(header: Mapping[str, Any], prefix: str, column: Column, types: dict[str, str]) -> Replica:
    table = _table(prefix, types, column)
    blocks = table["blocks"]
    none = np.zeros_like(blocks)
    older = {"waited": none, "mean_blocks": blocks.astype(np.float64), "last_blocks": blocks, "done": none}
    rows = Iterations(**(older | table))
    replica = part(Replica, header, iterations=rows)
    require(replica.role in _ROLES, "a replica has an unknown role")
    require(min(replica.devices, replica.blocks, replica.block_size) >= 0, "a replica has less than nothing")
    require(all(_least(getattr(rows, name), 0) for name in _ITERATIONS if name != "growth"), "an iteration is negative")
    require(bool((np.diff(rows.start) >= 0).all()), "iterations are not in the order of time")
    count, first, growth = (getattr(rows, name).astype(np.float64) for name in ("count", "first", "growth"))
    last = rows.start + count * first + growth * count * np.maximum(count - 1, 0) / 2
    require(bool((np.abs(last) < LATEST).all()), "an iteration ends after the end of time")
    shortest = rows.first + rows.growth * np.maximum(rows.count - 1, 0)
    require(_least(shortest, 0), "an iteration ends before it begins")
    held = bool((rows.mean_blocks <= replica.blocks).all()) and bool((rows.last_blocks <= replica.blocks).all())
    require(held, "more cache blocks are in use than there are")
    require(bool((rows.waited <= of.lengths(rows)).all()), "a replica waits for longer than an iteration lasts")
    return replica


def _check_requests(requests: RequestRecords, replicas: int) -> None:
    """What the pages rely on: the order of arrival, of the moments of a life, and places that exist."""
    require(_least(requests.arrival, -1), "a request arrives before the start")
    counts = ("prompt", "output", "generated", "cached", "preemptions", "priority")
    require(all(_least(getattr(requests, name), 0) for name in counts), "a request has less than no tokens")
    require(within(requests.replica + 1, replicas + 1), "a request was on a replica that is not there")
    require(within(requests.status, 4), "a request has an unknown status")
    done = requests.status == 0
    require(_least(requests.arrival[done], 0), "a request finished that never came")
    lived = (requests.arrival, requests.scheduled, requests.first_token, requests.finish)
    pairs = pairwise(lived)
    require(all(bool((a[done] <= b[done]).all()) for a, b in pairs), "a request ends before it begins")
    require(_least(requests.generated[done], 1), "a request finished without a token")


def _least(column: NDArray[Any], least: int) -> bool:
    return column.size == 0 or bool(column.min() >= least)
