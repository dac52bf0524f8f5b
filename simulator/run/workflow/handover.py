"""What it takes to hand weights over: transfers over the links of the fabric at one time, or a gather and a broadcast.

The busiest link decides; it carries its bytes at the rate at which the cluster's library sends between devices. A piece
that the library has to convert or to pack first takes no time of its own, and nothing else is on the links meanwhile.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator import collectives, units
from simulator.fabric import Fabric
from simulator.run.workflow.pieces import Piece, Transfer, missing
from simulator.specs.libraries.collectives import CollectiveProfile

Ints = NDArray[np.int64]
_WHOLE = (Fraction(0), Fraction(1))
PROBED = 256
"""Pairs of devices of which the library's rate is asked."""


class Moved(NamedTuple):
    """A hand-over."""

    seconds: float
    size_bytes: float
    """That move, over all devices."""
    bottleneck: str
    """Kind of the busiest link; empty where nothing moves."""


def hand_over(
    have: Sequence[Piece],
    want: Sequence[Piece],
    model_bytes: float,
    way: str,
    fabric: Fabric,
    profile: CollectiveProfile,
) -> Moved:
    """Weights of `model_bytes` from the devices that have them to those that want them."""
    node_of = fabric.numbering.node_of
    if way == "pieces":
        return move(missing(have, want, node_of), model_bytes, fabric, profile)
    root = have[0].device
    whole = [Piece(root, _WHOLE, _WHOLE)]
    gathered = move(missing(have, whole, node_of), model_bytes, fabric, profile)
    others = sorted({piece.device for piece in want} - {root})
    if not others:
        return gathered
    cost = collectives.cost_of("broadcast", [[root, *others]], model_bytes, fabric, profile)
    kind = int(cost.bottleneck[0])
    seconds = gathered.seconds + units.to_seconds(cost.slowest)
    return Moved(seconds, gathered.size_bytes + model_bytes * len(others), fabric.kinds[kind] if kind >= 0 else "")


def move(transfers: Sequence[Transfer], model_bytes: float, fabric: Fabric, profile: CollectiveProfile) -> Moved:
    """All transfers at one time."""
    if not transfers:
        return Moved(0.0, 0.0, "")
    src, dst = (np.array(column, np.int64) for column in list(zip(*transfers, strict=True))[:2])
    size = np.array([float(one.share) for one in transfers]) * model_bytes
    parts = fabric.parts(len(src))
    paths = fabric.paths(np.repeat(src, parts), np.repeat(dst, parts), parts)
    flows = np.repeat(size / parts, parts)
    load = np.zeros(len(fabric.capacity))
    for hop in paths:
        used = hop >= 0
        np.add.at(load, hop[used], flows[used])
    busy = load / fabric.capacity
    link = int(busy.argmax())
    slower, latency_s = _library(src, dst, float(size.mean()), fabric, profile)
    seconds = latency_s + float(busy[link]) * slower
    return Moved(seconds, float(size.sum()), fabric.kinds[fabric.block_of(link)])


def _library(src: Ints, dst: Ints, size: float, fabric: Fabric, profile: CollectiveProfile) -> tuple[float, float]:
    """How much slower than its busiest link the library sends, and its latency in seconds, of some of the pairs."""
    step = max(len(src) // PROBED, 1)
    pairs = np.stack([src[::step], dst[::step]], axis=1)
    cost = collectives.cost_of("send", pairs, size, fabric, profile)
    alone_s = float((cost.load / fabric.capacity).max())
    moving_s = units.to_seconds(int(cost.moving.max()))
    return max(moving_s / alone_s, 1.0) if alone_s else 1.0, units.to_seconds(int((cost.ticks - cost.moving).max()))
