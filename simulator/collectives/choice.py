"""Which algorithm and protocol the groups of an axis run.

A profile with the library's published tuning model chooses by it (`tuner`), each group for itself. Elsewhere the pair
is taken that finishes first with all siblings running, at the rates that the hardware promises: so more bandwidth never
makes the choice a slower one.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush
from itertools import zip_longest
from math import ceil

import numpy as np
from numpy.typing import NDArray

from simulator.collectives.algorithms import ALGORITHMS, EXCHANGES
from simulator.collectives.demand import LinkDemand, demand_of
from simulator.collectives.environment import OPERATIONS as RESTRICTED
from simulator.collectives.environment import in_environment
from simulator.collectives.link_range import LinkRange
from simulator.collectives.occupied import Occupied, occupied
from simulator.collectives.phase import Phase
from simulator.collectives.placement import GroupPlacement, placements
from simulator.collectives.rate import Rate, rate_of, rounded
from simulator.collectives.routing import Routing
from simulator.collectives.synthesised import SUFFIX, plan_of, synthesised
from simulator.collectives.tuner import Group, chosen
from simulator.errors import InputError, Problem, nearest
from simulator.fabric import Fabric
from simulator.fabric.fabric import NETWORK
from simulator.specs.libraries.collectives import CollectiveProfile, Protocol

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """Groups of one layout with the algorithm and protocol that they run."""

    algorithm: str
    protocol: str
    rate: Rate
    demands: tuple[LinkDemand, ...]
    rows: Ints
    """Which of the sibling groups these are."""
    occupied: Occupied
    """What it takes of each device of a group."""

    @property
    def sent(self) -> float:
        """Bytes that all transfers of a group move, for a collective of one byte."""
        return sum(demand.phase.volume for demand in self.demands)


@dataclass(frozen=True, slots=True, eq=False)
class _Option:
    """What groups of one layout could run."""

    algorithm: str
    protocol: str
    rate: Rate
    phases: tuple[Phase, ...]
    groups: Ints
    """Their ranks; (groups, members)."""
    rows: Ints
    occupied: Occupied

    @property
    def names(self) -> tuple[str, str]:
        """What rules may call it: the algorithm, and the algorithm under its protocol."""
        return self.algorithm, f"{self.algorithm}/{self.protocol}"

    def run(self, fabric: Fabric, known: "_Known", groups: int | None = None) -> Choice:
        """The choice for the first of the groups, or for all."""
        key = id(self.phases), id(self.groups), groups
        if key not in known:
            known[key] = tuple(demand_of(phase, self.groups[:groups], fabric) for phase in self.phases)
        demands = known[key]
        return Choice(self.algorithm, self.protocol, self.rate, demands, self.rows[:groups], self.occupied)


_Known = dict[tuple[int, int, int | None], tuple[LinkDemand, ...]]
"""What phases of groups ask of the fabric, by identity: protocols of an algorithm share it."""


def choose(
    operation: str,
    ranks: Ints,
    size_bytes: float,
    fabric: Fabric,
    profile: CollectiveProfile,
    algorithm: str,
    routing: Routing | None = None,
) -> list[Choice]:
    """What groups (g, n), their members in order, run: one choice for each layout. InputError where nothing can."""
    profile = in_environment(profile, operation)
    placed = [
        (layout, rows, _options(operation, layout, ranks, rows, size_bytes, profile, algorithm, routing))
        for layout, rows in placements(ranks, fabric)
    ]
    for layout, _, options in placed:
        if not options:
            place = f"{layout.members} ranks on {layout.nodes} nodes"
            name = split(algorithm)[0]
            raise InputError(f"the algorithm `{name}` cannot do {operation} of {place} on this fabric")
    if algorithm == "auto" and profile.rules:
        placed = [(at, rows, _ruled(operation, at, options, size_bytes, profile)) for at, rows, options in placed]
    tuned = [_tuned(operation, layout, options, size_bytes, profile) for layout, _, options in placed]
    kept = [[one] if one else options for one, (_, _, options) in zip(tuned, placed, strict=True)]
    return _quickest(kept, fabric)


def _options(
    operation: str,
    layout: GroupPlacement,
    ranks: Ints,
    rows: Ints,
    size_bytes: float,
    profile: CollectiveProfile,
    algorithm: str,
    routing: Routing | None,
) -> list[_Option]:
    name, protocol_name = split(algorithm)
    if name.endswith(SUFFIX):
        name, protocol_name = _checked_plan(name, protocol_name, size_bytes, profile)
    groups = ranks if len(rows) == len(ranks) else ranks[rows]
    group = _group(layout, groups[0])
    return [
        _Option(candidate, protocol, rate, phases, groups, rows, occupied(profile, candidate, group))
        for candidate, found in _able(operation, layout, _candidates(operation, name, profile, layout), routing)
        for phases in (_in_operations(found, layout, size_bytes),)
        for protocol, spec in _protocols(candidate, protocol_name, profile)
        for rate in (rate_of(operation, phases, layout.members, size_bytes, spec, profile, layout.rails),)
    ]


def _in_operations(phases: tuple[Phase, ...], layout: GroupPlacement, size_bytes: float) -> tuple[Phase, ...]:
    """The phases with the hops of each operation, where switches between nodes add up no more at a time."""
    reduction = layout.fabric.reduction
    if reduction is None:
        return phases
    most = reduction.largest.value
    pieces = [ceil(size_bytes * float(phase.size[phase.dst <= NETWORK].max(initial=0)) / most) for phase in phases]
    return tuple(
        replace(phase, outer=phase.outer * count) if count > 1 else phase
        for phase, count in zip(phases, pieces, strict=True)
    )


def _able(
    operation: str, layout: GroupPlacement, names: tuple[str, ...], routing: Routing | None
) -> Iterator[tuple[str, tuple[Phase, ...]]]:
    """Those of the algorithms that can do this, with their phases."""
    for name in names:
        if routing is None and name.endswith(SUFFIX):
            phases = synthesised(name, operation, layout)
        elif routing is None:
            phases = ALGORITHMS.get(name)(operation, layout)
        else:
            phases = EXCHANGES.get(name)(operation, layout, routing)
        if phases is not None:
            yield name, phases


def split(algorithm: str) -> tuple[str, str]:
    """(name of an algorithm or file of a plan, protocol or nothing) of `ring/LL128`, `plans/mine.xml/Simple`."""
    file, suffix, rest = algorithm.rpartition(SUFFIX)
    if suffix and (not rest or rest.startswith("/")):
        return file + suffix, rest.removeprefix("/")
    name, _, protocol = algorithm.partition("/")
    return name, protocol


def _checked_plan(name: str, protocol: str, size_bytes: float, profile: CollectiveProfile) -> tuple[str, str]:
    """The file and the protocol that it names, where the library has it; InputError for a size that it is not for."""
    plan = plan_of(name)
    low, high = plan.sizes
    if not low <= size_bytes <= high:
        raise InputError(Problem(f"the plan is for {low:,.0f} to {high:,.0f} bytes, not {size_bytes:,.0f}", file=name))
    return name, protocol or (plan.protocol if plan.protocol in profile.protocols else "")


_RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast")
_EXCHANGED = ("dispatch", "combine")


LONE = ("pat",)
"""Algorithms that a library takes by itself where each node has one member alone (NVIDIA/nccl, src/graph/tuning.cc)."""


def _candidates(operation: str, name: str, profile: CollectiveProfile, layout: GroupPlacement) -> tuple[str, ...]:
    """Names of the algorithms to try."""
    if name != "auto":
        return (name,)
    # What a library has for large machines may not apply to a small group: direct transfers and rings always do.
    fallback = "ring" if operation in _RINGS else "direct"
    # A shift is made of sends: it is done as they are where a library has nothing of its own.
    base = operation.partition(":")[0]
    named = "send" if base == "shift" and "shift" not in profile.algorithms else base
    own: tuple[str, ...] = profile.algorithms.get(named, ())  # type: ignore[call-overload]
    if layout.members > layout.nodes or layout.nodes == 1:
        own = tuple(one for one in own if one not in LONE)
    # A library's own way to send is open to any pair, and how fast it is was measured: what serves an exchange with all
    # peers is no way out, nor what only sends where a device receives while it sends.
    alone = operation in _EXCHANGED or named in ("send", "shift")
    if own and (alone or (profile.environment is not None and operation in RESTRICTED)):
        return own
    return own if fallback in own else (*own, fallback)


def _protocols(algorithm: str, name: str, profile: CollectiveProfile) -> list[tuple[str, Protocol]]:
    if not name:  # an algorithm that the library does not have itself may run any of its protocols
        return list((profile.protocols_of(_kin(algorithm, profile)) or profile.protocols).items())
    if name not in profile.protocols:
        raise InputError(Problem(f"unknown protocol `{name}`", hint=nearest(name, profile.protocols)))
    return [(name, profile.protocols[name])]


def _kin(algorithm: str, profile: CollectiveProfile) -> str:
    """The algorithm whose protocols serve this one: an exchange that no protocol names is made of direct transfers."""
    if algorithm.endswith(SUFFIX):
        return "ring"
    named = any(algorithm in protocol.algorithms for protocol in profile.protocols.values())
    return algorithm if named or algorithm in ALGORITHMS.names() else "direct"


# ---- by the library's own tables ---------------------------------------------------------------------------------


def ruled(
    operation: str, members: int, nodes: int, size_bytes: float, profile: CollectiveProfile, able: Collection[str]
) -> str:
    """Of these algorithms (`ring`, `ring/LL128`) that which a published rule of a library takes; empty where none does.

    The group has so many members on so many nodes.
    """
    numbers = {"any", "other" if nodes & (nodes - 1) else "power_of_two", "several" if nodes > 1 else "any"}
    for rule in profile.rules:
        size = size_bytes / members if rule.each else size_bytes
        fits = rule.operation == operation and rule.nodes in numbers
        if fits and (rule.below is None or size < rule.below) and rule.algorithm in able:
            return rule.algorithm
    return ""


def _ruled(
    operation: str, layout: GroupPlacement, options: list[_Option], size_bytes: float, profile: CollectiveProfile
) -> list[_Option]:
    """Options of the algorithm that a rule of the library takes; all where none does."""
    able = {name for option in options for name in option.names}
    taken = ruled(operation, layout.members, layout.nodes, size_bytes, profile, able)
    return [option for option in options if not taken or taken in option.names]


def _tuned(
    operation: str, layout: GroupPlacement, options: list[_Option], size_bytes: float, profile: CollectiveProfile
) -> _Option | None:
    """What the library's tuner takes; None where it has none, or none that speaks of these options.

    None too where switches between nodes reduce: the tuners here do not know of it.
    """
    offloaded = layout.fabric.reduction is not None
    if profile.tuner is None or (layout.nodes > 1 and (offloaded or not profile.tuner.across_nodes)):
        return None
    by_name = {(option.algorithm, option.protocol): option for option in options}
    release = profile.environment.release if profile.environment else ""
    known = [s for s in profile.tuner.options if s.holds(release) and (s.algorithm, s.protocol) in by_name]
    if not known:
        return None
    taken = chosen(profile.tuner, known, operation, _group(layout, options[0].groups[0]), size_bytes)
    return by_name[taken.algorithm, taken.protocol]


def _group(layout: GroupPlacement, ranks: Ints) -> Group:
    """A group as a library sees it: its cards are those of the node with the fewest members."""
    place = layout.counts.index(layout.rails)
    first = int(layout.starts[place])
    cards = layout.fabric.network.cards(ranks[first : first + layout.rails])
    return Group(layout.members, layout.nodes, cards)


# ---- by modelled time --------------------------------------------------------------------------------------------


def _quickest(options: list[list[_Option]], fabric: Fabric) -> list[Choice]:
    """Of the options of each layout those that are done first together; layouts take the same one where they can.

    Best first: a bound without transfers, then that of each layout's first group alone, then all with their siblings.
    """
    names = list(dict.fromkeys((option.algorithm, option.protocol) for able in options for option in able))
    joint = [[_named(able, name) for able in options] for name in names]
    known: _Known = {}
    if len(joint) == 1 or all(len(able) == 1 for able in options):
        return [option.run(fabric, known) for option in joint[0]]
    single = len(options) == 1 and len(options[0][0].rows) == 1
    queue: list[tuple[int, int, int, list[Choice]]] = [
        (max(option.rate.least_ticks(option.phases) for option in together), 2, place, [])
        for place, together in enumerate(joint)
    ]
    heapify(queue)
    while True:
        _, left, place, found = heappop(queue)
        if left == 0:
            return found
        found = [option.run(fabric, known, 1 if left == 2 else None) for option in joint[place]]
        ticks = max(_alone(choice, fabric) for choice in found) if left == 2 else _beside(found, fabric)
        heappush(queue, (ticks, 0 if single else left - 1, place, found))


def _named(options: Sequence[_Option], name: tuple[str, str]) -> _Option:
    """The option of that name, the first where there is none."""
    return next((option for option in options if (option.algorithm, option.protocol) == name), options[0])


def _alone(choice: Choice, fabric: Fabric) -> int:
    """Ticks of the first group with nothing else on the fabric, as the hardware promises it."""
    return int(choice.rate.total_ticks(choice.demands, [demand.planned(fabric) for demand in choice.demands])[0])


def _beside(choices: list[Choice], fabric: Fabric) -> int:
    """Ticks until the last of all groups is done, on links as the hardware promises them."""
    ticks = [rounded(choice.rate.launch) for choice in choices]
    for load, sharing in in_step(choices):
        for choice, demand in sharing:
            repeat = demand.phase.repeat
            busy = demand.busiest(load.over(fabric.rated, repeat), fabric.first_outer)
            place = choices.index(choice)
            ticks[place] = ticks[place] + repeat * choice.rate.step_ticks(demand, busy)
    return max(int(np.max(own)) for own in ticks)


def in_step(choices: list[Choice]) -> Iterator[tuple[LinkRange, list[tuple[Choice, LinkDemand]]]]:
    """Phase by phase: bytes on each link in the whole phase, for a size of one byte, and the choices in it."""
    for demands in zip_longest(*(choice.demands for choice in choices)):
        sharing = [(choice, demand) for choice, demand in zip(choices, demands, strict=True) if demand is not None]
        yield LinkRange.total([demand.load().times(demand.phase.repeat) for _, demand in sharing]), sharing
