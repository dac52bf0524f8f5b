"""A job whose microbatches differ: what each is, and what to say of them."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from simulator.axes import CP, DP
from simulator.errors import InputError, Problem
from simulator.program.schedule import Schedule
from simulator.specs.batching import Batching
from simulator.specs.hardware import Cluster
from simulator.specs.model import Model
from simulator.specs.training import Training
from simulator.training import context
from simulator.training.batches import Batch, Shape, Speed, Work, plan
from simulator.training.batches.served import pairs
from simulator.training.flops import attention_flops, head_forward_flops, layers_forward_flops
from simulator.training.job import Job
from simulator.training.memory import over_layers

PATH = "training.batching"
PLANNED = 0.5
"""Share of the peak at which a plan takes products to run."""


def check_batching(training: Training, model: Model) -> None:
    """Refuse batches without lengths, lengths without batches, and what no program exists for."""
    batching = training.batching
    if batching is None:
        _check_alike(training)
        return
    given, draws = training.documents is not None, batching.policy != "grid"
    if given != draws:
        message = f"`policy: {batching.policy}` {'needs' if draws else 'draws no'} lengths"
        hint = "write `documents`, their distribution" if draws else "leave `documents` out"
        raise InputError(Problem(message, path="training.documents", hint=hint))
    _check_pairs(training, model, batching)
    if batching.groups:
        _check_groups(training)
    if batching.disaggregated is not None:
        _check_served(training, model)
    if model.experts is not None:
        message = "microbatches of different sizes: loads of experts are not simulated for each of them yet"
        raise InputError(Problem(message, path=PATH, hint="leave it out"))
    if training.offload_layers is not None:
        message = "offloaded activations are not simulated for microbatches of different sizes yet"
        raise InputError(Problem(message, path="training.offload_layers", hint="leave it out"))


def _check_groups(training: Training) -> None:
    """Refuse groups of ranks that lie otherwise than side by side."""
    parallel = training.parallel
    if parallel.cp > 1:
        message = f"cp {parallel.cp}: groups are made of data-parallel ranks, sequence by sequence"
        raise InputError(Problem(message, path="training.parallel.cp", hint="leave `cp` out; `cp_kind` says how"))
    if parallel.states("order"):
        message = "groups of data-parallel ranks are simulated in the usual order of ranks"
        raise InputError(Problem(message, path="training.parallel.order", hint="leave it out"))


def _check_served(training: Training, model: Model) -> None:
    """Refuse attention that no other rank can take over, or of which pairs are counted otherwise."""
    path = f"{PATH}.disaggregated"
    if training.parallel.cp > 1:
        message = f"cp {training.parallel.cp}: documents are spread over data-parallel ranks, and cut by nothing else"
        raise InputError(Problem(message, path=path, hint="leave `cp` out"))
    windows = any(kind.window is not None for kind in model.kinds) or model.window is not None
    if (
        windows
        or model.kv_lora_rank is not None
        or not training.causal
        or not all(kind.attends for kind in model.kinds)
    ):
        message = "only causal attention over whole documents is spread over ranks: no windows, states or latents"
        raise InputError(Problem(message, path=path, hint="leave it out"))


def _check_alike(training: Training) -> None:
    """Refuse lengths that only batches have."""
    trace = training.documents is not None and training.documents.trace is not None
    for name, given in (("documents.trace", trace), ("encoder_documents", training.encoder_documents)):
        if given:
            hint = "add `batching`, for example `batching: {policy: pad}`"
            raise InputError(Problem("lengths without `batching`", path=f"training.{name}", hint=hint))


def _check_pairs(training: Training, model: Model, batching: Batching) -> None:
    """Refuse lengths of an encoder that there is not, and an encoder without them."""
    encodes, drawn = model.encoder_layers is not None, training.encoder_documents is not None
    recorded = training.documents is not None and bool(training.documents.trace)
    if (drawn or batching.encoder_buckets) and not encodes:
        name = "encoder_documents" if drawn else "batching.encoder_buckets"
        raise InputError(Problem(f"{model.name} has no encoder", path=f"training.{name}", hint="leave it out"))
    if drawn and recorded:
        message = "the trace has the lengths of both"
        raise InputError(Problem(message, path="training.encoder_documents", hint="leave it out"))
    if encodes and (batching.policy not in ("pad", "bucket") or not (drawn or recorded)):
        message = "models with an encoder take `pad` or `bucket`, with `encoder_documents` or a trace of pairs"
        raise InputError(Problem(message, path=PATH, hint="write these"))


def batched(job: Job, training: Training, cluster: Cluster, made: Callable[[int], Schedule], seed: int) -> Job:
    """The job with the microbatches that `training.batching` makes; as it is where all are alike.

    `made` makes the schedule of a number of microbatches, which groups of ranks have as many of as they need.
    """
    if training.batching is None:
        return job
    ranks = job.mesh.sizes[CP.name]
    unit = ranks * context.SCHEMES.get(job.cp_kind).pieces if ranks > 1 else 1
    scheme = context.SCHEMES.get(job.cp_kind)
    unit = ranks * scheme.pieces if ranks > 1 else scheme.pieces if training.batching.groups else 1
    work = work_of(job)
    batch = plan(training, job.mesh.sizes[DP.name], unit, work, _speed(job, work, cluster), seed)
    if batch is None:
        return job
    if training.batching.groups:
        job = _grouped(job, batch, made)
    beside = training.batching.disaggregated is not None and training.batching.ping_pong and not job.blocking
    return replace(job, batch=batch, ping_pong=beside, assumptions=(*job.assumptions, _said(job, batch)))


def _grouped(job: Job, batch: Batch, made: Callable[[int], Schedule]) -> Job:
    """The job with as many microbatches as there are, in groups that the scheme of context parallelism can have."""
    largest = max(batch.shapes, key=lambda shape: shape.ranks)
    if largest.ranks > 1:
        heads, fused = job.model.heads // job.tp, job.attention == "fused"
        context.check(job.cp_kind, largest.ranks, largest.tokens, heads, fused)
        seen = [layer.window for layer in dict.fromkeys(job.model.kinds) if layer.attends]
        context.check_windows(job.cp_kind, largest.ranks, largest.tokens, seen)
        context.check_documents(job.cp_kind)
    schedule = made(len(batch.rows[0]))
    return replace(job, schedule=schedule, microbatches=len(batch.rows[0]))


def _speed(job: Job, work: Work, cluster: Cluster) -> Speed:
    """How long documents take on groups, for a plan: at half of the peak, with queries, keys, values and results on the
    way there and back in both passes."""
    node, model = cluster.node, job.model
    peaks = node.accelerator.peak
    peak = next((peaks[name].value for name in (job.counted, "bf16", "fp16") if name in peaks), 0.0)
    rate = PLANNED * max(peak, 1.0) * job.tp / 3.0  # forward, and twice that backward
    heads = 2 * model.heads + 2 * (model.kv_heads or model.heads)
    rows = 2.0 * heads * (model.head_dim or model.hidden // model.heads) * job.element * model.layers / job.tp
    inside = node.scale_up.bandwidth.value if node.scale_up.bandwidth else float("inf")
    across = node.nics.count * node.nics.bandwidth.value / node.devices if node.nics else inside
    return Speed(work.linear / rate, work.square / rate, rows / inside, rows / across, max(node.devices // job.tp, 1))


def work_of(job: Job) -> Work:
    """Forward FLOPs of a document by its length, attention with its causal half."""
    attention = over_layers(job.layers, lambda kind: attention_flops(job, kind))
    products = layers_forward_flops(job) + head_forward_flops(job) - attention
    return Work(products / job.sequence, attention * (0.5 if job.causal else 1.0) / job.sequence**2)


def _said(job: Job, batch: Batch) -> str:
    """What the microbatches are, in words."""
    own = {number: count for number, count in batch.count.items() if batch.shapes[number].sequences}
    late = f", {batch.delayed:,} wait for another step" if batch.delayed else ""
    return (
        f"batching: {batch.sequences:,} sequences of {batch.tokens:,} tokens in {sum(own.values()):,}"
        f" microbatches of {len(own):,} sizes, drawn with the seed{late}"
    )


def unevenness(job: Job, batch: Batch) -> dict[str, float]:
    """Figures of microbatches that differ: what of them is padding, and the most forward FLOPs of a microbatch, and of
    a data-parallel rank, over the mean."""
    each = np.array([_forward(job, shape) / shape.ranks for shape in batch.shapes])
    work = each[np.array(batch.rows)]
    total = work.sum(axis=1)
    return {
        "padding_fraction": batch.padding,
        "microbatch_imbalance": float(work.max() / work[work > 0].mean()),
        "rank_imbalance": float(total.max() / total.mean()),
    }


def _forward(job: Job, shape: Shape) -> float:
    """Forward FLOPs of a microbatch, with the attention that the rank works on."""
    if shape.served:
        work = work_of(job)
        return work.linear * shape.tokens + 2.0 * work.square * sum(map(pairs, shape.served))
    own = job.shaped(shape)
    return own.micro_batch * (layers_forward_flops(own) + head_forward_flops(own))
