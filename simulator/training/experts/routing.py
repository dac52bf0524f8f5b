"""How evenly a router spreads rows over experts, and the devices that hold them.

The experts of a layer take shares of all copies of rows; a capacity cuts the largest shares off and drops their rows.
Devices hold as many experts each, so the busiest device follows from the shares; all devices wait for it. Figures to
choose a load by: docs/models/experts.md. Left out: loads that drift from step to step, layers that differ.
"""

from dataclasses import dataclass, replace

import numpy as np

from simulator import collectives
from simulator.errors import InputError, Problem
from simulator.model.cut import Routing
from simulator.parallel.experts import copies_of, held_by, replicas_of, shares_of, travels
from simulator.specs.model import Model
from simulator.specs.training import RouterLoad, Stack, Training

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
    shares = shares_of(load, model.experts, model.top_k, rows, seed, PATH)
    if load.capacity is not None:
        if load.capacity * rows * model.top_k < model.experts:
            each = load.capacity * rows * model.top_k / model.experts
            message = f"capacity {load.capacity:g} leaves an expert {each:.2g} of {rows:,.0f} rows, less than one"
            raise InputError(Problem(message, path=f"{PATH}.capacity", hint="write a larger one, or leave it out"))
        most = load.capacity / model.experts
        shares = np.full(model.experts, most) if load.padded else np.minimum(shares, most)
    copies = copies_of(shares, devices, devices * replicas_of(load, model.experts, devices, PATH))
    held = held_by(shares / copies, copies, devices, load.placement)
    spread = Routing(float(shares.sum()), float(held.max() * devices), load.replicas, travels(shares, copies, devices))
    return spread, () if np.allclose(held, held[0], rtol=1e-9) else tuple(held.tolist())
