"""What passes are made of on one rank: kernels, collectives, and turns of ranks that go on together."""

from typing import NamedTuple

from simulator.axes import TP
from simulator.cost.work import Attention, Gemm, Scan, Stream

Work = Gemm | Attention | Stream | Scan
SHARD, EXPERTS = "shard", " of experts"
"""Groups that hold different shards of the same parameters, and what follows where these are those of experts."""


def shard_sets(experts: bool) -> str:
    """The groups over which parameters are spread."""
    return SHARD + EXPERTS * experts


class Collective(NamedTuple):
    """One collective of the groups of an axis."""

    name: str
    operation: str
    size: float
    """Bytes of the full buffer, as nccl-tests count them."""
    axis: str = TP.name
    part: tuple[int, int] | None = None
    """(ranks, distance between them in the group) of the parts of the axis' groups that run it; None for all."""
    near_memory: bool = False
    """Whether it is sent and reduced without multiprocessors."""
    bulk: bool = False
    """Whether the product that it runs beside neither takes nor gives what it moves."""
    among: str = ""
    """The groups that run it where they are not those of the axis: those that parameters are spread over."""


class Kernel(NamedTuple):
    """One kernel on the device."""

    name: str
    work: Work
    weight_gradient: bool = False
    """Whether it computes a gradient of weights, which nothing in the backward pass waits for."""
    launches: int = 1
    """Kernels that the host launches for it."""
    calls: int = 0
    """Calls of the framework that launch them; 0: one each."""
    beside: tuple[Collective, ...] = ()
    """Collectives that run beside it, one after the other, where the stack overlaps communication."""
    share: float = 1.0
    """Share of the work that this is, where parts of one kernel are counted apart."""
    times: int = 1
    """How often it runs in a row."""


def with_casts(work: Attention) -> tuple[Kernel, ...]:
    """Fused attention, after the casts of its factors where they have 8 bits. Each is read in 16 bits and written along
    both sides, which have scales of their own: queries, keys and values, in the backward pass the result's gradient."""
    kernel = Kernel("attention", work)
    if work.dtype != "fp8":
        return (kernel,)
    values = work.value_dim or work.head_dim
    queries, keys = work.batch * work.heads * work.query, work.batch * work.kv_heads * work.context
    elements = float(queries * values if work.backward else queries * work.head_dim + keys * (work.head_dim + values))
    cast = Stream(read_bytes=2 * elements, write_bytes=2 * elements, kernels=1 if work.backward else 3)
    return Kernel("cast attention", cast), kernel


class Turn(NamedTuple):
    """Kernels of the ranks of a group that go on together: each waits for the slowest of them."""

    name: str
    ranks: tuple[tuple[Work, ...], ...]
    """Kernels of each rank that has others than the ranks before it, one after the other."""
    beside: tuple[Collective, ...] = ()
    """Collectives that run beside them, one after the other."""


Single = Kernel | Collective | Turn


class Chunks(NamedTuple):
    """A work in equal parts, each of which needs rows of other ranks and sends results back.

    Rows of the parts to come and results of those before travel beside the kernels of a part; gradients of weights may
    follow what it sends.
    """

    parts: int
    steps: tuple[Single, ...]
    """Those of one part: what it needs, kernels, what it sends."""
    meanwhile: tuple[Single, ...] = ()
    """Other work while the first part travels."""
    afterwards: tuple[Single, ...] = ()
    """Other work while the results of the last one travel."""


Step = Single | Chunks
