"""Experts that rows ask for are loaded in each iteration, beside the layers that compute (D2MoE, arXiv:2504.15299).

A layer has E experts; a row asks for expert e with probability c_e, as the loads of the router say, and for a level of
bits. What is loaded at once is a plane: the bits of a nested level that the level below it has not, or a copy of a
level. Rows ask for a plane with probability c_e q (q: the share of rows of that level and, where nested, of all above),
so that R rows need it with 1 - (1 - c_e q)^R. In the memory for experts stay the planes that are asked for most, the
hottest expert and its low bits first; of all others those that are needed are loaded, in S of an iteration together.

A share f of these bytes is known before the router has spoken and moves beside computing; the device waits for the
rest. Computing alone takes C, so that an iteration lasts max(C + (1 - f) S, S): the link carries no more than it has.

Left out: which planes earlier iterations left behind (those that stay are fixed), products of experts that are there
beside loads of others, experts that were loaded before a router chose differently, and reading of narrow planes from
device memory, which is that of the format of the weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.errors import InputError, Problem
from simulator.model import layers as blocks
from simulator.model import ops as model_ops
from simulator.model.tensors import tensors
from simulator.serving.costs.beside.streaming import rate, stage_ticks, with_window
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.footprint import Footprint
from simulator.serving.costs.operators import Shard
from simulator.serving.costs.pieces import RowCosts
from simulator.specs.hardware import Node
from simulator.specs.model import LayerKind
from simulator.specs.tiers.expert_loads import ExpertLoads
from simulator.specs.tiers.streamed_weights import StreamedWeights

if TYPE_CHECKING:
    from simulator.serving.costs.iteration import StageCost

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

PATH = "serving.expert_loads"
PASSING = 2
"""Experts of a layer for which there is memory beside those that stay: one that computes, one that is loaded."""
PART = "weight loads"
"""What the device waits for, among the parts of its time."""


@dataclass(frozen=True, slots=True)
class Planes:
    """What is not kept of all layers of a stage, planes that are alike together."""

    asked: Floats
    """Probability that a row asks for it; shape (kinds,), as all that follow."""
    count: Floats
    size: Floats
    """Bytes of one."""
    kept: float
    """Bytes of those that stay on the device."""

    def needed(self, rows: Ints) -> Floats:
        """Planes that are loaded for so many rows; (kinds, rows)."""
        missed = (1.0 - self.asked)[:, None] ** rows[None, :]
        found: Floats = self.count[:, None] * (1.0 - missed)
        return found


@dataclass(frozen=True, slots=True)
class Loading:
    """The loads of a stage."""

    planes: Planes
    rate: float
    """Bytes per second of a device."""
    latency: float
    early: float
    """Share of the bytes that move beside computing."""

    def seconds(self, rows: Ints) -> Floats:
        """Of all loads of an iteration with so many rows."""
        needed = self.planes.needed(rows)
        found: Floats = self.planes.size @ needed / self.rate + self.latency * needed.sum(axis=0)
        return found

    def waiting(self, body: RowCosts) -> RowCosts:
        """What rows cost, with what the device waits for after the router."""

        def costs(rows: Ints) -> dict[str, Floats]:
            found = body(rows)
            return found | {PART: found.get(PART, 0.0) + (1.0 - self.early) * self.seconds(rows)}

        return costs


def loading(shard: Shard, depth: Depth, spec: ExpertLoads, node: Node) -> Loading:
    """The loads of a stage; InputError for a memory that two experts do not fit into."""
    kinds = [(count, size) for kind, count in depth.each(shard.model.kinds[0]) if (size := _elements(shard, kind))]
    if not kinds:
        message = f"{shard.model.name} has no experts that could be loaded"
        raise InputError(Problem(message, path=PATH, hint="leave it out, or write `serving.weights` for whole layers"))
    number = shard.model.experts or 1
    count, elements = sum(count for count, _ in kinds), max(size for _, size in kinds) / number
    planes = _planes(shard, spec, count, elements)
    return Loading(planes, rate(spec, node, PATH), spec.latency, spec.prefetch)


def streamed(
    stages: Sequence["StageCost"],
    needs: list[Footprint],
    shard: Shard,
    layers: Sequence[Depth],
    spec: StreamedWeights | ExpertLoads | None,
    node: Node,
) -> list[Footprint]:
    """Tell stages what weights they load in every iteration, layers or experts; the memory of each without those."""
    if isinstance(spec, ExpertLoads):
        return with_loads(stages, needs, shard, layers, spec, node)
    for stage, depth in zip(stages, layers, strict=True):
        stage.stream_ticks = stage_ticks(shard, depth, spec, node)
    return with_window(needs, shard, layers, spec)


def with_loads(
    stages: Sequence["StageCost"],
    needs: Sequence[Footprint],
    shard: Shard,
    layers: Sequence[Depth],
    spec: ExpertLoads,
    node: Node,
) -> list[Footprint]:
    """Tell the stages what experts they load; the memory of each with no more of them than there is room for."""
    found = []
    for stage, need, depth in zip(stages, needs, layers, strict=True):
        stage.loads = loading(shard, depth, spec, node)
        stage.body = stage.loads.waiting(stage.body)
        kinds = depth.each(shard.model.kinds[0])
        own = sum(count * _elements(shard, kind) for kind, count in kinds) * shard.formats.of_experts.weight_size
        found.append(replace(need, weights=need.weights - own + min(spec.memory, own)))
    return found


def _planes(shard: Shard, spec: ExpertLoads, layers: int, elements: float) -> Planes:
    chosen, number = _chosen(shard)
    levels = [(level.bits, level.share) for level in spec.levels]
    levels = levels or [(8.0 * shard.formats.of_experts.weight_size, 1.0)]
    asked, sizes = [], []
    below = 0.0
    for place, (bits, share) in enumerate(levels):
        above = sum(one for _, one in levels[place:]) if spec.nested else share
        asked.append(np.minimum(chosen * min(above, 1.0), 1.0))
        sizes.append(np.full(len(chosen), elements * (bits - below) / 8))
        below = bits if spec.nested else 0.0
    probability, size = np.concatenate(asked), np.concatenate(sizes)
    count = np.tile(number, len(levels)) * layers
    widest = elements * levels[-1][0] / 8
    room = spec.memory - PASSING * widest
    if room < 0:
        message = (
            f"memory for experts of {spec.memory / 1e6:,.0f} MB holds less than {PASSING} of {widest / 1e6:,.0f} MB"
        )
        raise InputError(
            Problem(message, path=f"{PATH}.memory", hint=f"write {PASSING * widest / 1e6:,.0f} MB or more")
        )
    order = np.lexsort((size, -probability))
    stays = np.zeros(len(order))
    for place in order:
        stays[place] = min(count[place], room // size[place])
        room -= stays[place] * size[place]
    return Planes(probability, count - stays, size, float(stays @ size))


def _chosen(shard: Shard) -> tuple[Floats, Floats]:
    """(probability that a row chooses an expert, how many experts are so) of a layer."""
    assert shard.spread is not None
    values, counts = np.unique(shard.spread.chosen, return_counts=True)
    return values.astype(np.float64), counts.astype(np.float64)


def _elements(shard: Shard, kind: LayerKind) -> float:
    """Weights of all experts of a layer on a device."""
    ops = blocks.layer(shard.model, shard.cut, kind)
    return float(sum(t.elements for t in tensors(op for op in ops if isinstance(op.does, model_ops.Experts))))
