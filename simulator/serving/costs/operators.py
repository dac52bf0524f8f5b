"""The forward pass of one pipeline stage on one device, as pieces whose cost depends on the rows of the pass.

A row is a token that the pass works on; t devices of a tensor-parallel group cut heads and the inner width of the MLP,
so that a layer ends each half with a sum over the group (Shoeybi et al., arXiv:1909.08053). Attention reads the cache
and is not among the pieces: its cost depends on contexts. What a device holds is rounded up where sizes do not divide.

Where attention and MLP stand side by side (GPT-J, Falcon), their parts are added first and one sum ends the layer.

Left out: biases (added where products are written), copies and reshapes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.serving.costs.formats import Formats
from simulator.specs.model import Model


@dataclass(frozen=True, slots=True)
class Product:
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
    sharers: int = 1
    """Replicas over which the experts are spread."""


@dataclass(frozen=True, slots=True)
class Pass:
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
class Sum:
    """A collective operation on the rows of a buffer, of a tensor-parallel group or of replicas that share experts."""

    part: str
    operation: str
    row_bytes: float
    """Bytes of a row of the full buffer."""
    among: bool = False
    """Whether the replicas that share experts take part, and not the tensor-parallel group."""


Piece = Product | Experts | Pass | Write | Sum


def together(piece: Piece) -> bool:
    """Whether a piece works on the rows of all replicas that share experts, and not on those of one."""
    return (isinstance(piece, Sum) and piece.among) or (isinstance(piece, Experts) and piece.sharers > 1)


@dataclass(frozen=True, slots=True)
class Shard:
    """A model on one device of a tensor-parallel group."""

    model: Model
    tp: int
    formats: Formats
    fused: bool
    """Whether elementwise operations are fused into few kernels."""
    sharers: int = 1
    """Replicas over which the experts are spread."""

    @property
    def heads(self) -> int:
        """Query heads of the fullest device."""
        return -(-self.model.heads // self.tp)

    @property
    def kv_heads(self) -> int:
        """Key and value heads of the fullest device; copied where there are fewer than devices."""
        return -(-self.model.kv_heads // self.tp)

    @property
    def qkv(self) -> int:
        """Columns of the product before attention."""
        return (self.heads + 2 * self.kv_heads) * self.model.head_dim

    @property
    def attended(self) -> int:
        """Inputs of the product after attention."""
        return self.heads * self.model.head_dim

    @property
    def inner(self) -> int:
        """Inner width of the dense MLP, or of one expert."""
        model = self.model
        return -(-(model.ffn if model.experts is None else model.expert_ffn or model.ffn) // self.tp)

    @property
    def vocabulary(self) -> int:
        """Entries of the vocabulary on one device."""
        return -(-self.model.vocabulary // self.tp)

    @property
    def kv_bytes(self) -> float:
        """Bytes of the keys and values of one token in one layer."""
        return 2.0 * self.kv_heads * self.model.head_dim * self.formats.kv_size

    def linear_weights(self) -> float:
        """Weights of the linear layers of one layer, experts included."""
        model = self.model
        attention = float(model.hidden * (self.qkv + self.attended))
        mlp = float(model.hidden * self.inner * (3 if model.gated_ffn else 2))
        if model.experts is None:
            return attention + mlp
        return attention + mlp * (model.experts / self.sharers + model.shared_experts)

    def token_flops(self) -> float:
        """Multiplications and additions of the linear layers of all layers for one row."""
        model = self.model
        mlps = 1 if model.top_k is None else model.top_k + model.shared_experts
        attention = float(model.hidden * (self.qkv + self.attended))
        return 2.0 * model.layers * (attention + mlps * model.hidden * self.inner * (3 if model.gated_ffn else 2))

    def context_flops(self) -> float:
        """Multiplications and additions of the attention of all layers for one query and one cached token."""
        return 4.0 * self.model.layers * self.heads * self.model.head_dim

    def plain_weights(self) -> float:
        """Weights of one layer that stay in 16 bits: norms and the router."""
        model = self.model
        return model.hidden * (4.0 if model.norm == "layernorm" else 2.0) + model.hidden * float(model.experts or 0)

    def embedding_weights(self) -> float:
        """Weights of the input embedding."""
        positions = (self.model.max_sequence or 0) if self.model.position == "learned" else 0
        return float(self.vocabulary + positions) * self.model.hidden

    def head_weights(self) -> float:
        """Weights of the output head."""
        return float(self.vocabulary) * self.model.hidden


def _passes(shard: Shard, row_bytes: float, kernels: int = 1) -> Pass:
    """Elementwise kernels; unfused frameworks read and write about twice as much in twice as many of them."""
    factor = 1 if shard.fused else 2
    return Pass("other", row_bytes * factor, kernels * factor)


def _cast(shard: Shard, width: int) -> Iterator[Piece]:
    """Rounding the input of a product to a narrower format: the scale of each row, then the row."""
    if shard.formats.cast:
        yield Pass("other", width * (shard.formats.plain_size + shard.formats.factor_size), 2)


def keys(shard: Shard) -> Iterator[Piece]:
    """Keys and values of one layer that prompts do not pass."""
    model, size = shard.model, shard.formats.plain_size
    yield _passes(shard, 2.0 * model.hidden * size)
    yield from _cast(shard, model.hidden)
    yield Product("linear", 2 * shard.kv_heads * model.head_dim, model.hidden)
    if model.position == "rotary":
        yield _passes(shard, 2.0 * shard.kv_heads * model.head_dim * size)
    yield Write("other", shard.kv_bytes, shard.kv_bytes * size / shard.formats.kv_size)


def layer(shard: Shard, late: bool = False) -> Iterator[Piece]:
    """One layer, apart from attention; `late`: the keys and values of its rows are there already."""
    model, size = shard.model, shard.formats.plain_size
    norm_and_residual = _passes(shard, 4.0 * model.hidden * size)
    yield norm_and_residual
    yield from _cast(shard, model.hidden)
    kv_heads = 0 if late else shard.kv_heads
    yield Product("linear", (shard.heads + 2 * kv_heads) * model.head_dim, model.hidden)
    if model.position == "rotary":
        yield _passes(shard, 2.0 * (shard.heads + kv_heads) * model.head_dim * size)
    if not late:
        yield Write("other", shard.kv_bytes, shard.kv_bytes * size / shard.formats.kv_size)
    yield from _cast(shard, shard.attended)
    yield Product("linear", model.hidden, shard.attended)
    if model.parallel_mlp:
        yield _passes(shard, 3.0 * model.hidden * size)  # both branches are read and their sum is written
    else:
        yield from _sum(shard)
        yield norm_and_residual
    yield from _mlp(shard) if model.experts is None else _experts(shard)
    yield from _sum(shard)


def _mlp(shard: Shard, width: int | None = None) -> Iterator[Piece]:
    """A dense MLP of the given inner width."""
    model, inner, size = shard.model, width or shard.inner, shard.formats.plain_size
    gates = 2 if model.gated_ffn else 1
    yield from _cast(shard, model.hidden)
    yield Product("linear", gates * inner, model.hidden)
    yield _passes(shard, (gates + 1.0) * inner * size)
    yield from _cast(shard, inner)
    yield Product("linear", model.hidden, inner)


def _experts(shard: Shard) -> Iterator[Piece]:
    """Router, choice, experts; the shared ones run as one dense MLP."""
    model = shard.model
    assert model.experts is not None and model.top_k is not None
    yield Product("linear", model.experts, model.hidden, plain=True)
    yield _passes(shard, 8.0 * model.experts)
    sent = model.hidden * shard.formats.plain_size
    if shard.sharers > 1:
        yield Sum("ep", "all_gather", sent, among=True)
    yield Experts("linear", model.experts, model.top_k, model.hidden, shard.inner, model.gated_ffn, shard.sharers)
    if shard.sharers > 1:
        yield Sum("ep", "reduce_scatter", sent, among=True)
    if model.shared_experts:
        yield from _mlp(shard, shard.inner * model.shared_experts)


def _sum(shard: Shard) -> Iterator[Piece]:
    if shard.tp > 1:
        yield Sum("tp", "all_reduce", shard.model.hidden * shard.formats.plain_size)


def embedding(shard: Shard) -> Iterator[Piece]:
    """Looking up the tokens and positions."""
    passes = 3.0 if shard.model.position == "learned" else 2.0
    yield _passes(shard, passes * shard.model.hidden * shard.formats.plain_size)
    yield from _sum(shard)


def head(shard: Shard) -> Iterator[Piece]:
    """Last norm, logits of the sampled rows, gathered, and the choice of tokens over logits in fp32."""
    model, size = shard.model, shard.formats.plain_size
    yield _passes(shard, 4.0 * model.hidden * size)
    yield Product("head", shard.vocabulary, model.hidden, plain=not shard.formats.whole)
    if shard.tp > 1:
        yield Sum("tp", "all_gather", shard.vocabulary * shard.tp * size)
    yield Pass("head", model.vocabulary * (size + 4.0 + 4.0), 3)


def kernels(pieces: Iterator[Piece]) -> int:
    """Launches of a list of pieces; a mixture of experts sorts its rows and runs two grouped products."""
    return sum(piece.kernels if isinstance(piece, Pass) else 5 if isinstance(piece, Experts) else 1 for piece in pieces)
