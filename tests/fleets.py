"""Fleets with prices made by hand: replicas that come, go and fail, for tests."""

from collections.abc import Sequence

from simulator.engine.agenda import Agenda
from simulator.fabric.sharing import max_min
from simulator.random import stream
from simulator.serving.fleet.breakdowns import Breakdowns, Planned
from simulator.serving.fleet.door import Door
from simulator.serving.fleet.fleet import Fleet
from simulator.serving.fleet.kv_transfer import KvTransfer
from simulator.serving.fleet.operations import Operations
from simulator.serving.fleet.outstanding import Outstanding
from simulator.serving.fleet.rollout import Rollout
from simulator.serving.fleet.roster import OFF, UP, Member, Roster
from simulator.serving.fleet.router import ROUTERS, Choice
from simulator.serving.fleet.scaling import Autoscaler
from simulator.serving.fleet.stations import Line, Servers
from simulator.serving.replica.caches.loads import KvLoads, LoadRules, Tier
from simulator.serving.replica.ledger import Ledger, open_ledger
from simulator.serving.replica.lockstep import Lockstep
from simulator.serving.replica.replica import Replica
from simulator.serving.tiers.path import Lane, path
from simulator.serving.tiers.store import empty
from simulator.serving.workload.generate import Workload
from simulator.specs.fleet import Fleet as Rules
from simulator.specs.requests import RateLimit
from simulator.units import TICKS_PER_SECOND
from tests.machines import profile
from tests.replicas import Setting, System, _network, replica

WEIGHTS = 1e9
"""Bytes that a replica reads when it starts."""


def fleet(
    workload: Workload,
    setting: Setting,
    rules: Rules,
    fast_forward: bool = True,
    seed: int = 0,
    planned: Sequence[Planned] = (),
    limits: Sequence[RateLimit | None] = (),
    start: int | None = None,
    by_decode: bool = False,
    tiered: bool = False,
) -> System:
    """A fleet before anything has happened; `setting.replicas` is the most that there are, `start` how many are up;
    `by_decode`: the first token comes from the decode side; `tiered`: replicas have host memory and a drive below."""
    agenda, ledger = Agenda(_network().capacity / TICKS_PER_SECOND, max_min), open_ledger(workload)
    choice = Choice(stream(seed, "router"))
    made = Fleet(agenda, ledger, workload, ROUTERS.get(setting.router), choice)
    roles = ["prefill" if setting.decoders else "both"] * setting.replicas + ["decode"] * setting.decoders
    replicas = tuple(replica(setting, number, role, made, fast_forward) for number, role in enumerate(roles))
    counts = choice.outstanding = Outstanding(len(replicas))
    choice.session = None if workload.session is None else workload.session.tolist()
    choice.prefix = workload.prefix
    for one in replicas:
        one.counts = counts.counts
    count = len(replicas) if start is None else start
    cold = rules.start_up.at_start == "cold"
    phases = [OFF if number >= count or cold else UP for number in range(len(replicas))]
    first = 0
    members = []
    for size in [setting.sharers] * (setting.replicas // setting.sharers) + [1] * setting.decoders:
        group = replicas[first : first + size]
        members.append(Member(len(members), group, WEIGHTS, phases[first]))
        first += size
        if size > 1:
            Lockstep(agenda, list(group))
    if setting.decoders:
        made.kv_transfer = transfer(setting, agenda, ledger, by_decode)
        made.kv_transfer.decoders = replicas[setting.replicas :]
    if tiered:
        for one in replicas:
            with_tiers(one)
    ops = Operations(agenda, ledger, rules, made, replicas, None, counts)  # type: ignore[arg-type]
    ops.roster = Roster(agenda, members, rules.start_up, ops.opened)
    if rules.autoscaling is not None:
        ops.scaler = Autoscaler(agenda, ops.roster, rules.autoscaling, ops.load, lambda: made.busy, ops.count_arrived)
    if rules.failures is not None:
        things = {f"replica {member.number + 1}": (member,) for member in members}
        given = agenda, ops.roster, rules.failures, things, tuple(things), planned, seed
        ops.breakdowns = Breakdowns(*given, ops.lost, ops.goes_on)
    if rules.rolling_update is not None:
        ops.rollout = Rollout(agenda, ops.roster, rules.rolling_update, lambda: made.busy)
    if made.kv_transfer is not None:
        ops.join(made.kv_transfer)
    if rules.before:
        stations = [Servers(one, workload.prompt.tolist(), seed) for one in rules.before]
        ops.before = Line(agenda, stations, ops.sent_later)
    if rules.after:
        ops.after = Line(agenda, [Servers(one, workload.output.tolist(), seed) for one in rules.after], ops.passed)
    if limits or (rules.admission is not None and rules.admission.outstanding):
        tenant = [0] * len(workload) if workload.tenant is None else workload.tenant.tolist()
        most = None if rules.admission is None else rules.admission.outstanding
        tokens = (workload.prompt + workload.output).tolist()
        ops.door = Door(agenda, tenant, tokens, limits, most, lambda: ops.taken, ops.admit, ops.refuse)
    made.operations = ops
    made.open(replicas)
    return System(workload, ledger, replicas, made, agenda)


def transfer(setting: Setting, agenda: Agenda, ledger: Ledger, by_decode: bool) -> KvTransfer:
    """Between devices of one node, as many as there are replicas."""
    places = {number: (number,) for number in range(setting.replicas + setting.decoders)}
    given = agenda, ledger, _network(), profile(), places, 1000.0, 4, setting.by_layer
    return KvTransfer(*given, first_by_decode=by_decode)


def with_tiers(one: Replica) -> None:
    """Host memory that a failure empties, and below it a drive that it does not."""
    cache = one.blocks.cache
    assert cache is not None
    link, drive = (Lane(one.agenda.add(rate), rate) for rate in (2.0, 0.5))
    host, disk = (empty(name, size, name == "disk", "lru") for name, size in (("host", 20), ("disk", 60)))
    ways = path(1e-9, [link]), path(2e-9, [link, drive])
    tiers = [Tier(host, ways[0], ways[0], ways[0], True, False), Tier(disk, ways[1], ways[1], ways[1], False)]
    loads = one.loads = KvLoads(one, tiers, LoadRules(layers=2))
    one.blocks.computed, cache.dropped = loads.computed, loads.dropped


def ran(*given: object, **others: object) -> System:
    """A fleet when all is done, of which nothing is lost."""
    made = fleet(*given, **others)  # type: ignore[arg-type]
    made.agenda.run()
    assert made.fleet.operations is not None
    made.fleet.operations.check()
    return made
