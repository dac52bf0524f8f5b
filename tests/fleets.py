"""Fleets with prices made by hand: replicas that come, go and fail, for tests."""

from collections.abc import Sequence

from simulator.engine.agenda import Agenda
from simulator.engine.speeds import Solver
from simulator.fabric.sharing import max_min
from simulator.random import stream
from simulator.serving.fleet.breakdowns import Breakdowns, Planned
from simulator.serving.fleet.door import Door
from simulator.serving.fleet.fleet import Fleet
from simulator.serving.fleet.operations import Operations
from simulator.serving.fleet.outstanding import Outstanding
from simulator.serving.fleet.rollout import Rollout
from simulator.serving.fleet.roster import OFF, UP, Member, Roster
from simulator.serving.fleet.router import ROUTERS, Choice
from simulator.serving.fleet.scaling import Autoscaler
from simulator.serving.fleet.stations import Line, Servers
from simulator.serving.replica.ledger import open_ledger
from simulator.serving.workload.generate import Workload
from simulator.specs.fleet import Fleet as Rules
from simulator.specs.requests import RateLimit
from tests.replicas import Setting, System, replica

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
) -> System:
    """A fleet before anything has happened; `setting.replicas` is the most that there are, `start` how many are up."""
    solver: Solver = max_min
    agenda, ledger = Agenda((), solver), open_ledger(workload)
    choice = Choice(stream(seed, "router"))
    made = Fleet(agenda, ledger, workload, ROUTERS.get(setting.router), choice)
    replicas = tuple(replica(setting, number, "both", made, fast_forward) for number in range(setting.replicas))
    counts = choice.outstanding = Outstanding(len(replicas))
    choice.session = None if workload.session is None else workload.session.tolist()
    choice.prefix = workload.prefix
    for one in replicas:
        one.counts = counts.counts
    count = len(replicas) if start is None else start
    cold = rules.start_up.at_start == "cold"
    phases = [OFF if number >= count or cold else UP for number in range(len(replicas))]
    members = [Member(number, [one], WEIGHTS, phases[number]) for number, one in enumerate(replicas)]
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


def ran(*given: object, **others: object) -> System:
    """A fleet when all is done, of which nothing is lost."""
    made = fleet(*given, **others)  # type: ignore[arg-type]
    made.agenda.run()
    assert made.fleet.operations is not None
    made.fleet.operations.check()
    return made
