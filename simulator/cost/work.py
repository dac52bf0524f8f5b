"""What a kernel has to do: shapes and traffic, without a device.

A work item is a small frozen value; `kernel.kernel_cost` turns it into seconds on a device. FLOP conventions are
fixed here: a product of matrices counts 2 m n k, fused attention counts its two products over the full square
(half of it where causal) and 2.5 times that backward (five products instead of two), as FlashAttention does
(arXiv:2307.08691, section 4). Under a window only the pairs within it count.
"""

from dataclasses import dataclass
from typing import NamedTuple

ELEMENT_BYTES = {
    "fp64": 8.0,
    "fp32": 4.0,
    "tf32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp16_acc16": 2.0,
    "fp8": 1.0,
    "fp8_block": 1.0,
    "int8": 1.0,
    "int4": 0.5,
    "fp4": 0.5,
}
"""Bytes of one element as it lies in memory, without scales; `fp8_block` is fp8 with a scale for each block."""


@dataclass(frozen=True, slots=True)
class Gemm:
    """`batch` independent products (m x k) times (k x n); results of fp8 and narrower are written in 2 bytes."""

    m: int
    """Rows of the result; tokens in a forward pass."""
    n: int
    """Columns of the result."""
    k: int
    """Summed dimension."""
    batch: int = 1
    """Independent products in one launch."""
    dtype: str = "bf16"
    """Format of both factors."""

    @property
    def flops(self) -> float:
        """Multiplications and additions."""
        return 2.0 * self.m * self.n * self.k * self.batch

    @property
    def bytes(self) -> float:
        """Least traffic: both factors read once, the result written once."""
        size = ELEMENT_BYTES[self.dtype]
        return self.batch * (size * (self.m * self.k + self.k * self.n) + max(size, 2.0) * self.m * self.n)


def attended_pairs(query: int, context: int, causal: bool, window: int | None = None, chunked: bool = False) -> float:
    """Pairs of a query and a key of a sequence of which the last `query` positions ask: the square, half of it below
    them where causal; under a window those within it, S w - w (w - 1) / 2 of a whole sequence."""
    if not causal:
        return float(query * context)
    before = max(context - query, 0)
    return _pairs_of_all(context, window, chunked) - _pairs_of_all(before, window, chunked)


def _pairs_of_all(length: int, window: int | None, chunked: bool) -> float:
    """Pairs of a causal sequence of which all positions ask."""
    if window is None or window >= length:
        return length * length / 2
    if chunked:
        blocks, rest = divmod(length, window)
        return (blocks * window * (window + 1) + rest * (rest + 1)) / 2
    return length * window - window * (window - 1) / 2


class Document(NamedTuple):
    """Parts of sequences that attend to nothing outside, all of the same shape."""

    number: int
    query: int
    """Query positions of each."""
    context: int
    """Key and value positions of each, of which a causal query is among the last ones."""


@dataclass(frozen=True, slots=True)
class Attention:
    """One fused attention kernel: softmax(Q K^T) V without score matrices in memory."""

    batch: int
    """Sequences."""
    heads: int
    """Query heads on this device."""
    kv_heads: int
    """Key and value heads on this device."""
    query: int
    """Query positions per sequence."""
    context: int
    """Key and value positions per sequence."""
    head_dim: int
    """Size of a head."""
    causal: bool
    """Whether a position attends to its past only."""
    dtype: str = "bf16"
    """Format of Q, K and V."""
    backward: bool = False
    """Gradients of Q, K and V (scores recomputed) instead of the forward pass."""
    kernel: str | None = None
    """Generation of the kernel (`fa1`, `fa2`, `fa3`); None takes the best that the device has."""
    value_dim: int | None = None
    """Size of a head's values where it is not `head_dim`."""
    window: int | None = None
    """Tokens that a causal position looks back to, itself included; None for all."""
    chunked: bool = False
    """Whether `window` is the length of blocks that positions do not see out of."""
    documents: tuple[Document, ...] = ()
    """What each sequence is packed of, in one kernel of variable lengths; empty where positions see the whole of it."""
    density: float = 1.0
    """Share of the pairs that a block mask leaves, in whole blocks."""

    @property
    def parts(self) -> tuple[Document, ...]:
        """What attends to itself alone, of each sequence."""
        return self.documents or (Document(1, self.query, self.context),)

    @property
    def mean_dim(self) -> float:
        """Mean size of a head's keys and values."""
        return (self.head_dim + (self.value_dim or self.head_dim)) / 2

    @property
    def passes(self) -> float:
        """Products over those of the forward pass: scores, values, and backward three of keys' and two of values' size
        in place of one each."""
        values = self.value_dim or self.head_dim
        return (3 * self.head_dim + 2 * values) / (self.head_dim + values) if self.backward else 1.0

    @property
    def flops(self) -> float:
        """4 b h d over the pairs attended to; 2.5 times that backward."""
        pairs = sum(
            part.number * attended_pairs(part.query, part.context, self.causal, self.window, self.chunked)
            for part in self.parts
        )
        return 4.0 * self.batch * self.heads * pairs * self.density * self.mean_dim * self.passes

    @property
    def bytes(self) -> float:
        """Least traffic: Q, K, V and the result once; backward reads five tensors and writes three gradients."""
        queries = self.heads * sum(part.number * part.query for part in self.parts)
        keys = self.kv_heads * sum(part.number * part.context for part in self.parts)
        tensors = 4 * queries + 4 * keys if self.backward else 2 * queries + 2 * keys
        return ELEMENT_BYTES[self.dtype] * self.batch * self.mean_dim * tensors


@dataclass(frozen=True, slots=True)
class Stream:
    """Kernels that pass over memory: elementwise, normalisation, softmax, embedding, optimizer."""

    read_bytes: float
    """Bytes read."""
    write_bytes: float
    """Bytes written."""
    kernels: int = 1
    """Launches that the traffic is spread over evenly."""
    flops: float = 0.0
    """Arithmetic in the vector units (fp32)."""

    @property
    def bytes(self) -> float:
        """Bytes read and written."""
        return self.read_bytes + self.write_bytes


@dataclass(frozen=True, slots=True)
class Decode:
    """Attention of one query a sequence over cached keys and values."""

    sequences: int
    """Sequences that decode together."""
    context: int
    """Cached tokens of all of them together."""
    heads: int
    """Query heads on this device."""
    kv_heads: int
    """Key and value heads on this device."""
    head_dim: int
    """Size of a head."""
    kv_bytes: float = 2.0
    """Bytes of a cached number."""
    grouped: bool = True
    """Whether the kernel reads keys and values once for all query heads of a group."""
    latent: int | None = None
    """Elements of `head_dim`, which the one key of all heads has, that are its value too (latent attention)."""

    @property
    def flops(self) -> float:
        """Products with keys and with values."""
        if self.latent is not None:
            return 2.0 * self.heads * self.context * (self.head_dim + self.latent)
        return 4.0 * self.heads * self.context * self.head_dim

    @property
    def bytes(self) -> float:
        """Least traffic: keys and values of every cached token once."""
        if self.latent is not None:
            return self.context * self.head_dim * self.kv_bytes
        return 2.0 * self.kv_heads * self.context * self.head_dim * self.kv_bytes


@dataclass(frozen=True, slots=True)
class Scan:
    """A recurrence over the rows of sequences, chunk by chunk: linear attention, state-space layers."""

    kind: str
    """`delta`, `kda`, `gla`, `lightning`, `mamba1`, `mamba2`."""
    batch: int
    """Sequences."""
    length: int
    """Rows of a sequence."""
    heads: int
    """Heads with a state on this device."""
    state: int
    """Numbers of the state of a head."""
    row_flops: float
    """Multiplications and additions of a row of all heads."""
    row_bytes: float
    """Bytes that a row of all heads reads and writes at least."""
    backward: bool = False
    """Gradients instead of the forward pass."""

    @property
    def flops(self) -> float:
        """Multiplications and additions of the forward pass, as published."""
        return self.batch * self.length * self.row_flops

    @property
    def bytes(self) -> float:
        """Least traffic of the forward pass."""
        return self.batch * self.length * self.row_bytes


Work = Gemm | Attention | Stream | Decode | Scan
