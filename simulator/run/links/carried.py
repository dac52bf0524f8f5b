"""What the links of a fabric carried: the busiest of each kind, which operations loaded it and whose.

Bytes are those of the collectives in the instructions that ran, each counted for the share of its group's members that
ran them: all of a group's members together run its collective once.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.engine.load import Load, Span
from simulator.fabric import Fabric
from simulator.program import codes as d
from simulator.program.content import OWN, Comm
from simulator.results.link_rates import peak
from simulator.results.result import LinkLoad, Spans
from simulator.run.parts import axis_of
from simulator.training import memory
from simulator.training.chains import ChainClasses
from simulator.training.job import Job
from simulator.training.passes.program import Program

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

HOST_LINK = "host link"
"""Name of the link between a device and its host."""

_SLACK = 1.02
"""Times the capacity from which a rate is worth a warning: less changes no answer."""
_NEARLY = 0.5
"""Times the capacity from which a link may become scarce where others are."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """Links on which traffic met, and what they carried over time."""

    links: NDArray[np.int64]
    """Of the fabric, those that were looked at; shape (m,)."""
    load: Load | None
    """None where it was not written down."""
    resources: tuple[int, ...]
    """Their numbers on the record."""
    net: Mapping[str, Floats]
    """What of each unit on the record are bytes, by name of the operation; (m,) each."""

    def within(self, first: int, stop: int) -> NDArray[np.int64]:
        """Those of a block of links."""
        found: NDArray[np.int64] = self.links[(self.links >= first) & (self.links < stop)]
        return found

    def spans(self, link: int) -> list[Span]:
        """What a link carried, in order."""
        return [] if self.load is None else self.load.of(self.resources[int(np.searchsorted(self.links, link))])

    def of(self, busiest: LinkLoad, link: int) -> LinkLoad:
        """The load of a link with what it carried over time for operations that share it, in bytes."""
        spans, place = self.spans(link), int(np.searchsorted(self.links, link))
        if not spans:
            return busiest
        net = {name: float(share[place]) * units.TICKS_PER_SECOND for name, share in self.net.items()}
        rates = [sum((rate * net[str(name)] for name, rate in span.by.items()), 0.0) for span in spans]
        top = int(np.argmax(rates))
        over_time = (*((span.start, rate) for span, rate in zip(spans, rates, strict=True)), (spans[-1].stop, 0.0))
        return replace(busiest, peak=rates[top], at_peak=tuple(map(str, spans[top].by)), rates=over_time)


@dataclass(frozen=True, slots=True, eq=False)
class Sent:
    """How often operations of one name ran one collective."""

    operation: str
    comm: Comm
    runs: Floats
    """By group of the collective."""
    users: dict[int, list[Ints]]
    """Groups in which each device class took part."""


def sent(program: Program, classes: ChainClasses) -> list[Sent]:
    """Everything that the instructions of a program sent, by name of the operation and collective."""
    columns, contents = program.columns, len(program.contents)
    code = (program.device(slice(None)) * len(d.KINDS) + columns.kind) * contents + columns.content
    found: dict[tuple[str, Comm], Sent] = {}
    for alike, count in zip(*map(np.ndarray.tolist, np.unique(code, return_counts=True)), strict=True):
        (device, kind), content = divmod(alike // contents, len(d.KINDS)), alike % contents
        chain, rank = divmod(device, classes.ranks.shape[1])
        for call in program.contents[content].whole.calls:
            priced = classes.priced[call.comm]
            key = d.KINDS[kind], call.comm
            if key not in found:
                found[key] = Sent(*key, np.zeros(len(priced.cost.ticks)), {})
            rows = priced.rows[classes.members[chain], rank if call.place == OWN else call.place]
            np.add.at(found[key].runs, rows, count * call.runs / priced.members)
            found[key].users.setdefault(device, []).append(rows)
    return list(found.values())


def link_loads(
    fabric: Fabric, program: Program, classes: ChainClasses, step_s: float, spans: Spans, shared: Recorded | None = None
) -> tuple[LinkLoad, ...]:
    """The busiest link of each kind that carried anything; of `shared` ones, of those that were recorded."""
    flows = sent(program, classes)
    costs = [classes.priced[flow.comm].cost for flow in flows]
    total = _total(fabric, classes, flows)
    stops = [*fabric.block_start[1:], len(fabric.capacity)]
    found = []
    for name, first, stop in zip(fabric.kinds, fabric.block_start, stops, strict=True):
        if not total[first:stop].any():
            continue
        recorded = shared.within(first, stop) if shared else np.zeros(0, np.int64)
        recording = bool(total[recorded].any())
        if recording:
            link = int(recorded[np.argmax(total[recorded] / fabric.capacity[recorded])])
        else:
            link = first + int(np.argmax(total[first:stop] / fabric.capacity[first:stop]))
        here = [cost.carried_at(link, flow.runs) for flow, cost in zip(flows, costs, strict=True)]
        by_operation: dict[str, float] = defaultdict(float)
        for flow, load in zip(flows, here, strict=True):
            if load:
                by_operation[flow.operation] += load
        moved, rate = float(total[link]), float(fabric.capacity[link])
        users = _users(classes, [flow for flow, load in zip(flows, here, strict=True) if load], link)
        busiest = LinkLoad(name, stop - first, rate, moved, moved / (rate * step_s), dict(by_operation), users)
        busiest = replace(busiest, busiest=fabric.described(link))
        if shared and recording:
            found.append(shared.of(busiest, link))
            continue
        highest, at_peak = peak(spans, busiest)
        found.append(replace(busiest, peak=highest, at_peak=at_peak))
    return tuple(found)


def carried_bytes(fabric: Fabric, program: Program, classes: ChainClasses) -> Floats:
    """Bytes that each link of a fabric carried in a step; shape (links,)."""
    return _total(fabric, classes, sent(program, classes))


def _total(fabric: Fabric, classes: ChainClasses, flows: list[Sent]) -> Floats:
    total = np.zeros(len(fabric.capacity))
    for flow in flows:
        classes.priced[flow.comm].cost.carried(flow.runs).add_to(total)
    return total


def _users(classes: ChainClasses, flows: list[Sent], link: int) -> tuple[int, ...]:
    """The device classes in groups that send over a link."""
    found: set[int] = set()
    for flow in flows:
        sends = np.zeros(len(flow.runs) + 1, np.bool_)  # the last for places without a group
        sends[classes.priced[flow.comm].cost.plan.users(link)] = True
        found.update(device for device, rows in flow.users.items() if any(sends[row].any() for row in rows))
    return tuple(sorted(found))


def host_links(job: Job, step_s: float, spans: Spans) -> tuple[LinkLoad, ...]:
    """The busiest link between a device and its host, each way; nothing where nothing is offloaded.

    Copies run on lanes of their own, out while passes run forward and in while they run backward.
    """
    copied = memory.copied_a_step(job)
    stage = int(np.argmax(copied))
    if not copied[stage]:
        return ()
    found = []
    for way, operation in (("up", "offload"), ("down", "fetch offloaded")):
        use = copied[stage] / (job.host_link * step_s)
        load = LinkLoad(
            f"{HOST_LINK} {way}",
            job.mesh.world,
            job.host_link,
            copied[stage],
            use,
            {operation: copied[stage]},
            (stage,),
        )
        highest, at_peak = peak(spans, load)
        found.append(replace(load, peak=highest, at_peak=at_peak))
    return tuple(found)


def scarce_kinds(loads: tuple[LinkLoad, ...]) -> frozenset[str]:
    """Kinds of links to share by their load on average over operations of a name: where one was asked for more than it
    has, all that were asked for half of it or more."""
    if not any(load.peak > _SLACK * load.capacity for load in loads):
        return frozenset()
    return frozenset(load.name for load in loads if load.peak > _NEARLY * load.capacity)


def overloaded(loads: tuple[LinkLoad, ...]) -> tuple[str, ...]:
    """A warning where links carry more than they have at a moment of the step: which, by how much and in what."""
    over: dict[str, list[str]] = {}
    for load in loads:
        if load.peak > _SLACK * load.capacity:
            senders = " and ".join(_named(name) for name in load.at_peak)
            rates = f"{units.format(load.peak, 'bandwidth')} of {units.format(load.capacity, 'bandwidth')}"
            over.setdefault(f"{rates} in {senders}", []).append(load.name)
    if not over:
        return ()
    listed = "; ".join(f"{', '.join(names)} {what}" for what, names in over.items())
    return (
        "passes that run as one instruction do not share links: together with what runs beside them they ask for"
        f" more than the links carry, and the simulated step is shorter than a real one: {listed}",
    )


def _named(operation: str) -> str:
    """An operation with the axis along which it communicates; a pass may do so along several."""
    axis = axis_of(operation)
    return f"`{operation}` ({axis})" if axis else f"`{operation}`"
