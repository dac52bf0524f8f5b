"""Why operations take their time: which operations, which links, which roofs.

An instruction is split into its kernels, by the roof that bounds each, and its exposed collectives. The time of a
collective goes to the kind of link that decides its rate, as far as bytes move, and to `latency` for the rest (launch
and hops); waiting for offloaded activations goes to the host's link.
"""

from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from simulator.engine.tape import Timeline
from simulator.program import codes as d
from simulator.program.content import OWN, Call, Content
from simulator.run.links.carried import HOST_LINK
from simulator.training.chains import ChainClasses
from simulator.training.passes.program import Program

Ints = NDArray[np.int64]

LATENCY = "latency"
"""Launch and hops of collectives, launches of kernels."""
BESIDE = dict.fromkeys(d.TIER_CODES, HOST_LINK)
BESIDE |= dict.fromkeys(d.ON_CORES, "host cores") | {d.NVME_READ: "NVMe read", d.NVME_WRITE: "NVMe write"}
"""What operations beside the device's memory run on."""


class Reasons:
    """Ticks of operations by what ran, by link and by roof."""

    def __init__(self, program: Program, timeline: Timeline, classes: ChainClasses, links: tuple[str, ...]) -> None:
        """`links` names the kinds of link."""
        self.program, self.timeline, self.classes, self.names = program, timeline, classes, links
        self.interleaved = int(program.columns.stage.max(initial=0)) >= classes.ranks.shape[1]
        self.operations: dict[str, float] = defaultdict(float)
        """By name and stage, or chunk where ranks have several; exposed collectives inside passes by their own."""
        self.links: dict[str, float] = defaultdict(float)
        self.roofs: dict[str, float] = defaultdict(float)

    def explain(self, operations: Ints) -> None:
        """Add what some operations lasted; those of one device, kind, stage and content are alike."""
        columns = self.program.columns
        kinds = (columns.kind, columns.stage, columns.content)
        device = self.program.device(operations)
        labels = np.stack([device, *(column[operations] for column in kinds)], axis=1)
        order = np.lexsort(labels.T[::-1])
        labels, lasted = labels[order], (self.timeline.end - self.timeline.start)[operations][order]
        for same in np.split(np.arange(len(order)), 1 + np.flatnonzero((labels[1:] != labels[:-1]).any(axis=1))):
            device, code, chunk, content = labels[same[0]].tolist()
            if code in d.TIER_CODES:
                self.operations[d.KINDS[code]] += int(lasted[same].sum())
                self.links[BESIDE[code]] += int(lasted[same].sum())
                continue
            name = d.KINDS[code] + (f", {'chunk' if self.interleaved else 'stage'} {chunk}" if chunk >= 0 else "")
            self._explain(name, device, self.program.contents[content].whole, len(same), int(lasted[same].sum()))

    def _explain(self, name: str, device: int, content: Content, count: int, lasted: int) -> None:
        """One kind of instruction that ran `count` times and lasted so long in all."""
        chain, rank = divmod(device, self.classes.ranks.shape[1])
        first = int(self.classes.members[chain][0])
        self.operations[name] += lasted
        if not content.kernels:
            self._moved(content.calls, lasted, first, rank)
            return
        whole = content.times(count)
        self._kernels(whole)
        for call in whole.calls:
            self.operations[name] -= call.exposed
            self.operations[f"{call.comm.operation} {call.comm.axis}"] += call.exposed
        self._moved(whole.calls, whole.exposed, first, rank)

    def _kernels(self, content: Content) -> None:
        """Ticks of kernels by roof, and of offloading by link."""
        self.roofs["compute"] += content.kernels - content.memory - content.latency
        self.roofs["memory"] += content.memory
        self.roofs[LATENCY] += content.latency
        self.links[HOST_LINK] += content.offload

    def _moved(self, calls: tuple[Call, ...], lasted: int, chain: int, rank: int) -> None:
        """Time of communication by link, in proportion to what of each collective is exposed."""
        weight = sum(call.exposed for call in calls)
        for call in calls:
            priced = self.classes.priced[call.comm]
            row = int(priced.rows[chain, rank if call.place == OWN else call.place])
            ticks, link = lasted * call.exposed / weight if weight else 0.0, int(priced.cost.bottleneck[row])
            moving = float(priced.cost.moving[row]) / max(int(priced.cost.ticks[row]), 1) if link >= 0 else 0.0
            if link >= 0:
                self.links[self.names[link]] += ticks * moving
            self.links[LATENCY] += ticks * (1.0 - moving)
