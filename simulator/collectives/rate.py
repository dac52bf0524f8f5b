"""How fast a protocol of a library serves one collective: latencies of hops, and what a byte takes of a link."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from simulator.collectives.demand import LinkDemand
from simulator.collectives.phase import Phase
from simulator.engine.tape import NEVER
from simulator.errors import InputError
from simulator.specs.libraries.collectives import CollectiveProfile, Protocol, Scope
from simulator.specs.libraries.tuner import numbers
from simulator.units import TICKS_PER_SECOND

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PASSES = {"all_reduce": 2, "all_gather": 1, "reduce_scatter": 1, "all_to_all": 1, "dispatch": 1, "combine": 1}
"""How often the pieces of all other members pass by a member."""

CROWDED = 32
"""Ranks of a group beyond which NCCL to 2.28 gives a peer on another node one channel for two: it halves them while
they times the ranks exceed four times its 16 channels (NVIDIA/nccl src/graph/paths.cc; on H100 from five nodes on by
Hugging Face, smol training playbook). Later releases give as many channels as the card's rate asks for."""
UNCROWDED = (2, 29)
"""The first release whose channels do not depend on the number of ranks."""


TOO_LONG = f"a collective lasts longer than {NEVER // (86_400 * TICKS_PER_SECOND)} days, more than the clock counts"


class TooLong(InputError, OverflowError):
    """A collective lasts longer than the clock counts; a run says instead which key of its scenario is the cause."""


@dataclass(frozen=True, slots=True)
class Rate:
    """A protocol as one collective meets it."""

    launch: float
    """Seconds before the first step."""
    latency: tuple[float, float]
    """Seconds of a hop inside nodes and between them, with a wire as long as `wire`."""
    wire: tuple[float, float]
    """Seconds of wire that the latencies include."""
    per_byte: tuple[float, float]
    """What a byte takes of a link inside nodes and between them, relative to a byte at the link's full rate."""
    size_bytes: float
    """Of the buffer."""
    stored: float = 1.0
    """Share of a piece that hops inside nodes hold in rolling phases; they hide behind the rest of its bytes."""

    def step_latency(self, demand: LinkDemand, moving: Floats) -> Floats:
        """Seconds by which the hops of one repetition of a phase delay its bytes, which take `moving`; (groups,).

        A step of a ring lasts max(P, hops + f P) where P is `moving` and f the share of a piece that an average hop
        stores: `stored` inside nodes, all between them, where a proxy hands a piece to the card when it is whole.
        """
        beyond = (np.maximum(way - known, 0.0) for way, known in zip(demand.wire, self.wire, strict=True))
        inner, outer = (hop + extra for hop, extra in zip(self.latency, beyond, strict=True))
        phase = demand.phase
        seconds: Floats = phase.inner * inner + phase.outer * outer
        if phase.rolling and self.stored < 1.0:
            flows = (1.0 - self.stored) * phase.inner / (phase.inner + phase.outer)
            seconds = np.maximum(seconds - flows * moving, 0.0)
        return seconds

    def moving(self, busy: tuple[Floats, Floats]) -> Floats:
        """Seconds that bytes move in one repetition, given the busiest links of a collective of one byte; (groups,)."""
        seconds: Floats = np.maximum(busy[0] * self.per_byte[0], busy[1] * self.per_byte[1]) * self.size_bytes
        return seconds

    def step_ticks(self, demand: LinkDemand, busy: tuple[Floats, Floats]) -> Ints:
        """Ticks of one repetition of a phase; (groups,)."""
        moving = self.moving(busy)
        return counted(rounded(self.step_latency(demand, moving)) + rounded(moving), demand.phase.repeat)

    def least_ticks(self, phases: Sequence[Phase]) -> int:
        """Ticks of the phases if bytes took no time and wires were no longer than known."""
        hops = (phase.repeat * self._hops(phase.inner, phase.outer) for phase in phases)
        return round(self.launch * TICKS_PER_SECOND) + sum(hops)

    def _hops(self, inner: float, outer: float) -> int:
        return round((inner * self.latency[0] + outer * self.latency[1]) * TICKS_PER_SECOND)

    def total_ticks(self, demands: Sequence[LinkDemand], busy: Sequence[tuple[Floats, Floats]]) -> Ints:
        """Ticks of all phases one after the other, launch included; (groups,)."""
        ticks = rounded(self.launch)
        for demand, worst in zip(demands, busy, strict=True):
            ticks = counted(ticks + demand.phase.repeat * self.step_ticks(demand, worst))
        return ticks


def rate_of(
    operation: str,
    phases: Sequence[Phase],
    members: int,
    size_bytes: float,
    protocol: Protocol,
    profile: CollectiveProfile,
    on_node: int = 1,
) -> Rate:
    """How a protocol serves a collective of `members`, `on_node` of them on a node; launch and fill are those of the
    widest fabric that it crosses. What a member does with its own piece hides behind its card, not behind its links,
    and it does nothing with it where the switch adds up."""
    crosses = any(phase.outer for phase in phases)
    scopes = protocol.of(any(phase.rolling or phase.chained for phase in phases), lone=crosses and on_node == 1)
    widest = scopes.scale_out if crosses else scopes.scale_up
    slowdown = 1.0
    if widest.fill is not None:
        full = widest.fill.bytes.value * (on_node if widest.fill.each else 1)
        slowdown += widest.fill.fraction.value * min(1.0, full / size_bytes)
    own = 1.0
    if profile.own_piece is not None and operation in PASSES and not any(phase.switched for phase in phases):
        own += profile.own_piece.value / (PASSES[operation] * (members - 1))
    inner, outer = scopes.scale_up, scopes.scale_out
    left = outer.crowded.value if outer.crowded and _crowded(operation, members, profile) else 1.0
    return Rate(
        launch=widest.launch.value,
        latency=(_hop(inner, size_bytes), _hop(outer, size_bytes)),
        wire=(profile.wire.scale_up.value, profile.wire.scale_out.value),
        per_byte=(slowdown * own / inner.efficiency.value, slowdown / (outer.efficiency.value * left)),
        size_bytes=size_bytes,
        stored=widest.stored,
    )


def _crowded(operation: str, members: int, profile: CollectiveProfile) -> bool:
    """Whether a peer of a group of so many gets fewer channels; who sends to all keeps its card busy all the same."""
    release = numbers(profile.environment.release) if profile.environment is not None else ()
    return operation.startswith("shift") and members > CROWDED and (not release or release < UNCROWDED)


def _hop(scope: Scope, size_bytes: float) -> float:
    """Seconds of a hop, with the wait for a piece that grows with the message."""
    wait = 0.0
    if scope.piece is not None:
        wait = scope.piece.wait.value * sqrt(min(1.0, size_bytes / scope.piece.bytes.value))
    return float(scope.latency.value) + wait


def rounded(seconds: ArrayLike) -> Ints:
    """Ticks of many durations, rounded as `units.to_ticks` does; TooLong where the clock does not count as many."""
    found = np.rint(np.asarray(seconds) * TICKS_PER_SECOND)
    if not np.all(found < NEVER):
        raise TooLong(TOO_LONG)
    ticks: Ints = found.astype(np.int64)
    return ticks


def counted(ticks: Ints, repeat: int = 1) -> Ints:
    """The ticks; TooLong where the clock does not count `repeat` times as many."""
    if int(np.max(ticks, initial=0)) * repeat >= NEVER:
        raise TooLong(TOO_LONG)
    return ticks
