"""How evenly a router spreads rows over experts, and the devices that hold them.

The experts of a layer take shares of all copies of rows; a capacity cuts the largest shares off and drops their rows.
Devices hold as many experts each, so the busiest device follows from the shares; all devices wait for it. Figures to
choose a load by: docs/models/experts.md. Loads that differ from step to step, and from layer to layer: `moving`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from simulator import collectives
from simulator.errors import InputError, Problem
from simulator.model.cut import Routing
from simulator.parallel.experts import (
    Floats,
    copies_of,
    held_by,
    loads_of,
    places_of,
    replicas_of,
    shares_of,
    travels,
)
from simulator.specs.model import Model
from simulator.specs.training import RouterLoad, Stack, Training
from simulator.training.experts.moving import PATH, moved

LOAD = ", load "
"""Between an axis and the number of the load that rows are exchanged under, in the name of groups."""
Placed = tuple[Routing, tuple[float, ...]]
"""How evenly rows are spread, and the load of each device, empty where they are alike."""


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
    masks: str | None = None
    """The rows that share a mask, where products with masks bring rows to experts: `sequence` or `microbatch`."""
    number: int = 0
    """Which of the loads of its model it is."""
    loads: tuple["Exchange", ...] = ()
    """Those of layers, by number, where layers differ; the first is of number 0."""
    of_layers: tuple[int, ...] = ()
    """The number of each layer of the model, where they differ."""

    def at(self, number: int) -> "Exchange":
        """The exchange of layers with a load."""
        return self.loads[number] if self.loads else self


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
    groups, limit = model.expert_groups, model.expert_group_limit
    size = collectives.TOKEN_FORMATS[training.dispatch_precision] if training.dispatch_precision else element
    filled = training.routing.capacity is not None and training.routing.padded
    masks = training.routing.masks

    def made(spread: Routing, held: tuple[float, ...], number: int) -> Exchange:
        targets = collectives.Routing(model.experts or 0, model.top_k or 0, groups, limit, held)
        merged = _merged(library, targets, devices)
        if masks and merged is not None:
            message = f"`{library}` merges the copies of a row, and masks bring rows to slots of their own"
            raise InputError(Problem(message, path=f"{PATH}.masks", hint="write `training.dispatcher: alltoall`"))
        return Exchange(library, spread, targets, merged, size, filled, masks, number)

    if not training.routing.moves:
        return made(*routing(training.routing, model, devices, rows, seed), 0)
    return _by_layer(model, _moving(training.routing, model, devices, rows), made)


def _by_layer(
    model: Model,
    loads: dict[int | None, Placed],
    made: Callable[[Routing, tuple[float, ...], int], Exchange],
) -> Exchange:
    """The exchange of a model whose layers have these loads; layers with equal ones share a number."""
    if None in loads:
        return made(*loads[None], 0)
    numbers: dict[Placed, int] = {}
    for load in loads.values():
        numbers.setdefault(load, len(numbers))
    each = tuple(made(*load, number) for load, number in numbers.items())
    of_layers = tuple(numbers[loads[layer]] if layer in loads else 0 for layer in range(model.layers))
    return replace(each[0], loads=each, of_layers=of_layers) if len(each) > 1 else each[0]


def _moving(load: RouterLoad, model: Model, devices: int, rows: float) -> dict[int | None, Placed]:
    """The spread and the load of each device in the step of a load that moves, by layer, None for all of them; where
    experts lie, and which have copies, was chosen in an earlier step."""
    assert model.experts is not None
    layers = with_experts(model)
    chosen = load.first_step - load.first_step % load.rebalanced
    now = moved(load, model.experts, layers, load.first_step)
    before = now if chosen == load.first_step else moved(load, model.experts, layers, chosen)
    return {
        layer: _spread(load, model, devices, rows, now[layer], before.get(layer, before.get(None))) for layer in now
    }


def with_experts(model: Model) -> tuple[int, ...]:
    """Layers of a model that have experts, counted from 0."""
    return tuple(number for number, kind in enumerate(model.kinds) if kind.mlp == "moe")


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
    return _spread(load, model, devices, rows, shares_of(load, model.experts, model.top_k, rows, seed, PATH))


def _spread(
    load: RouterLoad, model: Model, devices: int, rows: float, shares: Floats, known: Floats | None = None
) -> tuple[Routing, tuple[float, ...]]:
    """The same of experts with these shares, placed and copied by the shares that were `known` then, or by these."""
    assert model.experts is not None and model.top_k is not None
    shares = _kept(load, model.experts, model.top_k, rows, shares)
    then = shares if known is None or known is shares else _kept(load, model.experts, model.top_k, rows, known)
    copies = copies_of(then, devices, devices * replicas_of(load, model.experts, devices, PATH))
    if then is shares:
        held = held_by(shares / copies, copies, devices, load.placement)
    else:
        held = loads_of(shares / copies, places_of(then / copies, copies, devices, load.placement), devices)
    spread = Routing(float(shares.sum()), float(held.max() * devices), load.replicas, travels(shares, copies, devices))
    return spread, () if np.allclose(held, held[0], rtol=1e-9) else tuple(held.tolist())


def _kept(load: RouterLoad, experts: int, top_k: int, rows: float, shares: Floats) -> Floats:
    """Shares of the rows that find room; InputError for a capacity of less than a row."""
    if load.capacity is None:
        return shares
    if load.capacity * rows * top_k < experts:
        each = load.capacity * rows * top_k / experts
        message = f"capacity {load.capacity:g} leaves an expert {each:.2g} of {rows:,.0f} rows, less than one"
        raise InputError(Problem(message, path=f"{PATH}.capacity", hint="write a larger one, or leave it out"))
    most = load.capacity / experts
    return np.full(experts, most) if load.padded else np.minimum(shares, most)
