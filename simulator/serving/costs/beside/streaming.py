"""Layers that every iteration loads again, beside the layers that compute (TPI-LLM's window, arXiv:2410.00531).

A device computes L equal layers in c each and loads S of them, spread evenly, in t each. Loads follow each other; one
begins as soon as a place of the window of w layers is free, in the next iteration's layers too. With w of at least 2
loads run ahead, so that an iteration lasts max(L c, S t) while iterations follow each other: the device waits for the
link, or the link for the device. Memory holds the layers that stay and min(w, S) others.

Left out: that the first iteration after idling finds the window full and no more, and that the last loads of an
iteration wait where few layers are loaded and their places are not free yet (less than one t).
"""

from collections.abc import Sequence
from dataclasses import replace

from simulator.errors import InputError, Problem
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.footprint import Footprint
from simulator.serving.costs.operators import Shard
from simulator.specs.hardware import Node
from simulator.specs.tiers.expert_loads import ExpertLoads
from simulator.specs.tiers.streamed_weights import StreamedWeights
from simulator.units import to_ticks

PATH = "serving.weights"
HOST_LINK = 25e9
"""Bytes per second between a device and its host where the profile does not say: PCIe 4.0 x16 as measured."""


def loaded(spec: StreamedWeights, layers: int) -> int:
    """Layers of a stage that are loaded in each iteration."""
    return max(1, round(spec.share * layers))


def rate(spec: StreamedWeights | ExpertLoads, node: Node, at: str = PATH) -> float:
    """Bytes per second that each device of a node loads; InputError, at a path, where it has no link to a host."""
    accelerator = node.accelerator
    link = HOST_LINK if accelerator.host_link is None else accelerator.host_link.value
    if spec.path == "host":
        if accelerator.kind == "cpu":
            message = f"weights are loaded over a host link, and the devices of {node.name} are the host"
            raise InputError(Problem(message, path=f"{at}.path", hint="write `path: disk`, or leave it out"))
        return link
    assert spec.bandwidth is not None
    drives = spec.bandwidth / node.devices
    return drives if accelerator.kind == "cpu" else min(drives, link)


def stage_ticks(shard: Shard, depth: Depth, spec: StreamedWeights | None, node: Node) -> int:
    """Ticks in which a device loads the layers of a stage that do not stay; 0 where all do."""
    if spec is None:
        return 0
    each = spec.latency + _layer_bytes(shard, depth) / rate(spec, node)
    return to_ticks(loaded(spec, depth.layers) * each)


def with_window(
    needs: Sequence[Footprint], shard: Shard, layers: Sequence[Depth], spec: StreamedWeights | None
) -> list[Footprint]:
    """The memory of each stage with the layers that stay, and the window."""
    if spec is None:
        return list(needs)
    found = []
    for need, depth in zip(needs, layers, strict=True):
        gone = loaded(spec, depth.layers)
        away = max(gone - spec.window, 0) * _layer_bytes(shard, depth)
        found.append(replace(need, weights=need.weights - away))
    return found


def _layer_bytes(shard: Shard, depth: Depth) -> float:
    """Bytes of a layer of a stage, of kinds that differ the mean."""
    kinds = depth.each(shard.model.kinds[0])
    return sum(count * shard.layer_bytes(kind) for kind, count in kinds) / depth.layers
