"""Replicas, and ways of moved caches, as users of links: which of them may share some.

A replica runs one collective at a time on each of its stages, and any number of caches may move at once. Only users
that can meet others on a link that is asked for too much run on the fabric (`engine.wires`, `replica.wires`).
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from simulator.engine.tape import Activity, Use
from simulator.engine.wires import GuestWires, User, Wires
from simulator.serving.costs.iteration import StageCost
from simulator.serving.costs.sends import Library, Movement, Sending, knot
from simulator.serving.fleet.kv_transfer import KvTransfer, pairs_of
from simulator.serving.placement import ReplicaPlacement
from simulator.serving.replica.passage import Hop, StageWires
from simulator.serving.replica.replica import Replica
from simulator.serving.replica.wires import GroupWires, Moves, ReplicaWires

ROWS = (1, 1 << 12)
"""Rows of a small and of a large iteration, by which it is found what collectives ask of links."""
FEWEST = 2
"""Links that what moves over several of them is on, at least."""


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

    def group(self, stage: int, send: Sending) -> tuple[int, ...]:
        """The ranks that run a collective of a stage."""
        tp = len(self.seat.own) // len(self.replica.stages.costs)
        return send.group(self.seat, stage, tp)

    def groups(self) -> Iterable[tuple[StageCost, Sending | None, tuple[int, ...]]]:
        """Stage, collective (None: to the next stage) and ranks of all that it sends."""
        prices = self.replica.stages.costs
        tp = len(self.seat.own) // len(prices)
        for stage, price in enumerate(prices):
            yield from ((price, send, self.group(stage, send)) for send in price.sends)
            if price.hop is not None:
                yield price, None, (self.seat.own[stage * tp], self.seat.own[(stage + 1) * tp])


def users(placed: Sequence[Placed], transfer: KvTransfer | None, job: str = "", recorded: bool = True) -> list[User]:
    """Users that send: replicas in step as one, and ways of caches. `job` is on the record of loads; where nothing is
    `recorded`, and capacities stay, replicas of one stage are only on the links on which they can meet others."""
    found = []
    together: dict[Replica, list[Placed]] = defaultdict(list)
    for one in placed:
        together[one.first].append(one)
    for members in together.values():
        groups = {ranks: one.runs for one in members for _, _, ranks in one.groups()}
        links = {link for ranks, runs in groups.items() for link in _between(ranks, runs)}
        met: dict[int, None] = {}
        wires = partial(_wires, members[0], job, None if recorded else met)
        found.append(User(links, partial(_rates, members), wires, job, met))
    if transfer is not None:
        transfer.job = job
        found += _ways(placed, transfer)
    return found


def _wires(placed: Placed, job: str, met: Collection[int] | None) -> Wires:
    """Those of a replica, or of the group that it is in step with; of one stage on the links `met`, all where left
    out."""
    replica = placed.replica
    if replica.group is not None:
        replica.group.wires = GroupWires(replica.group, _moves(placed, met, in_step=True), job)
        return replica.group.wires
    if replica.stages.turns:
        costs = replica.stages.costs
        # Batches on several stages may slow each other on links that no other user is on.
        moves = [_moves(placed, None, in_step=False, stage=stage) for stage in range(len(costs))]
        hops = [_hop(placed, stage) for stage in range(len(costs) - 1)]
        replica.stages.wires = StageWires(replica, moves, hops, job)
        return replica.stages.wires
    (batch,) = replica.batches
    replica.wires = ReplicaWires(batch, _moves(placed, met, in_step=False), job)
    return replica.wires


def _between(ranks: Sequence[int], runs: Library) -> set[int]:
    """Links between any two of some ranks, on some of which all their collectives run."""
    source, target = np.nonzero(~np.eye(len(ranks), dtype=bool))
    where = np.array(ranks)
    return set(runs.fabric.between(where[source], where[target])) if len(ranks) > 1 else set()


def _ways(placed: Sequence[Placed], transfer: KvTransfer) -> Iterator[User]:
    """Ways of caches: of those between the same replicas, or groups in step, which meet the same others, one user."""
    firsts = {one.replica: one.first for one in placed}
    pairs: dict[tuple[Replica, Replica], list[tuple[int, int]]] = defaultdict(list)
    between: dict[tuple[Replica, Replica], list[tuple[int, int]]] = defaultdict(list)
    for one in placed:
        for other in _targets(one, firsts, transfer):
            key = one.first, firsts[other]
            pairs[key] += pairs_of(one.seat.own, transfer.devices[other.number])
            between[key].append((one.replica.number, other.number))
    for key, ranks in pairs.items():
        links = set(transfer.fabric.between(*np.array(ranks).T))
        yield User(links, None, partial(_wires_of_ways, transfer, between[key]), transfer.job)


def _targets(one: Placed, firsts: Mapping[Replica, Replica], transfer: KvTransfer) -> Iterable[Replica]:
    """Replicas that caches may move to from one."""
    if transfer.switches:
        return [other for other in firsts if firsts[other] is not one.first and other.role != "both"]
    return transfer.every or transfer.decoders if one.replica.role == "prefill" else ()


def _wires_of_ways(transfer: KvTransfer, ways: Sequence[tuple[int, int]]) -> Wires:
    wires = GuestWires()
    transfer.wires.update(dict.fromkeys(ways, wires))
    return wires


def _rates(members: Sequence[Placed]) -> dict[int, float]:
    """The most that replicas in step, which run the same collectives, ask of each link: on each stage one at a time,
    and on each way to the next one batch."""
    found: dict[int, float] = defaultdict(float)
    asked_by: dict[tuple[int, Sending | None, tuple[int, ...]], list[Use]] = {}
    seen: set[tuple[tuple[int, Sending | None, tuple[int, ...]], ...]] = set()
    for one in members:
        groups = list(one.groups())
        calls = tuple((id(price), send, ranks) for price, send, ranks in groups)
        if calls in seen:  # another member asks the same of the same links
            continue
        seen.add(calls)
        stages: dict[tuple[int, bool, int], float] = defaultdict(float)
        for price, send, ranks in groups:
            if (call := (id(price), send, ranks)) not in asked_by:
                asked_by[call] = [use for movement in _asked(price, send, ranks, one.runs) for use in movement.uses]
            for use in asked_by[call]:
                key = id(price), send is None, use.resource
                stages[key] = max(stages[key], use.rate)
        asked: dict[int, float] = defaultdict(float)
        for (*_, link), rate in stages.items():
            asked[link] += rate
        for link, rate in asked.items():
            found[link] = max(found[link], rate)
    return found


def _asked(price: StageCost, send: Sending | None, ranks: tuple[int, ...], runs: Library) -> Iterable[Movement]:
    operation, size = ("send", price.hop_bytes) if send is None else (send.operation, send.size(1))
    for rows in ROWS:
        yield from runs.movements(operation, ranks, knot(rows * size))


def _moves(placed: Placed, met: Collection[int] | None, in_step: bool, stage: int = 0) -> Moves:
    """What the iterations of a replica move on a stage, or those of replicas in step for the rows of all, on the links
    `met`, all where left out."""
    sends = [send for send in placed.replica.stages.costs[stage].sends if send.in_step == in_step]

    alike: dict[tuple[Use, ...], tuple[Use, ...]] = {}

    @cache
    def movements(i: int, size: float) -> tuple[Movement, ...]:
        found = placed.runs.movements(sends[i].operation, placed.group(stage, sends[i]), size)
        # Links that are asked alike are one object, which the fluid knows again without looking at all of them.
        used = [move.uses if met is None else _on(move.uses, met) for move in found]
        return tuple(move._replace(uses=alike.setdefault(uses, uses)) for move, uses in zip(found, used, strict=True))

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


def _on(uses: tuple[Use, ...], met: Collection[int]) -> tuple[Use, ...]:
    """Uses of links on which others can be met: elsewhere there is enough for all that may come, and nobody is slowed.
    Two of several stay in any case: who has one alone is solved in another way."""
    kept = [use for use in uses if use.resource in met]
    if len(kept) < FEWEST:
        kept += [use for use in uses if use.resource not in met][: FEWEST - len(kept)]
    return tuple(kept)


def _hop(placed: Placed, stage: int) -> Hop:
    """The way of the rows of a batch from a stage to the next."""
    cost, tp = placed.replica.stages.costs[stage], len(placed.seat.own) // len(placed.replica.stages.costs)
    pair = placed.seat.own[stage * tp], placed.seat.own[(stage + 1) * tp]

    @cache
    def movement(size: float) -> Movement:
        (found,) = placed.runs.movements("send", pair, size)
        return found

    @cache
    def hop(rows: int) -> Activity:
        ticks = cost.send(rows)
        share, uses = movement(knot(rows * cost.hop_bytes)) if ticks else (0.0, ())
        work = round(share * ticks)
        return Activity(ticks - work, work, uses)

    return hop
