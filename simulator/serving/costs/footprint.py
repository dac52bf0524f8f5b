"""Memory of a replica: weights, activations of the largest iteration, what is left for keys and values.

Engines run the largest iteration once before they serve and give the cache what is left of their share of the memory.
Activations here are the residual stream and the widest intermediate of one layer, what experts hold of their rows, and
the logits of every sequence with the copies that sampling makes of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2
from typing import NamedTuple

from simulator.serving.costs.depth import Depth
from simulator.serving.costs.head_shapes import alike
from simulator.serving.costs.operators import Shard
from simulator.specs.hardware import DeviceKind
from simulator.specs.model import Model
from simulator.specs.serving import KvCache, ServingStack

LOGIT_BYTES = 10.0
"""Bytes of a logit while tokens are chosen: as it was computed, in fp32, and its probability."""
EXPERT_CHUNK = 32_768
"""Rows that pass experts at once, each with the inputs and results of all of its experts (vLLM: the default of
VLLM_FUSED_MOE_CHUNK_SIZE)."""
MOST_BLOCKS = 1 << 40
"""Blocks of a stage whose layers keep nothing of a token."""
DEFAULT_SHARE = 0.9
"""Share of the memory that is used where neither scenario nor stack says."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of one device of a stage."""

    weights: float
    activations: float
    runtime: float
    """Context, libraries, graphs."""
    kv_token: float
    """Keys and values of one token."""
    state: float = 0.0
    """States of one sequence, whatever its length."""
    adapters: float = 0.0
    """Slots of adapters, where memory is set aside for them."""
    finetuning: float = 0.0
    """An adapter in training with its states, and what of a sequence waits for its backward pass."""

    def kinds(self) -> dict[str, float]:
        """Bytes by kind, the cache left out."""
        found = {"weights": self.weights, "activations": self.activations, "runtime": self.runtime}
        beside = {"adapters": self.adapters, "finetuning": self.finetuning}
        return found | {kind: size for kind, size in beside.items() if size}

    @property
    def taken(self) -> float:
        """Bytes without the cache."""
        return self.weights + self.activations + self.runtime + self.adapters + self.finetuning


def footprint(
    shard: Shard,
    layers: Sequence[Depth],
    stage: int,
    stack: ServingStack,
    token_budget: int,
    max_sequences: int,
    context: int = 1,
    kind: DeviceKind | None = None,
) -> Footprint:
    """Memory of a device of a stage; `layers` are those of each stage, `context` the longest sequence in tokens.

    `kind` is that of the device, one that the stack has kernels for where left out.
    """
    formats, model = shard.formats, shard.model
    first, last = stage == 0, stage == len(layers) - 1
    tables = shard.embedding_weights() if first else 0.0
    tables += shard.head_weights() if last and not (first and model.tied_embeddings) else 0.0
    kinds = layers[stage].each(model.kinds[0])
    weights = sum(count * shard.layer_bytes(kind) for kind, count in kinds) + tables * formats.table_size
    widest = max(token_budget * shard.widest(kind) for kind, _ in kinds)
    experts = min(token_budget, EXPERT_CHUNK) * max(shard.expert_rows(kind) for kind, _ in kinds)
    if experts:  # what all experts return, what shared ones do, and the sum of both
        experts += token_budget * model.hidden * (3.0 if model.shared_experts else 1.0)
    rows = (3.0 * token_budget * model.hidden + max(widest, experts)) * formats.plain_size
    logits = min(max_sequences, token_budget) * model.vocabulary * LOGIT_BYTES if last else 0.0
    attending = [(kind, count) for kind, count in kinds if kind.attends]
    if alike(shard):
        caches = layers[stage].caches if layers[stage].skipped else sum(count for _, count in attending)
        kv_token = caches * shard.held_bytes * (1.0 if stack.whole_windows else cached_share(model, context))
    else:
        windows = [None if stack.whole_windows else kind.window for kind, _ in attending]
        shares = [_share(window, context) for window in windows]
        kv_token = sum(
            count * shard.cached_of(kind) * share for (kind, count), share in zip(attending, shares, strict=True)
        )
    kv_token *= stack.cache_factor.value if stack.cache_factor else 1.0
    state = sum(count * shard.state_bytes(kind) for kind, count in kinds)
    return Footprint(weights, max(rows, logits), runtime(stack, kind, shard.tp), kv_token, state)


def runtime(stack: ServingStack, kind: DeviceKind | None, tp: int = 1) -> float:
    """Memory of context, libraries, graphs and of buffers for `tp` devices; none on a kind that nobody knows it of."""
    if kind is not None and stack.device_kinds and kind not in stack.device_kinds:
        return 0.0
    return stack.memory_overhead.value + (stack.peer_memory.value * log2(tp) if stack.peer_memory else 0.0)


def cached_share(model: Model, context: int) -> float:
    """Share of a sequence's keys and values that is kept: layers with a window keep no more than its tokens.

    That of the longest sequence stands for all; shorter ones keep more of each token in those layers.
    """
    return 1.0 - model.windowed_share * (1.0 - _share(model.window, context))


def _share(window: int | None, context: int) -> float:
    return min(window or context, context) / context


class CacheBlocks(NamedTuple):
    """The memory of a replica for keys, values and states, in blocks."""

    fullest: Footprint
    """The device that has room for the fewest."""
    blocks: int
    """0 where weights do not fit."""
    size: int
    """Tokens of a block."""
    state_blocks: int
    """Blocks that the states of a sequence take."""
    block_bytes: float
    """Bytes of a block on the fullest device."""
    warnings: tuple[str, ...]

    @property
    def kept(self) -> float:
        """Bytes of the cache as far as it fits, or of one block if it does not."""
        return self.block_bytes * max(self.blocks, 1)


def blocks_of(
    needs: Sequence[Footprint], capacity: float, kv_cache: KvCache, stack: ServingStack, context: int
) -> CacheBlocks:
    """The blocks of a replica. Where no layer has keys and values, a block is the states of one sequence."""
    attends = any(need.kv_token for need in needs)
    size = (kv_cache.block_size or stack.block_size) if attends else context
    of_tokens = [need.kv_token * size for need in needs]
    states = max((ceil(n.state / tokens) for n, tokens in zip(needs, of_tokens, strict=True) if tokens), default=0)
    each = [max(tokens, n.state / max(states, 1)) for n, tokens in zip(needs, of_tokens, strict=True)]
    room = [_room(need, capacity, kv_cache, stack) for need in needs]
    fitting = [int(left // one) if one else MOST_BLOCKS for left, one in zip(room, each, strict=True)]
    tightest = min(range(len(needs)), key=fitting.__getitem__)
    blocks = max(0, fitting[tightest])
    warnings = []
    if kv_cache.blocks is not None:
        fits = kv_cache.blocks * each[tightest] <= capacity - needs[tightest].taken
        blocks = kv_cache.blocks if fits else 0
    if 0 < (blocks - states) * size < context:
        warnings.append(f"the cache holds {(blocks - states) * size:,} tokens, less than one sequence of {context:,}")
    return CacheBlocks(needs[tightest], blocks, size, states, each[tightest], tuple(warnings))


def _room(need: Footprint, capacity: float, kv_cache: KvCache, stack: ServingStack) -> float:
    """Bytes that the cache may take on a device."""
    if kv_cache.memory_share is not None:
        return capacity * kv_cache.memory_share - need.taken
    free = kv_cache.free_share
    if free is None and stack.memory_share is None:
        free = stack.free_share
    if free is not None:
        return (capacity - need.taken) * free
    return capacity * (stack.memory_share or DEFAULT_SHARE) - need.taken
