"""A serving system: replicas of a model, how they batch, where their caches live, and the software that runs them."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from simulator.specs.adapters import Adapters, Finetuning
from simulator.specs.base import Bytes, Count, Figure, Format, Fraction, Interval, Seconds, Spec
from simulator.specs.fleet import Fleet, check_apart
from simulator.specs.hardware import Cluster, DeviceKind
from simulator.specs.libraries.blocks import BlockProducts
from simulator.specs.libraries.grouped import GroupedDecode
from simulator.specs.libraries.products import LibraryProducts
from simulator.specs.libraries.walks import LatentWalks
from simulator.specs.model import Model
from simulator.specs.model_routing import ModelRouting
from simulator.specs.speculation import Speculation
from simulator.specs.tiers.cache_tiers import CacheTier, ChunkReuse, TierLoads
from simulator.specs.tiers.expert_loads import ExpertLoads
from simulator.specs.tiers.remote_attention import RemoteAttention
from simulator.specs.tiers.streamed_weights import StreamedWeights
from simulator.specs.training import RouterLoad

MOST_INSTANCES = 1024
"""Batches that run beside each other on the devices of a replica."""


class Layout(Spec):
    """How one replica is spread over devices."""

    aliases: ClassVar[dict[str, str]] = {
        "tensor_parallel_size": "tp",
        "pipeline_parallel_size": "pp",
        "expert_parallel_size": "ep",
        "data_parallel_size": "dp",
        "attention_dp": "dp",
        "decode_context_parallel_size": "dcp",
    }

    tp: Count = 1
    """Tensor parallelism: layers are cut across this many devices."""
    dp: Count | None = None
    """Attention ranks of a replica, each of `tp` x `pp` devices with rows, batch and cache of its own; experts lie on
    the devices of all of them, `tp` x `dp` = `etp` x `ep` a stage. Where left out a replica is one rank, whose
    experts may lie on those of other replicas too."""
    pp: Count = 1
    """Pipeline parallelism: layers are spread over this many stages, as many batches in flight."""
    ep: Count = 1
    """Expert parallelism: devices over which the experts of a layer are spread. As many as `tp`: those of the replica.
    More: those of several replicas (attention in data parallel), which run in step on the rows that they have."""
    etp: Count | None = None
    """Devices that cut each expert between them. Where left out: with `dp` what `ep` leaves of `tp` x `dp`, else `tp`
    where `ep` is 1 and otherwise 1."""
    dcp: Count = Field(default=1, exclude_if=lambda ranks: ranks == 1)
    """Decode context parallelism: so many devices of a tensor-parallel group that would hold copies of the same key
    heads (of the same latent) hold parts of the cached tokens instead, in turns. Decodes gather their queries over
    them and combine what each finds; it divides the copies, `tp` over the key heads (`tp` of a latent)."""
    dcp_exchange: Literal["gather", "all-to-all"] = Field(default="gather", exclude_if=lambda how: how == "gather")
    """How these devices combine what each finds. `gather`: queries of all heads are gathered before, results reduced
    and scattered (vLLM's `ag_rs`); `all-to-all`: each device makes the queries of all their heads itself, and one
    exchange sends what it found to the devices of the heads (Helix, arXiv:2507.07120; vLLM's `a2a`)."""

    @property
    def devices(self) -> int:
        """Devices of a replica, of each of its attention ranks where it has several."""
        return self.tp * self.pp

    @property
    def ranks(self) -> int:
        """Attention ranks of a replica."""
        return self.dp or 1

    @property
    def expert_cut(self) -> int:
        """Devices that cut each expert between them."""
        if self.etp is None and self.dp is not None:
            return max(self.tp * self.dp // self.ep, 1)
        return self.etp or (self.tp if self.ep == 1 else 1)

    @property
    def sharers(self) -> int:
        """Attention ranks over which the experts lie."""
        return self.expert_cut * self.ep // self.tp

    def of_dense(self) -> "Layout":
        """What is left of it for a model without experts, whose ranks have nothing to do with each other."""
        return self.model_copy(update={"dp": None}) if self.dp is not None and self.ep == 1 else self

    @model_validator(mode="after")
    def _meshes(self) -> Self:
        experts = self.expert_cut * self.ep
        if self.dp is not None and experts != self.tp * self.dp:
            attention = f"attention lies on tp {self.tp} x dp {self.dp} = {self.tp * self.dp} devices of a stage"
            meshes = f"{attention}, experts on etp {self.expert_cut} x ep {self.ep} = {experts}"
            raise ValueError(f"{meshes}: both are the devices of a replica, write sizes of one product")
        if experts % self.tp:
            meshes = f"experts lie on etp {self.expert_cut} x ep {self.ep} = {experts} devices of a stage"
            raise ValueError(f"{meshes}, attention on tp {self.tp} of each replica: write a multiple of {self.tp}")
        if self.tp % self.dcp:
            divisors = ", ".join(str(d) for d in range(1, min(self.tp, 64) + 1) if self.tp % d == 0)
            raise ValueError(
                f"dcp {self.dcp} does not divide tp {self.tp}, whose devices it takes: write one of {divisors}"
            )
        if self.dcp == 1 and self.dcp_exchange != "gather":
            raise ValueError("`dcp_exchange` is for devices that share cached tokens: write `dcp`, or leave it out")
        return self


class NumberFormats(Spec):
    """Number formats; the model's 16 bits where left out."""

    weights: Format | None = None
    """Of the weights of linear layers."""
    weight_bits: float | None = Field(default=None, gt=0, le=32)
    """Bits that a weight takes, scales included, where it differs from the format's own (4.85 for Q4_K_M); embedding
    and output head then take them too."""
    weight_blocks: bool = Field(default=False, exclude_if=lambda blocks: not blocks)
    """Whether weights in fp8 have a scale for each block of 128 x 128 (DeepSeek-V3, Qwen3, MiniMax-M2, Kimi-K2)."""
    embeddings: Literal["fp32", "bf16", "fp16"] | None = None
    """Of embedding and output head: 16 bits where left out, unless `weight_bits` are given as the average of a file."""
    activations: Format | None = None
    """Of the other factor: with `weights: int4` and 16-bit activations, weights are dequantised as they are read."""
    experts: Format | None = None
    """Of the weights of experts, where it is not that of the other layers (gpt-oss: fp4 beside bf16)."""
    expert_activations: Format | None = None
    """Of the rows that experts multiply, where it is not what their weights and the other layers would have."""
    kv: Format | None = None
    """Of keys and values in the cache."""


class Batching(Spec):
    """Which requests an iteration works on."""

    aliases: ClassVar[dict[str, str]] = {
        "max_num_batched_tokens": "token_budget",
        "max_num_tokens": "token_budget",
        "max_num_seqs": "max_sequences",
        "max_batch_size": "max_sequences",
        "chunk_size": "token_budget",
        "scheduler_recv_interval": "poll_interval",
        "num_scheduler_steps": "decode_steps",
        "num_continuous_decode_steps": "decode_steps",
        "batch_wait_timeout_iters": "wait_iterations",
        "batch_wait_max_tokens_ratio": "wait_share",
        "timeout_iters": "balance_iterations",
        "batching_wait_iters": "balance_wait",
    }

    policy: str | None = None
    """`static`, `orca`, `vllm-v0`, `vllm-v1`, `whole-prompts`, `sarathi`, `splitfuse`, `prefill-first`, `guaranteed`,
    `shortest-first`, `priority`, `deadline`, `fair` (among tenants); the stack's where left out, of models with an
    encoder `whole-prompts` where that cuts prompts."""
    token_budget: Count | None = None
    """Most tokens of an iteration, decodes and prompts together; the stack's where left out."""
    max_sequences: Count | None = None
    """Most sequences that run at once; the stack's where left out."""
    tile: Count = 128
    """For `sarathi`: the rows of an iteration are rounded down to a multiple of this where prompts fill it."""
    ageing: Seconds | None = Field(default=None)
    """For `priority`: waiting this long raises a request by one class; never where left out."""
    poll_interval: Count = Field(default=1, exclude_if=lambda every: every == 1)
    """The engine looks for new requests every so many decode iterations, and at once after one with prompts (SGLang's
    `--scheduler-recv-interval`)."""
    decode_steps: Count = Field(default=1, exclude_if=lambda steps: steps == 1)
    """Decode iterations that the host schedules at once (`--num-scheduler-steps` of vLLM's V0 engine, SGLang's
    `--num-continuous-decode-steps`): requests that come meanwhile wait, its time of an iteration is spent once."""
    wait_iterations: Annotated[int, Field(ge=0, le=1_000_000)] = Field(default=0, exclude_if=lambda most: most == 0)
    """For `guaranteed`: prompts wait beside decodes for others, so many iterations at most (TensorRT-LLM's
    `batch_wait_timeout_iters`)."""
    wait_share: Fraction = Field(default=0.0, exclude_if=lambda share: share == 0)
    """For `guaranteed`: share of the token budget from which prompts wait no longer (`batch_wait_max_tokens_ratio`)."""
    balance_iterations: Annotated[int, Field(ge=0, le=1_000_000)] = Field(default=0, exclude_if=lambda most: most == 0)
    """For `guaranteed` with attention ranks that share experts: while all of them decode, prompts join in iterations in
    which each rank has one, and in every N-th one where this is N (TensorRT-LLM's `attention_dp_config` with
    `enable_balance`: `timeout_iters`); 0: as they come."""
    balance_wait: Annotated[int, Field(ge=0, le=1_000_000)] = Field(default=0, exclude_if=lambda most: most == 0)
    """Iterations that they wait for more where each rank has one (`batching_wait_iters`)."""
    chunked_pipeline: bool = Field(default=False, exclude_if=lambda streams: not streams)
    """Over `pp` stages: whether the next piece of a prompt enters the first stage when the piece before it has left
    that (chunked pipeline parallelism of Mooncake and SGLang), and not when it has passed all stages. An iteration that
    decodes, or that ends a prompt, passes all stages before its batch goes on."""
    padded: bool = Field(default=False, exclude_if=lambda padded: not padded)
    """Whether prompts of an iteration are filled up to the longest of them in all but attention (engines before packed
    rows: FasterTransformer without its removal of padding, pipelines of Hugging Face)."""
    instances: Annotated[int, Field(ge=1, le=MOST_INSTANCES)] = 1
    """Batches of a replica that run beside each other, each of up to `max_sequences`: instances of the engine on the
    same devices (FasterTransformer). They have the weights in memory once, read them each for itself, and take turns
    iteration by iteration."""


class KvCache(Spec):
    """Memory of keys and values."""

    aliases: ClassVar[dict[str, str]] = {
        "gpu_memory_utilization": "memory_share",
        "kv_cache_free_gpu_mem_fraction": "free_share",
        "swap_space": "host_memory",
    }

    block_size: Count | None = None
    """Tokens of a block; the stack's where left out."""
    memory_share: Fraction | None = None
    """Share of the device's memory that weights, activations and cache may take together; the stack's where left
    out."""
    free_share: Fraction | None = None
    """Share of what weights and activations leave; the stack's where left out."""
    blocks: Count | None = None
    """Blocks of a replica, where they are not derived from memory."""
    watermark: Fraction = 0.01
    """Share of the blocks that stays free when a request is admitted."""
    preemption: Literal["recompute", "swap"] = "recompute"
    """What happens to a sequence that must make room: dropped and computed again, or moved to the host."""
    host_memory: Bytes = 4 * 2**30
    """Host memory of a replica for swapped sequences."""
    prefix_reads: Literal["each", "once"] | None = None
    """Whether decodes that share cached blocks read them each for itself (vLLM), or once for all as one matrix product
    (Hydragen); the stack's where left out."""
    prefix_caching: Literal["none", "block", "radix"] | None = None
    """Whether prompts reuse blocks of equal prefixes: by hashes of whole blocks, or in a radix tree. Both find whole
    pieces of 16 tokens (of `block_size` where that is more), so that a radix tree of single tokens would find up to 15
    more."""
    tiers: tuple[CacheTier, ...] = Field(default=(), max_length=8, exclude_if=lambda tiers: not tiers)
    """Memories below the devices' in which shared blocks stay, the nearest first, as `{name: host, capacity: 500 GB}`;
    needs `prefix_caching`, or `chunks`, which then stay in them."""
    loads: TierLoads = Field(default=TierLoads.model_construct(), exclude_if=lambda rules: rules == TierLoads())
    """How blocks come back from `tiers`."""
    chunks: ChunkReuse | None = Field(default=None, exclude_if=lambda chunks: chunks is None)
    """Reuse of retrieved chunks at any place of a prompt, in place of prefixes."""

    @model_validator(mode="after")
    def _tiers_alike(self) -> Self:
        names = [tier.name for tier in self.tiers]
        if len(set(names)) < len(names):
            raise ValueError("tiers have different names")
        if self.tiers and self.prefix_caching == "none" and self.chunks is None:
            raise ValueError("`tiers` keep what prompts share: write `prefix_caching: block` (or `radix`)")
        if self.chunks is not None and (self.prefix_caching or "none") != "none":
            raise ValueError("`chunks` are reused in place of prefixes: leave `prefix_caching` out")
        return self


class Overlap(Spec):
    """What of an iteration runs beside what."""

    tensor: Literal["none", "steps", "tracked"] = "none"
    """Tensor-parallel sums: after the product that they sum; in steps beside it and the product that follows, both cut
    into parts (asynchronous tensor parallelism, Flux); or as its tiles are done, without multiprocessors (T3)."""
    batches: Literal["none", "two", "nano", "nano-serial"] = "none"
    """`two`: halves of the batch by turns, the collectives of each beside the kernels of the other (two-batch overlap
    of SGLang, dual-batch overlap of vLLM). `nano`: products, decode attention and collectives of two nano-batches
    beside each other, each on its share of the multiprocessors (NanoFlow); `nano-serial`: the same one by one."""
    first_share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Share of the rows in the first nano-batch."""
    reading_share: Annotated[float, Field(gt=0, lt=1)] = 0.4
    """Share of the multiprocessors that decode attention takes beside products of another nano-batch."""
    sending_share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Share of the multiprocessors that a collective takes beside them."""
    context: Literal["none", "sequences"] = Field(default="none", exclude_if=lambda what: what == "none")
    """The exchange of `dcp_exchange: all-to-all`: after the attention of all sequences, or of some beside the attention
    of the next ones, in as many parts as are fastest (`sequences`: Helix's HOP-B), in iterations of decodes alone."""
    from_rows: Count = 1
    """Rows of an iteration of a replica from which this holds; shorter ones run their operations one by one."""

    @model_validator(mode="after")
    def _left_over(self) -> Self:
        if self.reading_share + self.sending_share >= 1:
            raise ValueError("`reading_share` and `sending_share` leave products a share of the multiprocessors")
        return self


class ExpertTraffic(Spec):
    """How the rows of ranks that share experts reach them, and how many go to each."""

    dispatcher: str | None = None
    """What sends rows to the experts of other ranks: `allgather` (ranks gather the rows of all and reduce the results),
    `alltoall` (a copy for each expert), or a library with a profile, such as `deepep` (its kernels for prefill) and
    `deepep-low-latency`; the stack's where left out."""
    dispatch_precision: Literal["bf16", "fp16", "fp8", "mxfp8", "int8", "nvfp4", "mxfp4"] | None = None
    """Number format of rows that are sent to experts, scales included; 16 bits where left out, and back."""
    routing: RouterLoad = RouterLoad.model_construct()
    """How a router spreads rows over experts; `replicas` and `placement` are those of a balancer of experts (EPLB)."""
    local_share: Fraction | None = Field(default=None, exclude_if=lambda share: share is None)
    """Share of the copies of rows whose expert is on the device that has the row, where experts that the same tokens
    use lie together and tokens are dealt to ranks by it (Speculative MoE); 1 over the devices where left out."""


class Pool(Spec):
    """Equal replicas of one role; what is left out is as in `serving`."""

    name: str
    """Name in reports."""
    role: Literal["both", "prefill", "decode"] = "both"
    """What its replicas do with a request."""
    replicas: Count = 1
    """How many."""
    model: Model | None = Field(default=None, exclude_if=lambda model: model is None)
    """What its replicas serve, where `serving.models` says which requests they get; the scenario's where left out."""
    precision: NumberFormats | None = Field(default=None, exclude_if=lambda formats: formats is None)
    """Number formats of its replicas."""
    parallel: Layout | None = None
    """Layout of a replica."""
    batching: Batching | None = None
    """Batching of its replicas."""
    kv_cache: KvCache | None = None
    """Cache of its replicas."""
    overlap: Overlap | None = Field(default=None, exclude_if=lambda overlap: overlap is None)
    """What of their iterations runs beside what."""
    speculation: Speculation | None = Field(default=None, exclude_if=lambda speculation: speculation is None)
    """How their tokens are drafted and verified."""
    experts: ExpertTraffic | None = Field(default=None, exclude_if=lambda experts: experts is None)
    """How rows reach experts of other ranks."""
    partition: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """Nodes of the cluster that they lie on, by the name of their kind (`cluster.more_nodes`)."""
    cluster: Cluster | None = None
    """Other machines, which no network joins to the scenario's; kinds of nodes that one joins are `more_nodes`."""


class LocalPrompts(Spec):
    """Which prompts are read where their answers are written, and not on the prefill side."""

    tokens: Annotated[int, Field(ge=0)] = 0
    """Those of at most so many tokens (Dynamo's `max-local-prefill-length`)."""
    queue: Count | None = None
    """All, while at least so many requests wait on the prefill side (its `max-prefill-queue-size`); none where left
    out."""


class Switching(Spec):
    """When replicas change their role between prefill and decode."""

    check: Interval = 1.0
    """Time between two looks at what waits."""
    above: Annotated[float, Field(gt=0)] = 4
    """Requests that wait on a side, for each of its replicas (or groups that share experts), from which it gets one of
    the other side's."""
    below: Annotated[float, Field(gt=0)] = 1
    """Requests that wait on the other side for each of its own, below which it gives one."""
    delay: Seconds = 0.0
    """Time that a change takes when the replica has finished what it had."""


class Serving(Spec):
    """The system that answers requests."""

    replicas: Count = 1
    """Copies of the model, where no `pools` are listed."""
    parallel: Layout = Layout.model_construct()
    """Layout of a replica."""
    partition: str | None = Field(default=None, exclude_if=lambda name: name is None)
    """Nodes of the cluster that replicas lie on, by the name of their kind (`cluster.more_nodes`); those of
    `cluster.node` where left out."""
    batching: Batching = Batching.model_construct()
    """How iterations are filled."""
    kv_cache: KvCache = KvCache.model_construct()
    """Where keys and values live."""
    precision: NumberFormats = NumberFormats.model_construct()
    """Number formats."""
    overlap: Overlap = Field(default=Overlap.model_construct(), exclude_if=lambda overlap: overlap == Overlap())
    """What of an iteration runs beside what."""
    speculation: Speculation | None = Field(default=None, exclude_if=lambda speculation: speculation is None)
    """How tokens are drafted and verified several at a time; one a sequence and iteration where left out."""
    weights: StreamedWeights | None = Field(default=None, exclude_if=lambda weights: weights is None)
    """Layers that do not stay on the devices and are loaded in every iteration; all stay where left out."""
    expert_loads: ExpertLoads | None = Field(default=None, exclude_if=lambda loads: loads is None)
    """Experts that do not stay on the devices and are loaded when rows ask for them; all stay where left out."""
    remote_attention: RemoteAttention | None = Field(default=None, exclude_if=lambda remote: remote is None)
    """Devices beside those of the model that hold keys and values and attend to them; none where left out."""
    adapters: Adapters | None = Field(default=None, exclude_if=lambda adapters: adapters is None)
    """Adapters of low rank (LoRA) that requests ask for beside the model; none where left out."""
    finetuning: Finetuning | None = Field(default=None, exclude_if=lambda tuning: tuning is None)
    """Training of an adapter in what iterations leave of their objective; none where left out."""
    experts: ExpertTraffic = Field(
        default=ExpertTraffic.model_construct(), exclude_if=lambda experts: experts == ExpertTraffic()
    )
    """How rows reach experts of other ranks."""
    stream_interval: Count = Field(default=1, exclude_if=lambda every: every == 1)
    """Tokens of an answer that leave the engine in one packet (`--stream-interval` of vLLM and SGLang,
    `stream_interval` of TensorRT-LLM), which takes the host `stack.stream_overhead`."""
    router: str = "round-robin"
    """`round-robin`, `random`, `least-outstanding`, `shortest-queue` (by tokens), `power-of-two`, `prefix-aware`,
    `session` (turns of a conversation stay where it began), `consistent-hash`, `cache-aware` (approximate tree of
    what was sent where)."""
    fleet: Fleet | None = Field(default=None, exclude_if=lambda fleet: fleet is None)
    """Replicas that start, scale, fail and are replaced; admission, and stations before and after the model."""
    pools: tuple[Pool, ...] = ()
    """Replicas of several kinds: other devices, or prefill and decode apart."""
    models: ModelRouting | None = Field(default=None, exclude_if=lambda models: models is None)
    """Over pools with models of their own: which requests each gets, and which answers are asked again of another;
    requests go to any pool where left out."""
    transfer: Literal["end", "layer"] = "end"
    """Between prefill and decode pools: the cache of a prompt moves when the prompt is done, or layer by layer."""
    first_token: Literal["prefill", "decode"] = Field(default="prefill", exclude_if=lambda side: side == "prefill")
    """Between prefill and decode pools: which side the client gets the first token from. `prefill`: when the prompt is
    done (DistServe); `decode`: when the cache has arrived there (proxies of Dynamo, SGLang, vLLM and TensorRT-LLM)."""
    decode_router: str = Field(default="least-outstanding", exclude_if=lambda name: name == "least-outstanding")
    """Which decode replica takes a cache, of those that have room for it; names as of `router`."""
    local_prompts: LocalPrompts | None = Field(default=None, exclude_if=lambda rule: rule is None)
    """Between prefill and decode pools: prompts that are read on the decode side; none where left out."""
    switching: Switching | None = Field(default=None, exclude_if=lambda rule: rule is None)
    """Between prefill and decode pools: when replicas change their role; never where left out."""
    context: Count | None = None
    """Longest prompt and answer together; the model's where left out."""

    def home(self, pool: Pool, cluster: Cluster) -> tuple[Cluster, int]:
        """The cluster of a pool in a scenario on `cluster`, and the kind of nodes there; InputError for an unknown."""
        if pool.cluster is not None:
            return pool.cluster, pool.cluster.kind(pool.partition, f"{self._path(pool)}.partition")
        own = pool.partition is not None
        path = f"{self._path(pool)}.partition" if own else "serving.partition"
        return cluster, cluster.kind(pool.partition if own else self.partition, path)

    def _path(self, pool: Pool) -> str:
        return f"serving.pools.{self.pools.index(pool)}"

    @property
    def all_pools(self) -> tuple[Pool, ...]:
        """The pools; all replicas as one where none are listed."""
        return self.pools or (Pool.model_construct(name="replica", replicas=self.most_replicas),)

    @property
    def most_replicas(self) -> int:
        """Replicas where no `pools` are listed: with a rule by which they come and go, the most that there may be."""
        rule = None if self.fleet is None else self.fleet.autoscaling
        return self.replicas if rule is None else max(self.replicas, rule.max)

    @model_validator(mode="after")
    def _roles(self) -> Self:
        roles = {pool.role for pool in self.pools}
        if ("prefill" in roles) != ("decode" in roles):
            raise ValueError("a `prefill` pool needs a `decode` pool and the other way round")
        if "prefill" not in roles:
            apart = ("first_token", "decode_router", "local_prompts", "switching")
            for key in filter(self.states, apart):
                raise ValueError(f"`{key}` is for `pools` with the roles `prefill` and `decode`: leave it out")
        names = [pool.name for pool in self.pools]
        if len(set(names)) < len(names):
            raise ValueError("pools have different names")
        self._check_models()
        self._check_fleet()
        return self

    def _check_models(self) -> None:
        own = next((pool.name for pool in self.pools if pool.model is not None), None)
        if self.models is None:
            if own is not None:
                raise ValueError(f"pool `{own}` has a model of its own: write `models`, which requests each pool gets")
            return
        if not self.pools:
            raise ValueError("`models` sends requests to `pools`: list them, each with its `model`")
        if any(pool.role != "both" for pool in self.pools):
            raise ValueError("`models` is for pools that answer alone: leave their `role` out")

    def _check_fleet(self) -> None:
        check_apart(() if self.fleet is None else self.fleet.intervals)
        check_apart((("switching.check", getattr(self.switching, "check", None)),))
        rule = None if self.fleet is None else self.fleet.autoscaling
        if self.fleet is not None and self.fleet.changes and self.switching is not None:
            raise ValueError("replicas that change their role do not come, go or fail here: leave `switching` out")
        if rule is not None and self.pools:
            raise ValueError("`fleet.autoscaling` counts equal replicas: write `replicas` in place of `pools`")
        if rule is not None and rule.start is None and self.replicas > rule.max:
            raise ValueError(f"{self.replicas} `replicas` at the start exceed `fleet.autoscaling.max` {rule.max}")


class ServingStack(Spec):
    """A family of serving software: its defaults, its kernels and at most three numbers fitted on measured runs."""

    folder: ClassVar[str] = "hardware_profiles/stacks"

    name: str
    """Engine and the versions that it stands for."""
    kind: Literal["serving"]
    """What it runs."""
    device_kinds: tuple[DeviceKind, ...] = Field(default=(), exclude_if=lambda kinds: not kinds)
    """Kinds of devices that it has kernels for, any where left out; on others its times are an extrapolation, and
    nothing is known of `memory_overhead`."""
    policy: str
    """Batching policy."""
    token_budget: Count
    """Most tokens of an iteration."""
    max_sequences: Count
    """Most sequences that run at once."""
    block_size: Count = 16
    """Tokens of a cache block."""
    memory_share: Fraction | None = None
    """Share of device memory that weights, activations and cache may take together (vLLM)."""
    free_share: Fraction | None = None
    """Share of what weights and activations leave that the cache takes (TensorRT-LLM)."""
    whole_windows: bool = Field(default=False, exclude_if=lambda whole: not whole)
    """Whether layers with a sliding window keep keys and values of whole sequences, as all layers have one cache."""
    prefix_caching: Literal["none", "block", "radix"] = "none"
    """Reuse of equal prefixes."""
    prefix_reads: Literal["each", "once"] = "each"
    """Whether decodes that share cached blocks read them each for itself, or once for all."""
    attention_kernel: str | None = None
    """Generation of the fused attention kernel of prompts; None takes the best that the device has."""
    grouped_decode: bool | GroupedDecode = True
    """Whether decodes read keys and values once for all query heads of a group: always, never, or where kernels do."""
    dispatcher: str = Field(default="allgather", exclude_if=lambda word: word == "allgather")
    """What sends rows to the experts of other ranks, where the scenario leaves it open."""
    expert_kernels: tuple[str, ...] = ("triton",)
    """Families of kernels of mixtures of experts, the first first; for a name that a device lacks its own stand in."""
    fused_shared: tuple[str, ...] = Field(default=(), exclude_if=lambda families: not families)
    """Those of them whose kernels run the shared expert of 256 as one more, where none are spread over devices."""
    scan_kernels: tuple[str, ...] = ("fused", "triton")
    """Families of kernels of layers with a state, the first one that a device has first; estimates where none is."""
    all_reduce: Literal["library", "vllm", "sglang", "trtllm"] = "vllm"
    """Tensor-parallel sums: the collective library's, or an engine's own kernels for small messages."""
    graphs: Count | None = None
    """Sequences up to which decoding replays captured graphs, so that launches cost nothing; None: never."""
    graph_context: Count | None = Field(default=None, exclude_if=lambda tokens: tokens is None)
    """Tokens of context up to which decodes replay them, where the host launches each kernel of an iteration with
    prompts (`graph_prompts: false`) and of longer decodes; None: any."""
    graph_steps: tuple[tuple[Count, Count], ...] = Field(default=(), max_length=16, exclude_if=lambda steps: not steps)
    """Sizes of these graphs, each entry (up to this size, in steps of so many), ascending: `[[4, 2], [256, 8]]` has 2,
    4, 8, 16 ... 256. A batch fills up the next larger one; a graph of every size where left out."""
    graph_unit: Literal["sequences", "tokens"] = Field(default="sequences", exclude_if=lambda unit: unit == "sequences")
    """What `graph_steps` count: sequences, each of several rows to verify, or rows, those of prompts among them."""
    pads_peers: Literal["always", "graphs", "never"] = "never"
    """When replicas that share experts, idle ones too, pass as many rows as the largest; `graphs`: in replays."""
    kernel_launch: Figure[Seconds] = Figure[Seconds].model_construct(
        value=6e-6, status="estimate", source="a launch from C++ takes 3 to 10 us"
    )
    """Host time to launch one kernel where no captured graph is replayed."""
    experts_launch: Figure[Seconds] | None = Field(default=None, exclude_if=lambda figure: figure is None)
    """The same of a whole mixture of experts, from routing to sum; as long as five kernels where left out."""
    graph_prompts: bool = True
    """Whether iterations with prompts replay graphs too, up to `graphs` rows; if not, the host launches each kernel."""
    schedules_ahead: bool = False
    """Whether an iteration is fixed when the one before begins: the host works beside it, requests join one later."""
    core_read: Figure[Annotated[float, Field(gt=0)]] | None = None
    """Bytes that a multiprocessor moves in a cycle at most, in products of few rows and passes; None: as the memory."""
    wide_activations: bool = Field(default=False, exclude_if=lambda wide: not wide)
    """Whether activations stay in 32 bits between products."""
    library_products: LibraryProducts | None = Field(default=None, exclude_if=lambda products: products is None)
    """Products with conversions to and from 16 bits by kernels of their own; None where none are."""
    block_products: BlockProducts | None = Field(default=None, exclude_if=lambda products: products is None)
    """Products of fp8 weights with a scale for each block, where they are not those of the device's tables."""
    latent_walks: LatentWalks | None = Field(default=None, exclude_if=lambda walks: walks is None)
    """Decodes over latents, where their kernel is not that of the device's tables."""
    sums: Literal["fp32", "fp16"] = "fp32"
    """Format in which sums of fp16 products are kept; in 16 bits consumer cards are twice as fast."""
    fused_elementwise: bool = True
    """Whether activation, residual and normalisation are fused into few kernels."""
    fused_casts: bool = Field(default=False, exclude_if=lambda fused: not fused)
    """Whether norms and activations round what they write for the product after them; if not, a kernel of its own."""
    split: Literal["tensor", "layer"] = "tensor"
    """How a replica's devices share a model unless said otherwise; `layer`: llama.cpp, decoding one at a time."""
    iteration_overhead: Figure[Seconds]
    """Fitted: host time of an iteration that the device waits for."""
    sequence_overhead: Figure[Seconds]
    """Fitted: host time of each sequence of an iteration."""
    kernel_efficiency: Figure[Annotated[float, Field(gt=0, le=1.5)]]
    """Fitted: rate of the engine's kernels over that of the measured kernel tables."""
    request_overhead: Figure[Seconds] | None = None
    """Time that a request spends outside of the engine until its first token is back: connection, from process to
    process, and the way of the answer. The device does not wait for it; none where left out."""
    ahead_overhead: Figure[Seconds] | None = Field(default=None, exclude_if=lambda figure: figure is None)
    """Host time of an iteration beside the device, of an engine that schedules ahead, which lasts no less; or none."""
    stream_overhead: Figure[Seconds] | None = Field(default=None, exclude_if=lambda figure: figure is None)
    """The same of each packet of an answer: one a sequence in `serving.stream_interval` iterations."""
    verify_overhead: Figure[Seconds] | None = Field(default=None, exclude_if=lambda figure: figure is None)
    """Host time of each sequence of an iteration that verifies drafts, beside `sequence_overhead`; none if left out."""
    prompt_overhead: Figure[Seconds] | None = None
    """Time of each token of a prompt in the front end, one request after the other: tokenisation, and what is sent."""
    request_handling: Figure[Seconds] | None = None
    """The same of each request."""
    memory_overhead: Figure[Bytes]
    """Device memory of the context, libraries and graphs, besides weights, activations and cache."""
    peer_memory: Figure[Bytes] | None = Field(default=None, exclude_if=lambda figure: figure is None)
    """The same for each time that a tensor-parallel group doubles: buffers of collectives."""
    cache_factor: Figure[Annotated[float, Field(ge=1)]] | None = Field(default=None, exclude_if=lambda one: one is None)
    """Memory that a token takes in the cache over what its keys and values, or latents, have; 1 if left out."""
    notes: str = ""
    """What a reader should know."""

    @field_validator("graph_steps")
    @classmethod
    def _ascending(cls, steps: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        ends = [end for end, _ in steps]
        if ends != sorted(set(ends)):
            raise ValueError(f"sizes up to {', '.join(map(str, ends))} do not ascend: write the smallest first")
        return steps

    @field_validator("kernel_launch", mode="before")
    @classmethod
    def _plain(cls, launch: Any) -> Any:
        """A time alone is an estimate."""
        plain = isinstance(launch, str | float | int)
        return {"value": launch, "status": "estimate", "source": "as written"} if plain else launch

    def groups(self, group: float, head_size: int) -> bool:
        """Whether decoding reads keys and values once for so many query heads of a key head, of that size."""
        table = self.grouped_decode
        return table if isinstance(table, bool) else table.serves(group, head_size)

    @property
    def padded_rows(self) -> float:
        """Rows of the largest replica up to which all pass as many."""
        return {"always": float("inf"), "graphs": float(self.graphs or 0), "never": 0.0}[self.pads_peers]
