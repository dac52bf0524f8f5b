"""From a scenario to a job: the stack's defaults fill in what it leaves open; what does not fit together is refused.

What the scenario did not say and a default decided is listed in `assumptions`; what it said without effect in
`warnings`.
"""

from dataclasses import dataclass, field, replace
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

from simulator.axes import CP, DP, EP, ETP, TP
from simulator.errors import InputError, Problem
from simulator.parallel import Mesh, build_mesh
from simulator.program.actions import Kind
from simulator.program.schedule import Schedule
from simulator.specs.catalog import data_root
from simulator.specs.model import Model
from simulator.specs.scenario import Scenario
from simulator.specs.training import Parallel, Stack, Training
from simulator.training import context, local_steps, variability, vocabulary, zeroth_order
from simulator.training.batches.cuts import slice_lengths
from simulator.training.batches.documents import Packing, packing
from simulator.training.batches.microbatches import batched, check_batching
from simulator.training.checks import (
    check_attention_of_slices,
    check_axes,
    check_blocking,
    check_copies,
    check_encoder,
    check_heads,
    check_held,
    check_layers,
    check_masks,
    check_model,
    check_passes,
    check_recompute,
    check_slices,
    check_split,
    check_whole,
    check_window,
    sharded_per_pass,
    too_long,
    turned_for_nothing,
    without_effect,
    without_experts,
    without_pipeline,
    without_recipe,
)
from simulator.training.experts.routing import exchange
from simulator.training.job import BYTES, Job, Replicas
from simulator.training.layers import split_layers
from simulator.training.optimizers import choice as optimizers
from simulator.training.overlap import besides
from simulator.training.overlap.partners import together
from simulator.training.recipes import any_order, dispatched, recipe_of, turns_weights
from simulator.training.schedules import SCHEDULES, Pipeline, own_name, read_schedule
from simulator.training.tiers.checks import check_job, check_offload, check_sharding
from simulator.training.tiers.host import rates_of

Layers = tuple[int, ...]
"""Layers of each chunk."""
INTERLEAVED = "interleaved-1f1b"
"""The schedule in whose steady state a forward and a backward pass of a rank need nothing of each other."""


@dataclass(slots=True)
class _Resolver:
    """Takes a value from the scenario, else from the stack, and notes which."""

    training: Training
    stack: Stack
    model: Model
    assumptions: list[str] = field(default_factory=list)

    def take(self, name: str, given: object, default: object) -> object:
        if given is not None:
            return given
        self.assumptions.append(f"{name} is not given: {_show(default)} ({self.stack.name})")
        return default


def _note_defaults(resolver: _Resolver) -> None:
    """List what the scenario leaves open: micro batch, schedule, and how communication is overlapped."""
    training, stack = resolver.training, resolver.stack
    if "micro_batch" not in training.model_fields_set:
        resolver.assumptions.append(f"micro_batch is not given: {training.micro_batch}")
    if training.schedule is None:
        plain = "interleaved-1f1b, as vpp > 1" if training.parallel.vpp > 1 else "1f1b"
        plain = zeroth_order.SCHEDULE if training.zeroth_order else plain
        resolver.assumptions.append(f"schedule is not given: {plain}")
    names = ("overlap_gradients", "overlap_parameters", "overlap_pipeline", "scatter_gather")
    open_ones = [f"{name} {_show(getattr(stack, name))}" for name in names if getattr(training, name) is None]
    if open_ones:
        resolver.assumptions.append(f"communication is not given: {', '.join(open_ones)} ({stack.name})")


def _show(value: object) -> str:
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


def build_job(scenario: Scenario) -> Job:
    """Resolve a scenario; raises InputError for sizes that do not fit together."""
    training, stack, model = scenario.training, scenario.stack, scenario.model
    parallel = training.parallel
    _check_shape(training, model)
    mesh = build_mesh(parallel, scenario.cluster.devices)
    check_heads(model, mesh)
    experts = _experts(parallel, model, mesh)
    check_axes(model, mesh)
    check_recompute(training, training.recompute or stack.recompute)
    check_held(training, model, training.attention or stack.attention)
    resolver = _Resolver(training, stack, model)
    _note_defaults(resolver)
    take = resolver.take
    zero = _zero(resolver, mesh)
    microbatches = _microbatches(training, mesh)
    workers = _workers(scenario, mesh)
    schedule, chunks = _schedule(training, stack, model, microbatches, zero)
    formats = _formats(resolver, scenario)
    attention = str(take("attention", training.attention, stack.attention))
    check_attention_of_slices(schedule, attention)
    job = Job(
        model=model,
        stack=stack,
        mesh=mesh,
        experts=experts,
        vpp=parallel.vpp,
        schedule=schedule,
        home=tuple(schedule.rank_of_stage().tolist()),
        chunks=chunks,
        global_batch=training.global_batch,
        micro_batch=training.micro_batch,
        sequence=training.sequence_length,
        encoder_sequence=training.encoder_sequence_length,
        microbatches=microbatches,
        causal=training.causal,
        packing=None if training.batching else _packing(resolver, mesh, scenario.seed),
        **formats,
        lora=training.lora,
        attention=attention,
        recompute=_recompute(resolver),
        **_kept(training),
        host_link=_host_link(scenario),
        host=rates_of(scenario.cluster.node),
        runtime=_runtime(scenario),
        sequence_parallel=bool(_sequence_parallel(resolver, mesh)),
        cp_kind=_cp_kind(resolver, model, mesh, attention),
        by_heads=_by_heads(resolver, model, mesh, scenario.cluster.node.devices),
        zero=zero,
        hooked=stack.module_overhead is not None and _or(training.parallel.zero, stack.zero) == 3,
        replicas=tuple(
            _met(one, workers, schedule.copies, zero) for one in _replicas(parallel, model, mesh, experts, zero)
        ),
        workers=workers,
        slowest=variability.slowest_pace(scenario, workers),
        sharding=training.sharding,
        zeroth=training.zeroth_order,
        outer_states=_outer_states(training),
        blocking=training.blocking_launches,
        **_overlaps(training, stack),
        scatter_gather=_switch(training.scatter_gather, stack.scatter_gather),
        **_gradients(training, stack),
        optimizer=optimizers.chosen(training, stack, zero, resolver.assumptions),
        **_exchanging(scenario, mesh, experts, formats["precision"]),
        cuda_graphs=training.cuda_graphs,
        algorithms=training.algorithms,
        overlap_tensor=training.overlap_tensor,
        vocabulary_sums=schedule.vocabulary_sums,
        **in_flight(schedule),
        cuts=slice_lengths(training, model, schedule),
        assumptions=(*resolver.assumptions, *variability.said(scenario, workers)),
        warnings=_warnings(scenario, mesh, zero, formats),
    )
    _check_resolved(job, scenario)

    def made(microbatches: int) -> Schedule:
        return _schedule(training, stack, model, microbatches, zero)[0]

    return batched(job, training, scenario.cluster, made, scenario.seed)


def _check_shape(training: Training, model: Model) -> None:
    """Refuse models and sequences that do not fit each other; InputError."""
    check_model(model)
    check_window(training, model)
    check_encoder(training, model)
    check_batching(training, model)


def _check_resolved(job: Job, scenario: Scenario) -> None:
    """Refuse what a resolved job cannot do; InputError."""
    check_offload(scenario.training, scenario.cluster.node, job.chunks)
    check_job(job)
    check_sharding(job)
    besides.check_overlap(scenario.training, job)
    vocabulary.check(job)
    optimizers.check_by_layer(job)


def _warnings(scenario: Scenario, mesh: Mesh, zero: int, formats: dict[str, Any]) -> tuple[str, ...]:
    """What the scenario says without effect, or of a model that is not made for it."""
    training, stack, model = scenario.training, scenario.stack, scenario.model
    return (
        *without_effect(training, mesh, stack, zero, model.block_mask is not None),
        *without_experts(training, model),
        *without_pipeline(training, mesh, stack, model),
        *without_recipe(training, formats["precision"], formats["recipe"]),
        *turned_for_nothing(training, formats["recipe"], formats["any_order"]),
        *besides.without_effect(training, mesh.sizes[TP.name]),
        *too_long(training, model),
        *optimizers.unused(training, stack, mesh, zero),
        *variability.without_effect(scenario),
    )


def _gradients(training: Training, stack: Stack) -> dict[str, Any]:
    """Formats of gradients on the wire and in memory, and how many are reduced together."""
    given = {"reduce_bytes": training.reduce_precision, "gradient_bytes": training.gradient_precision}
    found = {name: BYTES.get(word, 2) if word else getattr(stack, name) for name, word in given.items()}
    usual = stack.bucket_size.value if stack.bucket_size else float("inf")
    return {**found, "bucket": training.bucket_size or usual}


def _kept(training: Training) -> dict[str, Any]:
    """What passes keep, compute again, or send to the host."""
    return {
        "recompute_modules": training.recompute_modules,
        "recompute_keeps": training.recompute_keeps,
        "recompute_layers": training.recompute_layers,
        "recompute_share": training.recompute_share or 1.0,
        "offload_layers": training.offload_layers or 0,
        "offload": training.offload,
        "fragmentation": training.fragmentation,
        **_token_wise(training),
        "tile_tokens": training.tile_tokens,
    }


def _token_wise(training: Training) -> dict[str, Any]:
    """Recomputation of all but attention where only some tokens' activations are offloaded."""
    found = training.offload.activations if training.offload else None
    return {} if found is None or found.tokens is None else {"recompute_keeps": ("attention",)}


def _recompute(resolver: _Resolver) -> str:
    """What passes compute again: what is said, what the other keys imply, or the stack's default."""
    training, stack = resolver.training, resolver.stack
    found = training.offload.activations if training.offload else None
    if found is not None and found.tokens is not None:
        return "full" if found.tokens < 1.0 else "none"
    return str(resolver.take("recompute", training.recompute or _of_modules(training), stack.recompute))


def _formats(resolver: _Resolver, scenario: Scenario) -> dict[str, Any]:
    """Number formats, and how the device casts to them."""
    training, stack, accelerator = resolver.training, resolver.stack, scenario.cluster.node.accelerator
    precision = str(resolver.take("precision", training.precision, stack.precision))
    recipe = recipe_of(precision, accelerator)
    quantized = _switch(training.quantized_parameters, stack.quantized_parameters or training.lora is not None)
    quantized = quantized and (training.lora is None or training.lora.base_format is None)
    return {
        "precision": precision,
        "recipe": recipe,
        "any_order": any_order(accelerator),
        "turns_weights": turns_weights(recipe, accelerator, training.turned_weights),
        "attention_kernel": dispatched(stack.attention_kernel, accelerator),
        "quantized_attention": recipe is not None and training.quantized_attention,
        "quantized_parameters": recipe is not None and recipe.primary and quantized,
    }


def _overlaps(training: Training, stack: Stack) -> dict[str, Any]:
    """What runs beside computation; nothing where the host waits for every kernel."""
    names, beside = ("overlap_gradients", "overlap_parameters", "overlap_pipeline"), not training.blocking_launches
    return {name: _switch(getattr(training, name), getattr(stack, name)) and beside for name in names}


def _schedule(training: Training, stack: Stack, model: Model, microbatches: int, zero: int) -> tuple[Schedule, Layers]:
    """The schedule, and the layers of each of its chunks."""
    parallel = training.parallel
    check_passes(parallel, microbatches * (training.slices or 1))
    usual = zeroth_order.SCHEDULE if training.zeroth_order else INTERLEAVED if parallel.vpp > 1 else "1f1b"
    name = own_name(training.schedule or usual)
    per_pass = sharded_per_pass(zero, stack)
    split = not per_pass and training.offload is None
    sizes = Pipeline(parallel.pp, parallel.vpp, microbatches, split=split, slices=training.slices)
    schedule = named_schedule(name, sizes)
    if name == INTERLEAVED and training.overlap_experts and _exchanges(training):
        schedule = together(schedule)
    check_whole(schedule, training.zeroth_order is None)
    check_slices(training, model, schedule, zero)
    check_copies(schedule, zero)
    chunks = split_layers(model.layers, parallel.pp, parallel.vpp, training.stages)
    check_layers(training, chunks)
    if per_pass:
        check_split(schedule)
        check_blocking(training)
    return schedule, chunks


def _exchanging(scenario: Scenario, mesh: Mesh, experts: Mesh, precision: str) -> dict[str, Any]:
    """How rows are sent to experts, and beside what."""
    training, stack, model = scenario.training, scenario.stack, scenario.model
    rows, element = _routed(training, mesh, experts), BYTES.get(precision, 2)
    return {
        "exchange": exchange(training, stack, model, training.parallel.ep, rows, element, scenario.seed),
        "overlap_experts": training.overlap_experts and _exchanges(training),
        "expert_chunks": _chunks(training, mesh),
        "one_lane": training.expert_lanes == "one",
        "shared_beside": _shared_beside(training, stack),
    }


def in_flight(schedule: Schedule) -> dict[str, Any]:
    """Most microbatches between forward and backward pass of the last stage, by what they keep there."""
    kind = schedule.kind[schedule.stage == schedule.stages - 1]
    forward = (kind == Kind.F).astype(int)
    if not schedule.backward:
        return {}
    ends = {"logits_in_flight": (Kind.B, Kind.I), "logit_gradients_in_flight": (Kind.B, Kind.W)}
    return {name: int(np.cumsum(forward - np.isin(kind, end)).max(initial=1)) for name, end in ends.items()}


def _runtime(scenario: Scenario) -> float | None:
    """Memory of the stack's runtime on the devices of the cluster."""
    figure = scenario.stack.memory_overhead.get(scenario.cluster.node.accelerator.kind)
    return None if figure is None else figure.value


def _host_link(scenario: Scenario) -> float:
    """Rate of the host's link; refused where activations are to cross it and it is not known."""
    accelerator = scenario.cluster.node.accelerator
    if accelerator.host_link is not None:
        return accelerator.host_link.value
    if scenario.training.offload_layers:
        message = f"{accelerator.name} has no `host_link` in its profile, which offloaded activations travel over"
        hint = "set cluster.node.accelerator.host_link"
        raise InputError(Problem(message, path="training.offload_layers", hint=hint))
    return 0.0


def named_schedule(name: str, pipeline: Pipeline) -> Schedule:
    """The schedule by name or from a CSV file, which lies in the working folder or in the installed data."""
    if name.endswith(".csv"):
        found = next((path for path in (Path(name), data_root() / name) if path.is_file()), Path(name))
        return read_schedule(found, pipeline.ranks, pipeline.stages, pipeline.microbatches)
    maker = SCHEDULES.get(name, "training.schedule")
    try:
        return maker(pipeline)
    except InputError as error:
        raise InputError(*(replace(one, path=one.path or "training.schedule") for one in error.problems)) from None


def _switch(given: bool | None, default: bool) -> bool:
    return default if given is None else given


def _or(given: int | None, default: int) -> int:
    return default if given is None else given


def _zero(resolver: _Resolver, mesh: Mesh) -> int:
    """The ZeRO stage; where nothing is copied there is nothing to shard."""
    if mesh.sizes[DP.name] * mesh.sizes[CP.name] == 1:
        return 0
    given = resolver.training.parallel.zero
    return int(str(resolver.take("parallel.zero", given, resolver.stack.zero)))


def _cp_kind(resolver: _Resolver, model: Model, mesh: Mesh, attention: str) -> str:
    """The kind of context parallelism; that it fits is checked where there is any."""
    training, ranks = resolver.training, mesh.sizes[CP.name]
    if ranks == 1:
        check_masks(training, model, mesh, "")
        kind = training.parallel.cp_kind or resolver.stack.cp_kind
        context.SCHEMES.get(kind, "training.parallel.cp_kind")
        return kind
    kind = str(resolver.take("parallel.cp_kind", training.parallel.cp_kind, resolver.stack.cp_kind))
    heads = model.heads // mesh.sizes[TP.name]
    context.check(kind, ranks, training.sequence_length, heads, attention == "fused")
    check_masks(training, model, mesh, kind)
    seen = [layer.window for layer in dict.fromkeys(model.kinds) if layer.attends]
    context.check_windows(kind, ranks, training.sequence_length, seen)
    if training.documents is not None and (training.batching is None or training.batching.packs):
        context.check_documents(kind)
    return kind


def _packing(resolver: _Resolver, mesh: Mesh, seed: int) -> Packing | None:
    """Documents that sequences are packed of, and how they were chosen."""
    found = packing(resolver.training, mesh.sizes[DP.name], seed)
    if found is not None and found.drawn:
        resolver.assumptions.append(
            f"documents: every microbatch as one of {found.drawn:,} drawn sequences, near the mean of the slowest rank:"
            f" {len(found.lengths)} documents, and the mean sequence has {found.mean_share:.3g} of its pairs"
        )
    return found


def _by_heads(resolver: _Resolver, model: Model, mesh: Mesh, per_node: int) -> int:
    """Context-parallel ranks that share heads in a two-level scheme; InputError where they do not fit."""
    parallel, ranks, tp = resolver.training.parallel, mesh.sizes[CP.name], mesh.sizes[TP.name]
    heads, keys = model.heads // tp, max(model.kv_heads // tp, 1)
    given = parallel.ulysses
    if given is None:
        usual = gcd(ranks, heads, keys, max(per_node // tp, 1))
        if parallel.cp_kind == context.TWO_LEVELS:
            resolver.assumptions.append(f"parallel.ulysses is not given: {usual}, which divide heads and fit in a node")
        return usual
    if ranks % given or given > heads:
        message = f"ulysses {given} has to divide cp {ranks} and be no more than the {heads} heads of a rank"
        hint = f"for example {gcd(ranks, heads)}"
        raise InputError(Problem(message, path="training.parallel.ulysses", hint=hint))
    return given


def _sequence_parallel(resolver: _Resolver, mesh: Mesh) -> bool:
    given = resolver.training.parallel.sequence_parallel
    if mesh.sizes[TP.name] == 1:
        return False
    if resolver.model.experts and given is None and not resolver.stack.sequence_parallel:
        resolver.assumptions.append("parallel.sequence_parallel is on, as experts need it beside tensor parallelism")
        return True
    if resolver.model.experts and given is False:
        message = "experts beside tensor parallelism need rows that it cuts (Megatron-Core asks for it too)"
        hint = "leave `sequence_parallel` out, or write tp: 1"
        raise InputError(Problem(message, path="training.parallel.sequence_parallel", hint=hint))
    return bool(resolver.take("parallel.sequence_parallel", given, resolver.stack.sequence_parallel))


def _microbatches(training: Training, mesh: Mesh) -> int:
    dp, batch, micro = mesh.sizes[DP.name], training.global_batch, training.micro_batch
    zeroth_order.check(training, dp)
    if training.zeroth_order is not None and training.zeroth_order.over_ranks:
        dp //= training.zeroth_order.passes
    if training.batching is not None and training.batching.groups:
        return 1  # until the groups are known
    if batch % (dp * micro):
        message = f"global_batch {batch} is no multiple of dp {dp} x micro_batch {micro} = {dp * micro}"
        hint = f"for example {max(batch // (dp * micro), 1) * dp * micro}"
        raise InputError(Problem(message, path="training.global_batch", hint=hint))
    return batch // (dp * micro)


def _experts(parallel: Parallel, model: Model, mesh: Mesh) -> Mesh:
    """The mesh of the experts; InputError for sizes that do not fit the model or the devices."""
    etp = parallel.etp or (mesh.sizes[TP.name] if model.experts else 1)
    if model.experts is None and (parallel.ep > 1 or etp > 1):
        name = EP.name if parallel.ep > 1 else ETP.name
        message = f"{name} {max(parallel.ep, etp)}: {model.name} has no experts"
        raise InputError(Problem(message, path=f"training.parallel.{name}", hint=f"leave `{name}` out"))
    if model.experts is not None and model.experts % parallel.ep:
        message = f"ep {parallel.ep} does not divide the {model.experts} experts of a layer"
        raise InputError(Problem(message, path="training.parallel.ep", hint="choose a divisor of the experts"))
    return mesh.experts(parallel.ep, etp) if model.experts else mesh


def _routed(training: Training, mesh: Mesh, experts: Mesh) -> float:
    """Rows of a microbatch that a group of devices which share all experts routes."""
    group = experts.sizes.get(EP.name, 1) * experts.sizes.get(ETP.name, 1)
    cut = mesh.sizes[TP.name] * mesh.sizes[CP.name]
    return training.micro_batch * training.sequence_length * group / cut


def _chunks(training: Training, mesh: Mesh) -> int:
    """Parts of an exchange with experts; InputError for more of them than rows."""
    chunks, travels_beside = training.expert_chunks, training.overlap_experts
    for path, given in (("expert_chunks", chunks > 1), ("overlap_shared_experts", training.overlap_shared_experts)):
        if given and travels_beside:
            message = "with `overlap_experts` rows travel beside another microbatch, and beside nothing of their own"
            raise InputError(Problem(message, path=f"training.{path}", hint="leave one of them out"))
    rows = training.micro_batch * training.sequence_length // (mesh.sizes[TP.name] * mesh.sizes[CP.name])
    if chunks > rows:
        message = f"expert_chunks {chunks:,} of the {rows:,} rows that a device sends in a microbatch"
        raise InputError(Problem(message, path="training.expert_chunks", hint="write fewer, usually 2 to 8"))
    return chunks if _exchanges(training) else 1


def _shared_beside(training: Training, stack: Stack) -> bool:
    """Whether shared experts work beside the exchanges; not where these stand beside another microbatch."""
    said = _switch(training.overlap_shared_experts, stack.overlap_shared_experts)
    return said and _exchanges(training) and not training.overlap_experts


def _exchanges(training: Training) -> bool:
    """Whether exchanges with experts may run beside work."""
    return training.parallel.ep > 1 and not training.blocking_launches


def _replicas(parallel: Parallel, model: Model, mesh: Mesh, experts: Mesh, zero: int) -> tuple[Replicas, ...]:
    """Ranks that hold copies of parameters; InputError for shards that do not divide them."""
    size, dp, cp = parallel.shard_size, mesh.sizes[DP.name], mesh.sizes[CP.name]
    if zero and size is not None and dp % size:
        raise InputError(Problem(f"shard_size {size} does not divide dp {dp}", path="training.parallel.shard_size"))
    dense = Replicas(False, dp * cp, (size or dp) * cp if zero else 1)
    sizes = experts.sizes
    if not model.experts or (sizes[EP.name] == 1 and sizes[ETP.name] == mesh.sizes[TP.name]):
        return (dense,)
    copies = sizes[DP.name]
    return dense, Replicas(True, copies, gcd(copies, dense.shard) if zero else 1)


def _workers(scenario: Scenario, mesh: Mesh) -> int | None:
    """Workers that take local steps: as many as are asked for, as there are sites, or as there are replicas."""
    training, dp = scenario.training, mesh.sizes[DP.name]
    local = training.local_steps
    if local is None:
        return None
    sites = len(getattr(scenario.cluster.network.more, "sites", ()))
    usual = sites if sites > 1 and dp % sites == 0 else dp
    workers = local.workers or usual
    noisy = training.noise != type(training.noise)() or training.variability == "drawn"
    local_steps.check(local.model_copy(update={"workers": workers}), dp, scenario.model.layers, training.steps, noisy)
    return workers


def _met(replicas: Replicas, workers: int | None, copies: int, zero: int) -> Replicas:
    """Ranks that hold copies of parameters and meet in every step, over all copies of the model on the pipeline."""
    return _both_ways(_of_worker(replicas, workers), copies, zero)


def _of_worker(replicas: Replicas, workers: int | None) -> Replicas:
    """Ranks that hold copies of parameters and meet in every step: replicas of one worker; InputError for workers
    over which experts would be spread."""
    if workers is not None and replicas.count % workers:
        message = f"{workers} workers share {replicas.count} copies of each expert, and each trains all experts"
        hint = f"write a divisor of {replicas.count}, or a smaller `parallel.ep`"
        raise InputError(Problem(message, path="training.local_steps.workers", hint=hint))
    count = replicas.count // (workers or 1)
    return Replicas(replicas.experts, count, min(replicas.shard, count))


def _outer_states(training: Training) -> float:
    """Bytes of a parameter that local steps keep besides: a copy and the outer momentum in fp32, of the fragment that
    is synchronised where there are several (the others wait on the host, arXiv:2501.18512, section 2.5)."""
    local = training.local_steps
    return 0.0 if local is None else 8.0 / local.fragments


def _both_ways(replicas: Replicas, copies: int, zero: int) -> Replicas:
    """Ranks that hold copies of parameters where the model lies on the pipeline so often; shards are spread over its
    copies too."""
    return Replicas(replicas.experts, replicas.count * copies, replicas.shard * copies if zero else 1)


def _of_modules(training: Training) -> str | None:
    """Recomputation where only modules are named."""
    return "selective" if training.recompute_modules else None
