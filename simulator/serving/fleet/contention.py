"""Replicas, and ways of moved caches, as users of links: whose collectives and bytes may share some with whom.

A replica runs one collective at a time on each of its stages, and any number of caches may move at once. Only who can
meet others on a link that is asked for too much runs on the fabric (`engine.wires`, `replica.wires`).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from simulator.engine.tape import Activity
from simulator.engine.wires import User, Wires
from simulator.serving.costs.iteration import StageCost
from simulator.serving.costs.sends import Library, Movement, Sending, knot
from simulator.serving.fleet.kv_transfer import KvTransfer, pairs_of
from simulator.serving.placement import ReplicaPlacement
from simulator.serving.replica.replica import Replica
from simulator.serving.replica.wires import GroupWires, Moves, ReplicaWires

ROWS = (1, 1 << 12)
"""Rows of a small and of a large iteration, by which it is found what collectives ask of links."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A replica where it lies."""

    replica: Replica
    seat: ReplicaPlacement
    runs: Library

    @property
    def first(self) -> Replica:
        """Of those in step, which send together."""
        return self.replica if self.replica.group is None else self.replica.group.members[0]

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


def users(placed: Sequence[Placed], transfer: KvTransfer | None, job: str = "") -> list[tuple[User, str]]:
    """Everybody who sends: those in step as one, and ways of caches; each with the name of a replica that cannot run on
    the fabric, empty where it can. `job` is on the record of loads."""
    found = []
    together: dict[Replica, list[Placed]] = defaultdict(list)
    for one in placed:
        together[one.first].append(one)
    for members in together.values():
        links = {link for one in members for _, _, ranks in one.groups() for link in _between(ranks, one.runs)}
        able = members[0].moves
        make = partial(_wires, members[0], job) if able else None
        found.append((User(links, partial(_rates, members), make), "" if able else members[0].replica.name))
    if transfer is not None:
        transfer.job = job
    ways = [] if transfer is None else _ways(placed, transfer)
    return found + [(user, "") for user in ways]


def left_out(users: Iterable[tuple[User, str]]) -> tuple[str, ...]:
    """What to say of replicas on contended links that are priced as if they had them alone."""
    names = [name for user, name in users if name and user.met]
    if not names:
        return ()
    return (
        f"{', '.join(names)}: links are shared with other replicas, jobs or moved caches, but those with pipeline"
        " stages are simulated as if they had them alone: where all send at once, links carry more than they have",
    )


def _wires(placed: Placed, job: str) -> Wires:
    """Those of a replica, or of the group that it is in step with."""
    replica = placed.replica
    if replica.group is not None:
        replica.group.wires = GroupWires(replica.group, _moves(placed, in_step=True), job)
        return replica.group.wires
    (batch,) = replica.batches
    replica.wires = ReplicaWires(batch, _moves(placed, in_step=False), job)
    return replica.wires


def _between(ranks: Sequence[int], runs: Library) -> set[int]:
    """Links between any two of some ranks, on some of which all their collectives run."""
    source, target = np.nonzero(~np.eye(len(ranks), dtype=bool))
    where = np.array(ranks)
    paths = runs.fabric.paths(where[source], where[target]) if len(ranks) > 1 else np.zeros(0, np.int64)
    return set(paths[paths >= 0].tolist())


def _ways(placed: Sequence[Placed], transfer: KvTransfer) -> Iterator[User]:
    """Each way of caches."""
    for one in placed:
        for other in transfer.decoders if one.replica.role == "prefill" else ():
            pairs = pairs_of(one.seat.own, transfer.devices[other.number])
            paths = transfer.fabric.paths(*np.array(pairs).T)
            way = one.replica.number, other.number
            yield User(set(paths[paths >= 0].tolist()), None, partial(_wires_of_way, transfer, way))


def _wires_of_way(transfer: KvTransfer, way: tuple[int, int]) -> Wires:
    wires = transfer.wires[way] = Wires()
    return wires


def _rates(members: Sequence[Placed]) -> dict[int, float]:
    """The most that replicas in step, which run the same collectives, ask of each link: on each stage one at a time."""
    found: dict[int, float] = defaultdict(float)
    for one in members:
        stages: dict[tuple[int, int], float] = defaultdict(float)
        for price, send, ranks in one.groups():
            for movement in _asked(price, send, ranks, one.runs):
                for use in movement.uses:
                    key = id(price), use.resource
                    stages[key] = max(stages[key], use.rate)
        asked: dict[int, float] = defaultdict(float)
        for (_, link), rate in stages.items():
            asked[link] += rate
        for link, rate in asked.items():
            found[link] = max(found[link], rate)
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
