"""What a training rank keeps in memory, by kind.

Model states follow ZeRO (Rajbhandari et al., arXiv:1910.02054, section 3): with P parameters on the rank and N ranks
in a shard set, 2 P parameters, gradients, and fp32 copy and moments (12 P), each divided by N from the ZeRO stage on
that shards it. Activations follow Korthikanti et al. (arXiv:2205.05198, section 4), tensor by tensor: for GPT with
dropout and unfused attention a layer keeps s b h (34 + 5 a s / h) bytes on one rank. How many microbatches are in
flight comes out of the simulated schedule. Left out: fragmentation beyond `memory_overhead`, tensors kept by accident.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from simulator.model.dropped import dropping
from simulator.model.held import computed_beside
from simulator.model.ops import Op
from simulator.model.tensors import FACTOR, MASK, PLAIN, Kept, core, cores, kept, kept_for_weights, results
from simulator.program.actions import Kind
from simulator.specs.model import LayerKind
from simulator.training import vocabulary
from simulator.training.adapters import STORED, reads_attention
from simulator.training.context import SCHEMES
from simulator.training.job import Job, Replicas
from simulator.training.once import once_a_job
from simulator.training.operators import (
    context_of,
    copied_elements,
    embedding_ops,
    embedding_parameters,
    encoder_ops,
    head_ops,
    head_parameters,
    layer_matrices,
    layer_ops,
    layer_parameters,
    layer_products,
    layer_tensors,
    local_rows,
    shared,
    vocabulary_shard,
)
from simulator.training.optimizers.base import OPTIMIZERS, Matrices, Share
from simulator.training.tiers.gathered import gathered_parameters
from simulator.training.tiers.levels import levels_of
from simulator.training.tiers.split import BUFFERS, split

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A model chunk as memory and communication see it."""

    kinds: tuple[LayerKind, ...]
    """Kind of each layer; those of an encoder in the first chunk, modules for multi-token prediction in the last."""
    first: bool
    """Whether it holds the input embedding."""
    last: bool
    """Whether it holds the output head."""
    part: bool = False
    """Whether its rank holds a part of both, as all do."""

    @property
    def layers(self) -> int:
        """Transformer layers."""
        return len(self.kinds)


def chunks_of_stage(job: Job, stage: int) -> tuple[Chunk, ...]:
    """Model chunks on a pipeline rank."""
    return tuple(chunk for chunk, home in zip(all_chunks(job), job.home, strict=True) if home == stage)


@once_a_job
def all_chunks(job: Job) -> tuple[Chunk, ...]:
    """Model chunks in the order of the layers, copy after copy: the first `len(job.chunks)` are one model."""
    last, stops = len(job.chunks) - 1, list(accumulate(job.chunks))
    every = job.own_layers
    kinds = [every[stop - layers : stop] for layers, stop in zip(job.chunks, stops, strict=True)]
    kinds[0] = job.model.encoding + kinds[0]
    kinds[-1] += job.model.predicting
    own = (Chunk(layers, i == 0, i == last, job.vocabulary_sums > 0) for i, layers in enumerate(kinds))
    return tuple(own) * job.copies


def over_layers(kinds: Iterable[LayerKind], size: Callable[[LayerKind], float]) -> float:
    """What layers sum to, each of a size that follows from its kind."""
    return sum(count * size(kind) for kind, count in Counter(kinds).items())


@once_a_job
def parameters(job: Job, chunk: Chunk, replicas: Replicas | None = None, trained: bool = False) -> float:
    """Parameters of a chunk on one rank, all or those that so many ranks copy or that are trained; a tied head on the
    embedding's own rank adds no second matrix."""
    total = over_layers(chunk.kinds, lambda kind: layer_parameters(job, kind, replicas, trained))
    if replicas not in (None, job.dense) or (trained and job.lora):
        return total
    if chunk.part:
        total += vocabulary.parameters(job)
    if chunk.first:
        total += embedding_parameters(job)
    if chunk.last:
        total += head_parameters(job)
        if job.model.tied_embeddings and job.home[0] == job.home[-1] and not chunk.part:
            total -= vocabulary_shard(job) * job.model.hidden
        if job.copies_embedding:
            total += vocabulary_shard(job) * job.model.hidden
    return total


def updated(job: Job, stage: int) -> float:
    """Parameters that the optimizer of a rank of the stage updates, spread evenly."""
    return sum(share.elements / share.shards for share in shares(job, stage))


def shares(job: Job, stage: int) -> list[Share]:
    """What the optimizer of a rank of the stage updates: a share for each of `job.replicas`."""
    return shares_of(job, chunks_of_stage(job, stage))


def shares_of(job: Job, chunks: Sequence[Chunk]) -> list[Share]:
    """What is updated of some chunks: a share for each of `job.replicas`."""
    return [_share(job, chunks, copies) for copies in job.replicas]


def pieces_of(chunk: Chunk) -> list[Chunk]:
    """The layers of a chunk one by one, embedding and head with the outer ones; a chunk without layers whole."""
    ends = [0, chunk.layers - 1]
    layers = enumerate(chunk.kinds)
    return [Chunk((kind,), chunk.first and i == ends[0], chunk.last and i == ends[1]) for i, kind in layers] or [chunk]


def _gradients(job: Job, chunks: Sequence[Chunk], copies: Replicas) -> float:
    """Gradients, of parameters that so many ranks copy, that are there at once: all, or under an optimizer in the
    backward pass those of the largest layer and, where they are reduced beside the next one, of that."""
    if not job.optimizer.in_backward:
        return sum(parameters(job, chunk, copies, trained=True) for chunk in chunks)
    layers = (piece for chunk in chunks for piece in pieces_of(chunk))
    return (1 + job.copied) * max(parameters(job, piece, copies, trained=True) for piece in layers)


def _share(job: Job, chunks: Sequence[Chunk], copies: Replicas) -> Share:
    """The trained parameters of some chunks that so many ranks copy."""
    trained = sum(parameters(job, chunk, copies, trained=True) for chunk in chunks)
    shards = copies.shard if job.zero else 1
    if not OPTIMIZERS.get(job.optimizer.name).by_matrix:
        return Share(copies, shards, trained)
    found: Counter[Matrices] = Counter()
    for kind, layers in Counter(kind for chunk in chunks for kind in chunk.kinds).items():
        for product in layer_products(job, kind, copies):
            ways, axis = (job.cut.over(product.axis), product.axis.name) if product.axis else (1, "")
            matrix = Matrices(product.inputs, product.outputs, 1, product.cut if ways > 1 else "", ways, axis)
            found[matrix] += layers * (product.matrices - product.copies)
    return Share(copies, shards, trained, tuple(one._replace(number=count) for one, count in found.items()))


def matrices(job: Job, stage: int) -> float:
    """Elements of the layers' matrices on a rank of the stage."""
    kinds = [kind for chunk in chunks_of_stage(job, stage) for kind in chunk.kinds]
    return over_layers(kinds, lambda kind: layer_matrices(job, kind))


def recast(job: Job, stage: int) -> float:
    """Of `matrices`, those that are cast anew every step: none where they are frozen and stay as they are."""
    return 0.0 if job.lora and not job.per_pass else matrices(job, stage)


def static_memory(job: Job, stage: int) -> dict[str, float]:
    """Bytes that a rank of the stage keeps all the time on its device, by kind."""
    return by_tier(job, stage)[0]


def by_tier(job: Job, stage: int) -> tuple[dict[str, float], dict[str, float]]:
    """(bytes on the device, bytes elsewhere) that a rank of the stage keeps all the time, by kind."""
    states = _states(job, stage)
    if job.offload is None:
        return states, {}
    largest = {"parameters": 0.0, "gradients": 0.0}
    for piece in (piece for chunk in chunks_of_stage(job, stage) for piece in pieces_of(chunk)):
        sizes = piece_bytes(job, piece)
        largest = {name: max(size, sizes[name]) for name, size in largest.items()}
    return split(job.offload, states, largest, updated(job, stage), job.accumulates)


def piece_bytes(job: Job, piece: Chunk) -> dict[str, float]:
    """Bytes of the parameters and of the gradients of a layer, with the ends beside it, that one rank owns."""
    found = {"parameters": 0.0, "gradients": 0.0, "elements": 0.0}
    for copies in job.replicas:
        shard = copies.shard if job.per_pass else 1
        found["parameters"] += parameters(job, piece, copies) * job.element / shard
        spread = copies.shard if job.zero else 1
        elements = parameters(job, piece, copies, trained=True) / spread
        found["elements"] += elements
        found["gradients"] += elements * job.gradient_bytes
    return found


def _states(job: Job, stage: int) -> dict[str, float]:
    """Bytes that a rank of the stage keeps all the time if nothing is elsewhere, by kind."""
    states = dict.fromkeys(("parameters", "gradients", "optimizer"), 0.0)
    chunks = chunks_of_stage(job, stage)
    for copies in job.replicas:
        owned = sum(parameters(job, chunk, copies) for chunk in chunks)
        levels = levels_of(job, copies)
        states["parameters"] += owned * job.stored / (levels.parameters if job.per_pass else 1)
        states["gradients"] += (
            _gradients(job, chunks, copies) * job.gradient_bytes / (levels.gradients if job.zero >= 2 else 1)
        )
        states["optimizer"] += OPTIMIZERS.get(job.optimizer.name).states(job, _share(job, chunks, copies))
    if job.zeroth is not None:
        states |= {"gradients": 0.0, "optimizer": 0.0}
    if job.lora and job.lora.base_format:
        base = matrices(job, stage) / (job.dense.shard if job.per_pass else 1)
        states["parameters"] -= base * (job.stored - STORED[job.lora.base_format])
    if job.recipe is not None and not job.per_pass:
        cast = matrices(job, stage)
        states["cast parameters"] = cast * job.cast_parameter
        states["parameters"] -= cast * job.stored * job.quantized_parameters
    if job.zero == 3:
        ends = [embedding_parameters(job) * c.first for c in chunks] + [head_parameters(job) * c.last for c in chunks]
        largest = max((gathered_parameters(job, kind) for kind in kinds_of(chunks)), default=0.0)
        states["gathered parameters"] = (2 * largest + max(ends, default=0.0)) * job.element
    elif job.per_pass:
        states["gathered parameters"] = sum(parameters(job, chunk) for chunk in chunks) * job.element
    if (
        job.sharded
        and not job.lora
        and job.zeroth is None
        and (job.zero == 2 or (job.zero == 3 and job.stack.unit != "bucket"))
    ):
        states["unreduced gradients"] = unreduced_gradients(job, stage)
    kinds = [kind for chunk in chunks for kind in chunk.kinds]
    if copied := over_layers(kinds, lambda kind: copied_elements(job, kind)):
        states["copies of experts"] = copied * (job.element + job.gradient_bytes)
    if job.sharding is not None and job.sharding.secondary is not None:
        near = min(job.sharding.secondary, job.dense.shard)
        states["second shards"] = sum(parameters(job, chunk) for chunk in chunks) * job.element / near
    if job.outer_states:
        shards = job.dense.shard if job.zero else 1
        states["outer states"] = job.outer_states * sum(parameters(job, chunk) for chunk in chunks) / shards
    if job.runtime is not None:
        states["runtime"] = job.runtime
    return states


def kinds_of(chunks: Iterable[Chunk]) -> list[LayerKind]:
    """The different kinds of layers in some chunks."""
    return list(dict.fromkeys(kind for chunk in chunks for kind in chunk.kinds))


def unreduced_gradients(job: Job, stage: int) -> float:
    """Bytes of gradients that are still whole where they are sharded: the piece that the backward pass fills and, where
    reductions run beside it, the piece before.

    A piece is a wrapped unit of FSDP, filled in the working format, or a bucket, or a tensor that is larger, beside the
    next such tensor; a stack without buckets reduces a chunk at once. DeepSpeed keeps one bucket, two with
    `overlap_comm` (stage_1_and_2.py and stage3.py, `ipg_buffer`); FSDP waits for the reduction before
    (`post_backward`).
    """
    chunks = chunks_of_stage(job, stage)
    first = [embedding_parameters(job)] * any(c.first for c in chunks)
    last = [head_parameters(job)] * any(c.last for c in chunks)
    last += [vocabulary.parameters(job)] * any(c.part for c in chunks)
    if job.stack.unit == "layer":
        layer = max((layer_parameters(job, kind) for kind in kinds_of(chunks)), default=0.0)
        return max([layer, *first, *last]) * job.reduce_bytes + layer * job.element
    chunk = max(parameters(job, one) for one in chunks) * job.reduce_bytes
    layers = [size for kind in kinds_of(chunks) for size in (*layer_tensors(job, kind), *layer_tensors(job, kind))]
    tensors = [size * job.reduce_bytes for size in (*first, *layers, *last)]
    pieces = [job.bucket, *(size for size in tensors if size > job.bucket), job.bucket]
    pieces = [min(size, chunk) for size in pieces]
    beside = job.overlap_gradients and not job.synchronous
    most = max(map(sum, pairwise(pieces))) if beside else max(pieces)
    return min(most, chunk * len(chunks) * job.microbatches)


def kept_bytes(job: Job, ops: Iterable[Op]) -> float:
    """Bytes that operations keep of one microbatch, tensor by tensor; scores and logits are apart.

    What only a product's weight gradient needs (outputs of norms, of the activation, of the attention) is kept as the
    product read it; a fused attention keeps its own output besides, where that is another format.
    """
    ops = list(ops)
    total = _bytes(job, kept(ops))
    alone = job.kept_input != job.element if job.lora is None else not reads_attention(job.lora)
    if job.attention == "fused" and alone:
        total += sum(job.tokens * found.attended * job.element for found in cores(ops))
    return total


def layer_activations(job: Job, kind: LayerKind) -> float:
    """Bytes that a layer keeps of one microbatch for its backward pass when nothing is recomputed."""
    ops = layer_ops(job, kind)
    modules = job.recompute_modules if job.recompute == "selective" else ()
    return kept_bytes(job.of(kind), dropping(ops, modules)) + attention_activations(job, kind)


def for_weights(job: Job, ops: Iterable[Op]) -> float:
    """Bytes that gradients of weights read of one microbatch, as the products read them."""
    return _bytes(job, kept_for_weights(ops))


def _bytes(job: Job, found: Iterable[Kept]) -> float:
    """Bytes of tensors that are kept of one microbatch."""
    size = {FACTOR: job.kept_input, PLAIN: job.element, MASK: 1}
    return sum(local_rows(job, one.rows) * one.elements * size[one.form] for one in found)


def chunk_for_weights(job: Job, chunk: Chunk) -> float:
    """Bytes that a chunk keeps of one microbatch between the two halves of its backward pass, recomputed rows included.

    The gradient of the logits counts where it waits beside another microbatch's; else it is working memory.
    """
    if job.zeroth is not None:
        return 0.0
    total = over_layers(chunk.kinds, lambda kind: for_weights(job.of(kind), layer_ops(job, kind)))
    if chunk.last:
        total += for_weights(job, head_ops(job))
        if job.logit_gradients_in_flight == 1:
            total -= logit_gradients(job)
    return total


def attention_activations(job: Job, kind: LayerKind) -> float:
    """Bytes of scores, probabilities and masks of a layer and microbatch; 4 bytes a row of statistics where fused."""
    found, job = cores(layer_ops(job, kind)), job.of(kind)
    if job.attention == "fused":
        return 4.0 * job.tokens * sum(one.heads for one in found)
    per_score = 2 * job.element + 1 if job.stack.dropout else job.element
    return float(sum(job.tokens * one.heads * context_of(job, one) * per_score for one in found))


def chunk_activations(job: Job, chunk: Chunk) -> float:
    """Bytes that a chunk keeps of one microbatch on the device between its forward and backward pass.

    Offloaded layers are the first of a chunk, recomputed ones the last. Nothing without backward passes.
    """
    if job.zeroth is not None:
        return 0.0
    away = layers_away(job, chunk)
    stay = chunk.kinds[away:]
    again = min(job.recomputed(chunk.layers), len(stay))
    total = over_layers(chunk.kinds[:away], lambda kind: left_of_layer(job, kind))
    total += over_layers(
        stay[len(stay) - again :], lambda kind: boundary_activations(job.of(kind)) + kept_results(job, kind)
    )
    total += over_layers(stay[: len(stay) - again], lambda kind: whole_layer(job, kind))
    if chunk.first:
        total += kept_bytes(job, embedding_ops(job))
        if job.model.encoding:  # the output of an encoder, which all layers of the decoder read
            total += kept_bytes(job.encoder, encoder_ops(job)) + boundary_activations(job.encoder)
    if chunk.last:
        total += kept_bytes(job, head_ops(job))
        if job.logits_in_flight > 1 and not chunk.part:
            total += head_activations(job)
    return total


def kept_of_part(job: Job) -> float:
    """Bytes that a rank keeps of one microbatch between S and T: what all ranks got of it, and its logits."""
    return kept_bytes(job, vocabulary.score(job)) + head_activations(job) if job.vocabulary_sums else 0.0


def kept_results(job: Job, kind: LayerKind) -> float:
    """Bytes of results of one microbatch and recomputed layer that are kept, attention with its statistics."""
    ops, own = layer_ops(job, kind), job.of(kind)
    again, held = computed_beside(ops, job.held)
    statistics = attention_activations(job, kind) if len(cores(again)) < len(cores(ops)) else 0.0
    return sum(local_rows(own, one.rows) * one.elements * job.element for one in held) + statistics


def boundary_activations(job: Job) -> float:
    """Bytes of one microbatch between two layers on one rank."""
    return local_rows(job, job.cut.rows) * job.model.hidden * job.element


def whole_layer(job: Job, kind: LayerKind) -> float:
    """Bytes that a layer keeps of one microbatch where it is not recomputed as a whole."""
    dropped = job.recompute == "selective" and job.attention == "unfused"
    return layer_activations(job, kind) - (attention_activations(job, kind) if dropped else 0.0)


def kept_of_layer(job: Job, kind: LayerKind) -> float:
    """Bytes that a layer keeps of one microbatch, wherever it keeps them; those of a mixed chunk as if nothing were
    recomputed."""
    everything = all(job.recomputed(layers) == layers for layers in job.chunks)
    return boundary_activations(job.of(kind)) if everything else whole_layer(job, kind)


def layers_away(job: Job, chunk: Chunk) -> int:
    """Layers of a chunk whose activations wait elsewhere: its first ones."""
    if job.offload is None or job.offload.activations is None:
        return min(job.offload_layers, chunk.layers)
    return min(job.offload.activations.layers or chunk.layers, chunk.layers)


def moved_of_layer(job: Job, kind: LayerKind) -> float:
    """Bytes of one microbatch of an offloaded layer that wait elsewhere."""
    found = None if job.offload is None else job.offload.activations
    if found is None:
        return kept_of_layer(job, kind)
    if found.tokens is not None:
        always = boundary_activations(job.of(kind)) + kept_results(job, kind)
        return always + found.tokens * max(layer_activations(job, kind) - always, 0.0)
    if found.tensors:
        ops = dropping(layer_ops(job, kind), job.recompute_modules if job.recompute == "selective" else ())
        return _bytes(job.of(kind), (one for one in kept(ops) if one.name in found.tensors))
    return (found.share or 1.0) * _kept_or_results(job, kind)


def left_of_layer(job: Job, kind: LayerKind) -> float:
    """Bytes of one microbatch of an offloaded layer that stay on the device all the same."""
    if job.offload is None or job.token_wise is not None:
        return 0.0
    return max(_kept_or_results(job, kind) - moved_of_layer(job, kind), 0.0)


def _kept_or_results(job: Job, kind: LayerKind) -> float:
    """Bytes that a layer keeps of one microbatch, results that recomputation spares included."""
    everything = all(job.recomputed(layers) == layers for layers in job.chunks)
    return kept_of_layer(job, kind) + (kept_results(job, kind) if everything else 0.0)


def offloaded_of(job: Job, chunk: Chunk) -> float:
    """Bytes of one microbatch of a chunk that wait in the host's memory: those of its first layers."""
    return over_layers(chunk.kinds[: layers_away(job, chunk)], lambda kind: moved_of_layer(job, kind))


def head_activations(job: Job) -> float:
    """Bytes of logits of one microbatch, of all tokens that are predicted: in the working precision and, where the loss
    wants it, in fp32."""
    tokens = job.tokens * (1 + job.model.mtp_layers)
    return float(job.tile * tokens * vocabulary_shard(job) * (job.element + 4 * job.stack.fp32_logits))


def logit_gradients(job: Job) -> float:
    """Bytes of the gradient of the logits of one microbatch."""
    return float(job.element * job.tile * job.tokens * vocabulary_shard(job))


def working_memory(job: Job, stage: int) -> float:
    """Bytes at the worst moment inside a pass: inside a layer, or between the logits and their gradient.

    Inside a layer are the gradients of its widest tensors, what was recomputed, and two layers of what comes from the
    host or goes there. Where microbatches are cut, gradients of keys that earlier slices wait for are there besides.
    """
    if job.slices > 1:
        return gradients_of_keys(job, stage) + max(working_memory(part, stage) for part in job.parts)
    chunks = chunks_of_stage(job, stage)
    inside = max((_inside_layer(job, kind) for kind in kinds_of(chunks)), default=0.0)
    if not any(c.last or c.part for c in chunks):
        return inside
    if job.zeroth is not None:
        return max(inside, head_activations(job))
    waits = job.logits_in_flight > 1 or job.vocabulary_sums > 0
    return max(inside, logit_gradients(job) + (0.0 if waits else head_activations(job)))


def gradients_of_keys(job: Job, stage: int) -> float:
    """Bytes of gradients of keys and values of all slices of a microbatch but the last, in all layers of a stage."""
    tokens = job.tokens - job.parts[-1].tokens
    kinds = [kind for chunk in chunks_of_stage(job, stage) for kind in chunk.kinds]
    widths = over_layers(
        kinds, lambda kind: sum(one.kv_heads * (one.head_dim + one.values) for one in cores(layer_ops(job, kind)))
    )
    return tokens * widths * job.element


@once_a_job
def _inside_layer(job: Job, kind: LayerKind) -> float:
    """Bytes at the worst moment inside a layer, of whose MLP one tile is in memory."""
    halves = [(kind, 1.0)]
    if job.tile < 1.0:
        halves = [(kind._replace(mlp="none"), 1.0), (kind._replace(attention="none"), job.tile)]
    own = job.of(kind)
    sizes = (
        share * local_rows(own, rows) * elements
        for half, share in halves
        for elements, rows in results(layer_ops(job, half))
    )
    inside = 2.0 * max(sizes, default=0.0) * job.element
    if job.zeroth is not None:  # the widest tensor, what it comes from, and the sum of the residuals
        return inside + boundary_activations(own)
    if job.recompute == "full":
        inside += sum(share * layer_activations(job, half) for half, share in halves)
    elif job.recompute == "selective":
        inside += attention_activations(job, kind)
    return inside + shared_in_flight(job, kind) + _on_the_way(job, kind)


def _on_the_way(job: Job, kind: LayerKind) -> float:
    """Bytes of buffers for activations that come from elsewhere or go there: two layers, one of which is where a layer
    is computed again token by token."""
    if job.offload is None or job.offload.activations is None:
        return 2 * kept_of_layer(job, kind) * bool(job.offload_layers)
    return (BUFFERS - (job.recompute == "full")) * moved_of_layer(job, kind)


def shared_in_flight(job: Job, kind: LayerKind) -> float:
    """Bytes of other ranks' keys, values or heads in the backward pass of a layer whose sequences are cut."""
    found = core(layer_ops(job, kind))
    if job.cp == 1 or found is None:
        return 0.0
    return SCHEMES.get(job.cp_kind).in_flight(shared(job, replace(found, backward=True)))


def peak_activations(job: Job, stage: int) -> float:
    """Most bytes of kept activations on a rank of the stage, whose passes follow each other as its schedule says."""
    sizes, rest = kept_by_slice(job)
    return _most_in_flight(job, stage, sizes, rest, kept_of_part(job))


def kept_by_slice(job: Job) -> Floats:
    """Bytes that each chunk keeps of each slice of a microbatch until its backward pass or the first half of it, and
    from there to the second half; shape (2, chunks, slices), one slice where microbatches pass whole."""
    each = [[sizes(part) for part in job.parts] for sizes in (kept_of_chunks, weights_of_chunks)]
    return np.array(each).transpose(0, 2, 1)


def kept_of_chunks(job: Job) -> list[float]:
    """`chunk_activations` of each chunk, worked out once for those that are alike."""
    chunks = all_chunks(job)
    known = {chunk: chunk_activations(job, chunk) for chunk in set(chunks)}
    return [known[chunk] for chunk in chunks]


def weights_of_chunks(job: Job) -> list[float]:
    """`chunk_for_weights` of each chunk, worked out once for those that are alike."""
    chunks = all_chunks(job)
    known = {chunk: chunk_for_weights(job, chunk) for chunk in set(chunks)}
    return [known[chunk] for chunk in chunks]


def _most_in_flight(job: Job, stage: int, sizes: Floats, rest: Floats, part_size: float = 0.0) -> float:
    """Most bytes at once of what a rank keeps between passes of one microbatch: `sizes` of each chunk and slice from
    forward pass to backward pass or its first half, `rest` from there to the second half, `part_size` from S to T."""
    schedule = job.schedule
    part = slice(int(schedule.rank_start[stage]), int(schedule.rank_start[stage + 1]))
    kind, chunk, slices = schedule.kind[part], schedule.stage[part], schedule.microbatch[part] % sizes.shape[1]
    whole, halves, logits = sizes[chunk, slices], rest[chunk, slices], np.full(len(kind), part_size)
    cases = [kind == code for code in (Kind.F, Kind.B, Kind.I, Kind.W, Kind.S, Kind.T)]
    change = np.select(cases, [whole, -whole, halves - whole, -halves, logits, -logits], 0.0)
    return float(np.cumsum(change).max(initial=0.0))


def offloaded(job: Job) -> list[float]:
    """Most bytes of activations that a device of each stage keeps elsewhere; shape (pp,)."""
    sizes = np.array([[offloaded_of(part, chunk) for part in job.parts] for chunk in all_chunks(job)])
    return [_most_in_flight(job, stage, sizes, np.zeros_like(sizes)) for stage in range(job.pp)]


def copied_a_step(job: Job) -> list[float]:
    """Bytes that a device of each stage sends to its host in a step, and gets back from it, evenly beside its passes;
    shape (pp,)."""
    if job.offload is not None:
        return [0.0] * job.pp
    through = job.microbatches / job.copies
    return [through * sum(offloaded_of(job, c) for c in chunks_of_stage(job, s)) for s in range(job.pp)]


def copy_time(job: Job, kind: LayerKind) -> float:
    """Seconds in which a layer's share of the offloaded activations crosses the host's link; 0 without offloading."""
    return job.offloaded * kept_of_layer(job, kind) / job.host_link if job.offload_layers else 0.0


def on_hosts(job: Job, devices: int) -> list[dict[int, float]]:
    """Bytes that the devices of each node keep in its host's memory, by stage; `devices` share a host."""
    stages = np.empty(job.mesh.world, np.int64)
    stages[job.mesh.chains()] = np.arange(job.pp)
    counts = [np.bincount(part, minlength=job.pp) for part in np.split(stages, job.mesh.world // devices)]
    kept = offloaded(job)
    return [{s: float(n) * kept[s] for s, n in enumerate(count.tolist()) if n * kept[s]} for count in counts]


def fullest_host(job: Job, devices: int) -> dict[int, float]:
    """Of `on_hosts`, the node that keeps most."""
    return max(on_hosts(job, devices), key=lambda kept: sum(kept.values()))


def largest(job: Job) -> Job:
    """The job as if all its microbatches were of the size that keeps most; as it is where all are alike."""
    if job.batch is None:
        return job
    shapes = (shape for shape in job.batch.shapes if shape.sequences)
    return job.shaped(max(shapes, key=lambda shape: shape.computed / shape.ranks))


def peak_memory(job: Job) -> float:
    """Bytes of the fullest rank at its worst moment, at most."""
    job = largest(job)
    (sizes, rest), scored = kept_by_slice(job), kept_of_part(job)
    return max(
        sum(static_memory(job, stage).values())
        + (1 + job.fragmentation) * (_most_in_flight(job, stage, sizes, rest, scored) + working_memory(job, stage))
        for stage in range(job.pp)
    )
