"""Who could get into whose way on links: replicas whose collectives, and ways of caches whose bytes, share some.

A link is contended where those who use it could, all at once, ask for more than it has; a replica runs one collective
at a time on each of its stages, and any number of caches may move at once. Only users of contended links run on the
fabric (`replica.wires`); all others last what they cost alone, which is then exact.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from simulator import units
from simulator.engine.tape import Activity
from simulator.serving.costs.iteration import StageCost
from simulator.serving.costs.sends import Library, Movement, Sending, knot
from simulator.serving.fleet.kv_transfer import KvTransfer, pairs_of
from simulator.serving.placement import ReplicaPlacement
from simulator.serving.replica.replica import Replica
from simulator.serving.replica.wires import GroupWires, Moves, ReplicaWires, Wires

SLACK = 1e-9
"""Relative excess over a capacity that is rounding, not contention."""
ROWS = (1, 1 << 12)
"""Rows of a small and of a large iteration, by which it is found what collectives ask of links."""

Way = tuple[int, int]
"""From a replica to another."""
User = int | Way
"""A replica, the first of those in step, or a way of caches."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A replica where it lies."""

    replica: Replica
    seat: ReplicaPlacement
    runs: Library

    @property
    def user(self) -> int:
        """Those in step send together."""
        return self.replica.number if self.replica.group is None else self.replica.group.members[0].number

    @property
    def moves(self) -> bool:
        """Whether its collectives can run on the fabric: one batch on one stage."""
        return not self.replica.stages.turns

    def group(self, stage: int, send: Sending) -> tuple[int, ...]:
        """The ranks that run a collective of a stage."""
        tp = len(self.seat.own) // len(self.replica.stages.costs)
        return self.seat.sharers(stage, tp) if send.among else self.seat.group(stage, tp)

    def groups(self) -> Iterable[tuple[StageCost, Sending | None, tuple[int, ...]]]:
        """Stage, collective (None: to the next stage) and ranks of all that it sends."""
        prices = self.replica.stages.costs
        tp = len(self.seat.own) // len(prices)
        for stage, price in enumerate(prices):
            yield from ((price, send, self.group(stage, send)) for send in price.sends)
            if price.hop is not None:
                yield price, None, (self.seat.own[stage * tp], self.seat.own[(stage + 1) * tp])


def wire(placed: Sequence[Placed], transfer: KvTransfer | None) -> tuple[str, ...]:
    """Tie those together who could get into each other's way; warnings of replicas that cannot run on the fabric."""
    links: dict[User, set[int]] = defaultdict(set)
    for one in placed:
        for _, _, ranks in one.groups():
            links[one.user] |= _between(ranks, one.runs)
    for way, used in _ways(placed, transfer).items():
        links[way] = used
    met = _contended(placed, links)
    users: dict[User, Wires] = {}
    for one in placed:
        if one.moves and met.get(one.user) and one.user not in users:
            users[one.user] = _wires(one)
    for way in links:
        if isinstance(way, tuple) and met.get(way) and transfer is not None:
            users[way] = transfer.wires[way] = Wires()
    for user, wires in users.items():
        wires.neighbours = [users[other] for other in met[user] if other in users]
    return _left_out(placed, met)


def _wires(placed: Placed) -> Wires:
    """Those of a replica, or of the group that it is in step with."""
    replica = placed.replica
    if replica.group is not None:
        replica.group.wires = GroupWires(replica.group, _moves(placed, in_step=True))
        return replica.group.wires
    (batch,) = replica.batches
    replica.wires = ReplicaWires(batch, _moves(placed, in_step=False))
    return replica.wires


def _between(ranks: Sequence[int], runs: Library) -> set[int]:
    """Links between any two of some ranks, on some of which all their collectives run."""
    source, target = np.nonzero(~np.eye(len(ranks), dtype=bool))
    where = np.array(ranks)
    paths = runs.fabric.paths(where[source], where[target]) if len(ranks) > 1 else np.zeros(0, np.int64)
    return set(paths[paths >= 0].tolist())


def _ways(placed: Sequence[Placed], transfer: KvTransfer | None) -> dict[User, set[int]]:
    """Links of each way of caches."""
    if transfer is None:
        return {}
    found: dict[User, set[int]] = {}
    for one in placed:
        for other in transfer.decoders if one.replica.role == "prefill" else ():
            pairs = pairs_of(one.seat.own, transfer.devices[other.number])
            paths = transfer.fabric.paths(*np.array(pairs).T)
            found[one.replica.number, other.number] = set(paths[paths >= 0].tolist())
    return found


def _contended(placed: Sequence[Placed], links: dict[User, set[int]]) -> dict[User, list[User]]:
    """Who meets whom on links that could be asked for more than they have."""
    on: dict[int, list[User]] = defaultdict(list)
    for user, used in links.items():
        for link in used:
            on[link].append(user)
    shared = {link for link, users in on.items() if len(users) > 1 and any(isinstance(user, int) for user in users)}
    rates = _rates([one for one in placed if not shared.isdisjoint(links[one.user])])
    met: dict[User, dict[User, None]] = defaultdict(dict)
    capacity = {one.user: one.runs.fabric.capacity for one in placed}
    for link in sorted(shared):
        asks = {user: rates[user].get(link, 0.0) if isinstance(user, int) else np.inf for user in on[link]}
        here = [user for user, rate in asks.items() if rate > 0]
        replicas = [user for user in here if isinstance(user, int)]
        if len(here) < 2 or not replicas:
            continue
        if sum(asks.values()) > (1 + SLACK) * float(capacity[replicas[0]][link]) / units.TICKS_PER_SECOND:
            for user in here:
                others = here if isinstance(user, int) else replicas  # caches share with each other in any case
                met[user].update(dict.fromkeys(other for other in others if other != user))
    return {user: list(others) for user, others in met.items()}


def _rates(placed: Sequence[Placed]) -> dict[User, dict[int, float]]:
    """The most that replicas ask of each link: on each stage one collective at a time."""
    found: dict[User, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for one in placed:
        stages: dict[tuple[int, int], float] = defaultdict(float)
        for price, send, ranks in one.groups():
            for movement in _asked(price, send, ranks, one.runs):
                for use in movement.uses:
                    key = id(price), use.resource
                    stages[key] = max(stages[key], use.rate)
        asked: dict[int, float] = defaultdict(float)
        for (_, link), rate in stages.items():
            asked[link] += rate
        for link, rate in asked.items():  # replicas in step run the same collectives
            found[one.user][link] = max(found[one.user][link], rate)
    return found


def _asked(price: StageCost, send: Sending | None, ranks: tuple[int, ...], runs: Library) -> Iterable[Movement]:
    operation, size = ("send", price.hop_bytes) if send is None else (send.operation, send.size(1))
    for rows in ROWS:
        yield from runs.movements(operation, ranks, knot(rows * size))


def _moves(placed: Placed, in_step: bool) -> Moves:
    """What the iterations of a replica of one stage move, or those of replicas in step for the rows of all."""
    sends = [send for send in placed.replica.stages.costs[0].sends if send.in_step == in_step]

    @cache
    def movements(i: int, size: float) -> tuple[Movement, ...]:
        return placed.runs.movements(sends[i].operation, placed.group(0, sends[i]), size)

    @cache
    def moves(rows: int, sampled: int) -> tuple[Activity, ...]:
        found = []
        for i, send in enumerate(sends):
            count = sampled if send.sampled else rows
            call = send.call(count)
            for share, uses in movements(i, knot(call.comm.size)) if count else ():
                found.append(Activity(0, round(share * call.exposed), uses))
        return tuple(move for move in found if move.work)

    return moves


def _left_out(placed: Sequence[Placed], met: dict[User, list[User]]) -> tuple[str, ...]:
    """What to say of replicas on contended links that are priced as if they had them alone."""
    names = [one.replica.name for one in placed if not one.moves and met.get(one.user)]
    if not names:
        return ()
    return (
        f"{', '.join(names)}: links are shared with other replicas or moved caches, but those with pipeline stages"
        " are simulated as if they had them alone: where all send at once, links carry more than they have",
    )
