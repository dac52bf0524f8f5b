"""Why operations take their time: which operations, which links, which roofs.

A pass is split into its kernels, by the roof that bounds each, and its exposed tensor-parallel collectives. The time of
a collective goes to the kind of link that decides its rate, as far as bytes move, and to `latency` for the rest (launch
and hops). Where an operation holds several collectives, exposed in part, each counts in proportion to its own length.
"""

from collections import defaultdict
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import Timeline
from simulator.program import draft as d
from simulator.training.chains import ChainClasses
from simulator.training.communication import Share
from simulator.training.job import Job
from simulator.training.lowering import LANES, Columns
from simulator.training.pricing import PassCost

Ints = NDArray[np.int64]

LATENCY = "latency"
"""Launch and hops of collectives, launches of kernels."""
_SENDS = {d.SEND_FORWARD: 1, d.SEND_BACKWARD: -1}
_COLLECTIVES = (d.GATHER, d.REDUCE, d.EMBEDDING)
_TRAFFIC = {d.FORWARD: d.FORWARD, d.BACKWARD: d.BACKWARD, d.INPUT: d.BACKWARD, d.WEIGHT: d.BACKWARD}


class Reasons:
    """Ticks of operations by what ran, by link and by roof."""

    def __init__(
        self, columns: Columns, timeline: Timeline, classes: ChainClasses, job: Job, links: tuple[str, ...]
    ) -> None:
        """`links` names the kinds of link."""
        self.columns, self.timeline, self.classes, self.job, self.names = columns, timeline, classes, job, links
        self.operations: dict[str, float] = defaultdict(float)
        """By name and stage, or chunk where ranks have several; exposed tensor-parallel collectives by their own."""
        self.links: dict[str, float] = defaultdict(float)
        self.roofs: dict[str, float] = defaultdict(float)

    def explain(self, operations: Ints) -> None:
        """Add what some operations lasted; those of one kind, stage and device class are alike but for their pieces."""
        columns = self.columns
        device, kind, stage = (
            columns.lane[operations] // len(LANES),
            columns.kind[operations],
            columns.stage[operations],
        )
        order = np.lexsort((stage, kind, device))
        labels = np.stack([device, kind, stage], axis=1)[order]
        for same in np.split(np.arange(len(order)), 1 + np.flatnonzero((labels[1:] != labels[:-1]).any(axis=1))):
            one, code, chunk = labels[same[0]].tolist()
            chosen = operations[order[same]]
            lasted = int((self.timeline.end[chosen] - self.timeline.start[chosen]).sum())
            chain, rank = divmod(one, self.job.pp)
            name = d.KINDS[code] + (f", {'chunk' if self.job.vpp > 1 else 'stage'} {chunk}" if chunk >= 0 else "")
            self.operations[name] += lasted
            if code in _TRAFFIC:
                self._pass(chain, rank, code, chunk, columns.piece[chosen], name)
            elif code == d.OPTIMIZER:
                self._kernels(self.classes.prices[chain].optimizer[rank], lasted)
            else:
                self._moved(lasted, self._shares(chain, rank, code, chunk))

    def _pass(self, chain: int, rank: int, code: int, chunk: int, piece: Ints, name: str) -> None:
        """Passes through a chunk: kernels by roof; the exposed collectives are named on their own."""
        cost = self._cost(chain, code, chunk, piece)
        self._kernels(cost, cost.compute + cost.recompute)
        if not cost.tensor:
            return
        shares = self._shares(chain, rank, _TRAFFIC[code], chunk)
        self.operations[name] -= cost.tensor
        whole = sum(share.ticks for share in shares)
        for share in shares:
            self.operations[f"{share.collective} tp"] += cost.tensor * share.ticks / whole
        self._moved(cost.tensor, shares)

    def _cost(self, chain: int, code: int, chunk: int, piece: Ints) -> PassCost:
        """What passes cost alone, all their pieces together."""
        prices = self.classes.prices[chain]
        tables = {d.FORWARD: prices.forward[chunk], d.BACKWARD: prices.backward[chunk]}
        tables |= {d.INPUT: [prices.input_gradient[chunk]], d.WEIGHT: [prices.weight_gradient[chunk]]}
        pieces, whole = tables[code], int((piece < 0).sum())
        counts = np.bincount(piece[piece >= 0], minlength=len(pieces)) + whole
        return sum((cost.times(n) for cost, n in zip(pieces, counts.tolist(), strict=True) if n), PassCost())

    def _kernels(self, cost: PassCost, lasted: int) -> None:
        """Ticks of kernels that together last `lasted`, by roof, in the proportions of a cost."""
        alone = cost.compute + cost.recompute
        scale = lasted / alone if alone else 0.0
        self.roofs["compute"] += (alone - cost.memory - cost.latency) * scale
        self.roofs["memory"] += cost.memory * scale
        self.roofs[LATENCY] += cost.latency * scale

    def _shares(self, chain: int, rank: int, code: int, chunk: int) -> list[Share]:
        """The collectives that operations of a kind on a rank consist of."""
        ranks = self.classes.ranks[self.classes.members[chain][0]]
        traffic, name = self.classes.traffic, d.KINDS[code]
        if code not in _SENDS:
            return traffic.of(name, [int(ranks[rank])])
        target = self.job.home[chunk + _SENDS[code]]
        gathered = [share for share in traffic.of(name, [int(ranks[target])]) if share.collective != "send"]
        return traffic.of(name, [int(ranks[rank]), int(ranks[target])]) + gathered

    def _moved(self, lasted: int, shares: Iterable[Share]) -> None:
        """Time of communication by link, in proportion to how long each collective takes."""
        found: dict[str, float] = defaultdict(float)
        for share in shares:
            if share.link >= 0:
                found[self.names[share.link]] += share.moving
            found[LATENCY] += share.ticks - (share.moving if share.link >= 0 else 0.0)
        whole = sum(found.values())
        for name, ticks in found.items():
            self.links[name] += lasted * ticks / whole if whole else 0.0
