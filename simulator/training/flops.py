"""FLOP conventions: what the utilisation figures count.

`model_flops` is what the mathematics asks for: three times the forward products of layers and output head, with the
full square of attention scores even where the mask is causal, as PaLM (arXiv:2204.02311, appendix B) and Megatron-LM
(arXiv:2104.04473, equation 3 without recomputation) count. Layers with a state count their recurrence as published
(docs/models/linear.md). `hardware_flops` adds what is computed again. Embedding look-ups, norms and other elementwise
work count nothing. For a GPT of l layers these are 72 B s l h^2 (1 + s/6h + V/12lh) and, with full recomputation,
96 B s l h^2 (1 + s/6h + V/16lh).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from simulator.cost.work import attended_pairs
from simulator.model.blocks.ends import head
from simulator.model.cut import Cut
from simulator.model.dropped import computed_again
from simulator.model.held import computed_beside
from simulator.model.layers import layer
from simulator.model.ops import AttentionCore, Op
from simulator.model.tensors import cores, multiplied, scan
from simulator.specs.model import LayerKind
from simulator.specs.training import Lora
from simulator.training.adapters import adapted
from simulator.training.batches.base import Batch, Shape
from simulator.training.job import Job
from simulator.training.memory import all_chunks, over_layers
from simulator.training.once import once_a_job
from simulator.training.operators import context_of

CONVENTION = "6 FLOP per matrix parameter and token, full attention square, head included; hardware adds recomputation"


@once_a_job
def layer_forward_flops(job: Job, kind: LayerKind) -> float:
    """FLOPs of a layer's forward pass over one sequence, whole model (all tensor-parallel ranks)."""
    products = 2.0 * job.of(kind).sequence * multiplied(_whole_layer(job, kind))
    return products + attention_flops(job, kind) + scan_flops(job, kind)


def _whole_layer(job: Job, kind: LayerKind) -> list[Op]:
    return list(layer(job.model, Cut(encoded=job.cut.encoded), kind))


def attention_flops(job: Job, kind: LayerKind) -> float:
    """FLOPs of scores and weighted values over one sequence, full square; of packed documents the square of each."""
    return sum(_attended(job.of(kind), found) for found in cores(_whole_layer(job, kind)))


def _attended(job: Job, found: AttentionCore) -> float:
    if found.encoded is not None:
        return 4.0 * job.sequence * context_of(job, found) * found.heads * found.head_dim
    if job.packing is None:
        return attended_flops(found, job.sequence)
    packed = (part.number * attended_flops(found, part.context) for part in job.packing.alike)
    return job.packing.mean_share * sum(packed)


def attended_flops(core: AttentionCore, sequence: int) -> float:
    """FLOPs of scores and weighted values of an attention over one sequence: the full square, and under a window twice
    the pairs within it, which a causal mask would halve likewise. Where an indexer chooses, its scores of the full
    square, and the latents of what it chose."""
    if core.chosen is not None and core.latent is not None and core.chosen < sequence:
        scores = core.indexer.heads * core.indexer.head_dim if core.indexer else 0
        pairs = attended_pairs(sequence, sequence, True, core.chosen)
        return 2.0 * sequence**2 * scores + 4.0 * pairs * core.heads * (core.latent.width + core.latent.values)
    pairs = attended_pairs(sequence, sequence, True, core.window, core.chunked)
    pairs *= core.blocks.share(sequence) if core.blocks else 1.0
    return 2.0 * 2.0 * pairs * core.heads * (core.head_dim + core.values)


def scan_flops(job: Job, kind: LayerKind) -> float:
    """FLOPs of the recurrence of a layer with a state over one sequence, by the published count of its kind."""
    found = scan(_whole_layer(job, kind))
    return job.sequence * found.flops if found else 0.0


def head_forward_flops(job: Job) -> float:
    """FLOPs of the output head over one sequence, once for each token that is predicted."""
    return 2.0 * job.sequence * multiplied(head(job.model, Cut())) * (1 + job.model.mtp_layers)


def layers_forward_flops(job: Job) -> float:
    """FLOPs of all layers' forward pass over one sequence."""
    return over_layers(job.layers, lambda kind: layer_forward_flops(job, kind))


def passes(job: Job) -> float:
    """Forward passes that a step costs: a backward pass is two of them, of which steps without gradients have none."""
    return 3.0 if job.zeroth is None else float(job.zeroth.passes)


def model_flops(job: Job) -> float:
    """FLOPs of a step that the model needs, all devices: of frozen matrices two passes, of adapters three."""
    if job.batch is not None:
        return _needed(job, job.batch)
    whole = passes(job) * job.global_batch * (layers_forward_flops(job) + head_forward_flops(job))
    if job.lora is None:
        return whole
    attention = over_layers(job.layers, lambda kind: attention_flops(job, kind))
    base = layers_forward_flops(job) + head_forward_flops(job) - attention
    return whole - job.global_batch * (base - 3.0 * _adapters(job, job.lora))


def _adapters(job: Job, lora: Lora) -> float:
    """FLOPs of the adapters' forward pass over one sequence."""
    return (
        2.0
        * job.sequence
        * over_layers(
            job.layers,
            lambda kind: multiplied(op for op in adapted(_whole_layer(job, kind), lora) if not op.frozen),
        )
    )


def _alone(job: Job, batch: Batch) -> Iterator[tuple[Job, int]]:
    """The job for one sequence or document of each length of a batch, without padding, and how many have it."""
    once = replace(job, batch=None, packing=None, global_batch=1)
    for tokens, encoder, count in batch.lengths:
        yield replace(once, sequence=tokens, encoder_sequence=encoder or None), count


def _needed(job: Job, batch: Batch) -> float:
    """FLOPs of a step that the model needs for all sequences or documents of a batch."""
    total, products = 0.0, None
    for own, count in _alone(job, batch):
        if own.encoder_sequence:
            total += count * model_flops(own)
            continue
        # of a token all but attention is the same in any sequence
        products = products or (model_flops(own) - 3.0 * _squares(own)) / own.sequence
        total += count * (own.sequence * products + 3.0 * _squares(own))
    return total


def _halved(job: Job) -> float:
    """FLOPs of the attention of one sequence that a causal mask halves."""
    return over_layers(job.layers, lambda kind: _causal_attention(job, kind))


def _squares(job: Job) -> float:
    """FLOPs of the attention of one sequence."""
    return over_layers(job.layers, lambda kind: attention_flops(job, kind))


def _of_batch(job: Job, batch: Batch) -> float:
    """FLOPs that the devices do in a step, padding included."""
    return sum(count * _of_shape(job, batch.shapes[number]) for number, count in batch.count.items())


def _of_shape(job: Job, shape: Shape) -> float:
    """Those of one microbatch."""
    own = replace(job.shaped(shape), global_batch=shape.sequences)
    return hardware_flops(own) if shape.sequences else 0.0


def causal_flops(job: Job) -> float:
    """`model_flops` with only the scores that a causal mask leaves: s (s + 1) / 2 of s^2."""
    if job.batch is not None:
        saved = (count * _halved(own) * (own.sequence - 1) / own.sequence for own, count in _alone(job, job.batch))
        return model_flops(job) - 1.5 * sum(saved)
    masked = (
        over_layers(job.layers, lambda kind: _causal_attention(job, kind)) * (job.sequence - 1) / (2 * job.sequence)
    )
    return model_flops(job) - passes(job) * job.global_batch * masked


def _causal_attention(job: Job, kind: LayerKind) -> float:
    """FLOPs of the attention of a layer that a causal mask halves: neither of an encoder nor to one."""
    found = cores(_whole_layer(job, kind)) if not kind.encodes else []
    return sum(_attended(job, one) for one in found if one.encoded is None)


def hardware_flops(job: Job) -> float:
    """FLOPs of a step that the devices do: `model_flops` and what is computed again."""
    if job.batch is not None:
        return _of_batch(job, job.batch)
    if job.zeroth is not None:
        return model_flops(job)
    again = 1.0 if job.token_wise is None else 1.0 - job.token_wise
    return model_flops(job) + job.global_batch * again * _recomputed(job)


def _recomputed(job: Job) -> float:
    return sum(repeated_flops(job, chunk.kinds) for chunk in all_chunks(job)[: len(job.chunks)])


def repeated_flops(job: Job, kinds: Sequence[LayerKind]) -> float:
    """FLOPs that the backward pass of a chunk with such layers computes again, over one sequence."""
    if job.recompute == "full":
        again = kinds[len(kinds) - job.recomputed(len(kinds)) :]
        return over_layers(again, lambda kind: layer_forward_flops(job, kind) - _held_flops(job, kind))
    if job.recompute == "selective":
        return over_layers(kinds, lambda kind: _selected_flops(job, kind))
    return 0.0


@once_a_job
def _held_flops(job: Job, kind: LayerKind) -> float:
    """FLOPs of what full recomputation does not repeat of a layer over one sequence, as its results are kept."""
    ops = _whole_layer(job, kind)
    again = computed_beside(ops, job.held)[0]
    attention = attention_flops(job, kind) if len(cores(again)) < len(cores(ops)) else 0.0
    return 2.0 * job.of(kind).sequence * (multiplied(ops) - multiplied(again)) + attention


def _selected_flops(job: Job, kind: LayerKind) -> float:
    """FLOPs of what selective recomputation repeats of a layer over one sequence."""
    products = multiplied(computed_again(_whole_layer(job, kind), job.recompute_modules))
    return 2.0 * job.of(kind).sequence * products + (attention_flops(job, kind) if job.attention == "unfused" else 0.0)
