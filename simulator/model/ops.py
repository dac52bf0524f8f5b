"""Operations on rows: what a block states, without a device, a number of rows, or a number format.

A row is a token that passes a block. Sizes are those of the fullest device; where a dimension is cut by an axis, the
operation names the axis. Bytes follow where an operation is evaluated: an element takes what the formats of training or
serving say, unless the operation states it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from simulator.axes import Axis
from simulator.specs.model import BlockMask

LAYER = "layer"
"""Format of the matrices of the layers: what is quantised, or multiplied in 8 bits."""
WIDE = "wide"
"""Format of what stays in the working precision."""
TABLE = "table"
"""Format of embedding and output head."""

COLUMN = "column"
"""Each device has some of the outputs of a product."""
ROW = "row"
"""Each device has some of the inputs of a product, so that results are partial sums."""
_OTHER = {COLUMN: ROW, ROW: COLUMN, "": ""}

SHARED_EXPERTS = "shared experts"
"""Owner of operations that need nothing of rows that travel to other experts."""
TIED = "tied"
"""Owner of operations whose parameters are those of another one, and counted there."""

COPY = "copy"
"""Every device takes the rows as they are; their gradients are partial sums."""


@dataclass(frozen=True, slots=True)
class Linear:
    """Rows times a matrix of inputs x outputs."""

    inputs: int
    outputs: int
    cut: str = ""
    """`column`, `row`, or empty where every device has the whole matrix."""
    axis: Axis | None = None
    """The axis that cuts it."""
    format: str = LAYER
    bias: bool = False
    """Whether it adds a bias to its outputs."""
    spread: Axis | None = None
    """The axis over which its matrices are spread: that of experts."""
    matrices: int = 1
    """Matrices of that size on this device, of which each takes as many of the rows: those of its experts."""
    visits: float = 1.0
    """Rows that it takes for each row on the device."""
    rows: Axis | None = None
    """The axis that cuts its rows."""
    copies: int = 0
    """Of these matrices, those that are copies of other devices'."""
    keeps: bool = True
    """Whether it keeps its rows for the backward pass; not where another product of the same rows does."""

    @property
    def weights(self) -> float:
        """Elements of all its matrices."""
        return float(self.inputs * self.outputs * self.matrices)

    @property
    def copied(self) -> float:
        """Elements of those that are copies."""
        return float(self.inputs * self.outputs * self.copies)

    def to_input(self) -> "Linear":
        """The product that gives the gradient of its rows."""
        return replace(self, inputs=self.outputs, outputs=self.inputs, cut=_OTHER[self.cut], bias=False)


@dataclass(frozen=True, slots=True)
class WeightGradient:
    """The product that gives the gradient of a product's matrix: gradients of its outputs times its rows."""

    of: Linear


@dataclass(frozen=True, slots=True)
class Traffic:
    """Elements of a row that an elementwise kernel reads and writes."""

    read: float
    written: float
    kernels: int = 1
    masks_read: float = 0.0
    """Elements of a dropout mask, of one byte."""
    masks_written: float = 0.0


@dataclass(frozen=True, slots=True)
class Elementwise:
    """A pass over rows; each tensor that a fused kernel reads or writes counts once."""

    kind: str
    """What it is, for the rules of stacks that fuse some kinds: `norm`, `residual`, `rotary`, `activation`, ..."""
    forward: Traffic
    back: tuple[tuple[str, Traffic], ...] = ()
    """Its kernels in the backward pass, by name."""
    kept: float = 0.0
    """Elements of a row that its backward pass reads and no product keeps."""
    weights: tuple[int, ...] = ()
    """Sizes of vectors of parameters, whole on every device."""
    axis: Axis | None = None
    """The axis that cuts its rows, as sequence parallelism does."""
    element: float | None = None
    """Bytes of an element where it is the same in all formats."""


@dataclass(frozen=True, slots=True)
class Masked:
    """Rows brought to slots of experts, or from them, by products with a mask that has one column a slot (GShard,
    arXiv:2006.16668, algorithm 1): backward the opposite, and for what comes back the gradient of the mask."""

    width: int
    """Elements of a row."""
    slots: float
    """Slots, those of all experts, for each row."""
    group: int
    """Rows that share a mask."""
    returns: bool = False
    """Whether rows come back from the slots, weighed by the mask."""
    backward: bool = False
    rows: Axis | None = None
    """The axis that cuts the rows."""

    @property
    def columns(self) -> int:
        """Slots of a group, columns of its mask."""
        return max(round(self.slots * self.group), 1)


@dataclass(frozen=True, slots=True)
class AttentionCore:
    """Scores, softmax and weighted sum of the rows over the tokens before them."""

    heads: int
    kv_heads: int
    head_dim: int
    window: int | None = None
    """Tokens that it looks back to; None for all."""
    causal: bool = True
    kept: float = 0.0
    """Elements of a row that it reads and its backward pass reads again."""
    backward: bool = False
    value_dim: int | None = None
    """Size of a head's values where it is not that of its keys."""
    latent: "Latent | None" = None
    """What decodes read where a token's keys and values are cached as one vector for all heads."""
    chosen: int | None = None
    """Tokens that a row attends to at most, those that an indexer chose; None for all."""
    indexer: "Indexer | None" = None
    """What chooses them, where this layer has one of its own."""
    sinks: bool = False
    """Whether each head has a learned score without a value."""
    chunked: bool = False
    """Whether `window` is the length of blocks that tokens do not see out of, in place of a distance back."""
    blocks: BlockMask | None = None
    """Blocks of keys that it is worked out for; None for all."""
    encoded: float | None = None
    """Tokens of an encoder for each row, to which it attends in place of the rows; None for these themselves."""

    @property
    def values(self) -> int:
        """Size of a head's values."""
        return self.value_dim or self.head_dim

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Query heads, key heads, elements of a key and of a value."""
        return self.heads, self.kv_heads, self.head_dim, self.values

    @property
    def attended(self) -> int:
        """Elements of a row of its result."""
        return self.heads * self.values


@dataclass(frozen=True, slots=True)
class Latent:
    """A cached vector that every query head reads whole, up-projections being absorbed into queries and results."""

    width: int
    """Elements that scores are made of."""
    values: int
    """Those of them that are summed."""


@dataclass(frozen=True, slots=True)
class StateScan:
    """A recurrence over the rows of a sequence: each updates the state of every head and reads from it.

    Training and prefill run it chunk by chunk, decoding reads and writes the whole state for each row.
    """

    kind: str
    """`delta`, `kda`, `gla`, `lightning`, `mamba1`, `mamba2`."""
    heads: int
    """Heads with a state of their own on this device."""
    key_heads: int
    """Heads of queries and keys, or groups, on this device."""
    key_dim: int
    value_dim: int
    chunk: int
    """Rows that are worked on together."""
    kept: float = 0.0
    """Elements of a row that it reads and its backward pass reads again."""
    tail: int = 0
    """Elements of a sequence that the convolution before it keeps of earlier rows."""
    state_bytes: float = 4.0
    """Bytes of an element of the state between passes."""
    backward: bool = False

    @property
    def state(self) -> int:
        """Elements of the states of a sequence on this device, whatever its length."""
        return self.heads * self.key_dim * self.value_dim

    @property
    def flops(self) -> float:
        """Multiplications and additions of a row's forward pass as published (docs/models/linear.md)."""
        return self.heads * _SCAN_FLOPS[self.kind](self.key_dim, self.value_dim, self.chunk)

    @property
    def moved(self) -> float:
        """Elements of a row that are read and written at least: queries, keys, values, results."""
        return 2.0 * (self.key_heads * self.key_dim + self.heads * self.value_dim)


def _attended_chunk(key: int, value: int, chunk: int) -> float:
    return 4.0 * key * value + 2.0 * chunk * (key + value)


_SCAN_FLOPS: dict[str, Callable[[int, int, int], float]] = {
    "delta": lambda key, value, _: 8.0 * key * value,
    "kda": lambda key, value, chunk: 6.0 * key * value + 3.0 * chunk * key + chunk**2,
    "gla": _attended_chunk,
    "lightning": _attended_chunk,
    "mamba1": lambda key, value, _: 9.0 * key * value,
    "mamba2": lambda key, value, _: 7.0 * key * value,
}
"""FLOP of a row and head: Megatron-LM's counts (delta, mamba2), arXiv:2510.26692 equation 13 (kda), chunks of
arXiv:2312.06635 (gla, lightning), the count of Mamba's selective scan (mamba1)."""


@dataclass(frozen=True, slots=True)
class Indexer:
    """Scores of a row with all tokens before it, summed over narrow heads that share one key."""

    heads: int
    head_dim: int

    @property
    def key_bytes(self) -> float:
        """Bytes of a cached key: 8 bits an element and one scale in fp32."""
        return self.head_dim + 4.0


@dataclass(frozen=True, slots=True)
class CacheWrite:
    """What a row leaves in the cache of its layer, in elements."""

    elements: float
    fixed: float = 0.0
    """Bytes besides that are the same in all formats of the cache."""


@dataclass(frozen=True, slots=True)
class Experts:
    """Every row times the matrices of each of its `top_k` of `experts` experts."""

    experts: int
    top_k: int
    hidden: int
    inner: int
    """Inner width of an expert on this device."""
    gated: bool
    axis: Axis
    """The axis over which the experts are spread."""
    sharers: int
    """Devices along it."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A row of a table for each token, and of another for its position."""

    width: int
    entries: int
    """Of the table on this device."""
    learned: bool = False
    """Whether positions are looked up too."""
    positions: int = 0
    """Of the table of positions, which every device has whole."""
    masked: float = 0.0
    """Elements of a row under dropout."""
    rows: Axis | None = None
    """The axis that cuts its result's rows."""
    axis: Axis | None = None
    """The axis that cuts the table."""


@dataclass(frozen=True, slots=True)
class Loss:
    """Cross entropy over the logits of a row."""

    width: int
    """Logits on this device."""
    backward: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """The choice of a token over the gathered logits of a row."""

    width: int


@dataclass(frozen=True, slots=True)
class Comm:
    """A collective of an axis over rows."""

    operation: str
    """As collective libraries call it, or `copy`."""
    axis: Axis
    width: float
    """Elements of a row of the full buffer."""
    rows: Axis | None = None
    """The axis that cuts the rows of the buffer."""
    kept: bool = False
    """Whether what was gathered is kept for the backward pass, which else gathers it again."""
    whole: bool = False
    """Whether all devices go on with the same of what was gathered, so that each has the gradient of its own part."""


Does = (
    Linear
    | WeightGradient
    | Elementwise
    | Masked
    | AttentionCore
    | StateScan
    | CacheWrite
    | Experts
    | Lookup
    | Loss
    | Sample
    | Comm
)


@dataclass(frozen=True, slots=True)
class Op:
    """One operation of a block; each waits for the one before it unless `after` names another."""

    name: str
    does: Does
    after: str = ""
    gradient: bool = False
    """Whether it computes a gradient of weights, which nothing else in the backward pass waits for."""
    frozen: bool = False
    """Whether its parameters are not trained: they have no gradient, and its rows are not kept for one."""
    owner: str = ""
    """Whose it is where it is not its layer's own: `SHARED_EXPERTS`, or `TIED`."""
