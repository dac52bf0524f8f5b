"""The blocks of a model on one device of a serving engine, as pieces whose cost depends on the rows of the pass.

A row is a token that the pass works on. The operations are those of `simulator.model`; what engines fuse is added here:
a residual addition runs in the norm after it, elementwise operations are one kernel each, and rows are rounded to a
narrower format before a product that wants one. Attention reads the cache and is not among the pieces: its cost depends
on contexts. What a device holds is rounded up where sizes do not divide.

Left out: biases (added where products are written), copies and reshapes.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from simulator.axes import CP, EP, ETP, TP
from simulator.model import layers
from simulator.model import ops as model_ops
from simulator.model.backward import EXPERT_EXCHANGES
from simulator.model.blocks import QUERIES, WHOLE, ends
from simulator.model.blocks.around import ACTIVATION, NORM, PARTED, RESIDUAL
from simulator.model.cut import GATHERED, SORTED, Cut
from simulator.model.ops import COPY, LAYER, TABLE, WIDE, AttentionCore, Op, StateScan
from simulator.model.tensors import BIAS, cached_bytes, core, multiplied, scan, tensors
from simulator.serving.costs.exchange import Exchange
from simulator.serving.costs.formats import Formats
from simulator.serving.costs.spread import Spread
from simulator.specs.model import LayerKind, Model
from simulator.specs.serving import ServingStack


@dataclass(frozen=True, slots=True)
class Gemm:
    """Rows times a constant matrix of k x n."""

    part: str
    n: int
    k: int
    plain: bool = False
    """Whether the matrix is in 16 bits whatever the format of the linear layers."""


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts: every row times the two matrices of each of its `top_k` of `experts` experts."""

    part: str
    experts: int
    top_k: int
    hidden: int
    inner: int
    """Inner width of an expert on this device."""
    gated: bool
    spread: int = 1
    """Devices over which the experts are spread."""
    among: bool = False
    """Whether they work on the rows of all replicas that share experts."""


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A pass over memory."""

    part: str
    row_bytes: float
    """Bytes read and written for each row."""
    kernels: int = 1


@dataclass(frozen=True, slots=True)
class Write:
    """Keys and values of each row into the cache."""

    part: str
    row_bytes: float
    """Bytes of them in the cache."""
    wide_bytes: float
    """Bytes of them as they were computed."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective operation on the rows of a buffer, of a tensor-parallel group or of replicas that share experts."""

    part: str
    operation: str
    row_bytes: float
    """Bytes of a row of the full buffer."""
    among: bool = False
    """Whether the replicas that share experts take part, and not the tensor-parallel group."""
    context: bool = False
    """Whether those devices of that group take part that hold parts of the same cached tokens, and not all."""

    @property
    def sent(self) -> bool:
        """Whether each row goes to the devices of its experts only: a row of all ranks then takes `row_bytes` of the
        mean device."""
        return self.operation in EXPERT_EXCHANGES


Piece = Gemm | Experts | Elementwise | Write | Collective


def together(piece: Piece) -> bool:
    """Whether a piece works on the rows of all replicas that share experts, and not on those of one."""
    return isinstance(piece, Collective | Experts) and piece.among


@dataclass(frozen=True, slots=True)
class Shard:
    """A model on one device of a tensor-parallel group."""

    model: Model
    tp: int
    formats: Formats
    fused: bool
    """Whether elementwise operations are fused into few kernels."""
    sharers: int = 1
    """Replicas over which the experts lie."""
    etp: int | None = None
    """Devices that cut each expert between them; None: those of the tensor-parallel group."""
    spread: Spread | None = None
    """Where experts lie, and how many rows go to each; None: as many, each once."""
    exchange: Exchange | None = None
    """The library that sends rows to the devices of their experts; None: ranks gather the rows of all."""
    dcp: int = 1
    """Devices that hold parts of the same cached tokens (decode context parallelism)."""
    queries_apart: bool = True
    """Whether each of these devices makes the queries of its own heads alone, which are gathered."""
    of_kinds: tuple[LayerKind, ...] = ()
    """Layers whose attention is meant; all that have some where left out."""
    core: AttentionCore = field(init=False, compare=False)
    """Attention of a layer on the fullest device."""
    kv_bytes: float = field(init=False, compare=False)
    """Bytes of the keys and values of one token in one layer; the mean of those with keys and values."""
    index_share: float = field(init=False, compare=False)
    """Share of the layers with an indexer of their own."""
    layers: "dict[tuple[bool, LayerKind], tuple[Piece, ...]]" = field(
        default_factory=dict, init=False, compare=False, repr=False
    )
    """Pieces of layers that were asked for."""

    def __post_init__(self) -> None:
        meant = [kind for kind in self.model.kinds if kind.attends and kind in (self.of_kinds or (kind,))]
        kind = next(iter(meant or self.of_kinds), None)
        ops = list(layers.attention_of(self.model, self.cut, kind)) if kind else []
        found = core(ops) if kind else NO_CORE
        if found is None:
            raise ValueError(f"attention of kind {self.model.attention} states no core")
        object.__setattr__(self, "core", found)
        counts = Counter(meant)
        size = self.formats.kv_size
        each = {kind: cached_bytes(layers.attention_of(self.model, self.cut, kind), size) for kind in counts}
        mean = sum(each[kind] * number for kind, number in counts.items()) / max(counts.total(), 1)
        object.__setattr__(self, "kv_bytes", mean if len(set(each.values())) > 1 else cached_bytes(ops, size))
        own = sum(n for kind, n in counts.items() if self.model.of(kind).index_heads is not None)
        object.__setattr__(self, "index_share", own / max(counts.total(), 1))

    @property
    def held_bytes(self) -> float:
        """Bytes of the keys and values of one token in one layer that a device keeps, the mean over tokens."""
        return self.kv_bytes / self.dcp

    def attends_as(self, kind: LayerKind) -> AttentionCore:
        """The attention of layers of one kind, whose heads may differ from those of others."""
        return core(layers.attention_of(self.model, self.cut, kind)) or NO_CORE

    def cached_of(self, kind: LayerKind) -> float:
        """Bytes of the keys and values of one token in a layer of one kind that a device keeps."""
        return cached_bytes(layers.attention_of(self.model, self.cut, kind), self.formats.kv_size) / self.dcp

    @property
    def cut(self) -> Cut:
        """How the axes cut the model."""
        sizes = {TP.name: self.tp, EP.name: self.sharers, ETP.name: self.etp or self.tp}
        return Cut(sizes, dispatch=GATHERED if self.exchange is None else SORTED)

    @property
    def heads(self) -> int:
        """Query heads of the fullest device."""
        return self.core.heads

    @property
    def kv_heads(self) -> int:
        """Key and value heads of the fullest device; copied where there are fewer than devices."""
        return self.core.kv_heads

    @property
    def head_dim(self) -> int:
        """Size of a head."""
        return self.core.head_dim

    @property
    def mean_dim(self) -> float:
        """Mean size of a head's keys and values."""
        return (self.core.head_dim + self.core.values) / 2

    @property
    def attended(self) -> int:
        """Inputs of the product after attention."""
        return self.core.attended

    @property
    def prompt_bytes(self) -> float:
        """Bytes of the keys and values of one token in one layer that a prompt's kernel reads: cached ones, or those
        that were expanded from the cached latent in the working precision."""
        if self.core.latent is None:
            return self.kv_bytes
        return 2.0 * self.core.kv_heads * self.mean_dim * self.formats.plain_size

    @property
    def decode_flops(self) -> float:
        """Multiplications and additions of all heads of one decode with one cached token in one layer."""
        return _decode_flops(self.core)

    def ops(self, kind: LayerKind) -> list[Op]:
        """Operations of a layer."""
        return list(layers.layer(self.model, self.cut, kind, beside=True, cached=True))

    def layer_bytes(self, kind: LayerKind) -> float:
        """Bytes of the weights of a layer: its matrices in their format, norms and routers as activations are. Blocks
        side by side are counted with a norm each, as GPT-NeoX and Falcon 40B have them."""
        ops = list(layers.layer(self.model, self.cut, kind))
        found = [tensor for tensor in tensors(ops) if tensor.kind != BIAS]
        linear = sum(tensor.elements for tensor in found if tensor.format == LAYER)
        plain = sum(tensor.elements for tensor in found if tensor.format != LAYER)
        experts = sum(tensor.elements for tensor in tensors(op for op in ops if isinstance(op.does, model_ops.Experts)))
        wider = self.formats.of_experts.weight_size - self.formats.weight_size
        if self.spread is not None and not self.spread.even:
            copies = experts * (self.spread.slots * self.spread.devices / self.spread.experts - 1.0)
            linear, experts = linear + copies, experts + copies
        linear += sum(width * outputs for width, outputs in self.query_copies(kind))
        return linear * self.formats.weight_size + experts * wider + plain * self.formats.plain_size

    def query_copies(self, kind: LayerKind) -> list[tuple[int, int]]:
        """(inputs, outputs) of a layer's products that make queries for the other devices with parts of its tokens."""
        if self.queries_apart or self.dcp == 1 or not kind.attends:
            return []
        ops = list(layers.attention_of(self.model, self.cut, kind))
        one = core(ops) or NO_CORE
        made = [op.does for op in ops if op.name in QUERY_PRODUCTS and isinstance(op.does, model_ops.Linear)]
        return [(does.inputs, one.heads * one.head_dim * (self.dcp - 1)) for does in made]

    def scan(self, kind: LayerKind) -> StateScan | None:
        """The recurrence of a layer on the fullest device; None where it has no state."""
        return scan(layers.attention_of(self.model, self.cut, kind))

    def state_bytes(self, kind: LayerKind) -> float:
        """Bytes of the states of a sequence in a layer, those of the convolution included, whatever its length."""
        found = self.scan(kind)
        return found.state * found.state_bytes + found.tail * self.formats.plain_size if found else 0.0

    def widest(self, kind: LayerKind) -> float:
        """Elements of the widest intermediates of a layer that a row has at once."""
        found = self.scan(kind)
        own = self.attends_as(kind)
        attention = found.kept if found else own.kept + own.attended if kind.attends else 0.0
        mlp = 0.0
        for op in self.ops(kind):
            if isinstance(op.does, model_ops.Elementwise) and op.does.kind == ACTIVATION:
                mlp += op.does.forward.read + op.does.forward.written
        return max(attention, mlp)

    def expert_rows(self, kind: LayerKind) -> float:
        """Elements that experts of a layer hold of a row: of each that it chose, its intermediates and its result."""
        experts = (op.does for op in self.ops(kind) if isinstance(op.does, model_ops.Experts))
        return sum(one.top_k * (one.inner * (3.0 if one.gated else 2.0) + one.hidden) for one in experts)

    def token_flops(self) -> float:
        """Multiplications and additions of the linear layers of all layers for one row."""
        counts = {kind: self.model.kinds.count(kind) for kind in set(self.model.kinds)}
        return 2.0 * sum(count * multiplied(filter(_linear, self.ops(kind))) for kind, count in counts.items())

    def context_flops(self) -> float:
        """Multiplications and additions of the attention of all layers for one query and one cached token."""
        each = {kind: _decode_flops(self.attends_as(kind)) for kind in set(self.model.kinds) if kind.attends}
        return sum(each[kind] for kind in self.model.kinds if kind.attends)

    def embedding_weights(self) -> float:
        """Weights of the input embedding."""
        return _tables(ends.embedding(self.model, self.cut))

    def head_weights(self) -> float:
        """Weights of the output head."""
        return _tables(ends.head(self.model, self.cut))


QUERY_PRODUCTS = ("attention in", "query", "query up")
"""Products of attention blocks that make queries."""
UNFUSED = ("attention out", "cross attention out")
"""Products whose input neither a norm nor an activation has written, but a kernel of attention."""
NO_CORE = AttentionCore(1, 1, 128)
"""Attention of models that have none: of no layer."""


def _decode_flops(attention: AttentionCore) -> float:
    if attention.latent is None:
        return 2.0 * attention.heads * (attention.head_dim + attention.values)
    return 2.0 * attention.heads * (attention.latent.width + attention.latent.values)


def _linear(op: Op) -> bool:
    return not (isinstance(op.does, model_ops.Linear) and op.does.format != LAYER)


def _tables(ops: Iterable[Op]) -> float:
    return sum(tensor.elements for tensor in tensors(ops) if tensor.format == TABLE)


def keys(shard: Shard) -> Iterator[Piece]:
    """Keys and values of one layer that prompts do not pass."""
    return pieces_of(shard, layers.keys(shard.model, shard.cut, shard.model.kinds[0]), joined=False)


def layer(shard: Shard, late: bool = False, kind: LayerKind | None = None) -> Iterator[Piece]:
    """One layer, apart from attention; `late`: the keys and values of its rows are there already."""
    part = QUERIES if late else WHOLE
    whole = kind or shard.model.kinds[0]
    known = shard.layers.get((late, whole))
    if known is None:
        ops = layers.layer(shard.model, shard.cut, whole, part, beside=True, cached=True)
        joined = _with_shared(ops, shard.spread.shared) if shard.spread and shard.spread.shared else ops
        known = shard.layers[late, whole] = tuple(pieces_of(shard, joined))
    return iter(known)


def _with_shared(ops: Iterable[Op], shared: int) -> Iterator[Op]:
    """Operations of a layer whose shared experts are more of the experts."""
    behind = False
    for op in ops:
        if isinstance(op.does, model_ops.Experts):
            behind = True
            more = replace(op.does, experts=op.does.experts + shared, top_k=op.does.top_k + shared)
            yield replace(op, does=more)
        elif not behind or op.name not in ("mlp in", "activation", "mlp out"):
            yield op


def embedding(shard: Shard) -> Iterator[Piece]:
    """Looking up the tokens and positions."""
    return pieces_of(shard, ends.embedding(shard.model, shard.cut))


def head(shard: Shard) -> Iterator[Piece]:
    """Last norm, logits of the sampled rows, gathered, and the choice of tokens over logits in fp32."""
    return pieces_of(shard, ends.with_choice(shard.model, shard.cut))


def context_parts(shard: Shard) -> Iterator[Piece]:
    """What the devices that hold parts of the same cached tokens do for the decodes of a layer: gather the queries of
    all their heads, and combine what each has found in its tokens: with the logarithms of the sums of weights in fp32,
    gathered, results are scaled and summed, each device keeping its heads (vLLM's `cp_lse_ag_out_rs`).

    Or each makes the queries of all their heads, and an exchange sends what it found, with a maximum and a sum of
    weights in fp32, to the device of each head, which scales and sums them in a kernel (Helix, arXiv:2507.07120).
    """
    if shard.dcp == 1:
        return
    core, size = shard.core, shard.formats.plain_size
    heads = core.heads * shard.dcp
    wide, values = (core.latent.width, core.latent.values) if core.latent else (core.head_dim, core.values)
    if not shard.queries_apart:
        kind = next(kind for kind in shard.model.kinds if kind.attends)
        yield from (Gemm("linear", outputs, inputs) for inputs, outputs in shard.query_copies(kind))
        yield Collective(CP.name, "all_to_all", heads * (values * size + 2 * 4.0), context=True)
        yield Elementwise("other", heads * values * size + core.heads * values * size)
        return
    for operation, row_bytes in (
        ("all_gather", heads * wide * size),
        ("all_gather", heads * shard.dcp * 4.0),
        ("reduce_scatter", heads * values * size),
    ):
        yield Collective(CP.name, operation, row_bytes, context=True)


def pieces_of(shard: Shard, ops: Iterable[Op], joined: bool = True) -> Iterator[Piece]:
    """Pieces of operations; `joined` norms add the residual before them."""
    formats, size = shard.formats, shard.formats.plain_size
    for op in ops:
        does = op.does
        if isinstance(does, model_ops.Linear):
            if does.format == LAYER and not (formats.fused_casts and op.name not in UNFUSED):
                yield from _cast(shard, does.inputs)
            plain = does.format == WIDE or (does.format == TABLE and not formats.whole)
            yield Gemm("head" if does.format == TABLE else "linear", does.outputs, does.inputs, plain)
        elif isinstance(does, model_ops.Elementwise):
            yield from _elementwise(shard, does, joined)
        elif isinstance(does, model_ops.Lookup):
            yield _passes(shard, (3.0 if does.learned else 2.0) * does.width * size)
        elif isinstance(does, model_ops.CacheWrite):
            yield Write("other", does.elements * formats.kv_size + does.fixed, does.elements * size + does.fixed)
        elif isinstance(does, model_ops.Experts):
            sizes = does.experts, does.top_k, does.hidden, does.inner, does.gated, does.sharers, shard.sharers > 1
            yield Experts("linear", *sizes)
        elif isinstance(does, model_ops.Sample):
            yield Elementwise("head", does.width * (size + 4.0 + 4.0), 3)
        elif isinstance(does, model_ops.Comm):
            if does.operation in EXPERT_EXCHANGES and shard.exchange is not None:
                sent = shard.exchange.row_bytes(does.operation, does.width)
                yield Collective(does.axis.name, does.operation, sent, among=True)
            elif does.operation != COPY:
                yield Collective(does.axis.name, does.operation, does.width * size, among=does.axis == EP)
        elif not isinstance(does, (AttentionCore, StateScan)):
            raise TypeError(f"{op.name}: {type(does).__name__} is not compiled for serving")


def _elementwise(shard: Shard, does: model_ops.Elementwise, joined: bool) -> Iterator[Piece]:
    """A residual addition is part of the norm that follows, which reads the stream too and writes their sum. Writing
    keys of two parts together is left out; decodes read the latents."""
    moved = does.forward.read + does.forward.written
    if does.kind == NORM and joined:
        moved *= 2.0
    if does.kind not in (RESIDUAL, PARTED):
        yield _passes(shard, moved * (does.element or shard.formats.plain_size))


def _passes(shard: Shard, row_bytes: float) -> Elementwise:
    """Elementwise kernels; unfused frameworks read and write about twice as much in twice as many of them."""
    factor = 1 if shard.fused else 2
    return Elementwise("other", row_bytes * factor, factor)


def _cast(shard: Shard, width: int) -> Iterator[Piece]:
    """Rounding the input of a product to a narrower format: one kernel, with scales that are known or that it finds for
    each row or block on its way (vLLM's scaled_fp8_quant, SGLang's per_token_group_quant_8bit, TensorRT-LLM's
    fp8_quantize_1x128)."""
    if shard.formats.cast:
        yield Elementwise("other", width * (shard.formats.plain_size + shard.formats.factor_size))


def launched(pieces: Iterable[Piece], stack: ServingStack) -> float:
    """Seconds in which the host launches a list of pieces one by one; a mixture of experts sorts its rows and runs two
    grouped products, five kernels at least."""
    each, experts = stack.kernel_launch.value, stack.experts_launch
    mixture = 5 * each if experts is None else experts.value
    return sum(
        each * piece.kernels if isinstance(piece, Elementwise) else mixture if isinstance(piece, Experts) else each
        for piece in pieces
    )
