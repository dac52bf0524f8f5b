"""A fleet's rules put to work: the roster of its replicas, what changes it, the door and the stations around it."""

from collections.abc import Mapping, Sequence

from simulator import units
from simulator.engine.agenda import Agenda
from simulator.errors import InputError, Problem, nearest
from simulator.interop import failures as files
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
    scenario: ServingScenario, fleet: Fleet, systems: Sequence[System], replicas: Sequence[Replica], workload: Workload
) -> None:
    """Give routers what they remember by, and a fleet what runs it, where the scenario has rules for it."""
    choice = fleet.choice
    choice.session = None if workload.session is None else workload.session.tolist()
    choice.prefix = workload.prefix
    if workload.tenant is not None:
        fleet.ledger.tenant = workload.tenant.tolist()
        fleet.ledger.weights = [tenant.weight for tenant in scenario.requests.tenants]
    limited = any(tenant.limit is not None for tenant in scenario.requests.tenants)
    if any(replica.role != "both" for replica in replicas):
        return
    if len(replicas) >= MANY or scenario.serving.fleet is not None or limited:
        counts = Outstanding(len(replicas))
        choice.outstanding = counts
        for replica in replicas:
            replica.counts = counts.counts
        counts.open([replica.number for replica in replicas])
        if scenario.serving.fleet is not None or limited:
            fleet.operations = _operations(scenario, fleet, systems, replicas, workload, counts)


def _operations(
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
        ops.breakdowns = _breakdowns(rules.failures, ops, systems, scenario.seed)
    if rules.rolling_update is not None:
        ops.rollout = Rollout(agenda, ops.roster, rules.rolling_update, lambda: fleet.busy)
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


def _breakdowns(rules: Failures, ops: Operations, systems: Sequence[System], seed: int) -> Breakdowns:
    members = ops.roster.members
    if any(len(member.group) > 1 for member in members):
        message = "replicas that share experts fail together, and what they do in step is not taken back"
        raise InputError(Problem(message, path=f"{PATH}.failures", hint="leave it out, or keep experts on a replica"))
    if rules.requests != "resume" and any(replica.loads is not None for replica in ops.replicas):
        message = "blocks on their way from `serving.kv_cache.tiers` are not taken back when a replica fails"
        raise InputError(
            Problem(message, path=f"{PATH}.failures", hint="leave `tiers` out, or write `requests: resume`")
        )
    if rules.requests == "resume" and any(member.group[0].stages.turns for member in members):
        message = "batches that take turns on the stages of a replica cannot stand still and go on"
        raise InputError(Problem(message, path=f"{PATH}.failures.requests", hint="write `retry`, `migrate` or `fail`"))
    by_replica: dict[str, tuple[Member, ...]] = {member.group[0].name: (member,) for member in members}
    by_node = _nodes(systems, members)
    chance = by_node if rules.of == "node" else by_replica
    planned = () if rules.trace is None else _planned(rules.trace, by_replica | by_node)
    given = ops.agenda, ops.roster, rules, by_replica | by_node, tuple(chance), planned, seed
    return Breakdowns(*given, ops.lost, ops.goes_on)


def _nodes(systems: Sequence[System], members: Sequence[Member]) -> dict[str, tuple[Member, ...]]:
    """Members with devices on each node; nodes of several clusters count on."""
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


def _planned(path: str, known: Mapping[str, object]) -> tuple[Planned, ...]:
    planned = []
    for failure in files.read(path):
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
