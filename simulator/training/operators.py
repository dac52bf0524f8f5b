"""The blocks of a model at the tokens of one microbatch on one rank: lists of kernels and collectives.

For one microbatch of b sequences of s tokens: T = b s tokens, element size e bytes. A row of a block is a token; rows
that sequence parallelism cuts are T / t with t tensor-parallel ranks. What a stack fuses, overlaps or casts is added
here; the operations themselves, and their backward pass, are those of `simulator.model`. Traffic of the elementwise
kernels counts each tensor that a fused kernel reads and writes once. Left out: reshapes and transposes that frameworks
sometimes copy for, the small all-reduces of the cross entropy's maxima (T x 4 bytes).

Below 16 bits only the matrices of the layers are multiplied so (Transformer Engine; the output layer of Megatron is
a plain one): embedding, attention, norms and head stay in 16. Every factor but the weights is cast for each pass, as
its recipe says (`simulator.training.recipes`); rows that sequence parallelism gathers for such a product are cast
first and travel in the recipe's format, after their ranks agreed on a scale where it is one of the whole tensor.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import ceil
from typing import cast

from simulator.axes import CP, EP, TP, Axis
from simulator.cost.work import Attention, Gemm, Scan, Stream
from simulator.model.backward import DISPATCH, GATHER, REDUCE, SCATTER, backward
from simulator.model.blocks import ends
from simulator.model.blocks.around import NORM
from simulator.model.dropped import computed_again, needed_again
from simulator.model.held import GATED, computed_beside, fused_of
from simulator.model.ops import (
    COLUMN,
    COPY,
    LAYER,
    ROW,
    TIED,
    AttentionCore,
    CacheWrite,
    Comm,
    Elementwise,
    Linear,
    Lookup,
    Loss,
    Masked,
    Op,
    StateScan,
    WeightGradient,
)
from simulator.model.tensors import tensors
from simulator.specs.model import LayerKind
from simulator.training import adapters, vocabulary
from simulator.training.context import SCHEMES, Sharing
from simulator.training.context.shards import moved
from simulator.training.experts.masks import masked
from simulator.training.experts.rows import fills, reordered, weighted_bias
from simulator.training.frameworks.copies import in_rank_order, unit_copies
from simulator.training.frameworks.eager import one_by_one
from simulator.training.job import Job, Replicas
from simulator.training.overlap.exchanged import exchanged, shared_halves
from simulator.training.overlap.stepped import STEPS, TRACKED, pipelined, stepped
from simulator.training.step import Chunks, Collective, Kernel, Single, Step, Turn, with_casts

# ---- the passes --------------------------------------------------------------------------------------------------


def layer_ops(job: Job, kind: LayerKind) -> list[Op]:
    """Operations of a layer; models whose attention and MLP stand side by side have them one after the other."""
    ops = job.operations(kind)
    return list(adapters.adapted(ops, job.lora)) if job.lora else ops


def embedding_ops(job: Job) -> list[Op]:
    """Operations of the input embedding on the first stage; of its table where no other stage holds a part."""
    look_up = ends.positions if job.vocabulary_sums else ends.embedding
    ops = look_up(job.model, job.cut, job.sequence)
    return list(adapters.frozen(ops) if job.lora else ops)


def head_ops(job: Job) -> list[Op]:
    """Operations of the output head and its loss on the last stage; the norm alone where all hold a part of it."""
    ops = ends.with_loss(job.model, job.cut)
    if job.vocabulary_sums:
        return [next(ops)]
    return list(adapters.frozen(ops) if job.lora else ops)


def layer_forward(job: Job, kind: LayerKind) -> Iterator[Step]:
    """Forward pass of a layer."""
    yield from unit_copies(job, layer_parameters(job, kind))
    yield from steps(job.of(kind), layer_ops(job, kind))


def layer_backward(job: Job, kind: LayerKind) -> Iterator[Step]:
    """Backward pass of a layer, gradients of activations and weights; recomputation is apart."""
    yield from weights_turned(job, kind)
    yield from steps(job.of(kind), backward(layer_ops(job, kind)))
    yield from unit_copies(job, layer_parameters(job, kind), gradients=True)


def weights_turned(job: Job, kind: LayerKind) -> Iterator[Step]:
    """Bringing the matrices of a layer into the order that its backward pass takes."""
    if job.turns_weights and job.recipe is not None:
        size = layer_matrices(job, kind) * job.recipe.weight
        yield Kernel("turn weights", Stream(size, size, kernels=4))


def encoder_ops(job: Job) -> list[Op]:
    """Operations of the two ends of an encoder."""
    return list(ends.encoder_ends(job.model, job.encoder.cut)) if job.model.encoding else []


def embedding_forward(job: Job) -> Iterator[Step]:
    """Looking up the tokens (and positions) and, with tensor parallelism, summing the parts; both ends of an encoder
    besides."""
    yield from steps(job, embedding_ops(job))
    yield from steps(job.encoder, encoder_ops(job))


def embedding_backward(job: Job) -> Iterator[Step]:
    """Scattering the gradient into the table, unless it is frozen."""
    if not job.lora:
        yield from steps(job.encoder, backward(encoder_ops(job)))
        yield from steps(job, backward(embedding_ops(job)))


def head_forward(job: Job) -> Iterator[Step]:
    """Last norm, product with the vocabulary, cross entropy."""
    return steps(job, head_ops(job))


def head_backward(job: Job) -> Iterator[Step]:
    """Gradient of the cross entropy, both products of the head, last norm."""
    return steps(job, backward(head_ops(job)))


def part_of_vocabulary(job: Job) -> tuple[Iterator[Step], Iterator[Step]]:
    """Scores of a rank's part of the vocabulary, and their gradients."""
    return steps(job, vocabulary.scores(job)), steps(job, vocabulary.scores_gradient(job))


def recomputed(job: Job, kind: LayerKind) -> Iterator[Step]:
    """What the backward pass of a layer computes again."""
    if job.recompute == "full":
        again = computed_beside(layer_ops(job, kind), job.held)[0]
        yield from steps(job.of(kind), needed_again(again) if job.stack.stops_early else again)
    elif job.recompute == "selective":
        ops, job = layer_ops(job, kind), job.of(kind)
        yield from steps(job, computed_again(ops, job.recompute_modules))
        if job.attention == "unfused":
            yield from steps(job, [op for op in ops if isinstance(op.does, AttentionCore)])


def copied_experts(job: Job, kind: LayerKind, gradients: bool = False) -> tuple[Collective, ...]:
    """What devices send each other of experts that others have copies of: parameters before a pass, or gradients."""
    elements, ranks = copied_elements(job, kind), job.experts.sizes.get(EP.name, 1)
    if not elements or ranks == 1:
        return ()
    name, element = ("gradients of copies", job.reduce_bytes) if gradients else ("copies of experts", job.element)
    return (Collective(name, "all_to_all", elements * element * ranks / (ranks - 1), EP.name),)


def copied_elements(job: Job, kind: LayerKind) -> float:
    """Elements of the matrices of a layer that are copies of other devices'."""
    return sum(op.does.copied for op in layer_ops(job, kind) if isinstance(op.does, Linear))


# ---- parameters --------------------------------------------------------------------------------------------------


def layer_tensors(job: Job, kind: LayerKind, replicas: Replicas | None = None, trained: bool = False) -> list[float]:
    """Parameters of each tensor of a layer on one rank: all, or those that so many ranks copy, or that are trained."""
    found = [one for one in tensors(layer_ops(job, kind)) if not (trained and one.frozen)]
    return [one.elements for one in found if replicas is None or job.replicas_of(one) == replicas]


def layer_parameters(job: Job, kind: LayerKind, replicas: Replicas | None = None, trained: bool = False) -> float:
    """Parameters of a layer on one rank: all, or those that so many ranks copy, or that are trained."""
    return sum(layer_tensors(job, kind, replicas, trained))


def layer_matrices(job: Job, kind: LayerKind, replicas: Replicas | None = None) -> float:
    """Elements of the matrices of a layer on one rank, which recipes below 16 bits cast."""
    found = tensors(layer_ops(job, kind))
    chosen = (one for one in found if replicas is None or job.replicas_of(one) == replicas)
    return sum(one.elements for one in chosen if one.format == LAYER)


def layer_products(job: Job, kind: LayerKind, replicas: Replicas) -> list[Linear]:
    """Products of a layer on one rank whose matrices are trained and that so many ranks copy, one for each matrix that
    the optimizer takes by itself."""
    ops, found = layer_ops(job, kind), list[Linear]()
    for i, op in enumerate(ops):
        if not isinstance(op.does, Linear) or op.owner == TIED or op.frozen:
            continue
        if job.replicas_of(next(tensors([op]))) == replicas:
            one = job.optimizer.fused == "all" or (job.optimizer.fused == "mlp" and op.name in GATED)
            found += [replace(op.does, outputs=n) for n in ((op.does.outputs,) if one else fused_of(ops, i))]
    return found


def layer_units(job: Job, kind: LayerKind, replicas: Replicas, trained: bool = True) -> list[float]:
    """Parameters of each collective over shards that a layer takes: all of it, or tensor by tensor."""
    found = layer_tensors(job, kind, replicas, trained)
    return found if job.stack.unit == "tensor" and job.zero == 3 else [sum(found)] * bool(found)


def embedding_parameters(job: Job) -> float:
    """Parameters of the input embedding on one rank."""
    return sum(tensor.elements for tensor in tensors([*embedding_ops(job), *encoder_ops(job)]))


def head_parameters(job: Job) -> float:
    """Parameters of the output head (a copy of the embedding where tied) and the last norm on one rank."""
    return sum(tensor.elements for tensor in tensors(head_ops(job)))


def vocabulary_shard(job: Job) -> int:
    """Vocabulary entries on one rank, padded to a multiple of tp, and of pp where all stages hold a part."""
    model = vocabulary.part(job) if job.vocabulary_sums else job.model
    return job.cut.share(model.vocabulary)


# ---- operations at the tokens of a microbatch --------------------------------------------------------------------


def local_rows(job: Job, axis: Axis | None) -> float:
    """Tokens of a microbatch, or of a part of it, on one rank, where an axis cuts them besides."""
    return job.tokens * job.part / (1 if axis is None else job.cut.over(axis))


def steps(job: Job, ops: Iterable[Op]) -> Iterator[Step]:
    """Kernels and collectives of operations, in order; collectives that run beside a product stand with its kernel.

    Where the job says so, what lies between an exchange with experts and its way back is done in parts, and shared
    experts beside it.
    """
    listed = list(ops)
    inside = exchanged(listed) if job.expert_chunks > 1 or job.shared_beside else range(0)
    if not inside:
        found, how = _between(job, listed, range(len(listed))), job.beside_products
        yield from stepped(how, job.tp, found) if how in (STEPS, TRACKED) else pipelined(job.user_buffers, found)
        return
    halves = shared_halves(listed) if job.shared_beside else ([], [])
    moved = {place for half in halves for place in half}
    part = replace(job, part=1 / job.expert_chunks)
    aside = (tuple(_between(job, listed, half)) for half in halves)
    yield from _between(job, listed, (i for i in range(inside.start) if i not in moved))
    yield Chunks(job.expert_chunks, tuple(_between(part, listed, inside)), *aside)
    yield from _between(job, listed, (i for i in range(inside.stop, len(listed)) if i not in moved))


def _between(job: Job, ops: list[Op], places: Iterable[int]) -> Iterator[Single]:
    """Those of the operations at some places."""
    sent = [i for i, op in enumerate(ops) if isinstance(op.does, Comm) and op.does.operation != COPY]
    hosts = {i: _host(job, ops, i) for i in sent}
    runs = {i: _collective(job, ops[i], _sent(job, ops, i))._replace(bulk=_bulk(ops, i)) for i in sent}
    for i in places:
        op, does = ops[i], ops[i].does
        beside = tuple(runs[c] for c, host in hosts.items() if host == i)
        if isinstance(does, Comm):
            if i in hosts and hosts[i] is None:
                yield from in_rank_order(job, runs[i])
            continue
        if isinstance(does, Linear):
            rows = rows_of(job, does)
            yield from _dequantised(job, op)
            yield from fills(job, does, rows, COLUMN)
            yield from _cast(job, op, does, ops, i)
            yield from reordered(job, does, rows * does.inputs + does.weights)
            yield Kernel(op.name, gemm(job, does), launches=_launches(job, does), calls=1, beside=beside)
            yield from weighted_bias(job, does, rows)
            yield from fills(job, does, rows, ROW)
        elif isinstance(does, WeightGradient):
            yield from _turn(job, ops, i)
            yield from _weight_gradient(job, op.name, does.of, beside)
        elif isinstance(does, AttentionCore):
            yield from attention_core(job, does)
        elif isinstance(does, StateScan):
            yield state_scan(job, op.name, does)
        elif isinstance(does, Masked):
            yield from masked(op.name, does, local_rows(job, does.rows), job.wide)
        elif not isinstance(does, CacheWrite):
            yield _passes(job, op)


def collectives(steps: Iterable[Step]) -> Iterator[Collective]:
    """All collectives of some steps, those beside kernels and in parts included."""
    for step in each(steps):
        yield from (step,) if isinstance(step, Collective) else step.beside


def each(steps: Iterable[Step]) -> Iterator[Single]:
    """Steps one by one, those of every part."""
    for step in steps:
        if isinstance(step, Chunks):
            yield from (*step.meanwhile, *(step.parts * step.steps), *step.afterwards)
        else:
            yield step


def _collective(job: Job, op: Op, element: float) -> Collective:
    does = cast(Comm, op.does)
    size = local_rows(job, does.rows) * does.width * element
    return Collective(op.name, does.operation, size, does.axis.name, among=job.load_among(does.operation))


def _narrow_gather(job: Job, ops: Sequence[Op], i: int) -> bool:
    """Whether an operation gathers rows in the recipe's format, for the product of a layer that follows."""
    does, after = ops[i].does if i >= 0 else None, ops[i + 1].does if i + 1 < len(ops) else None
    gathers = isinstance(does, Comm) and does.axis is TP and does.operation == GATHER
    return gathers and isinstance(after, Linear) and after.format == LAYER and bool(job.recipe and job.recipe.gathered)


def _sent(job: Job, ops: Sequence[Op], i: int) -> float:
    """Bytes of an element of a collective: those of the working format, or of the recipe's where it gathers for a
    product. Gradients of its results are rows that its own product takes whole."""
    does = ops[i].does
    if job.exchange is not None and isinstance(does, Comm) and does.operation == DISPATCH:
        return job.exchange.size
    if job.recipe is None or not _narrow_gather(job, ops, i):
        return job.element
    return job.recipe.sent(gradients=_whole_rows(ops[i + 1].does) and _is_backward(ops))


def _bulk(ops: Sequence[Op], i: int) -> bool:
    """Whether a collective that runs beside the product after it moves nothing that this takes."""
    after = ops[i + 1].does if i + 1 < len(ops) else None
    return isinstance(after, WeightGradient) or (isinstance(after, Linear) and not _whole_rows(after))


def _whole_rows(does: object) -> bool:
    """Whether a product takes the rows that were gathered before it; else its weight gradient does."""
    return isinstance(does, Linear) and does.cut == COLUMN


def _is_backward(ops: Sequence[Op]) -> bool:
    return any(isinstance(op.does, WeightGradient) for op in ops)


def _turn(job: Job, ops: Sequence[Op], i: int) -> Iterator[Kernel]:
    """Rows that were gathered again for a weight gradient, brought into their other order."""
    does, recipe = ops[i].does, job.recipe
    assert isinstance(does, WeightGradient)
    regathered = any(op.name == f"input of {ops[i].name} again" for op in ops[:i])
    if recipe is None or not regathered or does.of.format != LAYER or recipe.blocks or job.any_order:
        return
    size = rows_of(job, does.of) * does.of.inputs * recipe.element
    yield Kernel(f"turn {ops[i].name}", Stream(size, size), weight_gradient=True)


def gemm(job: Job, product: Linear) -> Gemm:
    """The kernel of a product: of a layer's matrix, or of the head, which stays in 16 bits."""
    dtype = job.narrow if product.format == LAYER else job.wide
    n, k = max(product.outputs, 1), max(product.inputs, 1)
    return Gemm(m=_rows_each(job, product), n=n, k=k, batch=product.matrices, dtype=dtype)


FILLED = 16
"""Rows are summed over in multiples of: Transformer Engine pads those of experts (`Fp8Padding`), and 16-bit products of
rows one after the other need no alignment of their number, as columns lie side by side in both factors."""


def _to_weight(job: Job, product: Linear) -> Gemm:
    dtype = job.narrow if product.format == LAYER else job.wide
    m, n, rows = max(product.outputs, 1), max(product.inputs, 1), _rows_each(job, product)
    return Gemm(m=m, n=n, k=ceil(rows / FILLED) * FILLED, batch=product.matrices, dtype=dtype)


def _launches(job: Job, product: Linear) -> int:
    """Kernels of a product, or of a cast for it: one for each of its matrices where the stack does not group them."""
    return 1 if job.stack.grouped else product.matrices


def rows_of(job: Job, product: Linear) -> float:
    """Rows that the matrices of a product take together."""
    return local_rows(job, product.rows) * product.visits


def _rows_each(job: Job, product: Linear) -> int:
    """Rows that each matrix of a product takes."""
    return max(ceil(rows_of(job, product) / product.matrices - 1e-9), 1)


def _host(job: Job, ops: Sequence[Op], i: int) -> int | None:
    """The product that a collective runs beside, where the stack overlaps them: the weights' gradient that need not
    wait for it, else the product that it feeds (scatters feed none), or follows (gathers wait for its results)."""
    own, how = ops[i].does, job.beside_products
    if not isinstance(own, Comm) or own.axis != TP:
        return None
    after = ops[i + 1].does if i + 1 < len(ops) else None
    before = ops[i - 1].does if i and own.operation != GATHER else None
    if how == TRACKED and isinstance(before, Linear) and before.format == LAYER and own.operation == SCATTER:
        return i - 1
    if isinstance(after, WeightGradient):
        return i + 1 if how != "none" else None
    product, at = (after, i + 1) if isinstance(after, Linear) and own.operation != SCATTER else (before, i - 1)
    overlaps = isinstance(product, Linear) and product.format == LAYER and how in ("all", STEPS)
    return at if overlaps else None


def _dequantised(job: Job, op: Op) -> Iterator[Kernel]:
    """Frozen matrices of fewer bits, brought to 16 before a product."""
    does = op.does
    if job.lora and job.lora.base_format and op.frozen and isinstance(does, Linear) and does.format == LAYER:
        stored = adapters.STORED[job.lora.base_format]
        yield Kernel(f"dequantise {op.name}", Stream(does.weights * stored, does.weights * job.element))


def _normed(ops: Sequence[Op], i: int) -> bool:
    """Whether the rows that the i-th of some operations takes come out of a norm."""
    before = next((op.does for op in reversed(ops[:i]) if not isinstance(op.does, Comm)), None)
    return isinstance(before, Elementwise) and before.kind == NORM


def _cast(job: Job, op: Op, product: Linear, ops: Sequence[Op], i: int) -> Iterator[Kernel | Collective]:
    """Casting the rows that a product takes, the i-th of some operations; of gathered ones each rank casts its own."""
    recipe, name = job.recipe, op.name
    if recipe is None or product.format != LAYER:
        return
    whole = _narrow_gather(job, ops, i - 1) and _whole_rows(product)
    backward = product.cut == COLUMN and _is_backward(ops)
    if whole and recipe.amax:
        yield Collective(f"largest value of {name}", REDUCE, 4.0)
    read, written = recipe.cast(job.any_order, _normed(ops, i), 1 / job.tp if whole else 1.0, backward, op.frozen)
    if read + written:
        elements = rows_of(job, product) * product.inputs
        kernels, tensors = recipe.kernels - (recipe.kernels > 1 and _normed(ops, i)), _launches(job, product)
        own = elements / job.tp if whole else elements
        more, other = recipe.beside(product.weights, own if _is_backward(ops) else 0.0)
        work = Stream(read * elements + more, written * elements + other, kernels=tensors * kernels)
        # The largest value and the scale leave in one go, as neither makes a tensor.
        yield Kernel(f"cast {name}", work, launches=tensors * min(kernels, 2), calls=1)


def _weight_gradient(job: Job, name: str, product: Linear, beside: tuple[Collective, ...]) -> Iterator[Kernel]:
    """The product for the weights, and adding its result to the running sum over microbatches, where the product does
    not do it itself."""
    yield from reordered(job, product, rows_of(job, product) * (product.inputs + product.outputs), True)
    yield Kernel(name, _to_weight(job, product), True, _launches(job, product), 1, beside)
    yield from weighted_bias(job, product, rows_of(job, product), backward=True)
    if product.bias:
        yield _stream(job, "bias gradient", rows_of(job, product) * product.outputs * job.element, 0)
    if (job.microbatches > 1 or job.part < 1) and not job.stack.fused_accumulation:
        size, weights = job.gradient_bytes, product.weights
        yield Kernel("accumulate gradient", Stream(weights * (job.element + size), weights * size), True)


def _passes(job: Job, op: Op) -> Kernel:
    does = op.does
    if isinstance(does, Loss):
        return vocabulary.cross_entropy(job, does)
    if isinstance(does, Lookup):
        size = job.tokens * does.width * job.element
        return _stream(job, op.name, size * (2 if does.learned else 1), size)
    if not isinstance(does, Elementwise):
        raise TypeError(f"{op.name}: {type(does).__name__} is not evaluated for training")
    rows, element, traffic = local_rows(job, does.axis), does.element or job.element, does.forward
    if counted := one_by_one(job, does, rows):
        return Kernel(op.name, counted)
    read = rows * (traffic.read * element + traffic.masks_read)
    written = rows * (traffic.written * element + traffic.masks_written)
    return _stream(job, op.name, read, written, traffic.kernels, does.kind == adapters.DROPOUT)


def _stream(job: Job, name: str, read: float, write: float, kernels: int = 1, once: bool = False) -> Kernel:
    factor = 1 if once or job.stack.fused_elementwise else 2
    return Kernel(name, Stream(read_bytes=read * factor, write_bytes=write * factor, kernels=kernels * factor))


# ---- attention core ----------------------------------------------------------------------------------------------


def attention_core(job: Job, does: AttentionCore) -> Iterator[Single]:
    """Scores, softmax and weighted sum: what selective recomputation repeats. Every row sees its whole sequence."""
    if job.cp > 1:
        yield from cast(Iterator[Single], SCHEMES.get(job.cp_kind).core(shared(job, does)))
    else:
        there, back = moved(job, does)
        yield from there
        yield from _attention_of_whole(job, does)
        yield from back


def shared(job: Job, does: AttentionCore) -> Sharing:
    """Attention over sequences that are cut over context-parallel ranks."""
    return Sharing(
        core=does,
        ranks=job.cp,
        batch=job.micro_batch,
        sequence=job.sequence,
        element=job.element,
        dtype=job.attention_format,
        kernel=job.attention_kernel,
        blocking=job.blocking,
        by_heads=job.by_heads,
        packing=job.packing,
        whole=lambda core: _attention_of_whole(job, core),
    )


def _attention_of_whole(job: Job, does: AttentionCore) -> Iterator[Single]:
    """Attention over whole sequences on one device."""
    if job.attention != "fused":
        yield from _unfused_backward(job, does) if does.backward else _unfused_forward(job, does)
        return
    work = Attention(
        batch=job.micro_batch,
        heads=does.heads,
        kv_heads=does.kv_heads,
        query=job.sequence,
        context=context_of(job, does),
        head_dim=does.head_dim,
        causal=does.causal,
        dtype=job.attention_format,
        backward=does.backward,
        kernel=job.attention_kernel,
        value_dim=does.value_dim,
        window=does.window,
        chunked=does.chunked,
        documents=job.packing.worked if job.packing else (),
        density=does.blocks.share(job.sequence) if does.blocks else 1.0,
    )
    if does.chosen is not None and does.latent is not None and does.chosen < job.sequence:
        yield from _scored(does, work)
        work = replace(work, window=does.chosen, kv_heads=1, head_dim=does.latent.width, value_dim=does.latent.values)
    yield from with_casts(work)


def context_of(job: Job, does: AttentionCore) -> int:
    """Tokens that an attention over whole sequences looks at."""
    return job.before + job.sequence if does.encoded is None else round(job.sequence * does.encoded)


def state_scan(job: Job, name: str, does: StateScan) -> Single:
    """The recurrence over the sequences of a microbatch, in the working precision. Where sequences are cut, every rank
    scans its own part and gathers the states of all beside it (LASP-2, arXiv:2502.07563)."""
    scan = Scan(
        kind=does.kind,
        batch=job.micro_batch,
        length=job.sequence // job.cp,
        heads=does.heads,
        state=does.key_dim * does.value_dim,
        row_flops=does.flops,
        row_bytes=does.moved * job.element,
        backward=does.backward,
    )
    if job.cp == 1:
        return Kernel(name, scan)
    states = Collective("states", "all_gather", job.cp * job.micro_batch * does.state * does.state_bytes, CP.name)
    return Turn(name, ((scan,),), () if job.blocking else (states,))


def _scored(does: AttentionCore, work: Attention) -> Iterator[Single]:
    """Scores of an indexer: products with keys alone, whose sum over heads is what a value's one element would be.
    Left out: choosing the highest, and the loss that trains the indexer."""
    if does.indexer is not None:
        scorer = does.indexer
        work = replace(work, heads=scorer.heads, kv_heads=1, head_dim=scorer.head_dim, value_dim=1)
        yield Kernel("index scores", work)


def _scores(job: Job, does: AttentionCore) -> tuple[float, float, Gemm, Gemm]:
    """(bytes of the scores, of those that the softmax reads, products with keys and with values); a fused causal
    softmax reads the lower triangle (Megatron-LM's scaled_upper_triang_masked_softmax). Windows mask, and save nothing
    here."""
    batch, s, d = job.micro_batch * does.heads, job.sequence, does.head_dim
    keys = context_of(job, does)
    size = float(batch * s * keys * job.element)
    seen = 0.5 if does.causal and job.stack.fused_elementwise else 1.0
    outer = Gemm(m=s, n=keys, k=d, batch=batch, dtype=job.wide)
    return size, size * seen, outer, Gemm(m=s, n=does.values, k=keys, batch=batch, dtype=job.wide)


def _unfused_forward(job: Job, does: AttentionCore) -> Iterator[Single]:
    size, seen, outer, inner = _scores(job, does)
    yield Kernel("scores", outer)
    yield _stream(job, "softmax", seen, size)
    if job.stack.dropout:
        yield _stream(job, "attention dropout", size, size * 1.5)
    yield Kernel("weighted values", inner)


def _unfused_backward(job: Job, does: AttentionCore) -> Iterator[Single]:
    size, seen, outer, inner = _scores(job, does)
    yield Kernel("weighted values", outer)
    yield Kernel("weighted values", inner)
    if job.stack.dropout:
        yield _stream(job, "attention dropout", size * 1.5, size)
    yield _stream(job, "softmax", 2 * seen, size)
    yield Kernel("scores", inner)
    yield Kernel("scores", inner)
