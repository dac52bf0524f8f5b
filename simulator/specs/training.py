"""A training job: layout, batch, schedule, memory policy and the software stack that runs it."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from simulator.axes import mesh_axes
from simulator.specs.base import Bytes, Count, Figure, Fraction, PositiveFraction, Seconds, Spec
from simulator.specs.batching import Batching
from simulator.specs.distribution import Distribution
from simulator.specs.hardware import DeviceKind
from simulator.specs.long_runs.run import LongRun
from simulator.specs.noise import Noise
from simulator.specs.tiers.local_steps import LocalSteps
from simulator.specs.tiers.offload import Offload
from simulator.specs.tiers.sharding import Sharding
from simulator.specs.tiers.zeroth_order import ZerothOrder

Precision = Literal[
    "fp32",
    "tf32",
    "bf16",
    "fp16",
    "fp8",
    "fp8-delayed",
    "fp8-current",
    "fp8-rowwise",
    "fp8-block",
    "mxfp8",
    "nvfp4",
    "int8",
]
Recompute = Literal["none", "selective", "full"]
Least = Annotated[float, Field(ge=0)]


class Parallel(Spec):
    """Sizes of the axes of the device mesh; one that is left out is derived from the number of devices."""

    aliases: ClassVar[dict[str, str]] = {
        "tensor_model_parallel_size": "tp",
        "tensor_parallel_degree": "tp",
        "pipeline_model_parallel_size": "pp",
        "pipeline_parallel_degree": "pp",
        "virtual_pipeline_model_parallel_size": "vpp",
        "context_parallel_size": "cp",
        "context_parallel_degree": "cp",
        "cp_comm_type": "cp_kind",
        "data_parallel_degree": "dp",
        "data_parallel_size": "dp",
        "expert_model_parallel_size": "ep",
        "expert_tensor_parallel_size": "etp",
        "data_parallel_shard_degree": "dp",
    }

    unwritten: ClassVar[tuple[str, ...]] = ("more",)

    tp: Count = 1
    """Tensor parallelism: layers are cut across this many devices."""
    pp: Count = 1
    """Pipeline parallelism: layers are spread over this many stages."""
    vpp: Count = 1
    """Model chunks (virtual stages) per device in an interleaved schedule."""
    cp: Count = 1
    """Context parallelism: every sequence is cut across this many devices."""
    cp_kind: str | None = None
    """How attention sees the whole of a cut sequence: `ring`, `striped`, `zigzag`, `all-gather`, `ulysses`, `usp`,
    `lightseq`, `tokenring`, `rsa`, or `halo` (windows only); the stack's default where left out."""
    ulysses: Count | None = None
    """With `cp_kind: usp`, neighbouring ranks that share heads; the others pass keys and values around. As many as
    divide cp, query and key heads and fit in a node where left out."""
    ep: Count = 1
    """Expert parallelism: the experts of a layer are spread over this many devices."""
    etp: Count | None = None
    """Expert tensor parallelism: every expert is cut across this many devices; `tp` where left out."""
    dp: Count | None = None
    """Data parallelism; devices / (tp cp pp) where left out."""
    sequence_parallel: bool | None = None
    """Megatron's sequence parallelism within the tensor-parallel group; the stack's default where left out."""
    zero: Literal[0, 1, 2, 3] | None = None
    """Sharding over data parallel ranks: 0 nothing, 1 optimizer states, 2 and gradients, 3 and parameters (FSDP)."""
    shard_size: Count | None = None
    """Ranks that one shard set spans when it is smaller than `dp` (hybrid sharding); `dp` where left out."""
    order: str = "tp-cp-ep-dp-pp"
    """Axes from the fastest varying device index to the slowest."""
    more: dict[str, Count] = Field(default_factory=dict, exclude_if=lambda more: not more)
    """Sizes of axes that plug-ins add; written beside the others, under their own names."""

    @classmethod
    def registered(cls) -> dict[str, Any]:
        """The axes of plug-ins."""
        return {axis.name: Count for axis in mesh_axes() if axis.name not in cls.model_fields}

    @model_validator(mode="before")
    @classmethod
    def _axes_of_plugins(cls, given: Any) -> Any:
        """Keys that a plug-in registered as axes go into `more`."""
        if not isinstance(given, dict):
            return given
        added = {key: size for key, size in given.items() if key in cls.registered()}
        kept = {key: value for key, value in given.items() if key not in added}
        return {**kept, "more": {**kept.get("more", {}), **added}} if added else kept

    def sizes(self) -> dict[str, int | None]:
        """Size of every axis that has a key, by name; None where it is to be derived."""
        named = [axis.name for axis in mesh_axes() if axis.name in type(self).model_fields]
        return {**{name: getattr(self, name) for name in named}, **self.more}


class Algorithms(Spec):
    """Algorithms of collectives by axis, such as `ring`, `hierarchical` or, with a protocol, `ring/LL128`."""

    tp: str = "auto"
    """Of the tensor-parallel group; `auto` takes the fastest for the size, as a library would."""
    dp: str = "auto"
    """Of gradients and parameters over data-parallel ranks."""
    cp: str = "auto"
    """Of keys, values and heads over context-parallel ranks."""
    ep: str = "auto"
    """Of rows on their way to experts and back."""


UNEVEN = 0.5
"""Relative variance of the popularity of experts: the fifth of them that is chosen most often takes 42 % of all rows.
Between 30 to 40 % of DeepSeek-R1 and 65 % of Qwen3-235B on texts of CNN and OpenOrca, as NVIDIA estimates them from
latencies (ai-dynamo/aiconfigurator, collector, power-law distribution in MoE workload simulation); one number for all
models."""


class RouterLoad(Spec):
    """How a router spreads tokens over the experts of a layer, and what becomes of those that find no room."""

    load: Literal["balanced", "random", "uneven", "zipf", "counts", "degenerate", "drifting", "trace"] = "balanced"
    """`balanced` (every expert takes as many rows, as benchmarks force it), `random` (rows choose independently, all
    experts alike), `uneven` (rows choose independently, some experts more often than others: `variance`), `zipf`
    (the n-th expert takes a share of 1 / n^`exponent`), `counts`, `degenerate` (all rows choose the same experts, the
    first ones), `drifting` (as `zipf`, and from step to step heavy experts move on by `drift` places), or `trace` (a
    file of the rows of each expert in each step and layer). The last two are of training, step by step (`steps`)."""
    variance: float = Field(default=UNEVEN, ge=0.001, le=10, exclude_if=lambda spread: spread == UNEVEN)
    """With `uneven`, the variance of how often experts are chosen, over the square of its mean."""
    exponent: float = Field(default=1.0, ge=0, le=10)
    """With `zipf` and `drifting`, how fast the load falls."""
    drift: float = Field(default=1.0, gt=0, le=1e6)
    """With `drifting`, places by which the order of the experts moves on in a step; after experts / `drift` steps each
    was in every place once."""
    trace: str | None = None
    """With `trace`, its file: CSV with a head (`step`, perhaps `layer`, and a column an expert) or JSON lines
    (`{"step": 0, "layer": 3, "tokens": [...]}`). Without layers a step's numbers are of every layer with experts."""
    first_step: int = Field(default=0, ge=0, le=10_000_000)
    """With `drifting` and `trace`, the step of the load with which the run begins."""
    rebalanced: int = Field(default=1, ge=1, le=1_000_000)
    """With `drifting` and `trace`, steps after which `placement` and `replicas` are chosen anew, by the load of the
    step in which that happens; in between the load moves on without them."""
    counts: tuple[float, ...] = ()
    """With `counts`, the rows of each expert as they were counted, one number an expert."""
    capacity: float | None = Field(default=None, gt=0, le=1000)
    """Rows that an expert takes at most, over an even share; the rest is dropped. No bound where left out."""
    padded: bool = False
    """With `capacity`, whether experts always take that many rows, filled up with empty ones."""
    masks: Literal["sequence", "microbatch"] | None = None
    """With `padded`, whether products with masks of zeros and ones bring rows to experts and back, in place of copies,
    and over which rows: each `sequence` by itself (GShard, MaxText with a capacity factor) or all of a device's
    `microbatch` (DeepSpeed's `TopKGate`). Every slot of an expert is summed over all of these rows."""
    placement: Literal["in-order", "packed"] = "in-order"
    """Which experts share a device: neighbours, or heavy ones with light ones (EPLB's packing)."""
    replicas: int = Field(default=0, ge=0, le=1000)
    """Copies of heavy experts that a device holds besides its own: their parameters are gathered before every layer's
    pass and their gradients summed after it (Hecate)."""

    @model_validator(mode="before")
    @classmethod
    def _of_trace(cls, given: Any) -> Any:
        """A trace alone says which load it is."""
        return {"load": "trace", **given} if isinstance(given, dict) and given.get("trace") else given

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """A trace goes with its load."""
        if (self.load == "trace") != (self.trace is not None):
            raise ValueError("`load: trace` and the file `trace` go together: write both, or `trace` alone")
        if self.masks and not (self.padded and self.capacity):
            raise ValueError(
                "`masks` have as many slots an expert as its capacity: write `capacity` and `padded: true`"
            )
        return self

    @property
    def moves(self) -> bool:
        """Whether it differs from step to step."""
        return self.load in ("drifting", "trace")


class Documents(Distribution):
    """Lengths of the documents that sequences are packed of, in tokens: a number, the list of those of one sequence, or
    a distribution. Drawn documents follow one another through the batch, and the ends of sequences cut them."""

    listed: tuple[Count, ...] | None = Field(default=None, min_length=1)
    """Those of every sequence, in their order; their sum is `sequence_length`. With `batching` those of the data, one
    after the other."""
    trace: str | None = None
    """With `batching`, a file of them: a number a line, and after a comma the tokens of the encoder's sequence."""

    @model_validator(mode="before")
    @classmethod
    def _alone(cls, given: Any) -> Any:
        """A number stands for documents of that length, a list for those of a sequence."""
        if isinstance(given, list | tuple):
            return {"listed": given}
        return {"fixed": given} if isinstance(given, int | float) and not isinstance(given, bool) else given

    @model_validator(mode="after")
    def _tokens(self) -> Self:
        """A document has a token."""
        if self.most < 1:
            raise ValueError("a document has a token at least: write a length of 1 or more")
        if self.normal is not None and self.normal[0] < 1 and (self.low or 0) < 1:
            raise ValueError("a document has a token at least: write a mean of 1 or more, or `low`")
        return self


class Lora(Spec):
    """Adapters of low rank beside frozen matrices (arXiv:2106.09685), which alone are trained."""

    aliases: ClassVar[dict[str, str]] = {
        "r": "rank",
        "dim": "rank",
        "lora_rank": "rank",
        "target_modules": "targets",
    } | {"lora_dropout": "dropout"}

    rank: Count = 16
    """Inner width of an adapter."""
    alpha: float | None = Field(default=None, gt=0)
    """Scale of what adapters add, which costs nothing of its own."""
    targets: tuple[str, ...] = Field(default=("attention in", "attention out"), min_length=1)
    """Products that have adapters, by their names: `attention in` (queries, keys and values), `attention out`,
    `mlp in`, `mlp out`."""
    dropout: float = Field(default=0.0, ge=0, lt=1, exclude_if=lambda share: share == 0.0)
    """Share of the rows' elements that an adapter does not see (peft's `lora_dropout`): a pass over what it reads."""
    base_format: Literal["nf4"] | None = None
    """Format of the frozen matrices where it is not that of the products: `nf4` is dequantised at every use (QLoRA,
    arXiv:2305.14314)."""


class Optimizer(Spec):
    """What turns gradients into new parameters, and what it keeps of earlier steps."""

    aliases: ClassVar[dict[str, str]] = {
        "muon_num_ns_steps": "iterations",
        "ns_steps": "iterations",
        "muon_tp_mode": "tensor",
        "early_step_in_backward": "in_backward",
    }

    name: str = "adam"
    """`adam` (or `adamw`), `adam-8bit`, `lion`, `sgd`, `sgd-momentum`, `adafactor`, `muon`, or one of a plug-in
    (docs/models/optimizers.md)."""
    moments: Literal["fp32", "bf16", "fp16", "fp8"] | None = None
    """Number format of what is kept of earlier gradients; fp32, or what the optimizer's name says, where left out."""
    in_backward: bool = False
    """Whether each layer is updated inside the backward pass, as soon as its gradients are there, which are then freed
    (LOMO, torchtitan's `early_step_in_backward`). Needs one microbatch and no pipeline; gradients are not clipped."""
    layerwise: bool = False
    """Under ZeRO 1 and 2, whether each layer is updated by itself and its parameters are gathered at once, beside the
    updates of the next ones; else all are after the optimizer, or with `overlap_parameters` beside forward passes."""
    iterations: Count = 5
    """Of `muon`, Newton-Schulz iterations on each matrix."""
    fused: Literal["none", "mlp", "all"] | None = None
    """Of `muon`, which fused matrices are orthogonalised as one: `mlp` gate and input of gated MLPs and experts, `all`
    also queries, keys and values. `mlp` where left out (Megatron's `--muon-split-qkv`), under FSDP's units `none`."""
    whole: Literal["owners", "exchanged", "gathered"] | None = None
    """Of `muon` under ZeRO, how whole matrices come together: each has one `owner` among the ranks of a shard set, all
    shards of a matrix are `exchanged` to one rank and its update back, or `gathered` by all, each of which works out
    everything. Where left out `owners`, and under FSDP's units `exchanged`."""
    tensor: Literal["blockwise", "duplicated", "distributed"] = "blockwise"
    """Of `muon` beside tensor parallelism: each rank orthogonalises its own block, all gather the whole matrix and do
    the same, or all sum their products of rows (Megatron's `--muon-tp-mode`)."""

    @model_validator(mode="before")
    @classmethod
    def _named(cls, given: Any) -> Any:
        """A name stands for the optimizer with its usual options."""
        return {"name": given} if isinstance(given, str) else given


class Training(Spec):
    """One optimizer step, repeated."""

    aliases: ClassVar[dict[str, str]] = {
        "micro_batch_size": "micro_batch",
        "local_batch_size": "micro_batch",
        "global_batch_size": "global_batch",
        "seq_length": "sequence_length",
        "seq_len": "sequence_length",
        "encoder_seq_length": "encoder_sequence_length",
        "decoder_seq_length": "sequence_length",
        "recompute_granularity": "recompute",
        "activation_checkpoint": "recompute",
        "overlap_moe_expert_parallel_comm": "overlap_experts",
        "pipeline_parallel_schedule": "schedule",
        "a2a_ffn_overlap_degree": "expert_chunks",
        "moe_shared_expert_overlap": "overlap_shared_experts",
    }

    global_batch: Count
    """Sequences per optimizer step over all devices."""
    micro_batch: Count = 1
    """Sequences that one pass through a stage carries."""
    sequence_length: Count
    """Tokens of a sequence; of the decoder's where there is an encoder."""
    encoder_sequence_length: Count | None = None
    """Tokens of a sequence of the encoder, where the model has one."""
    parallel: Parallel = Parallel.model_construct()
    """The layout."""
    schedule: str | None = None
    """`1f1b`, `interleaved-1f1b`, `zb-h1`, `zb-v`, `vocab-2`, `auto` or another of docs/models/pipeline.md, or the path
    of a CSV file (one line a rank); 1f1b, interleaved where vpp > 1, if left out."""
    stages: tuple[int, ...] | None = Field(default=None)
    """Layers of each stage (pp x vpp numbers, in the order of the layers) where the split is uneven."""
    slices: int | None = Field(default=None, ge=2, le=1024)
    """Slices of the sequence of each microbatch under `schedule: seq1f1b`, which pass one by one; 4 where left out."""
    slice_cut: Literal["even", "balanced"] = "even"
    """Slices of equally many tokens, or with equally many FLOPs of a forward pass, of which first ones are longer."""
    recompute: Recompute | None = None
    """Activations dropped in the forward pass and computed again: none, selective (attention scores) or full (whole
    layers)."""
    recompute_modules: tuple[Literal["norm", "activation", "latent", "experts"], ...] = ()
    """With `recompute: selective`, what of each layer is dropped and computed again besides: outputs of norms, of the
    nonlinearity of MLPs and experts, of the products that expand the latents of attention, or whole mixtures of
    experts with their exchanges."""
    recompute_keeps: tuple[str, ...] = ()
    """With `recompute: full`, results of each layer that are kept all the same, so that what gives them does not run
    again: `attention`, `reductions` (over tensor parallelism), `products`, `every-second-product` (with the first two
    torchtitan's per-operator checkpointing), or names of operations such as `mlp in`; with `summed`, products that
    tensor parallelism sums stay after the sum (XLA)."""
    recompute_layers: Count | None = None
    """With `recompute: full`, how many layers of each stage, or of each chunk where vpp > 1; all where left out."""
    recompute_share: PositiveFraction | None = None
    """With `recompute: full`, which share of the layers of each stage or chunk, rounded to whole layers (FSDP's
    selective checkpointing of blocks); all where left out."""
    tile_tokens: Count | None = None
    """With `recompute: full` of all layers, tokens of a rank that MLPs and the loss take at once: tile after tile, of
    which one is in memory (blockwise transformers, arXiv:2305.19370; tiled MLP and loss, arXiv:2506.13996). All where
    left out."""
    offload_layers: Count | None = None
    """Layers of each stage, or of each chunk where vpp > 1, whose kept activations wait in the host's memory; none
    where left out. Copies are spread evenly beside all passes; `offload.activations` runs them layer by layer."""
    offload: Offload | None = Field(default=None, exclude_if=lambda offload: offload is None)
    """What lives in the memory of hosts or on NVMe drives; nothing where left out."""
    sharding: Sharding | None = Field(default=None, exclude_if=lambda sharding: sharding is None)
    """Under ZeRO-3, gathers and reductions in fewer bits or over fewer ranks (ZeRO++); plain ones where left out."""
    local_steps: LocalSteps | None = Field(default=None, exclude_if=lambda local: local is None)
    """Workers that take steps of their own and meet after some of them (DiLoCo, CO2), in place of every step."""
    zeroth_order: ZerothOrder | None = Field(default=None, exclude_if=lambda asked: asked is None)
    """Forward passes alone, with parameters that are moved a little (MeZO), in place of backward passes."""
    fragmentation: Fraction = Field(default=0.0, exclude_if=lambda share: share == 0.0)
    """Memory of activations and working buffers that the allocator cannot hand out, as a share of what they take; none
    where left out."""
    precision: Precision | None = None
    """Number format of matrix products; the stack's default where left out. Below 16 bits a recipe: `fp8` (which is
    `fp8-delayed`), `fp8-current`, `fp8-rowwise` (torchao), `fp8-block`, `mxfp8`, `nvfp4`, `int8` (AQT of TPUs)."""
    quantized_parameters: bool | None = None
    """Whether parameters are kept and gathered in the format of the products, without a copy in 16 bits (Megatron's
    `fp8-param-gather`); where left out the stack's default, and so for matrices that `lora` freezes. Without effect
    under `mxfp8`, `nvfp4` and `int8`."""
    turned_weights: bool | None = Field(default=None, exclude_if=lambda turned: turned is None)
    """Whether weights of one scale are kept in one order and turned in every backward pass (Megatron-Core's
    `disable_parameter_transpose_cache`); where left out as AMD's builds do. No effect where either order is read."""
    quantized_attention: bool = Field(default=False, exclude_if=lambda quantized: not quantized)
    """With a `precision` below 16 bits, whether fused attention multiplies in 8 (Transformer Engine's `fp8_dpa`)."""
    lora: Lora | None = None
    """Train adapters of low rank and nothing else; everything is trained where left out."""
    attention: Literal["fused", "unfused"] | None = None
    """Fused (flash) attention, or score matrices through memory; the stack's default where left out."""
    causal: bool = True
    """Whether a token attends only to its past."""
    documents: Documents | None = None
    """Lengths of the documents that sequences are packed of, to which tokens attend alone (`cu_seqlens` of fused
    kernels); where left out every sequence is one document."""
    encoder_documents: Documents | None = None
    """With `batching` and an encoder, lengths of its sequences."""
    batching: Batching | None = None
    """How sequences of the lengths of `documents` become microbatches that differ; all are alike where left out."""
    tokens: float | None = Field(default=None, gt=0, le=1e18)
    """Tokens of the whole run, for its time, energy and cost."""
    steps: int = Field(default=1, ge=1, le=100_000)
    """Steps that are simulated: of several, the metrics are means, and percentiles of the step time are added."""
    run: LongRun | None = Field(default=None, exclude_if=lambda run: run is None)
    """A whole run of weeks with failures and checkpoints, of steps as the simulated ones."""
    variability: Literal["equal", "expected", "drawn"] = Field(default="equal", exclude_if=lambda how: how == "equal")
    """How devices of one model differ, by as much as the accelerator's `variability` says: `equal`, not at all;
    `expected`, all go at the pace that the slowest of so many is expected to have; `drawn`, each at a pace of its own,
    drawn with the scenario's seed. Stacks were fitted with devices that are equal."""
    noise: Noise = Noise.model_construct()
    """What makes steps and devices differ: jitter, stragglers, slow links."""
    overlap_gradients: bool | None = None
    """Reduce gradients while the backward pass still runs; the stack's default where left out."""
    overlap_parameters: bool | None = None
    """Gather sharded parameters ahead of their use; the stack's default where left out."""
    overlap_tensor: Literal["none", "backward", "all", "steps", "tracked"] | None = Field(
        default=None, exclude_if=lambda overlap: overlap is None
    )
    """Tensor-parallel collectives beside matrix products: `none`, `backward` and `all` as stacks have them; `steps`,
    with products cut into a part for each rank (asynchronous tensor parallelism, Flux); `tracked`, scatters as the
    tiles of their product are done, without multiprocessors (T3). The stack's where left out."""
    overlap_pipeline: bool | None = None
    """Pipeline sends run beside computation; the stack's default where left out."""
    blocking_launches: bool = False
    """The host waits for every kernel (`CUDA_LAUNCH_BLOCKING=1`): launches add to what the device needs, and nothing
    overlaps."""
    scatter_gather: bool | None = None
    """Cut pipeline sends over the tensor-parallel ranks and gather them at the receiver; the stack's default where
    left out."""
    reduce_precision: Literal["fp32", "bf16", "fp16"] | None = None
    """Number format in which gradients are reduced over data-parallel ranks; the stack's default where left out."""
    gradient_precision: Literal["fp32", "bf16", "fp16"] | None = None
    """Number format in which gradients are summed over microbatches and kept; the stack's default where left out."""
    optimizer: Optimizer | None = None
    """What updates the parameters, by its name or with options; Adam with both moments in fp32 where left out."""
    algorithms: Algorithms = Algorithms.model_construct()
    """Collective algorithms, where they are not left to the library."""
    dispatcher: str | None = None
    """What sends rows to the experts of other devices: `alltoall` (a copy for each expert), `hierarchical` (in two
    levels), `allgather`, or a library with a profile, such as `deepep`; the stack's where left out."""
    dispatch_precision: Literal["bf16", "fp16", "fp8", "mxfp8", "int8", "nvfp4", "mxfp4"] | None = None
    """Number format of rows on their way to experts, scales included; that of activations where left out."""
    expert_chunks: Count = 1
    """Parts in which rows travel to experts of other devices, are worked on and return: those of one part travel while
    those of another are worked on (Tutel's degree of overlap)."""
    overlap_experts: bool = False
    """Rows travel to experts and back beside the passes of another microbatch (Megatron-Core's
    `overlap_moe_expert_parallel_comm`)."""
    cuda_graphs: tuple[Literal["attention", "router", "all"], ...] = ()
    """What of each layer the host launches as one captured graph: `attention` (with its norm and residual), `router`
    (from the second norm on, shared experts included, up to where rows are sent), or `all`."""
    expert_lanes: Literal["apart", "one"] = "apart"
    """With `expert_chunks`, whether gathers and sums over `etp` travel beside the exchanges over `ep` of other parts
    (FSMoE), or both one after the other (Tutel)."""
    overlap_shared_experts: bool | None = None
    """Shared experts work while rows travel to the others and back; the stack's default where left out."""
    routing: RouterLoad = RouterLoad.model_construct()
    """How a router spreads tokens over experts."""
    bucket_size: Bytes | None = None
    """Gradient bytes that are reduced together; the stack's default where left out."""

    @model_validator(mode="after")
    def _length_of_the_run(self) -> Self:
        if self.run is None:
            return self
        given = [name for name in ("tokens", "steps", "days") if getattr(self.run, name) is not None]
        if not given and self.tokens is None:
            raise ValueError("`run` needs its length: write `days`, `tokens` or `steps` in it")
        if given and self.tokens is not None:
            raise ValueError(f"`tokens` and `run.{given[0]}` both say how long the run is: leave one out")
        return self


class UserBuffers(Spec):
    """Tensor-parallel collectives over buffers that devices of a node have opened to each other."""

    multiprocessors: dict[str, Figure[Least]]
    """Held by each operation, such as `all_gather`; 0 where copy engines move it. Others are the library's."""
    bulk: dict[str, Figure[Least]] = Field(default_factory=dict)
    """The same beside a product that neither takes nor gives what is moved; as `multiprocessors` where left out."""
    memory: Figure[Least]
    """Bytes that a device's memory reads and writes for each byte that links carry for the device."""
    parts: Figure[Count] | None = None
    """Parts of a product whose results are scattered part by part, the last one when all is done; None: one collective
    beside it."""


class Stack(Spec):
    """A family of training software: its defaults, its kernels and at most three numbers fitted on step times, one of
    them of layers with experts."""

    folder: ClassVar[str] = "hardware_profiles/stacks"

    name: str
    """Framework and the versions that it stands for."""
    kind: Literal["training"] = "training"
    """What it runs."""
    attention: Literal["fused", "unfused"]
    """Attention kernels."""
    attention_kernel: Literal["fa1", "fa2", "fa3", "cudnn", "sdpa"] | None = None
    """Generation of the fused attention kernel; None takes the best that the device has, and so does `cudnn` where its
    kernels are not known (Transformer Engine takes others before Hopper); `sdpa`: `cudnn` on Blackwell, else `fa2`."""
    fused_elementwise: bool = True
    """Whether bias, activation, dropout and residual are fused into few kernels."""
    fused_norms: bool = True
    """Whether normalisation is a single kernel. Where neither this nor `fused_elementwise` holds, norms, positions and
    residuals run as model code states them, a kernel an operation."""
    fused_loss: bool = True
    """Whether cross entropy is a single kernel."""
    foreach_optimizer: bool = False
    """Whether Adam runs an operation at a time over all tensors, after a pass that scales gradients (PyTorch's default,
    `foreach`), not all of it in one kernel."""
    fused_accumulation: bool = True
    """Whether the product of a weight gradient adds to the running sum itself."""
    dropout: bool = False
    """Whether residual and attention dropout run (their masks cost memory and time)."""
    precision: Precision = "bf16"
    """Number format of matrix products."""
    quantized_parameters: bool = False
    """Whether parameters are kept and gathered in the format of the products where that is one of 8 bits."""
    gradient_bytes: Count = 4
    """Bytes of a gradient element as it is kept and reduced."""
    reduce_bytes: Count = 4
    """Bytes of a gradient element on the wire."""
    master_weights: bool = True
    """Whether the optimizer keeps fp32 copies of the parameters."""
    fp32_parameters: bool = False
    """Whether parameters are kept in fp32 only and cast on their way to use, which leaves nothing to copy."""
    master_remainders: bool = False
    """Whether these copies hold only the lower 16 bits, the upper ones being the bf16 parameters themselves."""
    fp32_logits: bool = True
    """Whether the loss works on an fp32 copy of the logits; a fused kernel reads them in the working format."""
    zero: Literal[0, 1, 2, 3] = 0
    """Sharding over data parallel ranks."""
    recompute: Recompute = "none"
    """Activation recomputation."""
    fused_head_norms: bool = Field(default=True, exclude_if=lambda fused: fused)
    """Whether norms of queries and keys head by head are part of the kernels around them, as compilers make them; else
    both are copied out of the product's result and normed by kernels of their own (Megatron-Core's `TENorm`)."""
    stops_early: bool = False
    """Whether full recomputation stops where the backward pass has what it needs, before a dense layer's last product
    (PyTorch's non-reentrant checkpoints from 2.1 on)."""
    cp_kind: str = "zigzag"
    """Context parallelism, where there is any: a kind of `training.parallel.cp_kind`."""
    sequence_parallel: bool = False
    """Sequence parallelism within tensor-parallel groups."""
    overlap_gradients: bool = False
    """Gradient reduction beside the backward pass."""
    overlap_parameters: bool = False
    """Parameter gathers ahead of use."""
    grouped: bool = False
    """Whether the products of a device's experts are one kernel each, as a compiler makes them; else the host launches
    one for each expert (Transformer Engine's grouped linear layers over cuBLAS)."""
    dispatcher: str = "alltoall"
    """What sends rows to the experts of other devices."""
    overlap_shared_experts: bool = False
    """Whether shared experts work while rows travel (Megatron-Core's `--moe-shared-expert-overlap`)."""
    unit: Literal["bucket", "layer", "tensor"] = "bucket"
    """What one data-parallel collective carries: a bucket of `bucket_size`, under ZeRO-3 a layer; a layer under every
    ZeRO stage, from 2 on around every pass (FSDP's wrapped units); or under ZeRO-3 a tensor (DeepSpeed)."""
    unit_copies: Literal["none", "flat", "tensors"] = "none"
    """What a device copies around every pass of a unit whose parameters are sharded: gradients into one flat tensor,
    which is cast for the reduction and divided by some of the ranks (FSDP); or what was gathered into its tensors, and
    gradients into the buffer of the reduction (FSDP2)."""
    persistent: Count | None = None
    """With `unit: tensor`, parameters of a tensor up to which ZeRO-3 keeps it whole on every rank."""
    list_overhead: Figure[Seconds] | None = None
    """Host time a rank where gathers and scatters take lists with a tensor a rank, each of which is copied by itself;
    None where they take one buffer."""
    synchronous: bool = False
    """Whether under ZeRO-3 the device is waited for around every collective over shards, so that none runs beside
    computation, and parameters are released after every use, so that a recomputed forward pass gathers them once more
    (DeepSpeed 0.3.x)."""
    owners: bool = False
    """Whether under ZeRO-1 and -2 each rank broadcasts the parameters that it updated, in place of one all-gather."""
    overlap_pipeline: bool = False
    """Pipeline sends beside computation."""
    gathers_each: bool = Field(default=False, exclude_if=lambda each: not each)
    """Whether, with sequence parallelism, every column-cut matrix of attention and of a dense MLP gathers its own input
    and keeps it, as plans of DTensors do that name each matrix; else one gather serves those that read the same rows,
    and the backward pass gathers them again (Megatron). Memory counts one copy of them."""
    rank_order: bool = Field(default=False, exclude_if=lambda order: not order)
    """Whether what tensor-parallel ranks gather, and what they scatter, is copied out of or into the order of the
    ranks, as PyTorch's functional collectives do: they work on the first dimension, and sequences are the second."""
    whole_logits: bool = Field(default=False, exclude_if=lambda whole: not whole)
    """Whether every tensor-parallel rank gathers all logits and computes the loss on them, rather than on its part of
    the vocabulary."""
    overlap_tensor: Literal["none", "backward", "all"] = "none"
    """Tensor-parallel collectives beside matrix products: not at all, the reductions of the backward pass beside the
    products for weights (Megatron-LM since 2022), or all of them in pieces (Transformer Engine's user buffers)."""
    user_buffers: UserBuffers | None = None
    """With `overlap_tensor: all`, what tensor-parallel collectives take that run over buffers of their own; None: what
    the library's take."""
    scatter_gather: bool = False
    """Pipeline sends cut over tensor-parallel ranks."""
    bucket_size: Figure[Bytes] | None = None
    """Gradient bucket; None reduces a stage at once."""
    layer_overhead: Figure[Seconds]
    """Fitted: time of a layer's forward pass in which the device waits for its host (launches, Python, autograd)."""
    experts_overhead: Figure[Seconds] | None = None
    """Fitted: `layer_overhead` as the calls of layers with experts are counted by, which leaves out many small ones of
    routers and dispatchers; None: the same number."""
    product_overhead: Figure[Seconds] | None = None
    """Host time of each product after the first that one call launches, those of a device's experts; None: as long as
    a call."""
    module_overhead: Figure[Seconds] | None = None
    """Host time around a pass of a module that gathers its own parameters under ZeRO-3, before it and after."""
    compute_efficiency: Figure[PositiveFraction]
    """Fitted: rate of the framework's matrix products and attention over that of the measured kernel tables."""
    attention_efficiency: Figure[PositiveFraction] | None = None
    """The same of its attention alone, where that is known; `compute_efficiency` where left out."""
    memory_overhead: dict[DeviceKind, Figure[Bytes]]
    """For each kind of device that the stack has kernels for, memory of context, communication library and workspaces;
    on another kind its times are an extrapolation, and nothing is known of this memory."""
    notes: str = ""
    """What a reader should know."""
