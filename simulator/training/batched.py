"""A job whose microbatches differ: what each is, and what to say of them."""

from dataclasses import replace

import numpy as np

from simulator.axes import CP, DP
from simulator.errors import InputError, Problem
from simulator.specs.batching import Batching
from simulator.specs.model import Model
from simulator.specs.training import Training
from simulator.training import context
from simulator.training.batches import Batch, Work, plan
from simulator.training.flops import attention_flops, head_forward_flops, layers_forward_flops
from simulator.training.job import Job
from simulator.training.memory import over_layers

PATH = "training.batching"


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
    if model.experts is not None:
        message = "microbatches of different sizes: loads of experts are not simulated for each of them yet"
        raise InputError(Problem(message, path=PATH, hint="leave it out"))
    if training.offload_layers is not None:
        message = "offloaded activations are not simulated for microbatches of different sizes yet"
        raise InputError(Problem(message, path="training.offload_layers", hint="leave it out"))


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


def batched(job: Job, training: Training, seed: int) -> Job:
    """The job with the microbatches that `training.batching` makes; as it is where all are alike."""
    if training.batching is None:
        return job
    ranks = job.mesh.sizes[CP.name]
    unit = ranks * context.SCHEMES.get(job.cp_kind).pieces if ranks > 1 else 1
    batch = plan(training, job.mesh.sizes[DP.name], unit, work_of(job), seed)
    if batch is None:
        return job
    return replace(job, batch=batch, assumptions=(*job.assumptions, _said(job, batch)))


def work_of(job: Job) -> Work:
    """Forward FLOPs of a document by its length, attention with its causal half."""
    attention = over_layers(job.layers, lambda kind: attention_flops(job, kind))
    products = layers_forward_flops(job) + head_forward_flops(job) - attention
    return Work(products / job.sequence, attention * (0.5 if job.causal else 1.0) / job.sequence**2)


def _said(job: Job, batch: Batch) -> str:
    """What the microbatches are, in words."""
    late = f", {batch.delayed:,} wait for another step" if batch.delayed else ""
    return (
        f"batching: {batch.sequences:,} sequences of {batch.tokens:,} tokens in {job.microbatches * len(batch.rows):,}"
        f" microbatches of {len(batch.shapes):,} sizes, drawn with the seed{late}"
    )


def unevenness(job: Job, batch: Batch) -> dict[str, float]:
    """Figures of microbatches that differ: what of them is padding, and the most forward FLOPs of a microbatch, and of
    a data-parallel rank, over the mean."""
    own = [job.shaped(shape) for shape in batch.shapes]
    each = np.array([one.micro_batch * (layers_forward_flops(one) + head_forward_flops(one)) for one in own])
    work = each[np.array(batch.rows)]
    ranks = work.sum(axis=1)
    return {
        "padding_fraction": batch.padding,
        "microbatch_imbalance": float(work.max() / work.mean()),
        "rank_imbalance": float(ranks.max() / ranks.mean()),
    }
