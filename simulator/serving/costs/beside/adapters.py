"""Adapters of low rank beside the products of a stage: their bytes, and the two kernels of each product.

Rows of an iteration that ask for different adapters are multiplied in one kernel (grouped products, Punica's SGMV,
arXiv:2310.18547; S-LoRA, arXiv:2311.03285): a product of k x n gets a kernel to the rank, r columns for each matrix
that is fused in it, and one from it to n that adds to the result. Each reads the matrices of the adapters among the
rows once. Where a column is cut over devices the first matrix is whole on each, where a row is cut the second is, so
that the model's own sums suffice (vLLM). A kernel lasts its launch and max(bytes / memory, FLOPs / peak).

Left out: tiles of these kernels and rows that they pad, adapters of experts, launches that wait for the host.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from simulator import units
from simulator.cost import Device
from simulator.errors import InputError, Problem, nearest
from simulator.model.ops import LAYER, Linear
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.footprint import CacheBlocks, Footprint
from simulator.serving.costs.operators import Shard
from simulator.serving.costs.whole_models import WholeModels
from simulator.specs.adapters import Adapters
from simulator.specs.model import LayerKind
from simulator.specs.serving import ServingStack
from simulator.units import TICKS_PER_SECOND

KEPT = 4.0
"""Bytes of an element between the two kernels."""


@dataclass(frozen=True, slots=True)
class AdapterProducts:
    """Adapters of the layers of a stage on one device."""

    products: tuple[tuple[int, int, int, int], ...]
    """(how many, matrices that are fused, inputs, outputs on the device)."""
    size: float
    """Bytes of an element."""
    grouped: bool
    device: Device
    compute: str
    """Format in which they are multiplied."""
    efficiency: float
    """Rate of the engine's kernels over that of the measured ones."""
    _known: dict[tuple[int, int, int], int] = field(default_factory=dict, compare=False)

    def bytes(self, rank: int) -> float:
        """Bytes of an adapter of a rank on the device."""
        return self.size * rank * sum(n * (fused * k + out) for n, fused, k, out in self.products)

    def ticks(self, rows: int, adapters: int, ranks: int) -> int:
        """Ticks of the kernels for rows with adapters, of so many different ones whose ranks sum up to `ranks`."""
        if not rows:
            return 0
        key = rows, adapters, ranks
        if key not in self._known:
            seconds = sum(n * self._seconds((fused, k, out), *key) for n, fused, k, out in self.products)
            self._known[key] = round(seconds / self.efficiency * TICKS_PER_SECOND)
        return self._known[key]

    def _seconds(self, shape: tuple[int, int, int], rows: int, adapters: int, ranks: int) -> float:
        """Both kernels of one product; rows have the mean rank of the adapters among them."""
        fused, inputs, outputs = shape
        inner, between = ranks / adapters, rows * fused * ranks / adapters * KEPT
        down = self.size * (rows * inputs + fused * inputs * ranks) + between
        up = between + self.size * (outputs * ranks + 2 * rows * outputs)
        flops = 2.0 * rows * inner * fused * inputs, 2.0 * rows * inner * outputs
        launches = 1 if self.grouped else adapters
        curve, peak = self.device.stream, self.device.peak(self.compute)
        rate = curve.bandwidth * curve.efficiency
        return sum(
            launches * curve.launch + max(moved / rate, work / peak)
            for moved, work in zip((down, up), flops, strict=True)
        )


Beside = AdapterProducts | WholeModels
"""What requests ask for beside the model: adapters of it, or models of its shape."""


def adapters_of(
    shard: Shard,
    layers: Sequence[Depth],
    device: Device,
    stack: ServingStack,
    spec: Adapters | None,
    rows: Sequence[Callable[[int, int], int]],
    needs: Sequence[Footprint],
) -> tuple[Beside, ...]:
    """Adapters of each stage, if there are any; `rows` are the ticks of its rows, `needs` its memory. InputError for
    targets that no layer of the model has."""
    if spec is None:
        return ()
    if spec.kind == "whole":
        return tuple(WholeModels(need.weights, own) for need, own in zip(needs, rows, strict=True))
    _check_targets(shard, spec)
    return tuple(_products_of(shard, depth, device, stack, spec) for depth in layers)


def with_slots(
    needs: Sequence[Footprint], products: Sequence[Beside], spec: Adapters | None, capacity: float
) -> list[Footprint]:
    """The memory of each stage with slots for adapters; InputError where one is larger than what there is."""
    if spec is None or spec.slots is None:
        return list(needs)
    found = []
    for need, own in zip(needs, products, strict=True):
        size, left = own.bytes(max(spec.ranks)), capacity - need.taken
        slots = spec.slots - (spec.kind == "whole")  # the model itself is in the first of them
        if left > 0 and slots * size > left:
            what = "a model" if spec.kind == "whole" else f"an adapter of rank {max(spec.ranks)}"
            each = f"{what} takes {_size(size)} of a device, {slots} {'more' if slots < spec.slots else 'slots'}"
            message = f"{each} {_size(slots * size)}: {_size(left)} are free beside weights and activations"
            hint = "cut `slots`, `rank` or `targets`, or cut the model over more devices"
            raise InputError(Problem(message, path="serving.adapters", hint=hint))
        found.append(replace(need, adapters=slots * size))
    return found


def blocks_of_adapters(
    needs: Sequence[Footprint], products: Sequence[Beside], spec: Adapters | None, cache: CacheBlocks
) -> tuple[int, ...]:
    """Blocks that an adapter takes, of each rank; none where slots are set aside. InputError where one does not fit."""
    if spec is None or spec.slots is not None:
        return ()
    stages = [(need.kv_token * cache.size, own) for need, own in zip(needs, products, strict=True) if need.kv_token]
    if not stages:
        message = "adapters share blocks with keys and values, which the model has none of"
        hint = "write how many `slots` are set aside for them"
        raise InputError(Problem(message, path="serving.adapters", hint=hint))
    found = tuple(max(ceil(own.bytes(rank) / block) for block, own in stages) for rank in spec.ranks)
    if 0 < cache.blocks <= max(found):
        size = max(own.bytes(max(spec.ranks)) for _, own in stages)
        message = f"an adapter of rank {max(spec.ranks)} takes {_size(size)} of a device, the whole cache has"
        message = f"{message} {_size(cache.blocks * cache.block_bytes)}"
        hint = "cut `rank` or `targets`, or cut the model over more devices"
        raise InputError(Problem(message, path="serving.adapters.rank", hint=hint))
    return found


def _size(size: float) -> str:
    return units.format(size, "bytes")


def _products_of(shard: Shard, depth: Depth, device: Device, stack: ServingStack, spec: Adapters) -> AdapterProducts:
    """Adapters of a stage."""
    kinds = depth.each(shard.model.kinds[0])
    found: dict[tuple[int, int, int], int] = {}
    for kind, count in kinds:
        for name, does in _products(shard, kind):
            if name in spec.targets:
                key = _fused(shard, name), does.inputs, does.outputs
                found[key] = found.get(key, 0) + count
    formats = shard.formats
    products = tuple((count, *key) for key, count in found.items())
    efficiency, grouped = stack.kernel_efficiency.value, spec.kernels == "grouped"
    return AdapterProducts(products, formats.plain_size, grouped, device, formats.plain_compute, efficiency)


def _check_targets(shard: Shard, spec: Adapters) -> None:
    """InputError for targets that no layer of the model has."""
    names = list(dict.fromkeys(name for kind in shard.model.kinds for name, _ in _products(shard, kind)))
    for target in spec.targets:
        if target not in names:
            listed = ", ".join(f"`{name}`" for name in names)
            message = f"`{target}` is no product of a layer of {shard.model.name} that can have adapters: {listed}"
            raise InputError(Problem(message, path="serving.adapters.targets", hint=nearest(target, names)))


def _products(shard: Shard, kind: LayerKind) -> Iterator[tuple[str, Linear]]:
    for op in shard.ops(kind):
        if isinstance(op.does, Linear) and op.does.format == LAYER:
            yield op.name, op.does


def _fused(shard: Shard, name: str) -> int:
    """Matrices with adapters of their own that an engine multiplies as one."""
    if name == "attention in":
        return 3
    return 2 if name == "mlp in" and shard.model.gated_ffn else 1
