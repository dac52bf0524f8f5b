"""How far one run is from another, for what the error of one says of the error of the other.

The distances are an order of what changes errors, from what decides most (the device and the software) to what decides
least, set by hand; how fast weights fall with them is calibrated (`conformal.calibrated`). `DOUBLING` and `FEATURES`
were lowered after residuals were looked at: errors hardly grow with the number of devices.
"""

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simulator.run.extent import Extent, extent
from simulator.run.ground import Conditions, conditions
from simulator.run.spread.conformal import Floats
from simulator.specs.hardware import Cluster
from simulator.specs.scenario import serves

if TYPE_CHECKING:
    from simulator.specs.requests import Requests
    from simulator.specs.scenario import OneScenario

DEVICE, VENDOR = 1.0, 0.5
"""Distance of another device, and how much more where its maker is another; half between devices of near years."""
STACK, ENGINE = 1.0, 0.5
"""Distance of another stack, and of another generation of the same engine."""
FORMAT, MODEL, NETWORK, FEATURE = 0.5, 0.5, 0.25, 0.25
"""Distance of other number formats, of experts and dense models, of other collectives, of each feature of layout."""
FEATURES = 2
"""Features of layout from which on more of them count no more."""
DOUBLING = 0.03
"""Distance of each doubling of devices."""
LOAD = 0.5
"""Distance of requests that come in another way."""
BURST_S = 1.0
"""Seconds within which all requests come that come at once."""
ENGINES = {
    "NVIDIA's": "Megatron-Core",
    "Megatron-LM": "Megatron-Core",
    "KempnerForge": "PyTorch",
    "InternEvo": "PyTorch",
}
"""Engines of stacks whose names begin with another word than their engine's."""
YEARS = 2
"""Years between devices of one generation."""


class Like(NamedTuple):
    """What a run is, as far as it decides how wrong its simulation is."""

    conditions: Conditions
    extent: Extent
    vendor: str
    """Maker of the accelerator."""
    year: int
    """Of its first availability."""
    unseen: bool = True
    """Whether this project was made without it, as every run of a user and every row that was found afterwards."""
    load: str = ""
    """How requests come, in words; empty in training."""


ALONE, AT_ONCE, IN_A_LOOP, AT_A_RATE = (
    "one request at a time",
    "all requests at once",
    "clients that wait for answers",
    "requests that come at a rate",
)
"""Ways in which requests come."""
WORDS = {"dense": "dense models", "experts": "mixtures of experts", "encoder": "models with an encoder"}
"""Kinds of models as a page names them."""


class Alike(NamedTuple):
    """Rows that differ in nothing but their numbers of devices."""

    like: Like
    """What they are; its extent has the features, its devices are those of the first row."""
    source: str
    doublings: Floats
    """Logarithm to base 2 of the devices of each row."""
    residuals: Floats
    """Logarithm of measured over simulated of each row."""


def like(scenario: "OneScenario", cluster: Cluster | None = None) -> Like:
    """What a scenario is, on another cluster where one is given."""
    device = (cluster or scenario.cluster).node.accelerator
    load = load_of(scenario.requests) if serves(scenario) else ""
    return Like(conditions(scenario, cluster), extent(scenario, cluster), device.vendor, device.year, load=load)


def load_of(requests: "Requests") -> str:
    """How requests come, which decides what their times consist of: of work, or of waiting."""
    arrivals = requests.arrivals
    loop, trace = arrivals.closed_loop, requests.trace is not None and not arrivals.given
    if requests.count == 1 or (loop is not None and loop.clients == 1):
        return ALONE
    if arrivals.at_once or not (arrivals.given or trace):
        return AT_ONCE
    if loop is None:
        rate = arrivals.poisson or arrivals.constant or (arrivals.gamma.rate if arrivals.gamma else 0.0)
        return AT_ONCE if rate * BURST_S > (requests.count or inf) else AT_A_RATE
    return IN_A_LOOP if loop.rate or requests.count is None or loop.clients < requests.count else AT_ONCE


def distances(own: Like, rows: Sequence[Alike]) -> Floats:
    """The distance of each row from a run, one group after the other."""
    doublings = np.log2(max(own.extent.devices, 1))
    return np.concatenate([apart(own, r.like) + DOUBLING * np.abs(r.doublings - doublings) for r in rows])


def alike(own: Like, rows: Sequence[Alike]) -> int:
    """Rows on the same device with the same software, formats, kind of model and way in which requests come."""
    same = (r for r in rows if r.like.conditions[:5] == own.conditions[:5] and r.like.load == own.load)
    return sum(len(r.residuals) for r in same)


def apart(own: Like, other: Like) -> float:
    """The distance of two runs of equally many devices."""
    one, two = own.conditions, other.conditions
    features = set(own.extent.features) ^ set(other.extent.features)
    return (
        _devices_apart(own, other)
        + _stacks_apart(one.stack, two.stack)
        + FORMAT * (one.format != two.format)
        + MODEL * (one.model != two.model)
        + NETWORK * (one.network != two.network)
        + FEATURE * min(len(features), FEATURES)
        + LOAD * (own.load != other.load)
    )


def differing(own: Like, other: Like) -> list[str]:
    """In what two runs differ, in words, what decides most first."""
    one, two = own.conditions, other.conditions
    found = {
        "another device": one.device != two.device,
        "other software": one.stack != two.stack,
        "other number formats": one.format != two.format,
        WORDS.get(two.model, two.model): one.model != two.model,
        other.load: own.load != other.load,
        "another collective library": one.network != two.network,
        "another layout": set(own.extent.features) != set(other.extent.features),
    }
    return [words for words, differs in found.items() if differs]


def _devices_apart(own: Like, other: Like) -> float:
    if own.conditions.device == other.conditions.device:
        return 0.0
    if own.vendor != other.vendor:
        return DEVICE + VENDOR
    return DEVICE / 2 if abs(own.year - other.year) < YEARS else DEVICE


def _stacks_apart(one: str, two: str) -> float:
    if one == two:
        return 0.0
    return ENGINE if _engine(one) == _engine(two) else STACK


def _engine(stack: str) -> str:
    """The engine of a stack, by the first word of its name."""
    first = stack.split()[0]
    return ENGINES.get(first, first)
