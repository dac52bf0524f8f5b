"""From a finished serving run to a Result: records, what replicas did, metrics, memory, warnings."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import simulator
from simulator import units
from simulator.metrics import METRICS
from simulator.results.infeasibility import close_call
from simulator.results.metrics import compare
from simulator.results.result import (
    Comparison,
    DeviceClass,
    Iterations,
    MemoryUse,
    Result,
    Service,
    Transfers,
    no_spans,
)
from simulator.results.result import Replica as ReplicaRecord
from simulator.results.serving.service import (
    REJECTED,
    adapter_figures,
    economy,
    finetuning_figures,
    held_seconds,
    serving_metrics,
    tier_figures,
)
from simulator.run.energy import guessed_idle, linked, replica_energy_j, total_energy_j
from simulator.run.ground import memory_error
from simulator.run.links.notes import one_profile, unused_oversubscription
from simulator.run.links.serving import serving_links
from simulator.run.served.fleet_record import fleet_record, never_starts, turned_away
from simulator.run.served.models import model_use, with_amounts
from simulator.run.served.rows import (
    PartSeconds,
    gaps_of,
    iterations_of,
    logs_of,
    order_of,
    parts_of,
    requests_of,
    row_parts,
    verified_of,
)
from simulator.run.spread.grounded import grounded
from simulator.serving.fleet.adapters import used
from simulator.serving.fleet.door import TOO_LONG
from simulator.serving.fleet.finetuning import used as trained
from simulator.serving.fleet.rates import said as pools_said
from simulator.serving.fleet.system import System
from simulator.serving.replica.crossing import Encoder
from simulator.serving.replica.replica import Replica
from simulator.serving.workload.images import tokens
from simulator.specs.hardware import Accelerator
from simulator.specs.resolve import dump, scenario_hash

if TYPE_CHECKING:
    from simulator.run.serve import ServingRun
    from simulator.run.served.condense import Condensing

Ints = NDArray[np.int64]
MOST_SAID = 1_000_000
"""Requests from which queues are judged where not all records are kept."""
GROWN = 0.1
"""Share of all requests that wait when the last one arrives from which a growing queue is worth a warning."""
CHANCE = 3.0
"""Times the root of the number of requests that a queue may hold by chance: it is a random walk at full load."""
STEADY = 0.3
"""Share of the last queue that must have been there a quarter of the time before the last arrival."""


def gather(run: "ServingRun", links: bool = True) -> Result:
    """The Result of a run; without `links` nothing is said of what links carried, which takes time to add up."""
    fits = all(system.cost.fits for system in run.systems)
    if run.condensing is not None:
        run.condensing.finish()
    service = _service(run) if fits else None
    stuck = () if service is None else never_starts(service)
    served = service is not None and not stuck and not bool((np.asarray(run.ledger.status) == REJECTED).all())
    if service is not None and service.models is not None:
        service = with_amounts(run, service, _prices(run), _energies(run, service))
    metrics = {} if service is None else _metrics(run, service)
    memory = _memory(run)
    close = close_call(memory, *memory_error(), spare="kv cache")
    comparisons, notes = _comparisons(run, metrics)
    return Result(
        kind="serving",
        name=run.scenario.name,
        metrics=metrics,
        classes=_classes(run),
        breakdown=() if service is None else _breakdown(service, metrics["duration"]),
        spans=no_spans(),
        memory=memory,
        comparisons=comparisons,
        feasible=served,
        service=service,
        links=() if service is None or run.condensing is not None or not links else serving_links(run, service),
        warnings=(
            *((close,) if close else ()),
            *run.workload.warnings,
            *unused_oversubscription(run.scenario.cluster),
            *_told(run, "warnings"),
            *notes,
            *_idle_tiers(run),
            *_unused_records(run),
            *_idle_finetuning(run),
            *stuck,
            *(() if service is None else _told_of(run, _thinned(run, service))),
        ),
        assumptions=(
            *run.workload.assumptions,
            *one_profile(run.scenario.cluster),
            *_told(run, "assumptions"),
            *_pools(run),
            *guessed_idle(_accelerators(run)),
        ),
        ground=grounded(run.scenario),
        provenance={
            "version": simulator.__version__,
            "seed": run.scenario.seed,
            "scenario": scenario_hash(run.scenario),
            "events": run.events,
        },
        scenario=dump(run.scenario),
    )


def _told(run: "ServingRun", kind: str) -> tuple[str, ...]:
    """Warnings or assumptions of the prices, each once, with its pool where there are several."""
    several = len(run.systems) > 1
    return tuple(
        dict.fromkeys(
            f"{system.name}: {text}" if several else text
            for system in run.systems
            for text in getattr(system.cost, kind)
        )
    )


def _idle_tiers(run: "ServingRun") -> tuple[str, ...]:
    """What to say of tiers, and of memory for chunks, that nothing is kept in."""
    if any(system.kv_cache.chunks for system in run.systems) and run.workload.chunks is None and run.replicas:
        return ("`serving.kv_cache.chunks` has no effect: prompts have no retrieved chunks (`requests.chunks`)",)
    if not any(system.kv_cache.tiers for system in run.systems) or not run.replicas:
        return ()
    if run.tiers is None:
        return ("`serving.kv_cache.tiers` have no effect: no two requests share a prefix (`requests.shared_prefix`)",)
    empty = dict.fromkeys(spec.name for spec, store, *_ in run.tiers.stores if not store.capacity)
    return tuple(f"the tier `{name}` has no effect: its `capacity` is less than a block" for name in empty)


def _pools(run: "ServingRun") -> tuple[str, ...]:
    """Which pool saturates first, and which replicas changed their role."""
    ledger = run.ledger
    if not run.replicas or not len(ledger):
        return ()
    count = len(ledger)
    told = pools_said(
        run.systems, *(round(int(np.asarray(c).sum(dtype=np.int64)) / count) for c in (ledger.prompt, ledger.output))
    )
    changes = () if run.roles is None else run.roles.changes
    if changes:
        listed = ", ".join(f"{name} to {role} at {units.to_seconds(tick):.3g} s" for tick, name, role in changes[:4])
        more = f" and {len(changes) - 4} more" if len(changes) > 4 else ""
        told += (f"replicas changed their role, which is listed as they had it last: {listed}{more}",)
    return told


def _service(run: "ServingRun") -> Service:
    taken = run.condensing
    order = order_of(run.ledger) if taken is None else taken.sampled()
    pauses = np.array(run.ledger.pauses, np.int64).reshape(-1, 3)
    pauses[:, 0] = _rows_in(order, pauses[:, 0])
    replicas = _replicas(run)
    rows = [replica.iterations for replica in replicas]
    return Service(
        requests=requests_of(run.ledger, order),
        replicas=replicas,
        gaps=gaps_of(run.replicas, rows) if taken is None else taken.gaps(),
        pauses=pauses[pauses[:, 0] >= 0],
        transfers=_transfers(run, order),
        tiers=() if run.tiers is None else run.tiers.used(),
        load_waits=_load_waits(run.replicas),
        fleet=fleet_record(run, np.asarray(order)) if taken is None else None,
        adapters=used(run.replicas),
        finetuning=trained(run.replicas, run.workload.first),
        records=run.scenario.records if taken is not None else "all",
        models=None if taken is not None else model_use(run, _rows_in(order, np.arange(len(run.ledger)))),
    )


def _replicas(run: "ServingRun") -> tuple[ReplicaRecord, ...]:
    """What replicas are and did, all of it or what was kept."""
    found, seconds = [], PartSeconds()
    for number, (replica, home) in enumerate(zip(run.replicas, run.homes, strict=True)):
        if run.condensing is None:
            rows, parts = iterations_of(replica), row_parts(replica, seconds)
        else:
            rows, parts = run.condensing.rows(number), run.condensing.totals.replicas[number].parts
        found.append(_record(replica, home, rows, parts_of(replica, parts)))
    return tuple(found)


def _told_of(run: "ServingRun", service: Service) -> tuple[str, ...]:
    """What to say of requests that were turned away, and of queues that grew."""
    return _rejected(run, service) + turned_away(service) + saturated(service)


def _unused_records(run: "ServingRun") -> tuple[str, ...]:
    """What to say where all records are kept although fewer are asked for."""
    if run.scenario.records == "all" or run.condensing is not None or not run.replicas:
        return ()
    return ("`records` has no effect: of fleets that change, of tenants and of several models, all records are kept",)


def _idle_finetuning(run: "ServingRun") -> tuple[str, ...]:
    """What to say where nothing was trained."""
    counts = [replica.finetuning.counts for replica in run.replicas if replica.finetuning is not None]
    if not counts or any(one.forward for one in counts):
        return ()
    return ("`serving.finetuning` has no effect: no token fits into what iterations leave of their objective",)


def _rows_in(order: Ints | range, requests: Ints) -> Ints:
    """Where requests stand in an order, -1 for those that do not; takes no memory for others."""
    if isinstance(order, range):
        return requests
    if not len(order):
        return np.full(len(requests), -1)
    sorting = np.argsort(order, kind="stable")
    rising = order[sorting]
    place = np.minimum(np.searchsorted(rising, requests), len(order) - 1)
    return np.where(rising[place] == requests, sorting[place], -1)


def _thinned(run: "ServingRun", service: Service) -> Service:
    """Every request, or every so many of very many, for what is said of queues and rejections."""
    if run.condensing is None:
        return service
    order = order_of(run.ledger)
    return replace(service, requests=requests_of(run.ledger, order[:: -(-len(order) // MOST_SAID)], own=True))


def _load_waits(replicas: tuple[Replica, ...]) -> Ints:
    """How long each load from a tier kept its request waiting."""
    waits = [np.frombuffer(one.loads.waits, np.int64) for one in replicas if one.loads is not None]
    return np.concatenate(waits) if waits else np.zeros(0, np.int64)


def _record(replica: Replica, home: System, rows: Iterations, parts: dict[str, float]) -> ReplicaRecord:
    cost = home.cost
    return ReplicaRecord(
        name=replica.name,
        pool=home.name,
        role=replica.role,
        devices=cost.devices,
        device=home.node.accelerator.name,
        blocks=cost.blocks,
        block_size=cost.block_size,
        weights=cost.weights_bytes,
        iterations=rows,
        busy=units.to_seconds(replica.record.busy),
        parts=parts,
        batches=len(replica.batches),
    )


def _transfers(run: "ServingRun", order: Ints | range) -> Transfers | None:
    if run.kv_transfer is None:
        return None
    rows = run.kv_transfer.rows
    columns = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3).T
    request, start, end = np.ascontiguousarray(columns)
    request = _rows_in(order, request)
    here = request >= 0
    size = np.array([row[3] for row in rows], np.float64)
    return Transfers(request[here], start[here], end[here], size[here])


def _classes(run: "ServingRun") -> tuple[DeviceClass, ...]:
    """One class for each replica; where the model does not fit, one for each pool."""
    if run.replicas:
        places = [(home.cost.devices, home.devices(i)[0]) for home in run.systems for i in range(home.replicas)]
        return tuple(DeviceClass(one.name, *place) for one, place in zip(run.replicas, places, strict=True))
    return tuple(
        DeviceClass(system.name, system.replicas * system.cost.devices, system.devices(0)[0]) for system in run.systems
    )


def _breakdown(service: Service, duration: float) -> tuple[dict[str, float], ...]:
    held = held_seconds(service) if service.records == "all" else [duration] * len(service.replicas)
    return tuple(
        {**replica.parts, "idle": each - replica.busy} | ({"off": duration - each} if each < duration else {})
        for replica, each in zip(service.replicas, held, strict=True)
    )


def _memory(run: "ServingRun") -> tuple[MemoryUse, ...]:
    """The ledger of each class: what is set aside before the first request comes."""
    uses = []
    for i, home in enumerate(run.homes or run.systems):
        kinds = dict(home.cost.ledger)
        peak = sum(kinds.values())
        uses.append(MemoryUse(i, home.cost.capacity, peak, kinds, np.zeros(1, np.int64), np.full(1, peak)))
    return tuple(uses)


def _prices(run: "ServingRun") -> dict[str, float | None]:
    """US dollars per second of each device, where known."""
    return {each.name: None if each.price is None else each.price.value for each in _accelerators(run)}


def _energies(run: "ServingRun", service: Service) -> list[float | None]:
    """Joules of each replica, where known."""
    return [
        replica_energy_j(home.node.accelerator, home.cost, record, verified_of(home.cost, record.iterations), lasts)
        for record, home, lasts in zip(service.replicas, run.homes, held_seconds(service), strict=True)
    ]


def _metrics(run: "ServingRun", service: Service) -> dict[str, float]:
    prices = _prices(run)
    peak = max(sum(system.cost.ledger.values()) for system in run.systems)
    if run.condensing is not None:
        return (
            _condensed(run.condensing, service, prices, peak)
            | _per_step(run)
            | image_figures(run)
            | encoder_figures(run)
        )
    each = _energies(run, service)
    energy = None if None in each else sum(value for value in each if value is not None)
    found = serving_metrics(service, run.scenario.slo, prices=prices, energy_j=energy, peak_memory=peak)
    return found | _per_step(run) | image_figures(run) | encoder_figures(run)


def _condensed(taken: "Condensing", service: Service, prices: dict[str, float | None], peak: float) -> dict[str, float]:
    """The figures of a run whose records are not all kept."""
    totals = taken.totals
    duration = totals.duration
    each = [
        total_energy_j(home.node.accelerator, one.devices, levels.working_s(linked(one.parts, one.busy)), duration)
        for one, levels, home in zip(service.replicas, taken.power, taken.homes, strict=True)
    ]
    energy = None if None in each else sum(value for value in each if value is not None)
    found = totals.metrics() | tier_figures(service) | adapter_figures(service)
    found |= finetuning_figures(service)
    found["peak_memory_bytes"] = peak
    rented = [(replica.devices * duration, replica.device) for replica in totals.replicas]
    return found | economy(rented, prices, energy, found["total_output_tokens"])


def _per_step(run: "ServingRun") -> dict[str, float]:
    """Tokens that a sequence got from an iteration on average, where several are verified together."""
    produced = steps = 0
    for number, replica in enumerate(run.replicas):
        if replica.stages.costs[0].speculation is not None and replica.role != "prefill":
            if run.condensing is None:
                steps += sum(int((log[1] * log[4]).sum()) for log in logs_of(replica))
            else:
                steps += run.condensing.totals.replicas[number].decoded
            produced += sum(getattr(batch.decodes, "produced", 0) for batch in replica.batches)
    return {"tokens_per_step": produced / steps} if steps else {}


def image_figures(run: "ServingRun") -> dict[str, float]:
    """Images that requests have, the tokens that they are of prompts, and seconds of encoding; nothing without any."""
    images, vision = run.workload.images, run.scenario.model.vision
    if images is None or vision is None:
        return {}
    ticks = sum(replica.record.encoded for replica in run.replicas)
    return {
        "total_images": float(sum(map(len, images))),
        "total_image_tokens": float(sum(tokens(each, vision) for own in images for each in own)),
        "image_encoding_s": units.to_seconds(ticks),
    }


def encoder_figures(run: "ServingRun") -> dict[str, float]:
    """Rows that encoders before a decoder read, again after a preemption, and seconds of it; nothing without any."""
    if run.workload.encoded is None:
        return {}
    rows = sum(replica.encoder.rows for replica in run.replicas if isinstance(replica.encoder, Encoder))
    ticks = sum(replica.record.encoded for replica in run.replicas)
    return {"total_encoder_rows": float(rows), "encoding_s": units.to_seconds(ticks)}


def _accelerators(run: "ServingRun") -> list[Accelerator]:
    """The accelerators of all pools, each once."""
    return list({(each := system.node.accelerator).name: each for system in run.systems}.values())


def _comparisons(run: "ServingRun", metrics: dict[str, float]) -> tuple[tuple[Comparison, ...], list[str]]:
    """Published figures beside ours, and notes on those that cannot be compared."""
    found, notes = [], []
    for i, published in enumerate(run.scenario.published):
        if published.metric in metrics:
            found.append(
                compare(published.metric, published.value, metrics[published.metric], published.source, published.note)
            )
        elif metrics:
            known = "is none of this run's" if published.metric in METRICS else "is no metric"
            notes.append(f"published.{i}.metric: `{published.metric}` {known}: not compared")
    return tuple(found), notes


def _rejected(run: "ServingRun", service: Service) -> tuple[str, ...]:
    """How many requests could never run, and why."""
    requests = service.requests
    too_long = requests.status == REJECTED
    if service.fleet is not None and len(service.fleet.reason):
        too_long &= service.fleet.reason == TOO_LONG
    count = int(too_long.sum())
    if not count:
        return ()
    tokens = (requests.prompt + requests.output)[too_long]
    context = min(system.context for system in run.systems)
    room = min(system.cost.blocks * system.cost.block_size for system in run.systems)
    long = int((tokens > context).sum())
    why = [f"{long:,} exceed the context of {context:,} tokens (`serving.context`)"] if long else []
    if long < count:
        why.append(f"{count - long:,} need more than the cache of a replica, {room:,} tokens, holds")
    whole = count == len(too_long)
    of = f"{count:,} of {len(too_long):,}"
    said = f"all {count:,} requests are rejected" if whole else f"{of} requests were rejected"
    others = "nothing is served" if whole else "figures are of the others"
    longest = f"prompt and answer together have up to {int(tokens.max()):,} tokens"
    return (f"{said}: {' and '.join(why)}; {longest}; {others}",)


def saturated(service: Service) -> tuple[str, ...]:
    """What to say of a queue that grew as long as requests came.

    It must hold more requests at the last arrival than chance leaves there, have grown before the last quarter of the
    time and on in it, and requests must have come for longer than one is worked on, or the queue must take longer than
    that to empty: a burst that is all taken up while its first requests run says nothing of the rate.
    """
    requests = service.requests
    came = (requests.arrival >= 0) & (requests.status != REJECTED)
    arrival = requests.arrival[came]
    started = np.sort(requests.scheduled[came & (requests.scheduled >= 0)])
    if len(arrival) < 2 or arrival[-1] == arrival[0] or not len(started):
        return ()
    last, lasted = int(arrival[-1]), int(arrival[-1] - arrival[0])
    moments = last - np.array([lasted // 2, lasted // 4, 0])
    half, later, waiting = _upto(arrival, moments) - _upto(started, moments)
    least = max(GROWN * len(arrival), CHANCE * len(arrival) ** 0.5)
    if waiting < least or waiting < 1.5 * half or not max(half, STEADY * waiting) < later < waiting:
        return ()
    done = came & (requests.finish >= 0)
    emptying = int(started[-1]) - last
    if done.any() and (requests.finish - requests.scheduled)[done].mean() > max(lasted, emptying):
        return ()
    offered = (len(arrival) - 1) / units.to_seconds(lasted)
    begun = len(started) / units.to_seconds(lasted + max(emptying, 0))
    return (
        f"saturated: requests come at {units.plain(offered)}/s and are taken up at {units.plain(begun)}/s; the queue"
        f" grew to {waiting:,} of {len(arrival):,} by the last arrival, and latencies grow with the length of the run",
    )


def _upto(rising: Ints, moments: Ints | int) -> Ints:
    """How many of rising moments are not after each of others."""
    return np.asarray(np.searchsorted(rising, moments, side="right"), np.int64)
