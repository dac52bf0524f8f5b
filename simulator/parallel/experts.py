"""Who holds which experts, and how many of the rows go to each: shares, copies of heavy experts, and where they lie.

The experts of a layer take shares of all copies of rows. Copies of heavy experts are dealt one by one to the busiest,
and lie on the lightest devices (EPLB); rows of an expert are spread evenly over its copies. Training and serving read
the same loads: `training.routing`, `serving.routing`.
"""

import heapq

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem
from simulator.random import stream
from simulator.specs.training import RouterLoad

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def shares_of(load: RouterLoad, experts: int, top_k: int, rows: float, seed: int, path: str) -> Floats:
    """Share of all copies of rows that each expert is chosen for; shape (experts,).

    InputError with `path` for counts that do not fit.
    """
    if load.load == "counts":
        return _counted(load, experts, path)
    if load.load == "degenerate":
        alike: Floats = (np.arange(experts) < top_k) / top_k
        return alike
    if load.load in ("random", "uneven"):
        random, alike = stream(seed, "routing"), np.ones(experts)
        liked = random.dirichlet(alike / load.variance) if load.load == "uneven" else alike / experts
        drawn = random.multinomial(round(rows) * top_k, liked)
        chosen: Floats = drawn / max(drawn.sum(), 1)
        return chosen
    return falling(experts, load.exponent if load.load == "zipf" else 0.0)


def falling(experts: int, exponent: float, moved: float = 0.0) -> Floats:
    """Shares that fall as 1 / n^`exponent` with the place n of an expert, whose order moved on by so many places;
    between two places both count, by how near they are. Shape (experts,)."""
    weights = np.arange(1, experts + 1, dtype=np.float64) ** -exponent
    weights /= weights.sum()
    whole, part = divmod(moved, 1.0)
    here, next_ = (np.roll(weights, int(whole + one) % experts) for one in (0, 1))
    found: Floats = here if part == 0 else (1 - part) * here + part * next_
    return found


def loads_of(each: Floats, places: tuple[Ints, Ints], devices: int) -> Floats:
    """Load of devices on which copies of experts lie at (device, expert), each of which takes its part `each`."""
    device, expert = places
    found: Floats = np.bincount(device, each[expert], devices).astype(np.float64)
    return found


def _counted(load: RouterLoad, experts: int, path: str) -> Floats:
    counts = np.array(load.counts)
    if len(counts) != experts or counts.min(initial=0.0) < 0 or not counts.sum() > 0:
        message = f"{len(counts)} numbers for the {experts} experts of a layer"
        raise InputError(Problem(message, path=f"{path}.counts", hint="write one an expert, 0 or more, not all 0"))
    found: Floats = counts / counts.sum()
    return found


def replicas_of(load: RouterLoad, experts: int, devices: int, path: str) -> int:
    """Copies on a device of experts that others own; InputError with `path` for more than there are."""
    if load.replicas > experts - experts // devices:
        message = f"{load.replicas} replicas a device of {experts} experts, of which it owns {experts // devices}"
        hint = f"write {experts - experts // devices} for all, or fewer"
        raise InputError(Problem(message, path=f"{path}.replicas", hint=hint))
    return load.replicas


def copies_of(shares: Floats, devices: int, more: int) -> Ints:
    """Times that each expert is there, with so many `more` dealt one by one to the one that is busiest (EPLB), which
    is not yet on all devices."""
    found = np.ones(len(shares), np.int64)
    for _ in range(more):
        found[np.argmax(np.where(found < devices, shares / found, -1.0))] += 1
    return found


def held_by(each: Floats, copies: Ints, devices: int, placement: str) -> Floats:
    """Load of devices that hold as many experts each, of which every copy takes its part `each`."""
    if placement == "packed":
        return _packed(np.repeat(each, copies), np.zeros(devices))
    return _packed(np.repeat(each, copies - 1), each.reshape(devices, -1).sum(axis=1))


def places_of(each: Floats, copies: Ints, devices: int, placement: str) -> tuple[Ints, Ints]:
    """(device, expert) of every copy, as `held_by` places them; experts that devices do not divide are packed."""
    experts = np.arange(len(each))
    if placement == "packed" or len(each) % devices:
        expert = np.repeat(experts, copies)
        return _dealt(each[expert], np.zeros(devices)), expert
    more = np.repeat(experts, copies - 1)
    own = np.repeat(np.arange(devices), len(each) // devices)
    dealt = _dealt(each[more], each.reshape(devices, -1).sum(axis=1))
    return np.concatenate([own, dealt]), np.concatenate([experts, more])


def travels(shares: Floats, copies: Ints, devices: int) -> float:
    """Of the rows that leave their device where no expert has copies, those that leave it: rows go to a copy on their
    own device first."""
    if devices == 1 or copies.max() == 1:
        return 1.0
    stays = shares @ np.minimum(copies, devices) / (shares.sum() * devices)
    return float((1 - stays) / (1 - 1 / devices))


def _packed(shares: Floats, own: Floats) -> Floats:
    """Load of devices that hold as many experts each besides their `own` load."""
    loads = own.copy()
    order = np.argsort(-shares, kind="stable")
    places = _dealt(shares, own)
    for number in order.tolist():  # one after the other, the heaviest first, as they were dealt
        loads[places[number]] += shares[number]
    return loads


def _dealt(shares: Floats, own: Floats) -> Ints:
    """The device of each share, where the heaviest are dealt first to the lightest device and all get as many."""
    room, places = len(shares) // len(own), np.zeros(len(shares), np.int64)
    heap = [(load, place, 0) for place, load in enumerate(own.tolist())]
    heapq.heapify(heap)
    for number in np.argsort(-shares, kind="stable").tolist() if room else ():
        load, place, held = heapq.heappop(heap)
        places[number] = place
        if held + 1 < room:
            heapq.heappush(heap, (load + float(shares[number]), place, held + 1))
    return places
