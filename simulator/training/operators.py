"""The operators of a dense decoder transformer, after sharding, as lists of kernels and collectives.

For one microbatch of b sequences of s tokens on one rank: T = b s tokens, hidden size h, MLP width f, tensor-parallel
size t, element size e bytes. Under sequence parallelism the norms, dropouts and residual additions work on T / t tokens
and the all-reduces become an all-gather before and a reduce-scatter after each half of a layer (Korthikanti et al.,
arXiv:2205.05198); without it each half ends with an all-reduce of T h e bytes (Shoeybi et al., arXiv:1909.08053).

The backward pass has the gradients of activations and of weights as products of their own. Traffic of the elementwise
kernels counts each tensor that a fused kernel reads and writes once. Left out: reshapes and transposes that frameworks
sometimes copy for, the small all-reduces of the cross entropy's maxima (T x 4 bytes).

Under fp8 only the matrices of the layers are multiplied in 8 bits (Transformer Engine; the output layer of Megatron is
a plain one): embedding, attention, norms and head stay in 16. Every factor but the weights is cast for each pass: 2
bytes an element are read and 2 written, one for each of the two orders that products on Hopper want; what a norm writes
leaves it in 8 bits, so that the other order costs the byte that is read for it. Left out: the casts of weights, once a
step, the all-reduces of the largest values (4 bytes a tensor), that Blackwell needs one order of tensors with one
scale, and under sequence parallelism that rows may be gathered in 8 bits and their other order then written by all.
"""

from collections.abc import Iterator
from typing import NamedTuple

from simulator.axes import TP
from simulator.cost.work import Attention, Gemm, Stream
from simulator.training.job import Job

Work = Gemm | Attention | Stream


class Kernel(NamedTuple):
    """One kernel on the device."""

    name: str
    work: Work
    weight_gradient: bool = False
    """Whether it computes a gradient of weights, which nothing in the backward pass waits for."""


class Collective(NamedTuple):
    """One collective of the groups of an axis."""

    name: str
    operation: str
    size: float
    """Bytes of the full buffer, as nccl-tests count them."""
    beside: tuple[Work, ...] = ()
    """Kernels that it runs beside, where the stack overlaps tensor-parallel communication."""
    axis: str = TP.name


Step = Kernel | Collective


def _gemm(job: Job, m: int, n: int, k: int) -> Gemm:
    """A product of a layer's matrix."""
    return Gemm(m=max(m, 1), n=max(n, 1), k=max(k, 1), dtype=job.precision)


def _wide(job: Job, m: int, n: int, k: int, batch: int = 1) -> Gemm:
    """A product of the attention or the head, which stay in 16 bits under fp8."""
    return Gemm(m=max(m, 1), n=max(n, 1), k=max(k, 1), batch=batch, dtype=job.wide)


def _cast(job: Job, name: str, width: int, normed: bool = False) -> Iterator[Step]:
    """Under fp8, the rows that a product takes in 8 bits, in both orders; `normed` rows come out of their norm so."""
    if job.casts:
        elements = float(job.tokens * width)
        read, written = (1, 0) if normed else (2, 2)
        yield Kernel(f"cast {name}", Stream(read_bytes=read * elements, write_bytes=written * elements))


def _stream(job: Job, name: str, read: float, write: float, kernels: int = 1) -> Kernel:
    factor = 1.0 if job.stack.fused_elementwise else 2.0
    kernels = kernels if job.stack.fused_elementwise else 2 * kernels
    return Kernel(name, Stream(read_bytes=read * factor, write_bytes=write * factor, kernels=kernels))


def local_tokens(job: Job) -> float:
    """Tokens on which the norms and residuals of one rank work."""
    return job.tokens / job.tp if job.sequence_parallel else job.tokens


def widths(job: Job) -> dict[str, tuple[int, int]]:
    """(inputs, outputs) of the matrices of one layer on one rank."""
    model, t = job.model, job.tp
    query = model.heads * model.head_dim // t
    keys = max(model.kv_heads * model.head_dim // t, model.head_dim)
    ffn = -(-model.ffn // t)
    return {
        "attention in": (model.hidden, query + 2 * keys),
        "attention out": (query, model.hidden),
        "mlp in": (model.hidden, ffn * (2 if model.gated_ffn else 1)),
        "mlp out": (ffn, model.hidden),
    }


def layer_parameters(job: Job) -> float:
    """Parameters of one layer on one rank: matrices and biases cut by tp, norms whole."""
    return sum(layer_tensors(job))


def layer_tensors(job: Job) -> list[float]:
    """Parameters of each tensor of a layer on one rank; sums to `layer_parameters`."""
    model, sizes = job.model, widths(job).values()
    matrices = [float(inputs * outputs) for inputs, outputs in sizes]
    biases = [float(outputs) for _, outputs in sizes] if model.biases else []
    return matrices + biases + [float(model.hidden)] * (4 if model.norm == "layernorm" else 2)


def layer_units(job: Job) -> list[float]:
    """Parameters of each collective over shards that a layer takes: all of it, or tensor by tensor."""
    tensors = layer_tensors(job)
    return tensors if job.stack.unit == "tensor" and job.zero == 3 else [sum(tensors)]


def gathered_units(job: Job) -> list[float]:
    """Those of `layer_units` that no rank keeps whole."""
    least = job.stack.persistent or 0
    units = layer_units(job)
    return [unit for unit in units if unit > least] if len(units) > 1 else units


def embedding_parameters(job: Job) -> float:
    """Parameters of the input embedding on one rank."""
    model = job.model
    positions = (model.max_sequence or job.sequence) * model.hidden if model.position == "learned" else 0
    return vocabulary_shard(job) * model.hidden + float(positions)


def head_parameters(job: Job) -> float:
    """Parameters of the output head (a copy of the embedding where tied) and the last norm on one rank."""
    return float(
        vocabulary_shard(job) * job.model.hidden + job.model.hidden * (2 if job.model.norm == "layernorm" else 1)
    )


def vocabulary_shard(job: Job) -> int:
    """Vocabulary entries on one rank, padded to a multiple of tp."""
    return -(-job.model.vocabulary // job.tp)


# ---- collectives -------------------------------------------------------------------------------------------------


def _enter(job: Job, name: str, beside: tuple[Work, ...] = ()) -> Iterator[Step]:
    """Before a column-cut matrix: sequence parallelism gathers the tokens."""
    if job.tp > 1 and job.sequence_parallel:
        pieces = beside if job.stack.overlap_tensor == "all" else ()
        yield Collective(f"gather {name}", "all_gather", job.tokens * job.model.hidden * job.element, pieces)


def _leave(job: Job, name: str, beside: tuple[Work, ...] = (), backward: bool = False) -> Iterator[Step]:
    """After a row-cut matrix forward, or a column-cut one backward: the partial sums are reduced."""
    if job.tp > 1:
        overlapped = job.stack.overlap_tensor == "all" or (backward and job.stack.overlap_tensor == "backward")
        beside = beside if overlapped else ()
        operation = "reduce_scatter" if job.sequence_parallel else "all_reduce"
        yield Collective(f"reduce {name}", operation, job.tokens * job.model.hidden * job.element, beside)


# ---- attention core ----------------------------------------------------------------------------------------------


def _heads(job: Job) -> tuple[int, int]:
    return max(job.model.heads // job.tp, 1), max(job.model.kv_heads // job.tp, 1)


def attention_core(job: Job, backward: bool = False) -> Iterator[Step]:
    """Scores, softmax and weighted sum: what selective recomputation repeats."""
    if job.attention == "fused":
        heads, kv_heads = _heads(job)
        work = Attention(
            batch=job.micro_batch,
            heads=heads,
            kv_heads=kv_heads,
            query=job.sequence,
            context=job.sequence,
            head_dim=job.model.head_dim,
            causal=job.causal,
            dtype=job.wide,
            backward=backward,
            kernel=job.stack.attention_kernel,
        )
        yield Kernel("attention", work)
    else:
        yield from _unfused_backward(job) if backward else _unfused_forward(job)


def _scores(job: Job) -> float:
    return float(job.micro_batch * _heads(job)[0] * job.sequence * job.sequence * job.element)


def _products(job: Job) -> tuple[Gemm, Gemm]:
    batch, s, d = job.micro_batch * _heads(job)[0], job.sequence, job.model.head_dim
    return _wide(job, s, s, d, batch), _wide(job, s, d, s, batch)


def _seen(job: Job) -> float:
    """Share of the scores that the softmax reads: a fused causal kernel reads the lower triangle (Megatron-LM's
    scaled_upper_triang_masked_softmax)."""
    return 0.5 if job.causal and job.stack.fused_elementwise else 1.0


def _unfused_forward(job: Job) -> Iterator[Step]:
    scores, (outer, inner) = _scores(job), _products(job)
    yield Kernel("scores", outer)
    yield _stream(job, "softmax", scores * _seen(job), scores)
    if job.stack.dropout:
        yield _stream(job, "attention dropout", scores, scores * 1.5)
    yield Kernel("weighted values", inner)


def _unfused_backward(job: Job) -> Iterator[Step]:
    scores, (outer, inner) = _scores(job), _products(job)
    yield Kernel("weighted values", outer)
    yield Kernel("weighted values", inner)
    if job.stack.dropout:
        yield _stream(job, "attention dropout", scores * 1.5, scores)
    yield _stream(job, "softmax", 2 * scores * _seen(job), scores)
    yield Kernel("scores", inner)
    yield Kernel("scores", inner)


# ---- one layer ---------------------------------------------------------------------------------------------------


def layer_forward(job: Job) -> Iterator[Step]:
    """Forward pass of one layer."""
    matrix = {name: _gemm(job, job.tokens, o, i) for name, (i, o) in widths(job).items()}
    yield from _norm(job)
    yield from _enter(job, "attention", (matrix["attention in"],))
    yield from _cast(job, "attention in", job.model.hidden, normed=True)
    yield Kernel("attention in", matrix["attention in"])
    yield from _rotary(job)
    yield from attention_core(job)
    yield from _cast(job, "attention out", widths(job)["attention out"][0])
    yield Kernel("attention out", matrix["attention out"])
    yield from _leave(job, "attention", (matrix["attention out"],))
    yield from _residual(job)
    yield from _norm(job)
    yield from _enter(job, "mlp", (matrix["mlp in"],))
    yield from _cast(job, "mlp in", job.model.hidden, normed=True)
    yield Kernel("mlp in", matrix["mlp in"])
    yield _activation(job)
    yield from _cast(job, "mlp out", widths(job)["mlp out"][0])
    yield Kernel("mlp out", matrix["mlp out"])
    yield from _leave(job, "mlp", (matrix["mlp out"],))
    yield from _residual(job)


def layer_backward(job: Job) -> Iterator[Step]:
    """Backward pass of one layer, gradients of activations and weights; recomputation is apart."""
    yield from _residual_backward(job)
    yield from _matrix_backward(job, "mlp out", gather=True)
    yield _activation(job, backward=True)
    yield from _matrix_backward(job, "mlp in", gather=False)
    yield from _norm_backward(job)
    yield from _residual_backward(job)
    yield from _matrix_backward(job, "attention out", gather=True)
    yield from attention_core(job, backward=True)
    yield from _rotary(job)
    yield from _matrix_backward(job, "attention in", gather=False)
    yield from _norm_backward(job)


def _matrix_backward(job: Job, name: str, gather: bool) -> Iterator[Step]:
    """Products of one matrix; a row-cut one (`gather`) first gathers the gradient, a column-cut one reduces it
    after."""
    inputs, outputs = widths(job)[name]
    to_input = _gemm(job, job.tokens, inputs, outputs)
    to_weight = _gemm(job, outputs, inputs, job.tokens)
    if gather:
        yield from _enter(job, f"gradient of {name}", (to_input,))
    elif job.sequence_parallel:
        yield from _enter(job, f"input of {name} again", (to_input,))
    yield from _cast(job, f"gradient of {name}", outputs)
    yield Kernel(name, to_input)
    if not gather:
        yield from _leave(job, f"gradient of {name}", (to_weight,), backward=True)
    yield Kernel(name, to_weight, weight_gradient=True)
    if job.model.biases:
        yield _stream(job, "bias gradient", job.tokens * outputs * job.element, 0)
    yield from _accumulate(job, inputs * outputs)


def _accumulate(job: Job, parameters: float) -> Iterator[Step]:
    """Adding a weight gradient to the running sum over microbatches, where the product does not do it itself."""
    if job.microbatches > 1 and not job.stack.fused_accumulation:
        size = job.stack.gradient_bytes
        yield Kernel("accumulate gradient", Stream(parameters * (job.element + size), parameters * size), True)


def _norm(job: Job) -> Iterator[Step]:
    size = local_tokens(job) * job.model.hidden * job.element
    passes = 1 if job.stack.fused_norm_and_loss else 3
    yield _stream(job, "norm", size * passes, size * passes, passes)


def _norm_backward(job: Job) -> Iterator[Step]:
    size = local_tokens(job) * job.model.hidden * job.element
    passes = 1 if job.stack.fused_norm_and_loss else 3
    yield _stream(job, "norm", 2 * size * passes, size * passes, 2 * passes)


def _residual(job: Job) -> Iterator[Step]:
    size = local_tokens(job) * job.model.hidden * job.element
    mask = size / job.element if job.stack.dropout else 0.0
    yield _stream(job, "residual", 2 * size, size + mask)


def _residual_backward(job: Job) -> Iterator[Step]:
    size = local_tokens(job) * job.model.hidden * job.element
    yield _stream(job, "residual", 2 * size, size)
    if job.stack.dropout:
        yield _stream(job, "dropout", size * (1 + 1 / job.element), size)


def _rotary(job: Job) -> Iterator[Step]:
    if job.model.position == "rotary":
        heads, kv_heads = _heads(job)
        size = job.tokens * (heads + kv_heads) * job.model.head_dim * job.element
        yield _stream(job, "rotary", size, size, 2)


def _activation(job: Job, backward: bool = False) -> Kernel:
    size = job.tokens * widths(job)["mlp out"][0] * job.element
    if job.model.gated_ffn:
        return _stream(job, "activation", (3 if backward else 2) * size, (2 if backward else 1) * size)
    return _stream(job, "activation", (2 if backward else 1) * size, size)


# ---- embedding and head ------------------------------------------------------------------------------------------


def embedding_forward(job: Job) -> Iterator[Step]:
    """Looking up the tokens (and positions) and, with tensor parallelism, summing the parts."""
    size = job.tokens * job.model.hidden * job.element
    yield _stream(job, "embedding", size * (2 if job.model.position == "learned" else 1), size)
    yield from _leave(job, "embedding")


def embedding_backward(job: Job) -> Iterator[Step]:
    """Scattering the gradient into the table."""
    size = job.tokens * job.model.hidden * job.element
    yield from _enter(job, "gradient of embedding")
    yield _stream(job, "embedding", 2 * size, size)


def head_forward(job: Job) -> Iterator[Step]:
    """Last norm, product with the vocabulary, cross entropy."""
    yield from _norm(job)
    yield from _enter(job, "head")
    yield Kernel("head", _wide(job, job.tokens, vocabulary_shard(job), job.model.hidden))
    yield _loss(job, passes_read=2.5, passes_written=1.5)


def head_backward(job: Job) -> Iterator[Step]:
    """Gradient of the cross entropy, both products of the head, last norm."""
    shard, hidden = vocabulary_shard(job), job.model.hidden
    to_weight = _wide(job, shard, hidden, job.tokens)
    yield _loss(job, passes_read=1.0, passes_written=1.0)
    if job.sequence_parallel:
        yield from _enter(job, "input of head again")
    yield Kernel("head", _wide(job, job.tokens, hidden, shard))
    yield from _leave(job, "gradient of head", (to_weight,), backward=True)
    yield Kernel("head", to_weight, weight_gradient=True)
    yield from _accumulate(job, shard * hidden)
    yield from _norm_backward(job)


def _loss(job: Job, passes_read: float, passes_written: float) -> Kernel:
    """Cross entropy over logits, in fp32 or as they are; unfused frameworks walk over them about twice as often."""
    size = float((4 if job.stack.fp32_logits else job.element) * job.tokens * vocabulary_shard(job))
    factor = 1.0 if job.stack.fused_norm_and_loss else 2.0
    return Kernel("loss", Stream(passes_read * factor * size, passes_written * factor * size, kernels=3))


def recomputed(job: Job, layers: int) -> Iterator[tuple[int, tuple[Step, ...]]]:
    """What the backward pass of a chunk of `layers` layers computes again: (how often, steps)."""
    if job.recompute == "full":
        yield job.recomputed(layers), tuple(layer_forward(job))
    elif job.recompute == "selective" and job.attention == "unfused":
        yield layers, tuple(attention_core(job))


def optimizer_step(job: Job, parameters: float) -> Iterator[Step]:
    """Adam on `parameters` fp32 copies: gradient norm, then moments and weights read and written."""
    yield Kernel("gradient norm", Stream(parameters * job.stack.gradient_bytes, 0.0))
    read = job.stack.gradient_bytes + 8.0 + (job.master or job.stored)
    yield Kernel("adam", Stream(parameters * read, parameters * (8.0 + job.master + job.stored), kernels=4))
