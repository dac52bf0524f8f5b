"""From a fleet that has run to its record: phases of replicas, failures, requests that were turned away, tenants."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.results.infeasibility import NEVER_STARTS
from simulator.results.result import Service
from simulator.results.serving.fleet import REASONS, FleetRecord, LinkOutage, TenantRecord
from simulator.results.serving.service import FAILED, FINISHED, REJECTED
from simulator.serving.fleet.door import TOO_LONG

if TYPE_CHECKING:
    from simulator.run.serve import ServingRun
    from simulator.serving.fleet.operations import Operations

Ints = NDArray[np.int64]


def fleet_record(run: "ServingRun", order: Ints) -> FleetRecord | None:
    """The record; None where replicas are always there and tenants are not distinguished. `order` are requests by
    rows."""
    operations, tenants = run.operations, _tenants(run)
    if operations is None and not tenants:
        return None
    tenant = np.zeros(0, np.int64) if run.workload.tenant is None else run.workload.tenant[order]
    if operations is None:
        return FleetRecord(tenant=tenant, tenants=tenants)
    operations.check()
    changes = operations.rules.changes
    reason = _sparse(operations.reasons, order)
    if not changes:
        return FleetRecord(reason=reason, tenant=tenant, tenants=tenants)
    end = operations.end if not operations.inside else max(operations.end, operations.agenda.now)
    phases = _of_replicas(operations, operations.roster.phases(end))
    failed = _of_replicas(operations, [] if operations.breakdowns is None else operations.breakdowns.log)
    return FleetRecord(
        *phases,
        *failed,
        tried=_sparse(operations.tried, order),
        reason=reason,
        tenant=tenant,
        tenants=tenants,
        outages=() if operations.links is None else tuple(LinkOutage(*row) for row in operations.links.log),
    )


def _of_replicas(operations: "Operations", rows: list[tuple[int, int, int, int]]) -> tuple[Ints, Ints, Ints, Ints]:
    """Rows of members (member, three numbers) as columns of replicas."""
    members = operations.roster.members
    each = [(replica.number, *row[1:]) for row in rows for replica in members[row[0]].group]
    first, second, third, fourth = np.array(each, np.int64).reshape(-1, 4).T.copy()
    return first, second, third, fourth


def _sparse(values: Mapping[int, int], order: Ints) -> Ints:
    column = np.zeros(len(order), np.int64)
    for request, value in values.items():
        column[request] = value
    return column[order]


def _tenants(run: "ServingRun") -> tuple[TenantRecord, ...]:
    found = []
    for tenant in run.scenario.requests.tenants:
        slo = tenant.slo or run.scenario.slo
        goals = () if slo is None else (slo.ttft, slo.tpot, slo.e2e, slo.attainment)
        found.append(TenantRecord(tenant.name, *goals))
    return tuple(found)


def turned_away(service: Service) -> tuple[str, ...]:
    """How many requests were turned away or failed for which reason, where it is none of their length."""
    record = service.fleet
    if record is None or not len(record.reason):
        return ()
    count, told = len(record.reason), []
    for reason in range(TOO_LONG + 1, len(REASONS)):
        mine = record.reason == reason
        for status, word in ((REJECTED, "turned away"), (FAILED, "failed")):
            if number := int((mine & (service.requests.status == status)).sum()):
                told.append(f"{number:,} of {count:,} requests {word}: {REASONS[reason]}")
    return tuple(told)


def never_starts(service: Service) -> tuple[str, ...]:
    """What to say of a fleet of which no replica ever took a request although some came."""
    record, requests = service.fleet, service.requests
    if record is None or not record.changes or bool((requests.status == FINISHED).any()):
        return ()
    if not len(requests.arrival) or bool((requests.replica >= 0).any()):
        return ()
    return (
        f"{NEVER_STARTS}: {len(requests.arrival):,} requests came, and none was sent to a replica; "
        "look at `serving.fleet.autoscaling` (`min`, `start`, `schedule`) and `serving.fleet.start_up`",
    )
