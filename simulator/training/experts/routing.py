"""How evenly a router spreads rows over experts, and the devices that hold them.

The experts of a layer take shares of all copies of rows; a capacity cuts the largest shares off and drops their rows.
Devices hold as many experts each, so the busiest device follows from the shares; everybody waits for it. Figures to
choose a load by: docs/models/experts.md. Copies of heavy experts are dealt one by one to the busiest, and lie on the
lightest devices. Left out: loads that drift from step to step, layers that differ.
"""

import heapq
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from simulator import collectives
from simulator.errors import InputError, Problem
from simulator.model.cut import Routing
from simulator.random import stream
from simulator.specs.model import Model
from simulator.specs.training import RouterLoad, Stack, Training

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
PATH = "training.routing"


@dataclass(frozen=True, slots=True)
class Exchange:
    """How rows are sent to the experts that other devices hold."""

    library: str
    """Whose kernels send them, as `collectives.library_of` takes it."""
    spread: Routing
    """How evenly rows are spread."""
    targets: collectives.Routing
    """Which devices rows go to."""
    merged: float | None
    """Rows that a device gets for each that it sends, where those for several of its experts travel as one."""
    size: float
    """Bytes of an element on the way to experts; on the way back it is of the working precision."""
    filled: bool = False
    """Whether every expert takes as many rows, empty ones among them."""


MERGING = ("node_multicast", "per_rank")
"""Ways to dispatch that send one copy of a row to all experts of a device."""


def exchange(
    training: Training, stack: Stack, model: Model, devices: int, rows: float, element: float, seed: int
) -> Exchange | None:
    """How the `rows` that a group of `devices` routes together are sent; None where there are no experts.

    InputError for loads that do not fit, and for libraries that are not known.
    """
    if model.experts is None or model.top_k is None:
        return None
    library = training.dispatcher or stack.dispatcher
    if problem := collectives.unfit(library):
        raise InputError(replace(problem, path="training.dispatcher" if training.dispatcher else "stack.dispatcher"))
    spread, held = routing(training.routing, model, devices, rows, seed)
    groups, limit = model.expert_groups, model.expert_group_limit
    targets = collectives.Routing(model.experts, model.top_k, groups, limit, held)
    size = collectives.TOKEN_FORMATS[training.dispatch_precision] if training.dispatch_precision else element
    filled = training.routing.capacity is not None and training.routing.padded
    return Exchange(library, spread, targets, _merged(library, targets, devices), size, filled)


def _merged(library: str, targets: collectives.Routing, devices: int) -> float | None:
    """Rows that a device gets for each that it sends; None where every copy travels."""
    way = collectives.way_of(library)
    if way == "all_gather":
        return float(devices)
    return targets.distinct(devices) if way in MERGING else None


def routing(load: RouterLoad, model: Model, devices: int, rows: float, seed: int) -> tuple[Routing, tuple[float, ...]]:
    """How evenly `rows` that a group of `devices` routes together are spread, and the load of each device, empty where
    they are alike; InputError for loads that do not fit."""
    assert model.experts is not None and model.top_k is not None
    shares = _shares(load, model.experts, model.top_k, rows, seed)
    if load.capacity is not None:
        if load.capacity * rows * model.top_k < model.experts:
            each = load.capacity * rows * model.top_k / model.experts
            message = f"capacity {load.capacity:g} leaves an expert {each:.2g} of {rows:,.0f} rows, less than one"
            raise InputError(Problem(message, path=f"{PATH}.capacity", hint="write a larger one, or leave it out"))
        most = load.capacity / model.experts
        shares = np.full(model.experts, most) if load.padded else np.minimum(shares, most)
    copies = _copies(shares, devices, devices * _replicas(load, model.experts, devices))
    held = _held(shares / copies, copies, devices, load.placement)
    spread = Routing(float(shares.sum()), float(held.max() * devices), load.replicas, _travels(shares, copies, devices))
    return spread, () if np.allclose(held, held[0], rtol=1e-9) else tuple(held.tolist())


def _shares(load: RouterLoad, experts: int, top_k: int, rows: float, seed: int) -> Floats:
    """Share of all copies of rows that each expert is chosen for; shape (experts,)."""
    if load.load == "counts":
        return _counted(load, experts)
    if load.load == "random":
        drawn = stream(seed, "routing").multinomial(round(rows) * top_k, np.full(experts, 1 / experts))
        chosen: Floats = drawn / max(drawn.sum(), 1)
        return chosen
    falls = load.exponent if load.load == "zipf" else 0.0
    weights = np.arange(1, experts + 1, dtype=np.float64) ** -falls
    found: Floats = weights / weights.sum()
    return found


def _counted(load: RouterLoad, experts: int) -> Floats:
    counts = np.array(load.counts)
    if len(counts) != experts or counts.min(initial=0.0) < 0 or not counts.sum() > 0:
        message = f"{len(counts)} numbers for the {experts} experts of a layer"
        raise InputError(Problem(message, path=f"{PATH}.counts", hint="write one an expert, 0 or more, not all 0"))
    found: Floats = counts / counts.sum()
    return found


def _replicas(load: RouterLoad, experts: int, devices: int) -> int:
    """Copies on a device of experts that others own."""
    if load.replicas > experts - experts // devices:
        message = f"{load.replicas} replicas a device of {experts} experts, of which it owns {experts // devices}"
        hint = f"write {experts - experts // devices} for all, or fewer"
        raise InputError(Problem(message, path=f"{PATH}.replicas", hint=hint))
    return load.replicas


def _copies(shares: Floats, devices: int, more: int) -> Ints:
    """Times that each expert is there, with so many `more` dealt one by one to the one that is busiest (EPLB), which
    is not yet on all devices."""
    found = np.ones(len(shares), np.int64)
    for _ in range(more):
        found[np.argmax(np.where(found < devices, shares / found, -1.0))] += 1
    return found


def _held(each: Floats, copies: Ints, devices: int, placement: str) -> Floats:
    """Load of devices that hold as many experts each, of which every copy takes its part."""
    if placement == "packed":
        return _packed(np.repeat(each, copies), np.zeros(devices))
    return _packed(np.repeat(each, copies - 1), each.reshape(devices, -1).sum(axis=1))


def _travels(shares: Floats, copies: Ints, devices: int) -> float:
    """Of the rows that leave their device where no expert has copies, those that leave it: rows go to a copy on their
    own device first."""
    if devices == 1 or copies.max() == 1:
        return 1.0
    stays = shares @ np.minimum(copies, devices) / (shares.sum() * devices)
    return float((1 - stays) / (1 - 1 / devices))


def _packed(shares: Floats, own: Floats) -> Floats:
    """Load of devices that hold as many experts each besides their `own` load, the heaviest experts dealt first to the
    lightest device."""
    room = len(shares) // len(own)
    if not room:
        return own
    heap = [(load, place, 0) for place, load in enumerate(own.tolist())]
    heapq.heapify(heap)
    full = []
    for share in sorted(shares.tolist(), reverse=True):
        load, place, held = heapq.heappop(heap)
        if held + 1 == room:
            full.append(load + share)
        else:
            heapq.heappush(heap, (load + share, place, held + 1))
    return np.array(full)
