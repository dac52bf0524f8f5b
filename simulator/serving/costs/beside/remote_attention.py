"""Attention of decodes on devices that hold the cache (Lamina, arXiv:2405.01814; DistAttention, arXiv:2401.02669).

In every layer the queries of the rows of a pass go to the devices that hold keys and values, with the new keys and
values, and the results come back. With a cached tokens there and all K of a batch of n rows, a layer takes

    max(here((1 - s) K), there(s K) + 2 latency + n bytes / rate)        s = share there

where `here` and `there` are the attention of the devices of either side and `rate` is that of the narrower side's
network cards. The devices of the model wait meanwhile. Left out: attention to old tokens before the new ones have come,
batches that take turns on both sides, and links that several replicas share.
"""

from dataclasses import dataclass, replace

from simulator.cost import Device, compile_device
from simulator.errors import InputError, Problem
from simulator.serving.costs.attention import FAR, Attention, Segments
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.footprint import CacheBlocks, Footprint, blocks_of, runtime
from simulator.serving.costs.formats import resolve_formats
from simulator.serving.costs.head_shapes import AnyAttention, alike
from simulator.serving.costs.operators import Shard
from simulator.specs.hardware import Node
from simulator.specs.serving import KvCache, NumberFormats, ServingStack
from simulator.specs.tiers.remote_attention import RemoteAttention
from simulator.units import TICKS_PER_SECOND

PATH = "serving.remote_attention"


@dataclass(frozen=True, slots=True)
class RemoteDecode:
    """Attention of decodes of which a share is elsewhere."""

    here: AnyAttention
    there: Attention
    share: float
    row_ticks: float
    """Of a row on the wires, all layers together."""
    base_ticks: int
    """Of the latencies, all layers together."""

    def decode(self, sequences: int, queries: int = 1) -> Segments:
        """Lines of the ticks of `sequences` decodes in all their cached tokens, see `Attention.decode`."""
        if sequences == 0:
            return ((FAR, 0, 0),)
        wires = self.base_ticks + round(self.row_ticks * sequences * queries)
        lines = _stretched(self.there.decode(sequences, queries), self.share)
        away = tuple((end, base + wires, slope) for end, base, slope in lines)
        if self.share == 1.0:
            return away
        return longest(_stretched(self.here.decode(sequences, queries), 1.0 - self.share), away)


def remote_decode(
    own: AnyAttention, shard: Shard, depth: Depth, spec: RemoteAttention, formats: NumberFormats, node: Node
) -> RemoteDecode:
    """Attention of a replica on devices of `node` that is partly elsewhere."""
    there = Attention(_remote_shard(shard, spec, formats, own.stack), depth, _device(spec), own.stack)
    layers = sum(count for kind, count in depth.each(shard.model.kinds[0]) if kind.attends)
    core, model = shard.core, shard.model
    keys = 2.0 * (model.kv_heads or model.heads) * core.head_dim * spec.share
    row = (2.0 * model.heads * core.head_dim + keys) * shard.formats.plain_size
    cards = min(shard.tp * _card(spec, node), spec.devices * _card(spec, spec.node))
    latency = _latency(node) + _latency(spec.node) if spec.latency is None else spec.latency
    ticks = layers * TICKS_PER_SECOND
    return RemoteDecode(own, there, spec.share, ticks * row / cards, round(ticks * 2.0 * latency))


def remote_blocks(
    cache: CacheBlocks,
    needs: list[Footprint],
    shard: Shard,
    spec: RemoteAttention,
    formats: NumberFormats,
    kv_cache: KvCache,
    stack: ServingStack,
    context: int,
) -> CacheBlocks:
    """The blocks of a replica whose cache lies elsewhere by a share, from those that it would have alone."""
    away = _remote_shard(shard, spec, formats, stack)
    (need,) = needs
    kept = need.kv_token / shard.held_bytes * away.held_bytes * spec.share
    there = Footprint(0.0, 0.0, runtime(stack, spec.node.accelerator.kind), kept)
    capacity = spec.node.accelerator.memory.capacity.value
    lent = kv_cache if spec.memory is None else kv_cache.model_copy(update={"memory_share": 1.0, "free_share": None})
    found = blocks_of([there], capacity if spec.memory is None else spec.memory + there.taken, lent, stack, context)
    if spec.share == 1.0:
        blocks = found.blocks if cache.blocks else 0
        return _with_blocks(cache, found, blocks, 0.0, found.warnings + _noted(spec))
    blocks = int(cache.blocks / (1.0 - spec.share))
    blocks = min(blocks, found.blocks) if kv_cache.blocks is None else cache.blocks
    return _with_blocks(cache, cache, blocks, cache.block_bytes * (1.0 - spec.share), _noted(spec))


def _with_blocks(
    cache: CacheBlocks, of: CacheBlocks, blocks: int, block_bytes: float, warnings: tuple[str, ...]
) -> CacheBlocks:
    """A cache with other blocks, of `block_bytes` each on the fullest device of the model."""
    return CacheBlocks(cache.fullest, blocks, of.size, cache.state_blocks, block_bytes, warnings)


def check_remote(shard: Shard, spec: RemoteAttention, stages: int) -> None:
    """InputError where attention of a model cannot be elsewhere."""
    model, core = shard.model, shard.core
    heads = model.kv_heads or model.heads
    if stages > 1 or shard.dcp > 1 or shard.sharers > 1:
        message = "attention elsewhere is that of a replica of one stage, whose devices share nothing with others"
        raise InputError(Problem(message, path=PATH, hint="write `pp: 1` and `dcp: 1`, without `ep` or `dp`"))
    if core.latent is not None or core.chosen is not None or any(kind.stateful for kind in model.kinds):
        message = f"{model.name} keeps latents, choices or states, whose attention elsewhere is not simulated"
        raise InputError(Problem(message, path=PATH, hint="name a model with keys and values of heads"))
    if not alike(shard):
        message = (
            f"layers of {model.name} have heads of different number or size, whose attention elsewhere is not simulated"
        )
        raise InputError(Problem(message, path=PATH, hint="name a model whose layers are alike"))
    if heads % spec.devices:
        message = f"{spec.devices} devices do not divide the {heads} key heads of {model.name}"
        divisors = ", ".join(str(d) for d in range(1, heads + 1) if heads % d == 0)
        raise InputError(Problem(message, path=f"{PATH}.devices", hint=f"write one of {divisors}"))


def _noted(spec: RemoteAttention) -> tuple[str, ...]:
    """What to say of devices that hold caches."""
    what = f"{spec.devices} x {spec.node.accelerator.name} hold {100 * spec.share:.3g} % of the cached tokens"
    return (f"{what}: money, energy and figures per device are those of the devices of the model alone",)


def longest(first: Segments, second: Segments) -> Segments:
    """Segments of two things that run beside each other: the longer of the two for every number of cached tokens."""
    found: list[tuple[int, int, int]] = []
    start = 0
    for end in sorted({end for line in (first, second) for end, _, _ in line}):
        (b1, s1), (b2, s2) = (_at(line, end) for line in (first, second))
        if s1 != s2:
            meet = (b2 - b1) // (s1 - s2)
            if start <= meet < end:
                flat, steep = ((b1, s1), (b2, s2)) if s1 < s2 else ((b2, s2), (b1, s1))
                found += [(meet, *flat), (end, *steep)]
                start = end + 1
                continue
        later = (b1 + s1 * (start + 1), s1) >= (b2 + s2 * (start + 1), s2)
        found.append((end, b1, s1) if later else (end, b2, s2))
        start = end + 1
    return tuple(found)


def _at(line: Segments, context: int) -> tuple[int, int]:
    return next((base, slope) for end, base, slope in line if context <= end)


def _stretched(lines: Segments, share: float) -> Segments:
    """Lines in a share of the cached tokens as lines in all of them."""
    return tuple((end if end == FAR else int(end / share), base, round(slope * share)) for end, base, slope in lines)


def _remote_shard(shard: Shard, spec: RemoteAttention, formats: NumberFormats, stack: ServingStack) -> Shard:
    resolved, _ = resolve_formats(formats, _device(spec), stack.sums)
    return replace(shard, tp=spec.devices, formats=resolved, spread=None, exchange=None)


def _device(spec: RemoteAttention) -> Device:
    return compile_device(spec.node.accelerator)


def _card(spec: RemoteAttention, node: Node) -> float:
    """Bytes per second that a device of a node sends."""
    if spec.bandwidth is not None:
        return spec.bandwidth
    if node.nics is None:
        message = f"{node.name} has no network cards over which queries could go"
        raise InputError(Problem(message, path=PATH, hint="write `bandwidth` and `latency`, or name other nodes"))
    return node.nics.count * node.nics.bandwidth.value / node.devices


def _latency(node: Node) -> float:
    return 0.0 if node.nics is None or node.nics.latency is None else node.nics.latency.value
