"""A training job with nothing left open: the scenario, with the stack's defaults filled in and checked.

What the scenario did not say and a default decided is listed in `assumptions`; what it said without effect in
`warnings`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import floor, gcd
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simulator.axes import CP, DP, EP, ETP, PP, TP
from simulator.errors import InputError, Problem
from simulator.model.cut import SENT, Cut
from simulator.model.layers import layer
from simulator.model.tensors import Tensor
from simulator.parallel import Mesh, build_mesh
from simulator.program.actions import Kind
from simulator.program.schedule import Schedule
from simulator.specs.catalog import data_root
from simulator.specs.model import LayerKind, Model
from simulator.specs.scenario import Scenario
from simulator.specs.training import Algorithms, Lora, Parallel, Stack, Training
from simulator.training import context
from simulator.training.layers import split_layers
from simulator.training.recipes import RECIPES, Recipe, any_order, recipe_of, turns_weights
from simulator.training.routing import Exchange, exchange
from simulator.training.schedules import SCHEDULES, read_schedule

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
    bucket: float
    """Gradient bytes reduced together; infinite for all of a chunk at once."""
    recompute_share: float = 1.0
    """Share of the layers of each chunk that are recomputed under `full`, where `recompute_layers` counts none."""
    logits_in_flight: int = 1
    """Microbatches whose logits wait for their backward pass at once."""
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
    def kinds(self) -> tuple[LayerKind, ...]:
        """The different kinds of layers, in the order of their first."""
        return tuple(dict.fromkeys(self.model.kinds))

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
        cut = Cut(sizes, self.sequence_parallel, self.stack.dropout, self.causal, SENT)
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


def sharded_per_pass(zero: int, stack: Stack) -> bool:
    """Whether parameters are gathered and gradients reduced around every pass: ZeRO-3, and ZeRO-2 of FSDP."""
    return zero == 3 or (zero == 2 and stack.unit == "layer")


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
    _check_model(model)
    mesh = build_mesh(parallel, scenario.cluster.devices)
    _check_heads(model, mesh)
    experts = _experts(parallel, model, mesh)
    _check_axes(model, mesh)
    _check_recompute(training)
    resolver = _Resolver(training, stack, model)
    _note_defaults(resolver)
    take = resolver.take
    zero = _zero(resolver, mesh)
    microbatches = _microbatches(training, mesh)
    _check_passes(parallel, microbatches)
    name = training.schedule or ("interleaved-1f1b" if parallel.vpp > 1 else "1f1b")
    schedule = _schedule(name, parallel, microbatches)
    chunks = split_layers(model.layers, parallel.pp, parallel.vpp, training.stages)
    _check_layers(training, chunks)
    if sharded_per_pass(zero, stack):
        _check_split(schedule)
        _check_blocking(training)
    beside = not training.blocking_launches
    bucket = training.bucket_size or (stack.bucket_size.value if stack.bucket_size else float("inf"))
    precision = str(take("precision", training.precision, stack.precision))
    attention = str(take("attention", training.attention, stack.attention))
    recipe = recipe_of(precision, scenario.cluster.node.accelerator)
    quantized = _switch(training.quantized_parameters, stack.quantized_parameters or training.lora is not None)
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
        microbatches=microbatches,
        causal=training.causal,
        precision=precision,
        recipe=recipe,
        any_order=any_order(scenario.cluster.node.accelerator),
        turns_weights=recipe is not None and not recipe.blocks and turns_weights(scenario.cluster.node.accelerator),
        quantized_parameters=recipe is not None and recipe.primary and quantized,
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
        overlap_gradients=_switch(training.overlap_gradients, stack.overlap_gradients) and beside,
        overlap_parameters=_switch(training.overlap_parameters, stack.overlap_parameters) and beside,
        overlap_pipeline=_switch(training.overlap_pipeline, stack.overlap_pipeline) and beside,
        scatter_gather=_switch(training.scatter_gather, stack.scatter_gather),
        reduce_bytes=BYTES.get(training.reduce_precision, 2) if training.reduce_precision else stack.reduce_bytes,
        bucket=bucket,
        exchange=exchange(
            training,
            stack,
            model,
            parallel.ep,
            rows=_routed(training, mesh, experts),
            element=BYTES.get(precision, 2),
            seed=scenario.seed,
        ),
        algorithms=training.algorithms,
        logits_in_flight=_logits_in_flight(schedule),
        assumptions=tuple(resolver.assumptions),
        warnings=(*_warnings(training, mesh, stack, zero), *_long(training, model)),
    )


def _logits_in_flight(schedule: Schedule) -> int:
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


def _schedule(name: str, parallel: Parallel, microbatches: int) -> Schedule:
    """The schedule by name or from a CSV file, which lies in the working folder or in the installed data."""
    if name.endswith(".csv"):
        found = next((path for path in (Path(name), data_root() / name) if path.is_file()), Path(name))
        return read_schedule(found, parallel.pp, parallel.pp * parallel.vpp, microbatches)
    return SCHEDULES.get(name, "training.schedule")(parallel.pp, parallel.vpp, microbatches)


def _switch(given: bool | None, default: bool) -> bool:
    return default if given is None else given


def _zero(resolver: _Resolver, mesh: Mesh) -> int:
    """The ZeRO stage; where nothing is copied there is nothing to shard."""
    if mesh.sizes[DP.name] * mesh.sizes[CP.name] == 1:
        return 0
    given = resolver.training.parallel.zero
    return int(str(resolver.take("parallel.zero", given, resolver.stack.zero)))


def _cp_kind(resolver: _Resolver, model: Model, mesh: Mesh, attention: str) -> str:
    """The kind of context parallelism, which is checked where there is any."""
    training, ranks = resolver.training, mesh.sizes[CP.name]
    if ranks == 1:
        return resolver.stack.cp_kind
    kind = str(resolver.take("parallel.cp_kind", training.parallel.cp_kind, resolver.stack.cp_kind))
    heads = model.heads // mesh.sizes[TP.name]
    context.check(kind, ranks, training.sequence_length, heads, model.window, attention == "fused")
    return kind


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


MOST_PASSES = 3_000_000
"""Passes of a pipeline above which a step is refused rather than simulated for minutes."""


def _check_passes(parallel: Parallel, microbatches: int) -> None:
    passes = 2 * parallel.pp * parallel.vpp * microbatches
    if passes > MOST_PASSES:
        message = f"pp {parallel.pp} x vpp {parallel.vpp} x {microbatches:,} microbatches x 2 = {passes:,} passes"
        hint = f"at most {MOST_PASSES:,}: take a smaller global_batch or a larger micro_batch"
        raise InputError(Problem(message, path="training.global_batch", hint=hint))


def _check_blocking(training: Training) -> None:
    """Refuse what no program exists for: gathers of every pass that do not run beside computation."""
    if training.blocking_launches:
        message = "the host waits for every kernel, not simulated with gathers of every pass (ZeRO-3, or 2 of FSDP)"
        raise InputError(Problem(message, path="training.blocking_launches", hint="leave it out, or write `zero: 1`"))


def _check_split(schedule: Schedule) -> None:
    """Refuse what no program exists for: gathers around backward passes that are cut in two."""
    if len(schedule.only([Kind.I, Kind.W])):
        message = "the schedule splits backward passes (I, W), not simulated with ZeRO-3 (nor ZeRO-2 of FSDP) yet"
        raise InputError(Problem(message, path="training.schedule", hint="write `zero: 1` or a schedule with B"))


def _check_model(model: Model) -> None:
    if model.prompt_layers is not None:
        message = "models whose prompts skip layers can be served, not trained"
        raise InputError(Problem(message, path="model.prompt_layers", hint="leave it out"))


def _of_modules(training: Training) -> str | None:
    """Recomputation where only modules are named."""
    return "selective" if training.recompute_modules else None


def _check_recompute(training: Training) -> None:
    if training.recompute_layers is not None and training.recompute_share is not None:
        message = "recompute_share and recompute_layers both say how many layers are recomputed"
        raise InputError(Problem(message, path="training.recompute_share", hint="leave one of them out"))


def _check_layers(training: Training, chunks: Sequence[int]) -> None:
    """Refuse more layers to offload or to recompute than any chunk has: most often they are those of the model."""
    most, parallel = max(chunks), training.parallel
    what = "chunk" if parallel.vpp > 1 else "stage"
    for name in ("offload_layers", "recompute_layers"):
        if (given := getattr(training, name) or 0) > most:
            spread = f"{sum(chunks)} layers over pp {parallel.pp} x vpp {parallel.vpp}"
            message = f"{given:,} layers of each {what}, but the largest has {most} ({spread})"
            raise InputError(Problem(message, path=f"training.{name}", hint=f"write {most} for all, or less"))


def _check_axes(model: Model, mesh: Mesh) -> None:
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


def _check_heads(model: Model, mesh: Mesh) -> None:
    tp = mesh.sizes[TP.name]
    if any(kind.attends for kind in model.kinds) and model.heads % tp:
        message = f"tp {tp} does not divide the {model.heads} attention heads"
        raise InputError(Problem(message, path="training.parallel.tp", hint="choose a divisor of the heads"))
    if not any(kind.stateful for kind in model.kinds):
        return
    if model.linear is not None and model.linear.value_heads % tp:
        message = f"tp {tp} does not divide the {model.linear.value_heads} heads of layers with a state"
        raise InputError(Problem(message, path="training.parallel.tp", hint="choose a divisor of `linear.value_heads`"))
    if mesh.sizes[CP.name] > 1:
        message = f"cp {mesh.sizes[CP.name]}: states that pass from device to device are not simulated yet"
        raise InputError(Problem(message, path="training.parallel.cp", hint="leave `cp` out for layers with a state"))


def _long(training: Training, model: Model) -> list[str]:
    """That sequences are longer than the model is made for."""
    most = model.max_sequence
    if most is None or training.sequence_length <= most:
        return []
    return [
        f"sequence_length {training.sequence_length:,} is more than the {most:,} tokens that {model.name} is made for"
        " (`model.max_sequence`): times and memory are right, the model needs other position embeddings"
    ]


def _warnings(training: Training, mesh: Mesh, stack: Stack, zero: int) -> list[str]:
    """What the scenario says without effect."""
    parallel = training.parallel
    fused = (training.attention or stack.attention) == "fused"
    no_tensor, no_data = mesh.sizes[TP.name] == 1, mesh.sizes[DP.name] * mesh.sizes[CP.name] == 1
    not_full = (training.recompute or stack.recompute) != "full"
    waits = zero == 3 and stack.synchronous
    always = sharded_per_pass(zero, stack) and not waits
    found: list[tuple[object, str]] = [
        (parallel.sequence_parallel and no_tensor, "parallel.sequence_parallel: there is no tensor parallelism"),
        (parallel.cp_kind and mesh.sizes[CP.name] == 1, f"parallel.cp_kind {parallel.cp_kind}: cp is 1"),
        (parallel.ulysses and parallel.cp_kind != "usp", "parallel.ulysses: cp_kind is not usp"),
        (parallel.zero and no_data, f"parallel.zero {parallel.zero}: there is one data-parallel rank"),
        (parallel.shard_size and not zero, "parallel.shard_size: parallel.zero is 0"),
        (training.recompute_layers and not_full, "recompute_layers: only `recompute: full` counts layers"),
        (training.recompute_share and not_full, "recompute_share: only `recompute: full` takes a share of the layers"),
        (
            training.recompute == "selective" and fused and not training.recompute_modules,
            "recompute: selective: fused attention keeps no scores to drop",
        ),
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
