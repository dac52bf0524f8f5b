"""From a finished serving run to a Result: records, what replicas did, metrics, memory, warnings."""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

import simulator
from simulator import units
from simulator.axes import EP, TP
from simulator.metrics import METRICS
from simulator.results.infeasibility import close_call
from simulator.results.metrics import compare
from simulator.results.result import (
    Comparison,
    DeviceClass,
    Iterations,
    MemoryUse,
    RequestRecords,
    Result,
    Service,
    TokenGaps,
    Transfers,
    no_spans,
)
from simulator.results.result import Replica as ReplicaRecord
from simulator.results.service import held_seconds, serving_metrics, span
from simulator.run.energy import guessed_idle, replica_energy_j
from simulator.run.fleet_record import fleet_record, never_starts, turned_away
from simulator.run.ground import memory_error
from simulator.run.links.notes import one_profile, unused_oversubscription
from simulator.run.links.serving import serving_links
from simulator.run.spread.grounded import grounded
from simulator.serving.costs.drafting import verified_rows
from simulator.serving.costs.iteration import ReplicaCost
from simulator.serving.fleet.door import TOO_LONG
from simulator.serving.fleet.rates import said as pools_said
from simulator.serving.fleet.system import System
from simulator.serving.replica.ledger import REJECTED, Ledger
from simulator.serving.replica.record import COLUMNS
from simulator.serving.replica.replica import Replica
from simulator.specs.hardware import Accelerator
from simulator.specs.resolve import dump, scenario_hash

if TYPE_CHECKING:
    from simulator.run.serve import ServingRun

Ints = NDArray[np.int64]
GROWN = 0.1
"""Share of all requests that wait when the last one arrives from which a growing queue is worth a warning."""
CHANCE = 3.0
"""Times the root of the number of requests that a queue may hold by chance: it is a random walk at full load."""
STEADY = 0.3
"""Share of the last queue that must have been there a quarter of the time before the last arrival."""


def gather(run: "ServingRun") -> Result:
    """The Result of a run."""
    fits = all(system.cost.fits for system in run.systems)
    service = _service(run) if fits else None
    stuck = () if service is None else never_starts(service)
    served = service is not None and not stuck and not bool((service.requests.status == REJECTED).all())
    metrics = {} if service is None else _metrics(run, service)
    memory = _memory(run)
    close = close_call(memory, *memory_error(), spare="kv cache")
    comparisons, notes = _comparisons(run, metrics)
    return Result(
        kind="serving",
        name=run.scenario.name,
        metrics=metrics,
        classes=_classes(run),
        breakdown=() if service is None else _breakdown(service),
        spans=no_spans(),
        memory=memory,
        comparisons=comparisons,
        feasible=served,
        service=service,
        links=() if service is None else serving_links(run, service),
        warnings=(
            *((close,) if close else ()),
            *run.workload.warnings,
            *unused_oversubscription(run.scenario.cluster),
            *_told(run, "warnings"),
            *notes,
            *_idle_tiers(run),
            *stuck,
            *(() if service is None else _rejected(run, service) + turned_away(service) + saturated(service)),
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
    """What to say of tiers that nothing is kept in."""
    if not any(system.kv_cache.tiers for system in run.systems) or run.tiers is not None or not run.replicas:
        return ()
    return ("`serving.kv_cache.tiers` have no effect: no two requests share a prefix (`requests.shared_prefix`)",)


def _pools(run: "ServingRun") -> tuple[str, ...]:
    """Which pool saturates first, and which replicas changed their role."""
    ledger = run.ledger
    if not run.replicas or not len(ledger):
        return ()
    count = len(ledger)
    told = pools_said(run.systems, round(sum(ledger.prompt) / count), round(sum(ledger.output) / count))
    changes = () if run.roles is None else run.roles.changes
    if changes:
        listed = ", ".join(f"{name} to {role} at {units.to_seconds(tick):.3g} s" for tick, name, role in changes[:4])
        more = f" and {len(changes) - 4} more" if len(changes) > 4 else ""
        told += (f"replicas changed their role, which is listed as they had it last: {listed}{more}",)
    return told


def _service(run: "ServingRun") -> Service:
    replicas = tuple(_record(replica, home) for replica, home in zip(run.replicas, run.homes, strict=True))
    order = _order(run.ledger)
    row = np.empty_like(order)
    row[order] = np.arange(len(order))
    pauses = np.array(run.ledger.pauses, np.int64).reshape(-1, 3)
    pauses[:, 0] = row[pauses[:, 0]]
    return Service(
        requests=_requests(run.ledger, order),
        replicas=replicas,
        gaps=_gaps(run.replicas),
        pauses=pauses,
        transfers=_transfers(run, row),
        tiers=() if run.tiers is None else run.tiers.used(),
        load_waits=_load_waits(run.replicas),
        fleet=fleet_record(run, order),
    )


def _load_waits(replicas: tuple[Replica, ...]) -> Ints:
    """How long each load from a tier kept its request waiting."""
    waits = [np.frombuffer(one.loads.waits, np.int64) for one in replicas if one.loads is not None]
    return np.concatenate(waits) if waits else np.zeros(0, np.int64)


def _order(ledger: Ledger) -> Ints:
    """Requests in the order of arrival; those that nothing released come last."""
    arrival = np.array(ledger.arrival, np.int64)
    return np.argsort(np.where(arrival < 0, np.iinfo(np.int64).max, arrival), kind="stable").astype(np.int64)


def _requests(ledger: Ledger, order: Ints) -> RequestRecords:
    def column(values: list[int]) -> Ints:
        return np.array(values, np.int64)[order]

    return RequestRecords(
        arrival=column(ledger.arrival),
        scheduled=column(ledger.scheduled),
        first_token=column(ledger.first_token),
        finish=column(ledger.finish),
        prompt=column(ledger.prompt),
        output=column(ledger.output),
        generated=column(ledger.done),
        cached=column(ledger.cached),
        preemptions=column(ledger.preemptions),
        replica=column(ledger.replica),
        status=column(ledger.status),
        priority=column(ledger.priority),
    )


def _record(replica: Replica, home: System) -> ReplicaRecord:
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
        iterations=iterations_of(replica),
        busy=units.to_seconds(replica.record.busy),
        parts=_parts(replica, _log(replica)),
        batches=len(replica.batches),
    )


def _log(replica: Replica) -> Ints:
    """The columns of a replica's log."""
    rows: Ints = np.ascontiguousarray(np.frombuffer(replica.record.log, np.int64).reshape(-1, COLUMNS).T)
    return rows


def iterations_of(replica: Replica) -> Iterations:
    """What a replica did."""
    rows = _log(replica)
    count, blocks = rows[1], rows[8]
    mean, last = blocks.astype(np.float64), blocks.copy()
    if replica.policy.grows:
        replica.record.usage.settle()
        mean[count > 1] = np.frombuffer(replica.record.usage.mean, np.float64)
        last[count > 1] = np.frombuffer(replica.record.usage.last, np.int64)
    waited = np.array(replica.record.waits, np.int64) if replica.group is not None else np.zeros(len(count), np.int64)
    columns = [*rows[:10], waited, mean, last]
    return Iterations(*columns)


def _verified(cost: ReplicaCost, record: ReplicaRecord) -> Ints:
    return verified_rows(cost.speculation, record.iterations.decodes)


def _parts(replica: Replica, rows: Ints) -> dict[str, float]:
    """Seconds in which a replica worked by what they consist of, the mean over its stages."""
    _, count, _, _, decodes, tokens, prompts, _, _, _, ended = rows
    verified = verified_rows(replica.stages.costs[0].speculation, decodes)
    # A static batch computes rows of members that are done as well: what they cost is found under attention.
    seconds: dict[str, float] = {}
    record, costs = replica.record, replica.stages.costs
    for cost in costs:
        for body, amount in ((cost.body, verified + tokens), (cost.ending, verified + ended)):
            sizes, times = _times(amount, count)
            for part, each in body(sizes).items():
                seconds[part] = seconds.get(part, 0.0) + float(each @ times) / len(costs)
        if cost.common is not None and record.shared_rows:
            asked = np.array(record.shared_rows, np.int64).reshape(-1, 2).T
            for shared, amount in zip(cost.common, asked, strict=True):
                sizes, times = _times(amount, np.ones_like(amount))
                for part, each in shared(sizes).items():
                    seconds[part] += float(each @ times) / len(costs)
    seconds[EP.name] = seconds.get(EP.name, 0.0) + units.to_seconds(record.exchanged)
    host = costs[0].host
    sequences, times = _times(decodes + prompts, count)
    waits = sum(host(m) * n for m, n in zip(sequences.tolist(), times.tolist(), strict=True))
    seconds["host"] = (waits + record.hosted) / len(costs) / units.TICKS_PER_SECOND
    if record.drafted:
        seconds["draft"] = record.drafted / len(costs) / units.TICKS_PER_SECOND
    for cost in costs if costs[0].launching is not None else ():
        sizes, times = _times((verified + tokens)[prompts > 0], count[prompts > 0])
        waits = sum(cost.launches(m) * n for m, n in zip(sizes.tolist(), times.tolist(), strict=True))
        seconds["host"] += waits / len(costs) / units.TICKS_PER_SECOND
    if record.copied:
        seconds["host transfer"] = record.copied / len(costs) / units.TICKS_PER_SECOND
    if replica.wasted:
        seconds["lost by failures"] = units.to_seconds(replica.wasted)
    if record.stalled:
        seconds["stall"] = units.to_seconds(record.stalled)
    if record.waits:
        seconds["idle for peers"] = units.to_seconds(sum(record.waits))
    if record.saved:
        _hide(seconds, record.saved / len(costs) / units.TICKS_PER_SECOND)
    seconds["attention"] = units.to_seconds(record.busy) - sum(seconds.values())
    return {part: value for part, value in seconds.items() if value > 0}


def _hide(seconds: dict[str, float], saved: float) -> None:
    """Take what ran beside something else from the parts of communication; what cutting a batch costs is a part."""
    sent = sum(seconds.get(axis, 0.0) for axis in (TP.name, EP.name))
    for axis in (TP.name, EP.name):
        if axis in seconds and saved > 0:
            seconds[axis] -= min(saved / sent, 1.0) * seconds[axis]
    if saved < 0:
        seconds["cut in parts"] = -saved
    seconds["other"] -= max(saved - sent, 0.0)


def _times(amount: Ints, count: Ints) -> tuple[Ints, NDArray[np.float64]]:
    """Amounts above 0 that iterations have, and how many iterations have each."""
    times = np.bincount(amount, weights=count)
    sizes = np.flatnonzero(times[1:]) + 1
    return sizes.astype(np.int64), times[sizes].astype(np.float64)


def _gaps(replicas: tuple[Replica, ...]) -> TokenGaps:
    """Gaps at the first iteration of each row, as noted, and those inside stretches, from the rows."""
    ticks = [np.frombuffer(replica.record.gap_ticks, np.int64) for replica in replicas]
    counts = [np.frombuffer(replica.record.gap_counts, np.int64) for replica in replicas]
    for replica in replicas:
        log = np.frombuffer(replica.record.log, np.int64).reshape(-1, COLUMNS)
        stretches = log[log[:, 1] > 1]
        more = stretches[:, 1] - 1
        row = np.repeat(np.arange(len(stretches)), more)
        step = np.arange(len(row)) - np.repeat(np.cumsum(more) - more, more) + 1
        ticks.append(stretches[row, 2] + step * stretches[row, 3])
        counts.append(stretches[row, 4])
    return TokenGaps(np.concatenate(ticks), np.concatenate(counts))


def _transfers(run: "ServingRun", row: Ints) -> Transfers | None:
    if run.kv_transfer is None:
        return None
    rows = run.kv_transfer.rows
    columns = np.array([row[:3] for row in rows], np.int64).reshape(-1, 3).T
    request, start, end = np.ascontiguousarray(columns)
    return Transfers(row[request], start, end, np.array([row[3] for row in rows], np.float64))


def _classes(run: "ServingRun") -> tuple[DeviceClass, ...]:
    """One class for each replica; where the model does not fit, one for each pool."""
    if run.replicas:
        places = [(home.cost.devices, home.devices(i)[0]) for home in run.systems for i in range(home.replicas)]
        return tuple(DeviceClass(one.name, *place) for one, place in zip(run.replicas, places, strict=True))
    return tuple(
        DeviceClass(system.name, system.replicas * system.cost.devices, system.devices(0)[0]) for system in run.systems
    )


def _breakdown(service: Service) -> tuple[dict[str, float], ...]:
    begin, end = span(service)
    duration = units.to_seconds(end - begin)
    held = held_seconds(service)
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


def _metrics(run: "ServingRun", service: Service) -> dict[str, float]:
    prices = {each.name: None if each.price is None else each.price.value for each in _accelerators(run)}
    each = [
        replica_energy_j(home.node.accelerator, home.cost, record, _verified(home.cost, record), lasts)
        for record, home, lasts in zip(service.replicas, run.homes, held_seconds(service), strict=True)
    ]
    energy = None if None in each else sum(value for value in each if value is not None)
    peak = max(sum(system.cost.ledger.values()) for system in run.systems)
    found = serving_metrics(service, run.scenario.slo, prices=prices, energy_j=energy, peak_memory=peak)
    return found | _per_step(run)


def _per_step(run: "ServingRun") -> dict[str, float]:
    """Tokens that a sequence got from an iteration on average, where several are verified together."""
    produced = steps = 0
    for replica in run.replicas:
        if replica.stages.costs[0].speculation is not None and replica.role != "prefill":
            log = _log(replica)
            steps += int((log[1] * log[4]).sum())
            produced += sum(getattr(batch.decodes, "produced", 0) for batch in replica.batches)
    return {"tokens_per_step": produced / steps} if steps else {}


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
        f"saturated: requests come at {offered:.3g}/s and are taken up at {begun:.3g}/s; the queue grew to {waiting:,}"
        f" of {len(arrival):,} by the last arrival, and latencies grow with the length of the run",
    )


def _upto(rising: Ints, moments: Ints | int) -> Ints:
    """How many of rising moments are not after each of others."""
    return np.asarray(np.searchsorted(rising, moments, side="right"), np.int64)
