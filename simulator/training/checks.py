"""What a training scenario says that cannot be, or has no effect."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.axes import CP, DP, PP, TP
from simulator.errors import InputError, Problem, nearest
from simulator.model.cut import Cut
from simulator.model.held import GROUPS, SUMMED, holdable
from simulator.model.layers import layer
from simulator.parallel import Mesh
from simulator.program.actions import COMPUTE, Kind
from simulator.program.schedule import Schedule
from simulator.specs.model import Model
from simulator.specs.training import Parallel, RouterLoad, Stack, Training
from simulator.training.recipes import Recipe

MOST_PASSES = 3_000_000
"""Passes of a pipeline above which a step is refused rather than simulated for minutes."""


def check_passes(parallel: Parallel, microbatches: int) -> None:
    """Refuse steps that would take minutes to simulate."""
    passes = 2 * parallel.pp * parallel.vpp * microbatches
    if passes > MOST_PASSES:
        message = f"pp {parallel.pp} x vpp {parallel.vpp} x {microbatches:,} microbatches x 2 = {passes:,} passes"
        hint = f"at most {MOST_PASSES:,}: take a smaller global_batch or a larger micro_batch"
        raise InputError(Problem(message, path="training.global_batch", hint=hint))


def check_blocking(training: Training) -> None:
    """Refuse what no program exists for: gathers of every pass that do not run beside computation."""
    if training.blocking_launches:
        message = "the host waits for every kernel, not simulated with gathers of every pass (ZeRO-3, or 2 of FSDP)"
        raise InputError(Problem(message, path="training.blocking_launches", hint="leave it out, or write `zero: 1`"))


def check_split(schedule: Schedule) -> None:
    """Refuse what no program exists for: gathers around backward passes that are cut in two."""
    if len(schedule.only([Kind.I, Kind.W])):
        message = "the schedule splits backward passes (I, W), not simulated with ZeRO-3 (nor ZeRO-2 of FSDP) yet"
        raise InputError(Problem(message, path="training.schedule", hint="write `zero: 1` or a schedule with B"))


def check_whole(schedule: Schedule, gradients: bool = True) -> None:
    """Refuse microbatches that skip stages, that never come back, or that overlap those of the next step."""
    if schedule.steps > 1:
        message = "steps without a flush are drawn by `clustersim schedule` and not simulated in a training step"
        raise InputError(Problem(message, path="training.schedule", hint="write `1f1b`"))
    if not schedule.backward and gradients:
        message = "forward passes alone are drawn by `clustersim schedule` and give no gradients"
        raise InputError(
            Problem(message, path="training.schedule", hint="write `1f1b`, or `zeroth_order: 2` beside it")
        )
    if schedule.paths:
        message = "skipped stages are drawn by `clustersim schedule` and not simulated in a training step"
        raise InputError(Problem(message, path="training.schedule", hint="write `1f1b`"))


def check_slices(training: Training, model: Model, schedule: Schedule, zero: int) -> None:
    """Refuse slices of sequences that are not equal, and what no program of slices exists for."""
    many, parallel = schedule.slices, training.parallel
    if training.slices is not None and many == 1:
        hint = "write `schedule: seq1f1b`, or leave it out"
        raise InputError(Problem("the schedule cuts no sequences", path="training.slices", hint=hint))
    if training.slice_cut != "even" and many == 1:
        hint = "write `schedule: seq1f1b`, or leave it out"
        raise InputError(Problem("the schedule cuts no sequences", path="training.slice_cut", hint=hint))
    if many == 1:
        return
    if training.sequence_length % (many * parallel.tp):
        cut = f"{many} slices" + (f" over tp {parallel.tp}" if parallel.tp > 1 else "")
        message = f"a sequence of {training.sequence_length:,} tokens does not divide into {cut}"
        raise InputError(Problem(message, path="training.slices", hint="write a divisor of the sequence"))
    beside = {
        f"cp {parallel.cp}": parallel.cp > 1,
        f"ZeRO-{zero}": zero > 1,
        "tokens that see those after them": not training.causal or bool(model.encoder_layers),
        "packed documents": training.documents is not None,
        "microbatches of different sizes": training.batching is not None,
        "experts": model.experts is not None,
        "modules for multi-token prediction": model.mtp_layers > 0,
        "layers that carry a state": any(kind.stateful for kind in model.kinds),
        "a mask of blocks or chosen tokens": model.block_mask is not None or model.index_top_k is not None,
    }
    if found := [name for name, there in beside.items() if there]:
        message = f"slices of sequences with {found[0]} are not simulated"
        raise InputError(Problem(message, path="training.schedule", hint="write `1f1b`"))


def check_attention_of_slices(schedule: Schedule, attention: str) -> None:
    """Refuse score matrices of slices."""
    if schedule.slices > 1 and attention != "fused":
        message = "slices of sequences with unfused attention are not simulated"
        raise InputError(Problem(message, path="training.attention", hint="write `attention: fused`"))


def check_copies(schedule: Schedule, zero: int) -> None:
    """Refuse copies of the model that no program exists for: others than two of which one is the mirror of the other,
    and such whose gradients or parameters are sharded."""
    if schedule.copies == 1:
        return
    if not _mirrored(schedule):
        message = f"{schedule.copies} copies of the model, not simulated in training unless two mirror each other"
        hint = "rank r runs what rank p - 1 - r does of the other copy; `dualpipe` and `chimera` are such"
        raise InputError(Problem(message, path="training.schedule", hint=hint))
    if zero > 1:
        message = f"ZeRO-{zero} with {schedule.copies} copies of the model on one pipeline is not simulated"
        hint = "write `zero: 1`, or `dualpipev` or `zb-v` with `vpp: 2`, which do the same with one copy"
        raise InputError(Problem(message, path="training.parallel.zero", hint=hint))


def _mirrored(schedule: Schedule) -> bool:
    """Whether two copies lie the other way round on the ranks, and mirrored ranks take up and finish the same layers in
    the same order, in which they meet to gather and to sum."""
    home = schedule.rank_of_stage().reshape(schedule.copies, -1)
    if schedule.copies != 2 or np.any(home[0] != schedule.ranks - 1 - home[1]):
        return False
    ranks = np.split(np.stack([schedule.kind, schedule.stage_of_model]), schedule.rank_start[1:-1], axis=1)
    return all(_order(one) == _order(other) for one, other in zip(ranks, reversed(ranks), strict=True))


def _order(passes: NDArray[np.int32]) -> tuple[list[int], list[int]]:
    """Layers in the order of their first and of their last passes; `passes` are kinds and stages, shape (2, n)."""
    stage = passes[1][np.isin(passes[0], COMPUTE)].tolist()
    return list(dict.fromkeys(stage)), list(dict.fromkeys(reversed(stage)))


def check_model(model: Model) -> None:
    """Refuse models that can only be served."""
    if model.prompt_layers is not None:
        message = "models whose prompts skip layers can be served, not trained"
        raise InputError(Problem(message, path="model.prompt_layers", hint="leave it out"))


def check_masks(training: Training, model: Model, mesh: Mesh, kind: str) -> None:
    """Refuse masks beside documents or without causality, and masks of unequal work over sequences that are cut."""
    mask = model.block_mask
    if mask is None:
        return
    if training.documents is not None or not training.causal:
        message = "`model.block_mask` is described for causal sequences of one document"
        raise InputError(Problem(message, path="model.block_mask", hint="leave `documents` and `causal` out"))
    if mask.local_blocks is not None and mesh.sizes[CP.name] > 1 and kind != "ulysses":
        message = f"`cp_kind: {kind}` cuts sequences, and `local_blocks` leaves ranks unequal work"
        raise InputError(Problem(message, path="model.block_mask", hint="write `cp_kind: ulysses`, or a `density`"))


def check_window(training: Training, model: Model) -> None:
    """Refuse a window of the model that no sequence fills; those of its pattern are as published, and save nothing."""
    if model.window is not None and not model.pattern and model.window > training.sequence_length:
        message = f"a window of {model.window:,} tokens is longer than the context, `sequence_length`"
        message += f" {training.sequence_length:,}"
        hint = f"write `model.window={training.sequence_length}`, which looks back as far, or longer sequences"
        raise InputError(Problem(message, path="model.window", hint=hint))


def check_encoder(training: Training, model: Model) -> None:
    """Refuse an encoder without sequences, sequences without an encoder, and layouts that no program exists for."""
    given, parallel = training.encoder_sequence_length, training.parallel
    if (model.encoder_layers is None) != (given is None):
        said = "has an encoder" if given is None else "has no encoder"
        path, hint = "training.encoder_sequence_length", "write its tokens" if given is None else "leave it out"
        raise InputError(Problem(f"{model.name} {said}", path=path, hint=hint))
    if given is None:
        return
    for name, size in ((PP.name, parallel.pp), (CP.name, parallel.cp)):
        if size > 1:
            message = f"{name} {size}: an encoder and its decoder are on one stage, with whole sequences, so far"
            raise InputError(Problem(message, path=f"training.parallel.{name}", hint=f"leave `{name}` out"))
    for name in ("documents", "lora", "offload_layers"):
        if getattr(training, name) is not None and not (name == "documents" and training.batching):
            message = "not simulated for models with an encoder yet"
            raise InputError(Problem(message, path=f"training.{name}", hint="leave it out"))


def check_recompute(training: Training, recompute: str) -> None:
    """Refuse two answers to one question, and tiles of layers that keep what tiles are to spare."""
    some = recompute == "full" and (training.recompute_layers is not None or (training.recompute_share or 1.0) < 1.0)
    if training.tile_tokens is not None and (recompute != "full" or some):
        message = (
            f"tile_tokens needs `recompute: full` of all layers, and recompute is {recompute}{' of some layers' * some}"
        )
        raise InputError(Problem(message, path="training.tile_tokens", hint="write `recompute: full`"))
    if training.tile_tokens is not None and training.recompute_keeps:
        message = "tiles spare results of whole layers, and `recompute_keeps` keeps them"
        raise InputError(Problem(message, path="training.tile_tokens", hint="leave one of them out"))
    if training.recompute_layers is not None and training.recompute_share is not None:
        message = "recompute_share and recompute_layers both say how many layers are recomputed"
        raise InputError(Problem(message, path="training.recompute_share", hint="leave one of them out"))


def check_held(training: Training, model: Model, attention: str) -> None:
    """Refuse kept results of operations that no layer has, or that backward passes do not read."""
    ops = [op for kind in dict.fromkeys(model.kinds) for op in layer(model, Cut({TP.name: 2}), kind)]
    known = [*GROUPS, *holdable(ops)]
    path = "training.recompute_keeps"
    for name in training.recompute_keeps:
        if name not in known:
            message = f"`{name}` is no product, attention or collective of a layer of {model.name}"
            hint = nearest(name, known) or f"write {', '.join(GROUPS[:-1])} or the name of one, such as `mlp in`"
            raise InputError(Problem(message, path=path, hint=hint))
    if set(training.recompute_keeps) == {SUMMED}:
        message = "`summed` says how kept products are kept, and none is named"
        raise InputError(Problem(message, path=path, hint="write [products, summed]"))
    if "attention" in training.recompute_keeps and attention != "fused":
        message = "attention that is not fused reads its scores backward, and these are computed again"
        raise InputError(Problem(message, path=path, hint="leave `attention` out, or write `attention: fused`"))


def check_layers(training: Training, chunks: Sequence[int]) -> None:
    """Refuse more layers to offload or to recompute than any chunk has: most often they are those of the model."""
    most, parallel = max(chunks), training.parallel
    what = "chunk" if parallel.vpp > 1 else "stage"
    for name in ("offload_layers", "recompute_layers"):
        if (given := getattr(training, name) or 0) > most:
            spread = f"{sum(chunks)} layers over pp {parallel.pp} x vpp {parallel.vpp}"
            message = f"{given:,} layers of each {what}, but the largest has {most} ({spread})"
            raise InputError(Problem(message, path=f"training.{name}", hint=f"write {most} for all, or less"))


def check_axes(model: Model, mesh: Mesh) -> None:
    """Refuse axes along which nothing is cut: their devices would all do the same."""
    own = {name: size for name, size in mesh.sizes.items() if size > 1 and name not in (CP.name, DP.name, PP.name)}
    if not own:
        return
    layers = (op for kind in dict.fromkeys(model.kinds) for op in layer(model, Cut(mesh.sizes), kind))
    used = {axis.name for axis in (getattr(op.does, "axis", None) for op in layers) if axis is not None}
    for name, size in own.items():
        if name not in used:
            message = f"{name} {size}: no block of {model.name} is cut along `{name}`"
            hint = f"leave `{name}` out, or choose an attention or MLP kind that it cuts (`model.pattern`)"
            raise InputError(Problem(message, path=f"training.parallel.{name}", hint=hint))


def check_heads(model: Model, mesh: Mesh) -> None:
    """Refuse tensor parallelism that does not divide the heads."""
    tp = mesh.sizes[TP.name]
    if any(kind.attends for kind in model.kinds) and model.heads % tp:
        message = f"tp {tp} does not divide the {model.heads} attention heads"
        raise InputError(Problem(message, path="training.parallel.tp", hint="choose a divisor of the heads"))
    if not any(kind.stateful for kind in model.kinds):
        return
    if model.linear is not None and model.linear.value_heads % tp:
        message = f"tp {tp} does not divide the {model.linear.value_heads} heads of layers with a state"
        raise InputError(Problem(message, path="training.parallel.tp", hint="choose a divisor of `linear.value_heads`"))


def too_long(training: Training, model: Model) -> list[str]:
    """That sequences are longer than the model is made for."""
    most = model.max_sequence
    if most is None or training.sequence_length <= most:
        return []
    return [
        f"sequence_length {training.sequence_length:,} is more than the {most:,} tokens that {model.name} is made for"
        " (`model.max_sequence`): times and memory are right, the model needs other position embeddings"
    ]


def without_effect(training: Training, mesh: Mesh, stack: Stack, zero: int, masked: bool = False) -> list[str]:
    """What the scenario says without effect."""
    parallel, routing = training.parallel, training.routing
    fused = (training.attention or stack.attention) == "fused"
    no_tensor, no_data = mesh.sizes[TP.name] == 1, mesh.sizes[DP.name] * mesh.sizes[CP.name] == 1
    not_full = (training.recompute or stack.recompute) != "full"
    waits = zero == 3 and stack.synchronous
    always = sharded_per_pass(zero, stack) and not waits
    found: list[tuple[object, str]] = [
        (masked and not fused, "model.block_mask: unfused attention works out all scores and masks them"),
        (training.documents and not fused, "documents: unfused attention works out all scores and masks them"),
        (parallel.sequence_parallel and no_tensor, "parallel.sequence_parallel: there is no tensor parallelism"),
        (parallel.cp_kind and mesh.sizes[CP.name] == 1, f"parallel.cp_kind {parallel.cp_kind}: cp is 1"),
        (parallel.ulysses and parallel.cp_kind != "usp", "parallel.ulysses: cp_kind is not usp"),
        (parallel.zero and no_data, f"parallel.zero {parallel.zero}: there is one data-parallel rank"),
        (parallel.shard_size and not zero, "parallel.shard_size: parallel.zero is 0"),
        (training.expert_chunks > 1 and parallel.ep == 1, "expert_chunks: no rows are exchanged, as ep is 1"),
        (training.overlap_experts and parallel.ep == 1, "overlap_experts: no rows are exchanged, as ep is 1"),
        (training.overlap_experts and training.blocking_launches, "overlap_experts: the host waits for every kernel"),
        (training.expert_chunks > 1 and training.blocking_launches, "expert_chunks: the host waits for every kernel"),
        (training.expert_lanes == "one" and training.expert_chunks == 1, "expert_lanes: expert_chunks is 1"),
        (training.overlap_shared_experts and parallel.ep == 1, "overlap_shared_experts: no rows travel, as ep is 1"),
        (training.recompute_layers and not_full, "recompute_layers: only `recompute: full` counts layers"),
        (training.recompute_keeps and not_full, "recompute_keeps: only `recompute: full` computes whole layers again"),
        (
            training.recompute_modules and training.recompute not in (None, "selective"),
            f"recompute_modules: recompute is {training.recompute}, and only `selective` drops parts of layers",
        ),
        (training.recompute_share and not_full, "recompute_share: only `recompute: full` takes a share of the layers"),
        (
            training.recompute == "selective" and fused and not training.recompute_modules,
            "recompute: selective: fused attention keeps no scores to drop",
        ),
        (routing.counts and routing.load != "counts", f"routing.counts: routing.load is {routing.load}"),
        (routing.padded and routing.capacity is None, "routing.padded: there is no routing.capacity"),
        (training.overlap_parameters and not zero, "overlap_parameters: parameters are not sharded"),
        (
            training.overlap_parameters is False and always,
            f"overlap_parameters: ZeRO-{zero} always gathers ahead of use",
        ),
        (
            training.overlap_gradients is False and always,
            f"overlap_gradients: ZeRO-{zero} always reduces beside the pass",
        ),
        (training.overlap_parameters and waits, "overlap_parameters: the stack waits for every gather of ZeRO-3"),
        (training.overlap_gradients and waits, "overlap_gradients: the stack waits for every reduction of ZeRO-3"),
    ]
    return [f"no effect: {text}" for applies, text in found if applies]


def without_pipeline(training: Training, mesh: Mesh, stack: Stack, model: Model) -> list[str]:
    """What the scenario says of sends between stages, and of what runs beside computation, without effect."""
    stages, tp, given = mesh.sizes[PP.name], mesh.sizes[TP.name], training.parallel.sequence_parallel
    spread = tp > 1 and (bool(model.experts) or stack.sequence_parallel if given is None else given)
    no_stages, blocks = "there is no pipeline, as pp is 1", "the host waits for every kernel"
    found: list[tuple[object, str]] = [
        (model.vision, "model.vision: an encoder of images is served, and not trained"),
        (training.overlap_pipeline and stages == 1, f"overlap_pipeline: {no_stages}"),
        (training.overlap_pipeline and stages > 1 and training.blocking_launches, f"overlap_pipeline: {blocks}"),
        (training.overlap_gradients and training.blocking_launches, f"overlap_gradients: {blocks}"),
        (training.overlap_parameters and training.blocking_launches, f"overlap_parameters: {blocks}"),
        (training.scatter_gather and stages == 1, f"scatter_gather: {no_stages}"),
        (training.scatter_gather and stages > 1 and tp == 1, "scatter_gather: there is no tensor parallelism"),
        (
            training.scatter_gather is not None and stages > 1 and spread,
            "scatter_gather: sequence parallelism cuts what is sent already, and nothing is gathered",
        ),
    ]
    return [f"no effect: {text}" for applies, text in found if applies]


def turned_for_nothing(training: Training, recipe: Recipe | None, either: bool) -> list[str]:
    """That weights are to be kept in one order where there is but one, or a format that needs both."""
    if not training.turned_weights or not (recipe is None or recipe.blocks or either):
        return []
    why = "scales of blocks go with an order" if recipe and recipe.blocks else "weights have one order here"
    return [f"no effect: turned_weights: {why}"]


def without_recipe(training: Training, precision: str, recipe: Recipe | None) -> list[str]:
    """That parameters are to be kept in a format of products which has none for them, or attention is to have one."""
    if recipe is None and training.quantized_attention:
        return [f"no effect: quantized_attention: precision {precision} is not narrower here"]
    base = training.lora.base_format if training.lora else None
    if not training.quantized_parameters or (recipe is not None and recipe.primary and not base):
        return []
    why = (
        f"precision {precision} is not narrower here" if recipe is None else f"{precision} keeps parameters in 16 bits"
    )
    why = f"frozen weights are kept in {base}" if base else why
    return [f"no effect: quantized_parameters: {why}"]


def without_experts(training: Training, model: Model) -> list[str]:
    """What the scenario says about parts of layers that the model does not have."""
    routing, experts = training.routing, model.experts is not None
    exchanged = experts and training.parallel.ep > 1
    apart = experts and (exchanged or (training.parallel.etp or training.parallel.tp) > 1)
    uneven, packed, alone = (
        routing.load != "balanced",
        routing.placement == "packed",
        "ep is 1: a device has all experts",
    )
    no_experts, no_rows = f"{model.name} has no experts", "no rows are exchanged, as ep is 1"
    found: list[tuple[object, str]] = [
        (not experts and routing != RouterLoad.model_construct(), f"routing: {no_experts}"),
        (not experts and "router" in training.cuda_graphs, f"cuda_graphs: router: {no_experts}"),
        (not experts and "experts" in training.recompute_modules, f"recompute_modules: experts: {no_experts}"),
        (model.kv_lora_rank is None and "latent" in training.recompute_modules, _no_latent(model)),
        (training.dispatcher and not exchanged, f"dispatcher: {no_rows}"),
        (training.dispatch_precision and not apart, f"dispatch_precision: {no_rows}"),
        (training.algorithms.ep != "auto" and not exchanged, f"algorithms.ep: {no_rows}"),
        (
            training.overlap_shared_experts and exchanged and not model.shared_experts,
            f"overlap_shared_experts: {model.name} has no shared experts",
        ),
        (
            experts and routing.states("exponent") and routing.load not in ("zipf", "drifting"),
            _not(routing, "exponent"),
        ),
        (experts and routing.states("variance") and routing.load != "uneven", _not(routing, "variance")),
        (experts and routing.states("drift") and routing.load != "drifting", _not(routing, "drift")),
        (experts and routing.first_step and not routing.moves, _not(routing, "first_step")),
        (experts and routing.rebalanced > 1 and not routing.moves, _not(routing, "rebalanced")),
        (
            experts and routing.rebalanced > 1 and not packed and not routing.replicas,
            "routing.rebalanced: experts lie in order, without replicas",
        ),
        (experts and not exchanged and uneven and routing.capacity is None, f"routing.load: {alone}"),
        (experts and not exchanged and packed, f"routing.placement: {alone}"),
        (exchanged and packed and not uneven and not routing.replicas, _all_alike(routing)),
    ]
    return [f"no effect: {text}" for applies, text in found if applies]


def _no_latent(model: Model) -> str:
    return f"recompute_modules: latent: {model.name} has no latent attention"


def _all_alike(routing: RouterLoad) -> str:
    return f"routing.placement: routing.load is {routing.load}, so that no expert is heavy"


def _not(routing: RouterLoad, key: str) -> str:
    return f"routing.{key}: routing.load is {routing.load}"


def sharded_per_pass(zero: int, stack: Stack) -> bool:
    """Whether parameters are gathered and gradients reduced around every pass: ZeRO-3, and ZeRO-2 of FSDP."""
    return zero == 3 or (zero == 2 and stack.unit == "layer")
