"""The JSON form of a Result: what scripts, comparisons and golden files read.

Key order and bytes are determined by the Result alone. Values are SI; what is not a finite number becomes null, so
that the text is JSON and not Python's dialect of it.
"""

import json
from dataclasses import asdict
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.metrics import METRICS
from simulator.results.documents.form import plain
from simulator.results.drawn import listed
from simulator.results.ground import stated
from simulator.results.infeasibility import undecided
from simulator.results.long_run import header
from simulator.results.result import (
    CriticalPath,
    DeviceClass,
    HostMemory,
    JobRecord,
    LinkLoad,
    Meeting,
    MemoryUse,
    Replica,
    Result,
    Service,
)
from simulator.results.serving.adapters import AdapterUse
from simulator.results.serving.cache_tiers import CacheTierUse
from simulator.results.serving.finetuning import FinetuningUse
from simulator.results.serving.fleet import PHASES, REASONS
from simulator.results.serving.model_routing import by_model
from simulator.results.serving.request_time import mean_request_time
from simulator.results.serving.service import SECOND, by_difficulty, by_priority, by_tenant, tier_hits

CHAINS = "chains like"
"""Before the number of a chain in the name of a device class that stands for all chains of its pace."""


def to_json(result: Result) -> dict[str, Any]:
    """The Result without its columns (spans, memory over time) as plain data, in the order in which it is read."""
    names = class_names(result.classes)
    document = {
        "schema": result.schema,
        "kind": result.kind,
        "name": result.name,
        "feasible": result.feasible,
        "ground": plain(stated(result.ground)),
        "metrics": ordered_metrics(result.metrics),
        "intervals": {name: asdict(found) for name, found in result.intervals.items()},
        "breakdown": dict(zip(names, map(dict, result.breakdown), strict=True)) if result.breakdown else {},
        "classes": [
            {"name": name, "ranks": c.ranks, "example": c.example}
            for name, c in zip(names, result.classes, strict=True)
        ],
        "memory_too_close": undecided(result.warnings),
        "memory": [_memory(use, names) for use in result.memory],
        **({"host_memory": _host(result.host)} if result.host is not None else {}),
        **({"nvme": _host(result.nvme)} if result.nvme is not None else {}),
        "links": [_link(load, names) for load in result.links],
        **({"network": listed(result.network)} if result.network is not None else {}),
        "critical_path": _critical_path(result.critical_path, names),
        "sensitivities": [asdict(sensitivity) for sensitivity in result.sensitivities],
        "published": [asdict(comparison) for comparison in result.comparisons],
        **({"service": _service(result.service)} if result.service is not None else {}),
        **({"run": header(result.run)} if result.run is not None else {}),
        **({"jobs": [_job(job) for job in result.jobs]} if result.jobs else {}),
        **({"meetings": [_meeting(meeting) for meeting in result.meetings]} if result.jobs else {}),
        "assumptions": list(result.assumptions),
        "warnings": list(result.warnings),
        "provenance": result.provenance,
    }
    if len(result.step_times):
        document["step_times_s"] = (result.step_times / units.TICKS_PER_SECOND).tolist()
    return {key: _plain(value) for key, value in document.items()}


def dumps(document: dict[str, Any]) -> str:
    """A document of `to_json` as text that ends with a newline."""
    return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def ordered_metrics(metrics: dict[str, float]) -> dict[str, float]:
    """Known metrics in the order of `METRICS`, then the others by name; those of each of several jobs stand together,
    the jobs in the order in which they come."""
    place = {name: number for number, name in enumerate(METRICS)}
    jobs = {job: i for i, job in enumerate(dict.fromkeys(name.rpartition(": ")[0] for name in metrics))}

    def order(name: str) -> tuple[bool, int, int, str]:
        job, colon, own = name.rpartition(": ")
        return name not in place, jobs[job] if colon else -1, place.get(own, len(place)), name

    return {name: metrics[name] for name in sorted(metrics, key=order)}


def class_names(classes: tuple[DeviceClass, ...]) -> list[str]:
    """Names of the device classes, made distinct by the lowest rank where two share one."""
    names = [c.name for c in classes]
    shared = {name for name in names if names.count(name) > 1} if len(set(names)) < len(names) else set()
    return [f"{c.name} (rank {c.example})" if c.name in shared else c.name for c in classes]


def _memory(use: MemoryUse, names: list[str]) -> dict[str, Any]:
    return {
        "class": names[use.device_class],
        "capacity_bytes": use.capacity,
        "peak_bytes": use.peak,
        "at_peak": dict(use.at_peak),
    }


def _host(host: HostMemory) -> dict[str, Any]:
    return {"capacity_bytes": host.capacity, "peak_bytes": host.peak, "at_peak": dict(host.at_peak)}


def _link(load: LinkLoad, names: list[str]) -> dict[str, Any]:
    return {
        "name": load.name,
        "links": load.links,
        "capacity_bytes_per_s": load.capacity,
        "bytes": load.bytes,
        "utilisation": load.utilisation,
        "by_operation": dict(load.by_operation),
        "used_by": [names[index] for index in load.users],
        "peak_bytes_per_s": load.peak,
        "at_peak": list(load.at_peak),
        "busiest": load.busiest,
    }


def _service(service: Service) -> dict[str, Any]:
    """Where the time of a request goes and what each replica is and did; single requests are in `--detail`."""
    whole = service.records == "all"
    return {
        "records": service.records,
        "request_time_s": mean_request_time(service) if whole else {},
        "priorities": [{"priority": one, **found} for one, found in by_priority(service).items()] if whole else [],
        **_fleet(service),
        "replicas": [_replica(replica) for replica in service.replicas],
        "transfers": len(service.transfers.request) if service.transfers is not None else 0,
        **({"cache_tiers": [_tier(tier, service) for tier in service.tiers]} if service.tiers else {}),
        **({"adapters": _adapters(service.adapters)} if service.adapters is not None else {}),
        **({"finetuning": _finetuning(service.finetuning)} if service.finetuning is not None else {}),
        **_models(service),
    }


def _adapters(use: AdapterUse) -> dict[str, Any]:
    """Adapters of all replicas together; times in seconds."""
    counts = ("count", "requests", "hits", "loads", "fetched", "evicted", "most")
    return {name: getattr(use, name) for name in counts} | {
        "hit_rate": use.hits / use.requests if use.requests else 0.0,
        "largest_bytes": use.largest,
        "read_bytes": use.read,
        "mean_wait_s": use.mean_wait,
        "longest_wait_s": use.longest_wait,
    }


def _models(service: Service) -> dict[str, Any]:
    """What several models did, by pool and by difficulty, where there are several."""
    use = service.models
    if use is None:
        return {}
    pools = zip(use.models, by_model(use).items(), strict=True)
    return {
        "models": [{"pool": name, "model": model, **figures} for model, (name, figures) in pools],
        "difficulties": [{"difficulty": name, **figures} for name, figures in by_difficulty(service).items()],
    }


def _finetuning(use: FinetuningUse) -> dict[str, Any]:
    """Training beside serving, of all replicas together; times in seconds."""
    counts = ("forward_tokens", "tokens", "sequences", "updates", "iterations_alone")
    return {name: getattr(use, name) for name in counts} | {"working_s": use.working, "duration_s": use.duration}


def _tier(tier: CacheTierUse, service: Service) -> dict[str, Any]:
    """A tier of the cache; `hit_rate` is its share of all tokens of prompts that were looked up."""
    figures = ("name", "path", "memories", "hit_tokens", "asked_tokens", "dropped_tokens")
    return {name: getattr(tier, name) for name in figures} | {
        "hit_rate": tier_hits(tier, service),
        "capacity_bytes": tier.capacity,
        "most_bytes": tier.most,
        "read_bytes": tier.read,
        "written_bytes": tier.written,
    }


def _fleet(service: Service) -> dict[str, Any]:
    """Tenants, replicas over time, failures and requests that were turned away, where there is any of it."""
    record = service.fleet
    if record is None:
        return {}
    found: dict[str, Any] = {}
    if record.tenants:
        found["tenants"] = [{"tenant": name, **figures} for name, figures in by_tenant(service).items()]
    if len(record.reason):
        counts = np.bincount(record.reason, minlength=len(REASONS)).tolist()
        found["turned_away"] = {REASONS[i]: counts[i] for i in range(1, len(REASONS)) if counts[i]}
    if record.changes:
        names = [replica.name for replica in service.replicas]
        rows = zip(record.replica.tolist(), record.phase.tolist(), *(_s(record.start), _s(record.end)), strict=True)
        found["phases"] = [
            {"replica": names[one], "phase": PHASES[phase], "start_s": start, "end_s": end}
            for one, phase, start, end in rows
        ]
        outages = zip(
            record.failed.tolist(), _s(record.failed_at), _s(record.repaired_at), record.lost.tolist(), strict=True
        )
        found["failures"] = [
            {"replica": names[one], "start_s": start, "end_s": end, "requests": lost}
            for one, start, end, lost in outages
        ]
        if record.outages:
            found["link_failures"] = [
                {"link": one.link, "start_s": one.start / SECOND, "end_s": one.end / SECOND} for one in record.outages
            ]
    return found


def _s(ticks: NDArray[np.int64]) -> list[float]:
    return [tick / SECOND for tick in ticks.tolist()]


def _replica(replica: Replica) -> dict[str, Any]:
    figures = ("name", "pool", "role", "devices", "device", "blocks", "block_size")
    return {name: getattr(replica, name) for name in figures} | {
        "weights_bytes": replica.weights,
        "iterations": int(replica.iterations.count.sum()),
        "busy_s": replica.busy,
        "parts": dict(replica.parts),
    }


def _job(job: JobRecord) -> dict[str, Any]:
    """When and where it ran, what it takes alone, and the document of what it did beside the others."""
    told = {"start_s": job.start_s, "end_s": job.end_s, "devices": list(job.devices), "slowdown": job.slowdown}
    own = to_json(job.result)
    return {"name": job.name, "kind": own["kind"], **told, "alone": ordered_metrics(job.alone)} | own


def _meeting(meeting: Meeting) -> dict[str, Any]:
    return {
        "link": meeting.link,
        "kind": meeting.kind,
        "links": meeting.links,
        "capacity_bytes_per_s": meeting.capacity,
        "together_s": meeting.together_s,
        "full_s": meeting.full_s,
        "bytes": dict(meeting.bytes),
        "bytes_together": dict(meeting.at_once),
    }


def _critical_path(path: CriticalPath, names: list[str]) -> dict[str, Any]:
    """Its parts, those of the device classes that it runs through, and how many operations it has."""
    by_class = zip(names, path.by_class, strict=False)
    return {
        "seconds": dict(path.seconds),
        "by_class": {name: dict(parts) for name, parts in by_class if parts},
        "by_operation": dict(path.by_operation),
        "by_link": dict(path.by_link),
        "by_roof": dict(path.by_roof),
        "operations": len(path.operations),
    }


def _plain(value: Any) -> Any:
    """Only what JSON has: text keys, lists, finite numbers or null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return float(value) if isfinite(value) else None
    item = getattr(value, "item", None)  # a numpy scalar
    return _plain(item()) if callable(item) else str(value)
