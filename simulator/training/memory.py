"""What a training rank keeps in memory, by kind.

Model states follow ZeRO (Rajbhandari et al., arXiv:1910.02054, section 3): with P parameters on the rank and N ranks
in a shard set, 2 P parameters, gradients, and fp32 copy and moments (12 P), each divided by N from the ZeRO stage on
that shards it. Activations follow Korthikanti et al. (arXiv:2205.05198, section 4), tensor by tensor: for GPT with
dropout and unfused attention a layer keeps s b h (34 + 5 a s / h) bytes on one rank. How many microbatches are in
flight comes out of the simulated schedule. Left out: allocator fragmentation beyond the stack's `memory_overhead`,
and tensors that frameworks keep by accident.
"""

from dataclasses import dataclass

from simulator.training.job import Job
from simulator.training.operators import (
    embedding_parameters,
    head_parameters,
    layer_parameters,
    local_tokens,
    vocabulary_shard,
    widths,
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A model chunk as memory and communication see it."""

    layers: int
    first: bool
    """Whether it holds the input embedding."""
    last: bool
    """Whether it holds the output head."""


def chunks_of_stage(job: Job, stage: int) -> tuple[Chunk, ...]:
    """Model chunks on a pipeline rank."""
    return tuple(chunk for chunk, home in zip(all_chunks(job), job.home, strict=True) if home == stage)


def all_chunks(job: Job) -> tuple[Chunk, ...]:
    """Model chunks in the order of the layers."""
    last = len(job.chunks) - 1
    return tuple(Chunk(layers, i == 0, i == last) for i, layers in enumerate(job.chunks))


def parameters(job: Job, chunk: Chunk) -> float:
    """Parameters of a chunk on one rank; a tied head on the embedding's own rank adds no second matrix."""
    total = chunk.layers * layer_parameters(job)
    if chunk.first:
        total += embedding_parameters(job)
    if chunk.last:
        total += head_parameters(job)
        if job.model.tied_embeddings and job.home[0] == job.home[-1]:
            total -= vocabulary_shard(job) * job.model.hidden
    return total


def static_memory(job: Job, stage: int) -> dict[str, float]:
    """Bytes that a rank of the stage keeps all the time, by kind."""
    owned = sum(parameters(job, chunk) for chunk in chunks_of_stage(job, stage))
    shard = [job.shard if job.zero >= level else 1 for level in range(4)]
    states = {
        "parameters": owned * job.element / shard[3],
        "gradients": owned * job.stack.gradient_bytes / shard[2],
        "optimizer": owned * (8.0 + job.master) / shard[1],
    }
    if job.zero == 3:
        ends = [
            embedding_parameters(job) * c.first + head_parameters(job) * c.last for c in chunks_of_stage(job, stage)
        ]
        states["gathered parameters"] = (2 * layer_parameters(job) + max(ends, default=0.0)) * job.element
    if job.stack.memory_overhead is not None:
        states["runtime"] = job.stack.memory_overhead.value
    return states


def layer_activations(job: Job) -> float:
    """Bytes that one layer keeps of one microbatch for its backward pass when nothing is recomputed."""
    element, hidden = job.element, job.model.hidden
    local = local_tokens(job) * hidden
    width = widths(job)
    qkv, attended = width["attention in"][1], width["attention out"][0]
    inner, activated = width["mlp in"][1], width["mlp out"][0]
    kept = 4 * local * element + job.tokens * (qkv + attended + inner + activated) * element
    masks = 2 * local if job.stack.dropout else 0.0
    return kept + masks + attention_activations(job)


def attention_activations(job: Job) -> float:
    """Bytes of scores, probabilities and masks of one layer and microbatch; 4 bytes a row of statistics where fused."""
    rows = job.micro_batch * max(job.model.heads // job.tp, 1) * job.sequence
    if job.attention == "fused":
        return 4.0 * rows
    per_score = 2 * job.element + 1 if job.stack.dropout else job.element
    return float(rows * job.sequence * per_score)


def chunk_activations(job: Job, chunk: Chunk) -> float:
    """Bytes that a chunk keeps of one microbatch between its forward and backward pass."""
    whole = layer_activations(job)
    boundary = local_tokens(job) * job.model.hidden * job.element
    again = min(job.recompute_layers or chunk.layers, chunk.layers) if job.recompute == "full" else 0
    if job.recompute == "selective" and job.attention == "unfused":
        whole -= attention_activations(job)
    kept = again * boundary + (chunk.layers - again) * whole
    if chunk.first and job.stack.dropout:
        kept += local_tokens(job) * job.model.hidden
    if chunk.last:
        kept += 2 * boundary + head_activations(job)
    return kept


def head_activations(job: Job) -> float:
    """Bytes of logits (in the working precision and, for the loss, in fp32) of one microbatch."""
    return float(job.tokens * vocabulary_shard(job) * (4 + job.element))


def working_memory(job: Job, stage: int) -> float:
    """Bytes at the worst moment inside a pass: a recomputed layer, gradients of its widest tensors, of the logits."""
    chunks = chunks_of_stage(job, stage)
    inside = 2.0 * job.tokens * widths(job)["mlp in"][1] * job.element
    if job.recompute == "full":
        inside += layer_activations(job)
    elif job.recompute == "selective":
        inside += attention_activations(job)
    logits = float(job.element * job.tokens * vocabulary_shard(job)) if any(c.last for c in chunks) else 0.0
    return max(inside, logits)
