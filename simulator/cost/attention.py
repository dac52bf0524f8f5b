"""Time of a fused attention kernel from its blocks of rows.

Each block of query rows of each head walks over the keys that it attends to; blocks are spread over the cores, the
longest first where causal. Time is the launch plus a smooth maximum of the compute and memory roofs. The backward pass
is the same walk with 2.5 times the arithmetic and rates of its own. Symbols and sources: docs/models/compute.md.

Under a window a block starts that far before its first row; blocks of packed documents end where their document does.
Left out: writing a cache of keys and values, dropout inside the kernel.
"""

from collections.abc import Sequence
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
    narrow: tuple[tuple[int, float], ...] = ()
    """(head size, rate in 8 bits over that in 16), rising; nothing where it has no such kernels."""
    narrow_backward: tuple[tuple[int, float], ...] = ()
    """The same for the backward pass."""

    def in_eight_bits(self, head_dim: int, backward: bool) -> float:
        """Rate with factors in 8 bits over that in 16; 1 where there are no such kernels."""
        known = self.narrow_backward if backward else self.narrow
        return rate_at(head_dim, known) if known else 1.0


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


def beyond(chunk: int, before: int, window: int, rows: int) -> int:
    """Keys that the blocks of a chunk do not walk over as each starts a window before its first row."""
    blocks = -(-chunk // rows)
    first = max(0, (window - before) // rows + 1)  # the first block with keys out of reach
    if first >= blocks:
        return 0
    count = blocks - first
    return count * (before - window) + rows * (first + blocks - 1) * count // 2


def walked_within(query: int, context: int, window: int, chunked: bool, rows: int) -> tuple[int, int, int]:
    """(blocks, keys, longest walk) of a causal head under a window; in blocks of that length where `chunked`."""
    if chunked:
        parts = [window] * (context // window) + [context % window] * (context % window > 0)
        found = [walked(part, part, True, rows) for part in parts]
        return sum(blocks for blocks, _ in found), sum(keys for _, keys in found), window
    blocks, keys = walked(query, context, True, rows)
    return blocks, keys - beyond(query, context - query, window, rows), min(context, rows + window)


def walks(
    parts: Sequence[tuple[int, int, int]], causal: bool, window: int | None, chunked: bool, rows: int
) -> tuple[int, int, int]:
    """(blocks of a head, keys, longest walk) over parts of (number, queries, keys), each of which sees only itself."""
    blocks = keys = most = 0
    for count, query, context in parts:
        if window is None or not causal or window >= context:
            found = *walked(query, context, causal, rows), context
        else:
            found = walked_within(query, context, window, chunked, rows)
        blocks, keys, most = blocks + count * found[0], keys + count * found[1], max(most, found[2])
    return blocks, keys, most


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
    value_dim: int | None = None,
    window: int | None = None,
    chunked: bool = False,
    parts: Sequence[tuple[int, int, int]] = (),
    density: float = 1.0,
) -> tuple[float, float, float]:
    """(time, part of the compute roof, part of the memory roof) in seconds.

    `heads` are those of all sequences, which may be packed of `parts` as in `walks`; `slower` is the 16-bit peak over
    that of the format, where it is wider. `value_dim` is the size of values where it is not that of keys, `window` as
    in `cost.work.Attention`, and `density` the share of the keys that a block mask leaves.
    """
    rates, block = (curve.backward, curve.backward_block) if backward else (curve.forward, curve.block)
    values = value_dim or head_dim
    passes = (3 * head_dim + 2 * values) / (head_dim + values) if backward else 1.0
    per_key = slower * 4.0 * curve.rows * ((head_dim + values) / 2) * passes / rate_at(head_dim, rates)
    blocks, keys, most = walks(parts or ((1, query, context),), causal, window, chunked, curve.rows)
    per_key *= density
    longest = block + most * per_key
    compute = max(longest, heads * (blocks * block + keys * per_key) / curve.cores + curve.tail * longest)
    memory = bytes_moved / curve.bandwidth
    return curve.launch + (compute**4 + memory**4) ** 0.25, compute, memory
