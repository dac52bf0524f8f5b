"""Duration of an iteration, compiled once for a model, a layout, software, and a machine, in integer ticks.

An iteration of a stage takes rows(T, sampled) + decode(n)(K) + prompts + host. What depends on the rows of the pass is
computed for blocks of row counts at once and remembered; decode attention is piecewise linear in the cached tokens.
Equations and known errors: docs/models/serving-cost.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from simulator.axes import PP
from simulator.cost import compile_device
from simulator.fabric import Fabric, build
from simulator.program.content import Call, Comm, merged
from simulator.serving.costs.able import check_layout, context_cut, with_kernels_of
from simulator.serving.costs.attention import Segments, summed
from simulator.serving.costs.beside.adapters import Beside, adapters_of, blocks_of_adapters, with_slots
from simulator.serving.costs.beside.drafting import Drafting, assumed, drafted, drafting
from simulator.serving.costs.beside.encoder import EncoderCost, with_encoders
from simulator.serving.costs.beside.expert_loads import Loading, streamed
from simulator.serving.costs.beside.finetuning import FinetuningCost, finetuning_cost
from simulator.serving.costs.beside.remote_attention import RemoteDecode, check_remote, remote_blocks, remote_decode
from simulator.serving.costs.beside.vision import VisionCost
from simulator.serving.costs.depth import Depth, depths
from simulator.serving.costs.exchange import Exchange, experts_of, no_effect
from simulator.serving.costs.footprint import CacheBlocks, Footprint, blocks_of, footprint
from simulator.serving.costs.formats import resolve_formats
from simulator.serving.costs.graphs import GraphSizes, beyond_graphs, captured_rows, graph_sizes
from simulator.serving.costs.head_shapes import AnyAttention, attention_of_stage
from simulator.serving.costs.in_turns import Queue, queue
from simulator.serving.costs.notes import said_of_formats
from simulator.serving.costs.operators import Shard
from simulator.serving.costs.overlap import (
    Overlapping,
    check_overlap,
    overlap_assumptions,
    overlap_warnings,
    overlapping,
)
from simulator.serving.costs.pieces import Pieces, RowCosts, both, by_part, fill, hop, ticks
from simulator.serving.costs.sends import Library, Message, Sending
from simulator.serving.costs.sizes import Sizes
from simulator.serving.placement import ReplicaPlacement, placements
from simulator.specs.adapters import Adapters, Finetuning
from simulator.specs.hardware import Accelerator, Cluster, Node
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.libraries.extrapolated import extrapolated
from simulator.specs.model import Model
from simulator.specs.resolve import load_spec
from simulator.specs.serving import ExpertTraffic, KvCache, Layout, NumberFormats, Overlap, ServingStack
from simulator.specs.speculation import Speculation
from simulator.specs.tiers.expert_loads import ExpertLoads
from simulator.specs.tiers.remote_attention import RemoteAttention
from simulator.specs.tiers.streamed_weights import StreamedWeights
from simulator.units import to_ticks

MOST_PROMPTS = 1 << 16
"""Pieces of prompts whose attention is remembered at once: 16 MB."""
PROBES = (2.0**14, 2.0**26)
"""Bytes of the messages by which replicas on other devices are found to cost the same."""


@dataclass(slots=True)
class StageCost:
    """One pipeline stage of a replica; made by `compile_costs`."""

    body: RowCosts
    """Seconds of everything that depends on the rows of a pass, by part."""
    ending: RowCosts
    """Seconds of the output head, by part."""
    attention: AnyAttention
    """What attention costs here."""
    hop: Sizes | None
    """To the next stage; None on the last."""
    hop_bytes: float
    """Bytes of a row on that way."""
    host_ticks: tuple[int, int]
    """Of an iteration and of each of its sequences."""
    ahead_ticks: tuple[int, int] = (0, 0)
    """Of the host beside the device, of an iteration and of each of its sequences."""
    launch_ticks: tuple[int, int, int] = (0, 0, 0)
    """(ticks in which the host launches all kernels, most rows whose kernels it does not launch one by one, the same of
    an iteration with prompts), of a host that works beside the device."""
    stream_ticks: int = 0
    """Of weights that are loaded beside the device in every iteration."""
    loads: Loading | None = None
    """Experts that are loaded when rows ask for them."""
    sends: tuple[Sending, ...] = ()
    """Its collectives, sends to the next stage apart."""
    common: tuple[RowCosts, RowCosts] | None = None
    """Seconds of what replicas in step that share experts do together, by part: of the rows of all of them, and of
    those that give a token; None where each counts its own."""
    exchanges: tuple[RowCosts, RowCosts] | None = None
    """Seconds of sending rows to their experts and back: of the largest rank's, if all had as many; of all rows, to
    devices as loaded as they are. None where replicas in step gather the rows of all, or are not in step."""
    overlap: Overlapping | None = None
    """What runs beside what; None where operations follow each other."""
    remote: RemoteDecode | None = None
    """Attention of decodes where it is partly elsewhere."""
    speculation: Speculation | None = None
    """How many rows a decode has; one where left out."""
    drafting: Drafting | None = None
    """What drafting adds here; None where nothing is drafted, and on stages before the last."""
    launching: RowCosts | None = None
    """Seconds that an iteration with prompts waits longer for launches, by part; None where it replays graphs too."""
    unfilled: RowCosts | None = None
    """`body` without rows that fill captured graphs up; None where nothing does."""
    graphs: GraphSizes | None = None
    """Sizes of captured graphs; None: of every size."""
    graph_context: int | None = None
    """Tokens of context up to which decodes replay graphs; None: any."""
    queue: Queue | None = None
    """Launches of a piece, where one thread launches on all stages; None where it is always ahead of them."""
    _body: dict[int, int] = field(default_factory=dict)
    _ending: dict[int, int] = field(default_factory=lambda: {0: 0})
    _decode: dict[int, Segments] = field(default_factory=dict)
    _prompt: dict[tuple[int, int], int] = field(default_factory=dict)
    _shared: dict[int, tuple[int, int]] = field(default_factory=dict)
    _send: dict[int, int] = field(default_factory=dict)
    _loads: dict[int, int] = field(default_factory=dict)
    _launches: dict[int, int] = field(default_factory=dict)
    _captured: dict[int, int] = field(default_factory=dict)
    _common: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({}, {0: 0}))
    _exchanges: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({0: 0}, {0: 0}))
    _verified: dict[int, int] = field(default_factory=dict)
    _decodes: dict[int, tuple[int, int, int, int]] = field(default_factory=dict)

    @property
    def plain(self) -> bool:
        """Whether an iteration takes no more than its rows, its attention and the host before it."""
        beside = (self.overlap, self.remote, self.speculation, self.drafting, self.launching)
        ahead = any(self.ahead_ticks) or self.launch_ticks[0] or self.stream_ticks or self.loads is not None
        return not ahead and all(one is None for one in beside)

    def rows(self, tokens: int, sampled: int) -> int:
        """Ticks of everything that depends on the rows of the pass; the output head for `sampled` of them."""
        try:
            return self._body[tokens] + self._ending[sampled]
        except KeyError:
            fill(self._body, tokens, self.body)
            fill(self._ending, sampled, self.ending)
            return self._body[tokens] + self._ending[sampled]

    def launches(self, tokens: int) -> int:
        """Ticks that an iteration with prompts of so many rows waits longer for the host than one of decodes."""
        if self.launching is None:
            return 0
        if tokens not in self._launches:
            fill(self._launches, tokens, self.launching)
        return self._launches[tokens]

    def captured(self, tokens: int) -> int:
        """Rows of the captured graph that an iteration of so many replays, as many where it replays none."""
        if self.graphs is None:
            return tokens
        if tokens not in self._captured:
            self._captured[tokens] = int(self.graphs.captured(np.array([tokens]))[0])
        return self._captured[tokens]

    def together(self, tokens: int, sampled: int) -> int:
        """Ticks of experts for the rows of all replicas in step, and of gathering these, beside the `rows` of each."""
        if self.common is None:
            return 0
        drafts = 0 if self.drafting is None else self.drafting.together(tokens, sampled)
        rows, ends = self._common
        if tokens not in rows:
            fill(rows, tokens, self.common[0])
        if sampled not in ends:
            fill(ends, sampled, self.common[1])
        return rows[tokens] + ends[sampled] + drafts

    def exchanged(self, most: int, tokens: int) -> int:
        """Ticks of sending rows to their experts and back: until those of the rank with `most` have left and those of
        the busiest device have come, of `tokens` of all ranks; 0 where rows are gathered."""
        if self.exchanges is None:
            return 0
        drafts = 0 if self.drafting is None else self.drafting.exchanged(most, tokens)
        left, came = self._exchanges
        if most not in left:
            fill(left, most, self.exchanges[0])
        if tokens not in came:
            fill(came, tokens, self.exchanges[1])
        return max(left[most], came[tokens]) + drafts

    def saved(self, tokens: int, attention: int, shared: int | None = None, reading: int = 0) -> int:
        """Ticks that an iteration of so many rows and ticks of attention is shorter than its operations one by one;
        `shared` are the rows of all replicas in step, `reading` the ticks of attention of decodes."""
        return self.overlap.saved(tokens, attention, shared, reading) if self.overlap is not None and tokens else 0

    def parts(self, tokens: int, sampled: int) -> dict[str, int]:
        """`rows` by what it is: linear, head, tp, ep, other."""
        asked = ((self.body, tokens), (self.ending, sampled))
        return by_part(cost(np.array([count])) for cost, count in asked if count)

    def calls(self, tokens: int, sampled: int, shared: tuple[int, int] = (0, 0)) -> tuple[Call, ...]:
        """Collectives of an iteration of so many rows; `shared` are those of all replicas in step."""
        own, joint = (self.captured(tokens), sampled), shared
        found = [(send, (joint if send.in_step else own)[send.sampled]) for send in self.sends]
        calls = [send.call(rows) for send, rows in found if rows]
        if self.hop is not None and tokens:
            comm = Comm("send", PP.name, tokens * self.hop_bytes, PP.name)
            calls.append(Call(comm, 1, self.send(tokens)))
        return merged(calls)

    def decode(self, sequences: int) -> Segments:
        """Segments (up to this many cached tokens, base, slope): ticks of the attention of `sequences` decodes that
        read `context` cached tokens together are base + slope * context."""
        known = self._decode.get(sequences)
        if known is None:
            known = self._decode[sequences] = self._lines(sequences)
        return known

    def _lines(self, sequences: int) -> Segments:
        """Lines of decodes, and of the model that drafts for them."""
        attention = self.remote or self.attention
        if self.speculation is None:
            lines = attention.decode(sequences)
            if self.graph_context is None or not sequences:
                return lines
            return beyond_graphs(lines, sequences * self.graph_context, self.launches(sequences))
        own = attention.decode(sequences, self.speculation.rows(sequences))
        return summed((own, *(() if self.drafting is None else self.drafting.decode(sequences))))

    def verified(self, sequences: int) -> int:
        """Rows that so many decodes have in an iteration, with the tokens that are verified."""
        if self.speculation is None:
            return sequences
        known = self._verified.get(sequences)
        if known is None:
            known = self._verified[sequences] = sequences * self.speculation.rows(sequences)
        return known

    def decodes(self, sequences: int) -> tuple[int, int, int, int]:
        """Of an iteration of so many decodes and nothing else on the only stage: (its rows, ticks without those of
        attention, those of drafting among them, and what it lasts at `least`)."""
        known = self._decodes.get(sequences)
        if known is None:
            rows = self.verified(sequences)
            drafts = 0 if self.drafting is None else self.drafting.ticks(rows, sequences, sequences)
            ticks = self.rows(rows, rows) + self.host(sequences) + drafts
            known = self._decodes[sequences] = rows, ticks, drafts, self.least(sequences, rows)
        return known

    def shared(self, sequences: int) -> tuple[int, int]:
        """(base, slope): ticks of the attention of `sequences` decodes to a prefix of theirs that is read once are
        base + slope * tokens of the prefix."""
        known = self._shared.get(sequences)
        if known is None:
            known = self._shared[sequences] = self.attention.shared(sequences)
        return known

    def prompt(self, chunk: int, before: int) -> int:
        """Ticks of the attention of `chunk` prompt tokens after `before` cached ones."""
        known = self._prompt.get((chunk, before))
        if known is None:
            if len(self._prompt) >= MOST_PROMPTS:
                self._prompt.clear()
            drafts = 0 if self.drafting is None else self.drafting.prompts(((chunk, before),))
            known = self._prompt[chunk, before] = self.attention.prompt(chunk, before) + drafts
        return known

    def prompts(self, pieces: Sequence[tuple[int, int]]) -> int:
        """Ticks of the attention of several chunks in one kernel, each (tokens, cached tokens before them): no more
        than the sum of `prompt`, as small ones fill the device together."""
        if len(pieces) == 1:
            return self.prompt(*pieces[0])
        return self.attention.prompts(pieces) + (0 if self.drafting is None else self.drafting.prompts(pieces))

    def host(self, sequences: int) -> int:
        """Ticks of the host for an iteration of so many sequences; 0 on stages after the first."""
        return self.host_ticks[0] + self.host_ticks[1] * sequences

    def least(self, sequences: int, rows: int, prompts: bool = False) -> int:
        """Ticks that the host works, or weights are loaded, beside the device in an iteration of so many sequences and
        rows, `prompts` among them or not, which lasts no less. What the host launches one by one it launches after it
        has prepared the iteration: both take the time of one thread."""
        ticks, decodes, mixed = self.launch_ticks
        launching = ticks if rows > (mixed if prompts else decodes) else 0
        beside = self.stream_ticks if self.loads is None else self.loaded(rows)
        return max(self.ahead_ticks[0] + self.ahead_ticks[1] * sequences + launching, beside)

    def loaded(self, rows: int) -> int:
        """Ticks in which the experts that so many rows ask for are loaded."""
        assert self.loads is not None
        if rows not in self._loads:
            self._loads[rows] = int(ticks(self.loads.seconds(np.array([rows])))[0])
        return self._loads[rows]

    def send(self, tokens: int) -> int:
        """Ticks until so many rows have moved to the next stage; 0 on the last."""
        if self.hop is None or tokens == 0:
            return 0
        known = self._send.get(tokens)
        if known is None:
            seconds = self.hop.seconds(np.array([tokens * self.hop_bytes]))
            known = self._send[tokens] = int(ticks(seconds)[0])
        return known


@dataclass(frozen=True, slots=True)
class ReplicaCost:
    """A replica: what its iterations cost and what fits."""

    stages: tuple[StageCost, ...]
    """Pipeline stages in order."""
    serial: bool
    """Whether decoding has one batch in flight over all stages (`split: layer`); prompts still follow each other."""
    weights_bytes: float
    """Weights of the fullest device."""
    kv_token_bytes: float
    """Keys and values of one token on the fullest device."""
    kv_replica_bytes: float
    """Keys and values of one token on all devices of the replica together."""
    blocks: int
    """Cache blocks of the replica; 0 where the model does not fit."""
    block_size: int
    """Tokens of a block."""
    capacity: float
    """Memory of one device in bytes."""
    ledger: dict[str, float]
    """Bytes of the fullest device by kind, the cache as far as it fits or one block if it does not."""
    devices: int
    """Devices of the replica."""
    warnings: tuple[str, ...]
    assumptions: tuple[str, ...]
    peak_row_s: float = 0.0
    """Seconds that the linear layers would take for a row on one device at its peak, all stages together."""
    peak_context_s: float = 0.0
    """The same of attention, for one query and one cached token."""
    state_blocks: int = 0
    """Blocks that the states of a sequence take."""
    state_replica_bytes: float = 0.0
    """States of one sequence on all devices of the replica together."""
    speculation: Speculation | None = None
    """How its tokens are drafted and verified."""
    exchange: Exchange | None = None
    """The library that sends rows to the devices of their experts."""
    peers: int = 1
    """Ranks that share experts with it and run in step, itself among them."""
    adapters: tuple[Beside, ...] = ()
    """Adapters beside the products of each stage; none where no request asks for one."""
    adapter_blocks: tuple[int, ...] = ()
    """Blocks that an adapter takes, of each rank, where they lie in blocks."""
    finetuning: FinetuningCost | None = None
    """What training an adapter beside serving costs."""
    vision: VisionCost | None = None
    """What encodes images, on the first stage; None where the model reads none."""
    encoder: EncoderCost | None = None
    """The encoder before the decoder; None where the model has none."""

    @property
    def fits(self) -> bool:
        """Whether there is memory for at least one block."""
        return self.blocks > 0


def compile_costs(
    model: Model,
    layout: Layout,
    formats: NumberFormats,
    stack: ServingStack,
    cluster: Cluster,
    context: int,
    kv_cache: KvCache,
    token_budget: int,
    max_sequences: int,
    place: ReplicaPlacement | None = None,
    in_step: bool = False,
    overlap: Overlap | None = None,
    speculation: Speculation | None = None,
    traffic: ExpertTraffic | None = None,
    stream_interval: int = 1,
    adapters: Adapters | None = None,
    weights: StreamedWeights | ExpertLoads | None = None,
    remote: RemoteAttention | None = None,
    finetuning: Finetuning | None = None,
) -> ReplicaCost:
    """Costs of a replica on the devices of `place`, the first ones of the cluster where it is left out.

    `context` is the longest sequence in tokens. A model that does not fit has no blocks. `rows` of replicas not
    `in_step` hold what they do with shared experts, as if each had as many. InputError for too few devices or formats.
    """
    tp, stages = shape(layout, stack)
    place = place or placements(range(layout.devices * layout.sharers), layout.devices)[0]
    own = cluster.only(cluster.numbering.kind_of(place.own[0]))
    traffic, overlap = traffic or ExpertTraffic(), overlap or Overlap()
    check_layout(model, layout, own, tp, stages, traffic)
    check_overlap(model, overlap, layout)
    device, cut = compile_device(own.node.accelerator), layout.expert_cut if tp == layout.tp else 1  # whole with layers
    resolved, notes = resolve_formats(formats, device, stack.sums, stack.fused_casts)
    spread, exchange = experts_of(model, layout, stack, traffic, resolved, device, max(layout.sharers * tp // cut, 1))
    shard = Shard(model, tp, resolved, stack.fused_elementwise, layout.sharers, cut, spread, exchange)
    shard = replace(shard, dcp=context_cut(model, layout, tp), queries_apart=layout.dcp_exchange == "gather")
    layers = depths(model, split_layers(model.layers, stages, stack.split == "layer"))
    each = 1 if speculation is None else speculation.most_rows
    stack = graphed(with_kernels_of(stack, own.node.accelerator.kind), each)
    runs, sizes = library(stack, cluster, exchange), graph_sizes(stack, each, max_sequences)
    pieces = Pieces(shard, device, stack, runs, place.group(0, tp), in_step=in_step, graphs=sizes)
    most, more = max_sequences * each, (overlap, speculation, stream_interval)
    costs = tuple(_stage(pieces, layers, stage, place, *more) for stage in range(stages))
    chip, capacity = own.node.accelerator, own.node.accelerator.memory.capacity.value
    needs = [footprint(shard, layers, stage, stack, token_budget, most, context, chip.kind) for stage in range(stages)]
    needs = _drafts(costs, needs, pieces, place, speculation, formats)
    needs = streamed(costs, needs, shard, layers, weights, own.node)
    beside = adapters_of(shard, layers, device, stack, adapters, [cost.rows for cost in costs], needs)
    needs, vision, encoder = with_encoders(needs, model, pieces)
    needs, trained = finetuning_cost(pieces, layers, finetuning, with_slots(needs, beside, adapters, capacity))
    alone = blocks_of(needs, capacity, kv_cache, stack, context)
    cache = _elsewhere(alone, costs, needs, shard, remote, formats, (kv_cache, own.node, context))
    said = overlap_warnings(layout, tp, overlap) + no_effect(traffic, model, layout, exchange) + _made_for(stack, chip)
    return ReplicaCost(
        stages=costs,
        serial=stack.split == "layer",
        weights_bytes=max(need.weights for need in needs),
        kv_token_bytes=max(need.kv_token for need in needs),
        kv_replica_bytes=tp * sum(need.kv_token for need in needs),
        blocks=cache.blocks,
        block_size=cache.size,
        capacity=capacity,
        ledger=cache.fullest.kinds() | {"kv cache": cache.kept},
        devices=tp * stages,
        warnings=cache.warnings + said_of_formats(model, formats, device, stack, resolved) + said,
        assumptions=notes + overlap_assumptions(overlap) + assumed(speculation),
        peak_row_s=shard.token_flops() / device.peak(resolved.compute),
        peak_context_s=shard.context_flops() / device.peak(resolved.plain_compute),
        state_blocks=cache.state_blocks,
        state_replica_bytes=tp * sum(need.state for need in needs),
        speculation=speculation,
        exchange=exchange,
        peers=layout.sharers if in_step else 1,
        adapters=beside,
        adapter_blocks=blocks_of_adapters(needs, beside, adapters, cache),
        finetuning=trained,
        vision=vision,
        encoder=encoder,
    )


def _made_for(stack: ServingStack, accelerator: Accelerator) -> tuple[str, ...]:
    """A warning where the stack has kernels for other kinds of devices only."""
    return extrapolated(stack.name, stack.device_kinds or (accelerator.kind,), accelerator)


def _elsewhere(
    cache: CacheBlocks,
    costs: Sequence[StageCost],
    needs: list[Footprint],
    shard: Shard,
    remote: RemoteAttention | None,
    formats: NumberFormats,
    given: tuple[KvCache, Node, int],
) -> CacheBlocks:
    """Tell the stage where decodes attend; the blocks that there is room for. `given` are the cache as written, the
    node and the longest sequence."""
    if remote is None:
        return cache
    check_remote(shard, remote, len(costs))
    own, (kv_cache, node, context) = costs[0].attention, given
    costs[0].remote = remote_decode(own, shard, own.layers, remote, formats, node)
    return remote_blocks(cache, needs, shard, remote, formats, kv_cache, own.stack, context)


def _drafts(
    costs: Sequence[StageCost],
    needs: list[Footprint],
    pieces: Pieces,
    place: ReplicaPlacement,
    speculation: Speculation | None,
    formats: NumberFormats,
) -> list[Footprint]:
    """Tell all stages what is verified, and the last one what drafts; the memory of all with it."""
    if speculation is None:
        return needs
    for cost in costs:
        cost.speculation = speculation
    last = _placed(pieces, place, len(costs) - 1)
    costs[-1].drafting = drafting(last, speculation, formats, costs[-1].attention.curve.launch)
    return [*needs[:-1], drafted(needs[-1], pieces.shard, speculation, formats, pieces)]


def graphed(stack: ServingStack, rows: int) -> ServingStack:
    """The stack with graphs captured for so many rows of each sequence."""
    if rows == 1 or stack.graphs is None:
        return stack
    return stack.model_copy(update={"graphs": stack.graphs * rows})


def split_layers(layers: int, stages: int, head: bool = False) -> tuple[int, ...]:
    """Layers of each stage, the first ones having one more where it does not come out even; with the output `head`
    counted as one more layer, each stage has those that begin within its share (llama.cpp: llama_model::load_tensors).
    """
    if head:
        ends = [-(-(layers + 1) * stage // stages) for stage in range(stages)]
        return tuple(end - begin for begin, end in pairwise((*ends, layers)))
    even, more = divmod(layers, stages)
    return tuple(even + (stage < more) for stage in range(stages))


def shape(layout: Layout, stack: ServingStack) -> tuple[int, int]:
    """(tensor-parallel degree, stages) of a replica of the stack."""
    return (1, layout.devices) if stack.split == "layer" else (layout.tp, layout.pp)


def probe_seconds(layout: Layout, stack: ServingStack, cluster: Cluster, place: ReplicaPlacement) -> tuple[float, ...]:
    """Seconds of a small and of a large message in each group of a replica: those of equal ones cost the same."""
    tp, stages = shape(layout, stack)
    groups = [("all_reduce", place.group(stage, tp)) for stage in range(stages) if tp > 1]
    groups += [("all_gather", place.sharers(stage, tp)) for stage in range(stages) if layout.sharers > 1]
    groups += [("send", (place.own[stage * tp - tp], place.own[stage * tp])) for stage in range(1, stages)]
    runs = library(stack, cluster)
    return tuple(runs.seconds(operation, group, size) for operation, group in groups for size in PROBES)


def library(stack: ServingStack, cluster: Cluster, exchange: Exchange | None = None) -> Library:
    """What runs the collectives of a stack on a cluster."""
    profile, text = load_spec(CollectiveProfile, cluster.collectives), cluster.model_dump_json()
    found = _machines.get(text)
    if found is None or found.profile is not profile:
        if len(_machines) >= MOST_MACHINES:
            _machines.clear()
        found = _machines[text] = Machine(build(cluster), profile, {})
    return Library(stack, *found[:2], exchange, found.known)


class Machine(NamedTuple):
    """What carries collectives, and what they were found to take."""

    links: Fabric
    profile: CollectiveProfile
    known: dict[Message, float]


MOST_MACHINES = 16
"""Clusters whose fabrics are kept."""
_machines: dict[str, Machine] = {}


def _placed(pieces: Pieces, place: ReplicaPlacement, stage: int) -> Pieces:
    """The pieces of a stage where it lies."""
    groups = place.group(stage, pieces.shard.tp), place.sharers(stage, pieces.shard.tp)
    everybody = place.everybody(stage, pieces.shard.tp)
    return replace(pieces, group=groups[0], sharers=groups[1], everybody=everybody, _sizes={})


def host_seconds(
    stack: ServingStack, speculation: Speculation | None, stream_interval: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """(seconds that the device waits for the host, seconds of the host beside the device), each of an iteration and of
    each of its sequences; a packet of an answer leaves every `stream_interval` tokens."""
    verify = stack.verify_overhead.value if stack.verify_overhead and speculation is not None else 0.0
    waits = stack.iteration_overhead.value, stack.sequence_overhead.value + verify
    ahead = stack.ahead_overhead.value if stack.ahead_overhead else 0.0
    packet = stack.stream_overhead.value / stream_interval if stack.stream_overhead else 0.0
    return waits, (ahead, packet)


def _stage(
    pieces: Pieces,
    layers: tuple[Depth, ...],
    stage: int,
    place: ReplicaPlacement,
    overlap: Overlap,
    speculation: Speculation | None,
    stream_interval: int,
) -> StageCost:
    shard, stack, tp = pieces.shard, pieces.stack, pieces.shard.tp
    first, last = stage == 0, stage == len(layers) - 1
    own = _placed(pieces, place, stage)
    attention = attention_of_stage(shard, layers[stage], pieces.device, stack, own.gathering())
    host, ahead = host_seconds(stack, speculation, stream_interval) if first else ((0.0, 0.0), (0.0, 0.0))
    body, filling = own.body(layers[stage], first, attention.curve.launch), own.filling(layers[stage], first)
    return StageCost(
        body=body if filling is None else both(body, filling),
        ending=own.ending(layers[stage], last, attention.curve.launch),
        attention=attention,
        hop=None if last else hop(own, place.own[stage * tp], place.own[(stage + 1) * tp]),
        hop_bytes=2.0 * shard.model.hidden * shard.formats.plain_size,
        host_ticks=(to_ticks(host[0]), to_ticks(host[1])),
        ahead_ticks=(to_ticks(ahead[0]), to_ticks(ahead[1])),
        launch_ticks=(to_ticks(own.launch_seconds(layers[stage])) if any(ahead) else 0, *captured_rows(stack)),
        sends=own.sends(layers[stage], first, last),
        common=own.together(layers[stage]) if own.in_step and shard.sharers > 1 else None,
        exchanges=own.exchanges(layers[stage]) if own.in_step and shard.sharers > 1 else None,
        overlap=overlapping(own, layers[stage], attention.curve.launch, overlap),
        launching=own.launching(layers[stage], first),
        unfilled=None if filling is None else body,
        graphs=own.graphs,
        graph_context=stack.graph_context,
        queue=queue(shard, layers[stage].layers, own.device, stack),
    )
