"""What training an adapter beside serving costs: its kernels, the memory of one sequence, the update.

Frozen weights need no gradients, so that a token's backward pass has the products of its forward pass (2 FLOPs a
parameter) and those of the adapter twice. Of a sequence in memory stay what the backward pass reads: queries, keys and
values, what attention gave, inputs of norms and of activations, inputs of the products with adapters, and the
gradients of keys and values that windows add up (FlexLLM, arXiv:2402.18789). An update reads and writes 30 bytes of
each element of the adapter (Adam, fp32 states).

Left out: logits of more tokens than a window has at a time, and buffers between layers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from simulator.cost.attention import rate_at
from simulator.model.ops import AttentionCore, Linear
from simulator.serving.costs.beside.adapters import AdapterProducts, adapters_of
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.footprint import Footprint
from simulator.serving.costs.head_shapes import AnyAttention, MixedAttention
from simulator.serving.costs.operators import Shard
from simulator.serving.costs.pieces import Pieces
from simulator.specs.adapters import Adapters, Finetuning
from simulator.specs.model import LayerKind
from simulator.units import to_ticks

UPDATE = 30.0
"""Bytes that Adam reads and writes of an element: gradient, both moments and master weights in fp32, and 16 bits."""
PRODUCTS = 2.5
"""Products of the backward pass of fused attention over those of the forward pass: five for two."""
STATES = 18.0
"""Bytes of an element of the adapter: two of the weight, and fp32 gradient, moments and master weight."""


@dataclass(frozen=True, slots=True)
class FinetuningCost:
    """Training of an adapter on one device of a replica of one stage."""

    products: AdapterProducts
    rank: int
    update: int
    """Ticks of an update."""

    def beside(self, rows: int, times: int = 1) -> int:
        """Ticks of the products of the adapter for so many rows, `times` over."""
        return times * self.products.ticks(rows, 1, self.rank)


def finetuning_cost(
    pieces: Pieces, layers: Sequence[Depth], spec: Finetuning | None, needs: list[Footprint]
) -> tuple[list[Footprint], FinetuningCost | None]:
    """The memory of each stage with one sequence in training, and what training costs; nothing where there is none."""
    if spec is None:
        return needs, None
    shard, device, stack = pieces.shard, pieces.device, pieces.stack
    own = Adapters(count=1, rank=spec.rank, targets=spec.targets)
    (products,) = adapters_of(shard, layers, device, stack, own, (), needs)
    assert isinstance(products, AdapterProducts)
    elements = products.bytes(spec.rank) / products.size
    curve = device.stream
    update = to_ticks(curve.launch + elements * UPDATE / (curve.bandwidth * curve.efficiency))
    size = elements * STATES + spec.sequence_length * kept_bytes(shard, layers[0], spec.targets)
    return [replace(need, finetuning=size) for need in needs], FinetuningCost(products, spec.rank, update)


def kept_bytes(shard: Shard, depth: Depth, targets: Sequence[str]) -> float:
    """Bytes of a token of a sequence in training that a device keeps until its backward pass."""
    kinds = depth.each(shard.model.kinds[0])
    return shard.formats.plain_size * sum(count * _kept(shard, kind, targets) for kind, count in kinds)


def _kept(shard: Shard, kind: LayerKind, targets: Sequence[str]) -> float:
    """Elements of a token and layer."""
    found = 2.0 * shard.model.hidden  # inputs of both norms
    for op in shard.ops(kind):
        if isinstance(op.does, AttentionCore):
            found += op.does.heads * op.does.head_dim + 2 * op.does.kv_heads * op.does.head_dim
        elif isinstance(op.does, Linear):
            if op.name in ("attention in", "mlp in"):
                found += op.does.outputs
            elif op.name == "mlp out" and op.name in targets:
                found += op.does.inputs
    return found


def backward_attention(attention: AnyAttention, length: int) -> int:
    """Ticks of the backward pass of the attention of a whole sequence."""
    curve, found = attention.curve, 0.0
    for part in attention.parts if isinstance(attention, MixedAttention) else (attention,):
        size = part.shard.head_dim
        slower = rate_at(size, curve.forward) / rate_at(size, curve.backward)
        found += PRODUCTS * slower * part.prompt(length, 0)
    return round(found)
