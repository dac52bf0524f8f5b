"""A fleet's rules put to work: the roster of its replicas, what changes it, the door and the stations around it."""

from collections.abc import Mapping, Sequence

from simulator import units
from simulator.engine.agenda import Agenda
from simulator.errors import InputError, Problem, nearest
from simulator.interop import failures as files
from simulator.run.served.links import Traced, link_breakdowns, traced
from simulator.run.site import Site
from simulator.serving.fleet.breakdowns import Breakdowns, Planned
from simulator.serving.fleet.door import Door
from simulator.serving.fleet.fleet import Fleet
from simulator.serving.fleet.operations import Operations
from simulator.serving.fleet.outstanding import MANY, Outstanding
from simulator.serving.fleet.rollout import Rollout
from simulator.serving.fleet.roster import OFF, UP, Member, Roster
from simulator.serving.fleet.scaling import SCALING_RULES, Autoscaler
from simulator.serving.fleet.stations import Line, Servers
from simulator.serving.fleet.system import System
from simulator.serving.replica.replica import Replica
from simulator.serving.workload.generate import Workload
from simulator.specs.fleet import Failures
from simulator.specs.fleet import Fleet as FleetRules
from simulator.specs.scenario import ServingScenario

PATH = "serving.fleet"


def equip(
    site: Site,
    scenario: ServingScenario,
    fleet: Fleet,
    systems: Sequence[System],
    replicas: Sequence[Replica],
    workload: Workload,
) -> None:
    """Give routers what they remember by, and a fleet what runs it, where the scenario has rules for it."""
    choice = fleet.choice
    choice.session = None if workload.session is None else workload.session.tolist()
    choice.prefix = workload.prefix
    if workload.tenant is not None:
        fleet.ledger.tenant = workload.tenant.tolist()
        fleet.ledger.weights = [tenant.weight for tenant in scenario.requests.tenants]
    limited = any(tenant.limit is not None for tenant in scenario.requests.tenants)
    apart = any(replica.role != "both" for replica in replicas)
    if (len(replicas) >= MANY and not apart) or scenario.serving.fleet is not None or limited:
        counts = Outstanding(len(replicas))
        choice.outstanding = counts
        for replica in replicas:
            replica.counts = counts.counts
        counts.open([replica.number for replica in replicas])
        if scenario.serving.fleet is not None or limited:
            fleet.operations = _operations(site, scenario, fleet, systems, replicas, workload, counts)


def _operations(
    site: Site,
    scenario: ServingScenario,
    fleet: Fleet,
    systems: Sequence[System],
    replicas: Sequence[Replica],
    workload: Workload,
    counts: Outstanding,
) -> Operations:
    rules, agenda = scenario.serving.fleet or FleetRules(), fleet.agenda
    ops = Operations(agenda, fleet.ledger, rules, fleet, replicas, None, counts)  # type: ignore[arg-type]
    members = _members(scenario, systems, replicas)
    ops.roster = Roster(agenda, members, rules.start_up, ops.opened)
    if rules.autoscaling is not None:
        SCALING_RULES.get(rules.autoscaling.rule, f"{PATH}.autoscaling.rule")
        ops.scaler = Autoscaler(agenda, ops.roster, rules.autoscaling, ops.load, lambda: fleet.busy, ops.count_arrived)
    if rules.failures is not None:
        trace = _traced(rules.failures, site)
        ops.breakdowns = _breakdowns(rules.failures, ops, systems, scenario.seed, trace)
        ops.links = link_breakdowns(rules.failures, trace, site, ops)
    if rules.rolling_update is not None:
        ops.rollout = Rollout(agenda, ops.roster, rules.rolling_update, lambda: fleet.busy)
    if fleet.kv_transfer is not None:
        ops.join(fleet.kv_transfer)
        if ops.links is not None and rules.failures is not None and rules.failures.traffic == "reroute":
            fleet.kv_transfer.down, ops.links.turned = ops.links.down, fleet.kv_transfer.turned
    _stations(ops, rules, workload, agenda, scenario.seed)
    ops.door = _door(scenario, ops, workload)
    return ops


def _members(scenario: ServingScenario, systems: Sequence[System], replicas: Sequence[Replica]) -> list[Member]:
    """What comes and goes as one: replicas, or those that share experts; those of the start are up."""
    rules, members, first = scenario.serving.fleet or FleetRules(), list[Member](), 0
    for system in systems:
        size = system.peers
        weights = float(system.cost.weights_bytes * system.cost.devices * size)
        for begin in range(first, first + system.replicas, size):
            members.append(Member(len(members), replicas[begin : begin + size], weights, UP))
        first += system.replicas
    start = _at_start(scenario, members)
    for member in members:
        if member.number >= start or rules.start_up.at_start == "cold":
            member.phase = OFF
    return members


def _at_start(scenario: ServingScenario, members: Sequence[Member]) -> int:
    """Members of the start."""
    rule = None if scenario.serving.fleet is None else scenario.serving.fleet.autoscaling
    if rule is None:
        return len(members)
    start = scenario.serving.replicas if rule.start is None else rule.start
    return -(-start * len(members) // max(rule.max, scenario.serving.replicas))


def _traced(rules: Failures, site: Site) -> tuple[Traced, ...]:
    """Failures of the trace with the links that they name."""
    return () if rules.trace is None else traced(files.read(rules.trace), rules.trace, site.fabric)


def _breakdowns(
    rules: Failures, ops: Operations, systems: Sequence[System], seed: int, trace: Sequence[Traced]
) -> Breakdowns:
    members = ops.roster.members
    if rules.requests == "resume" and any(len(member.group) > 1 for member in members):
        message = "replicas that share experts run in step, and cannot stand still one by one"
        raise InputError(Problem(message, path=f"{PATH}.failures.requests", hint="write `retry`, `migrate` or `fail`"))
    if rules.requests == "resume" and any(member.group[0].stages.turns for member in members):
        message = "batches that take turns on the stages of a replica cannot stand still and go on"
        raise InputError(Problem(message, path=f"{PATH}.failures.requests", hint="write `retry`, `migrate` or `fail`"))
    by_replica: dict[str, tuple[Member, ...]]
    by_replica = {replica.name: (member,) for member in members for replica in member.group}
    by_node = _nodes(systems, ops.roster.by_replica)
    chance = by_node if rules.of == "node" else {member.group[0].name: None for member in members}
    planned = _planned(rules.trace or "", [row.failure for row in trace if not row.links], by_replica | by_node)
    given = ops.agenda, ops.roster, rules, by_replica | by_node, tuple(chance), planned, seed
    return Breakdowns(*given, ops.lost, ops.goes_on)


def _nodes(systems: Sequence[System], members: Mapping[int, Member]) -> dict[str, tuple[Member, ...]]:
    """Members, given by the numbers of their replicas, with devices on each node; nodes of several clusters count
    on."""
    found: dict[int, list[Member]] = {}
    number = begin = 0
    bases: dict[int, int] = {}
    for system in systems:
        if id(system.cluster) not in bases:
            bases[id(system.cluster)] = begin
            begin += system.cluster.numbering.all_nodes
        node_of = system.cluster.numbering.node_of
        for replica in range(system.replicas):
            for device in system.devices(replica):
                where = found.setdefault(bases[id(system.cluster)] + node_of(device), [])
                if members[number] not in where:
                    where.append(members[number])
            number += 1
    return {f"node {node}": tuple(found[node]) for node in sorted(found)}


def _planned(path: str, rows: Sequence[files.Failure], known: Mapping[str, object]) -> tuple[Planned, ...]:
    planned = []
    for failure in rows:
        if failure.what not in known:
            message = f"there is no `{failure.what[:40]}` that could fail"
            listed = f"there are `{next(iter(known))}` to `{list(known)[-1]}`"
            hint = nearest(failure.what, known) or listed
            raise InputError(Problem(message, path, failure.line, path="what", hint=hint))
        planned.append(Planned(units.to_ticks(failure.start_s), failure.what, units.to_ticks(failure.until_s)))
    return tuple(planned)


def _stations(ops: Operations, rules: FleetRules, workload: Workload, agenda: Agenda, seed: int) -> None:
    if rules.before:
        stations = [Servers(station, workload.prompt.tolist(), seed) for station in rules.before]
        ops.before = Line(agenda, stations, ops.sent_later)
    if rules.after:
        stations = [Servers(station, workload.output.tolist(), seed) for station in rules.after]
        ops.after = Line(agenda, stations, ops.passed)


def _door(scenario: ServingScenario, ops: Operations, workload: Workload) -> Door | None:
    tenants, admission = scenario.requests.tenants, ops.rules.admission
    limits = [tenant.limit for tenant in tenants] if workload.tenant is not None else []
    most = None if admission is None else admission.outstanding
    if most is None and not any(limit is not None for limit in limits):
        return None
    of_each = [] if workload.tenant is None else workload.tenant.tolist()
    tokens = (workload.prompt + workload.output).tolist()
    return Door(ops.agenda, of_each, tokens, limits, most, lambda: ops.taken, ops.admit, ops.refuse)
