"""Time of a fused attention kernel from its blocks of rows.

Each block of query rows of each head walks over the keys that it attends to; blocks are spread over the cores, the
longest first where causal. Time is the launch plus a smooth maximum of the compute and memory roofs. The backward pass
is the same walk with 2.5 times the arithmetic and rates of its own. Symbols and sources: docs/models/compute.md.

Left out: writing a cache of keys and values, dropout inside the kernel, sliding windows.
"""

from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class AttentionCurve:
    """Coefficients of one generation of kernels on one device, in SI units."""

    peak: float
    """FLOP/s that are never exceeded."""
    bandwidth: float
    """Bytes/s of device memory that are reached by large transfers."""
    cores: int
    """Cores that blocks are spread over."""
    rows: int
    """Query rows of a block."""
    forward: tuple[tuple[int, float], ...]
    """(head size, FLOP/s of one core), rising, for the sizes that are known."""
    backward: tuple[tuple[int, float], ...]
    """The same for the backward pass."""
    launch: float
    """Seconds from one kernel to the next that are no work."""
    block: float
    """Seconds that a block costs beyond its walk."""
    backward_block: float
    """The same in the backward pass."""
    tail: float
    """Share of the longest block by which the cores finish unevenly."""


def rate_at(head_dim: int, known: tuple[tuple[int, float], ...]) -> float:
    """Rate at a head size: linear between known ones, proportional to the size below them, constant above them."""
    if head_dim <= known[0][0]:
        return known[0][1] * head_dim / known[0][0]
    for (below, low), (above, high) in pairwise(known):
        if head_dim <= above:
            return low + (high - low) * (head_dim - below) / (above - below)
    return known[-1][1]


def walked(query: int, context: int, causal: bool, rows: int) -> tuple[int, int]:
    """(blocks of a head, sum over its blocks of the keys that they walk over); the last query sees the last key."""
    blocks = -(-query // rows)
    if not causal:
        return blocks, blocks * context
    before = context - query
    idle = max(0, -before) // rows  # blocks that see no key at all
    ends = rows * (blocks * (blocks + 1) - idle * (idle + 1)) // 2 - (blocks * rows - query)
    return blocks, (blocks - idle) * before + ends


def attention_seconds(
    heads: int,
    query: int,
    context: int,
    head_dim: int,
    causal: bool,
    backward: bool,
    bytes_moved: float,
    curve: AttentionCurve,
    slower: float = 1.0,
) -> tuple[float, float, float]:
    """(time, part of the compute roof, part of the memory roof) in seconds.

    `heads` are those of all sequences; `slower` is the 16-bit peak over that of the format, where it is wider.
    """
    rates, block = (curve.backward, curve.backward_block) if backward else (curve.forward, curve.block)
    per_key = slower * 4.0 * curve.rows * head_dim * (2.5 if backward else 1.0) / rate_at(head_dim, rates)
    blocks, keys = walked(query, context, causal, curve.rows)
    longest = block + context * per_key
    compute = max(longest, heads * (blocks * block + keys * per_key) / curve.cores + curve.tail * longest)
    memory = bytes_moved / curve.bandwidth
    return curve.launch + (compute**4 + memory**4) ** 0.25, compute, memory
