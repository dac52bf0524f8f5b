"""A training job with nothing left open: the scenario, with the stack's defaults filled in and checked.

What the scenario did not say and a default decided is listed in `assumptions`; what it said without effect in
`warnings`.
"""

from dataclasses import dataclass, field, replace
from math import floor, gcd
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.axes import CP, DP, EP, ETP, PP, TP
from simulator.errors import InputError, Problem
from simulator.model.cut import SENT, Cut
from simulator.model.tensors import Tensor
from simulator.parallel import Mesh, build_mesh
from simulator.program.actions import Kind
from simulator.program.schedule import Schedule
from simulator.specs.catalog import data_root
from simulator.specs.model import LayerKind, Model
from simulator.specs.scenario import Scenario
from simulator.specs.training import Algorithms, Lora, Parallel, Stack, Training
from simulator.training import context
from simulator.training.checks import (
    check_axes,
    check_blocking,
    check_copies,
    check_encoder,
    check_heads,
    check_layers,
    check_masks,
    check_model,
    check_passes,
    check_recompute,
    check_split,
    check_window,
    sharded_per_pass,
    too_long,
    without_effect,
)
from simulator.training.documents import Packing, packing
from simulator.training.layers import split_layers
from simulator.training.recipes import RECIPES, Recipe, any_order, recipe_of, turns_weights
from simulator.training.routing import Exchange, exchange
from simulator.training.schedules import SCHEDULES, Pipeline, read_schedule

BYTES = {"fp32": 4, "tf32": 4}
"""Bytes of an activation or weight element by precision where they are not 2; recipes below 16 bits keep 16 beside."""


@dataclass(frozen=True, slots=True)
class Replicas:
    """Ranks that copy the same parameters, and over how many of them what is sharded is spread."""

    experts: bool
    """Whether the parameters are those of experts on a mesh of their own."""
    count: int
    shard: int


@dataclass(frozen=True, slots=True)
class Job:
    """Every choice of a training run, resolved."""

    model: Model
    stack: Stack
    mesh: Mesh
    experts: Mesh
    """The mesh of the experts over the same devices."""
    chunks: tuple[int, ...]
    """Layers of each model chunk, in the order of the layers; shape (pp x vpp,)."""
    vpp: int
    schedule: Schedule
    """What each pipeline rank does, in order."""
    home: tuple[int, ...]
    """Pipeline rank of each model chunk; shape (pp x vpp,)."""
    global_batch: int
    micro_batch: int
    sequence: int
    encoder_sequence: int | None
    """Tokens of a sequence of the encoder; None without one."""
    microbatches: int
    """Micro batches that each pipeline runs per step."""
    precision: str
    recipe: Recipe | None
    """How factors of products are cast to 8 or 4 bits; None where they are not."""
    any_order: bool
    """Whether the device multiplies 8-bit factors in either order."""
    turns_weights: bool
    """Whether weights with one scale are kept in one order and turned where the other is wanted."""
    quantized_parameters: bool
    """Whether the matrices of the layers are kept and gathered in the recipe's format alone."""
    lora: Lora | None
    """Adapters that alone are trained; None where everything is."""
    attention: str
    causal: bool
    packing: Packing | None
    """Documents that sequences are packed of; None where each is one."""
    recompute: str
    recompute_modules: tuple[str, ...]
    """Operations of each layer that `selective` drops and computes again besides scores."""
    recompute_layers: int | None
    """Layers of each chunk that are recomputed under `full`; None for `recompute_share` of them."""
    offload_layers: int
    """Layers of each chunk whose activations wait in the host's memory."""
    host_link: float
    """Bytes/s between a device and its host, per direction; 0 where the profile has none."""
    runtime: float | None
    """Bytes of the stack's runtime on the device; None where the stack has no kernels for this kind of device."""
    sequence_parallel: bool
    cp_kind: str
    """How attention sees the whole of a sequence that is cut."""
    by_heads: int
    """Neighbouring context-parallel ranks that share heads where others pass keys around."""
    zero: int
    replicas: tuple[Replicas, ...]
    """Who copies parameters: those of all but the experts first, then those of experts on a mesh of their own."""
    blocking: bool
    """Whether the host waits for every kernel."""
    overlap_gradients: bool
    overlap_parameters: bool
    overlap_pipeline: bool
    scatter_gather: bool
    reduce_bytes: int
    """Bytes of a gradient element on the wire."""
    algorithms: Algorithms
    """Collective algorithms by axis."""
    exchange: Exchange | None
    """How rows are sent to experts; None without experts."""
    overlap_experts: bool
    """Whether rows travel to experts and back beside the passes of another microbatch."""
    cuda_graphs: tuple[str, ...]
    """What of each layer the host launches as one graph."""
    bucket: float
    """Gradient bytes reduced together; infinite for all of a chunk at once."""
    recompute_share: float = 1.0
    """Share of the layers of each chunk that are recomputed under `full`, where `recompute_layers` counts none."""
    expert_chunks: int = 1
    """Parts in which the rows of an exchange with experts are sent, worked on and returned."""
    one_lane: bool = False
    """Whether all that those parts send travels one after the other."""
    shared_beside: bool = False
    """Whether shared experts work beside the exchanges."""
    part: float = 1.0
    """Share of the rows of a microbatch that operations are evaluated for."""
    logits_in_flight: int = 1
    """Microbatches whose logits wait for their backward pass at once."""
    tile_tokens: int | None = None
    """Tokens that MLPs and the loss take at once; None for all of a microbatch."""
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def pp(self) -> int:
        """Pipeline stages (devices along the pipeline)."""
        return self.mesh.sizes[PP.name]

    @property
    def tp(self) -> int:
        """Tensor-parallel devices."""
        return self.mesh.sizes[TP.name]

    @property
    def dp(self) -> int:
        """Data-parallel replicas."""
        return self.mesh.sizes[DP.name]

    @property
    def cp(self) -> int:
        """Devices over which every sequence is cut."""
        return self.mesh.sizes[CP.name]

    @property
    def keeps_attention(self) -> bool:
        """Whether full recomputation leaves out attention, whose results are kept."""
        return self.cp > 1 and context.SCHEMES.get(self.cp_kind).keeps_results

    @property
    def dense(self) -> Replicas:
        """Who copies the parameters that are not of experts."""
        return self.replicas[0]

    @property
    def copied(self) -> bool:
        """Whether any parameters lie on several ranks, so that gradients are summed."""
        return any(copies.count > 1 for copies in self.replicas)

    @property
    def sharded(self) -> bool:
        """Whether anything is spread over ranks that would copy it."""
        return any(copies.shard > 1 for copies in self.replicas)

    @property
    def layers(self) -> tuple[LayerKind, ...]:
        """The kind of each layer, of each of an encoder before and of each module for multi-token prediction after."""
        return self.model.encoding + self.model.kinds + self.model.predicting

    @property
    def encoder(self) -> "Job":
        """The job as layers of an encoder see it: other sequences, all of whose tokens see each other."""
        return replace(self, sequence=self.encoder_sequence or self.sequence, causal=False)

    def of(self, kind: LayerKind) -> "Job":
        """The job as a layer of a kind sees it."""
        return self.encoder if kind.encodes else self

    @property
    def kinds(self) -> tuple[LayerKind, ...]:
        """The different kinds of layers, in the order of their first."""
        return tuple(dict.fromkeys(self.layers))

    @property
    def copies_embedding(self) -> bool:
        """Whether the last stage has a table of the input embedding besides that of its head, for multi-token
        prediction."""
        apart = self.home[0] != self.home[-1]
        return apart and self.model.mtp_layers > 0 and not self.model.tied_embeddings

    def replicas_of(self, tensor: Tensor) -> Replicas:
        """Who copies a tensor."""
        return self.replicas[-1] if EP in tensor.cut else self.replicas[0]

    def grid(self, copies: Replicas) -> NDArray[np.int64]:
        """Groups of ranks that copy the same parameters, in the order in which shards are dealt; (groups, count)."""
        mesh, axes = (self.experts, (DP.name,)) if copies.experts else (self.mesh, (DP.name, CP.name))
        return mesh.grid(*axes).reshape(-1, copies.count)

    @property
    def cut(self) -> Cut:
        """How the axes cut the model on one rank."""
        sizes = {**self.experts.sizes, **self.mesh.sizes}
        encoded = (self.encoder_sequence or self.sequence) / self.sequence
        cut = Cut(sizes, self.sequence_parallel, self.stack.dropout, self.causal, encoded, SENT)
        sent = self.exchange
        return cut if sent is None else replace(cut, routing=sent.spread, merged=sent.merged)

    @property
    def shares(self) -> bool:
        """Whether data-parallel collectives run beside computation and share the multiprocessors with it."""
        gathered = self.overlap_parameters and self.zero > 0
        return self.copied and (self.per_pass or self.overlap_gradients or gathered)

    @property
    def per_pass(self) -> bool:
        """Whether parameters are gathered and gradients reduced around every pass, piece by piece."""
        return sharded_per_pass(self.zero, self.stack)

    @property
    def synchronous(self) -> bool:
        """Whether parameters are gathered just before every use, recomputation included, with nothing beside it."""
        return self.zero == 3 and self.stack.synchronous

    @property
    def element(self) -> int:
        """Bytes of an activation or weight element."""
        return BYTES.get(self.precision, 2)

    @property
    def wide(self) -> str:
        """Format of the products of attention and head, which recipes of 8 and 4 bits leave in 16."""
        return "bf16" if RECIPES.has(self.precision) else self.precision

    @property
    def narrow(self) -> str:
        """Format of the products of the layers' matrices, as the device knows it."""
        return RECIPES.get(self.precision).gemm if RECIPES.has(self.precision) else self.precision

    @property
    def counted(self) -> str:
        """Format whose peak utilisation is counted against."""
        return RECIPES.get(self.precision).peak if RECIPES.has(self.precision) else self.precision

    @property
    def stored(self) -> int:
        """Bytes of a parameter as it is kept."""
        return 4 if self.stack.fp32_parameters else self.element

    @property
    def master(self) -> float:
        """Bytes of the optimizer's own copy of a parameter; none where parameters have 32 bits themselves.

        Remainders need bf16 parameters, which are the upper half of fp32 ones.
        """
        if not self.stack.master_weights or self.stored == 4:
            return 0.0
        return 2.0 if self.stack.master_remainders and self.precision == "bf16" else 4.0

    @property
    def kept_input(self) -> float:
        """Bytes of an element that only a matrix product's weight gradient needs: one order of the recipe's format."""
        return self.recipe.element if self.recipe else self.element

    @property
    def cast_parameter(self) -> float:
        """Bytes of a layer's matrix element in the recipe's format, in all orders that are kept."""
        return self.recipe.weight * self.weight_orders if self.recipe else 0.0

    @property
    def weight_orders(self) -> int:
        """Copies of a layer's matrix in the recipe's format."""
        return self.recipe.orders(self.any_order or self.turns_weights) if self.recipe else 0

    @property
    def offloaded(self) -> float:
        """Share of the layers whose activations wait in the host's memory."""
        return sum(min(self.offload_layers, layers) for layers in self.chunks) / self.model.layers

    def recomputed(self, layers: int) -> int:
        """Layers that are recomputed as a whole in a chunk of `layers`; halves are rounded up."""
        if self.recompute != "full":
            return 0
        if self.recompute_layers is not None:
            return min(self.recompute_layers, layers)
        return floor(layers * self.recompute_share + 0.5)

    @property
    def tokens(self) -> int:
        """Tokens of one microbatch on one rank."""
        return self.micro_batch * self.sequence // self.cp

    @property
    def tile(self) -> float:
        """Share of the tokens of a microbatch that MLPs and the loss have in memory at once."""
        return 1.0 if self.tile_tokens is None else min(self.tile_tokens / self.tokens, 1.0)


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
    """List what nobody chose: micro batch, schedule, and how communication is overlapped."""
    training, stack = resolver.training, resolver.stack
    if "micro_batch" not in training.model_fields_set:
        resolver.assumptions.append(f"micro_batch is not given: {training.micro_batch}")
    if training.schedule is None:
        plain = "interleaved-1f1b, as vpp > 1" if training.parallel.vpp > 1 else "1f1b"
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
    check_model(model)
    check_window(training, model)
    check_encoder(training, model)
    mesh = build_mesh(parallel, scenario.cluster.devices)
    check_heads(model, mesh)
    experts = _experts(parallel, model, mesh)
    check_axes(model, mesh)
    check_recompute(training, training.recompute or stack.recompute)
    resolver = _Resolver(training, stack, model)
    _note_defaults(resolver)
    take = resolver.take
    zero = _zero(resolver, mesh)
    microbatches = _microbatches(training, mesh)
    check_passes(parallel, microbatches)
    name = training.schedule or ("interleaved-1f1b" if parallel.vpp > 1 else "1f1b")
    split = not sharded_per_pass(zero, stack)
    schedule = named_schedule(name, Pipeline(parallel.pp, parallel.vpp, microbatches, split=split))
    check_copies(schedule)
    chunks = split_layers(model.layers, parallel.pp, parallel.vpp, training.stages)
    check_layers(training, chunks)
    if sharded_per_pass(zero, stack):
        check_split(schedule)
        check_blocking(training)
    bucket = training.bucket_size or (stack.bucket_size.value if stack.bucket_size else float("inf"))
    formats = _formats(resolver, scenario)
    attention = str(take("attention", training.attention, stack.attention))
    return Job(
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
        packing=_packing(resolver, mesh, scenario.seed),
        **formats,
        lora=training.lora,
        attention=attention,
        recompute=str(take("recompute", training.recompute or _of_modules(training), stack.recompute)),
        recompute_modules=training.recompute_modules,
        recompute_layers=training.recompute_layers,
        recompute_share=training.recompute_share or 1.0,
        offload_layers=training.offload_layers or 0,
        host_link=_host_link(scenario),
        runtime=_runtime(scenario),
        sequence_parallel=bool(_sequence_parallel(resolver, mesh)),
        cp_kind=_cp_kind(resolver, model, mesh, attention),
        by_heads=_by_heads(resolver, model, mesh, scenario.cluster.node.devices),
        zero=zero,
        replicas=_replicas(parallel, model, mesh, experts, zero),
        blocking=training.blocking_launches,
        **_overlaps(training, stack),
        scatter_gather=_switch(training.scatter_gather, stack.scatter_gather),
        reduce_bytes=BYTES.get(training.reduce_precision, 2) if training.reduce_precision else stack.reduce_bytes,
        bucket=bucket,
        exchange=_exchange(scenario, mesh, experts, formats["precision"]),
        overlap_experts=training.overlap_experts and parallel.ep > 1 and not training.blocking_launches,
        cuda_graphs=training.cuda_graphs,
        algorithms=training.algorithms,
        expert_chunks=_chunks(training, mesh),
        one_lane=training.expert_lanes == "one",
        shared_beside=_shared_beside(training, stack),
        logits_in_flight=logits_in_flight(schedule),
        tile_tokens=training.tile_tokens,
        assumptions=tuple(resolver.assumptions),
        warnings=(
            *without_effect(training, mesh, stack, zero, model.block_mask is not None),
            *too_long(training, model),
        ),
    )


def _formats(resolver: _Resolver, scenario: Scenario) -> dict[str, Any]:
    """Number formats, and how the device casts to them."""
    training, stack, accelerator = resolver.training, resolver.stack, scenario.cluster.node.accelerator
    precision = str(resolver.take("precision", training.precision, stack.precision))
    recipe = recipe_of(precision, accelerator)
    quantized = _switch(training.quantized_parameters, stack.quantized_parameters or training.lora is not None)
    return {
        "precision": precision,
        "recipe": recipe,
        "any_order": any_order(accelerator),
        "turns_weights": recipe is not None and not recipe.blocks and turns_weights(accelerator),
        "quantized_parameters": recipe is not None and recipe.primary and quantized,
    }


def _overlaps(training: Training, stack: Stack) -> dict[str, Any]:
    """What runs beside computation; nothing where the host waits for every kernel."""
    names, beside = ("overlap_gradients", "overlap_parameters", "overlap_pipeline"), not training.blocking_launches
    return {name: _switch(getattr(training, name), getattr(stack, name)) and beside for name in names}


def _exchange(scenario: Scenario, mesh: Mesh, experts: Mesh, precision: str) -> Exchange | None:
    """How rows are sent to experts."""
    training, stack, model = scenario.training, scenario.stack, scenario.model
    rows, element = _routed(training, mesh, experts), BYTES.get(precision, 2)
    return exchange(training, stack, model, training.parallel.ep, rows, element, scenario.seed)


def logits_in_flight(schedule: Schedule) -> int:
    """Most microbatches between forward and backward pass of the last stage."""
    kind = schedule.kind[schedule.stage == schedule.stages - 1]
    return int(np.cumsum((kind == Kind.F).astype(int) - np.isin(kind, (Kind.B, Kind.W))).max(initial=1))


def _runtime(scenario: Scenario) -> float | None:
    """Memory of the stack's runtime on the devices of the cluster."""
    figure = scenario.stack.memory_overhead.get(scenario.cluster.node.accelerator.kind)
    return None if figure is None else figure.value


def _host_link(scenario: Scenario) -> float:
    """Rate of the host's link; refused where activations are to cross it and nobody knows it."""
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
    context.check(kind, ranks, training.sequence_length, heads, model.window, attention == "fused")
    check_masks(training, model, mesh, kind)
    seen = [layer.window for layer in dict.fromkeys(model.kinds) if layer.attends]
    context.check_windows(kind, ranks, training.sequence_length, seen)
    if training.documents is not None:
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
    """Who copies parameters; InputError for shards that do not divide them."""
    size, dp, cp = parallel.shard_size, mesh.sizes[DP.name], mesh.sizes[CP.name]
    if zero and size is not None and dp % size:
        raise InputError(Problem(f"shard_size {size} does not divide dp {dp}", path="training.parallel.shard_size"))
    dense = Replicas(False, dp * cp, (size or dp) * cp if zero else 1)
    sizes = experts.sizes
    if not model.experts or (sizes[EP.name] == 1 and sizes[ETP.name] == mesh.sizes[TP.name]):
        return (dense,)
    copies = sizes[DP.name]
    return dense, Replicas(True, copies, gcd(copies, dense.shard) if zero else 1)


def _of_modules(training: Training) -> str | None:
    """Recomputation where only modules are named."""
    return "selective" if training.recompute_modules else None
