"""Time of decode attention: one query a sequence, reading the cache of keys and values.

Each sequence and key head is a block that walks over its cached tokens; long walks are cut into parts for idle cores
where the kernel can. With K cached tokens of all n sequences together, time is the larger of two lines in K,

    floor:  launch + w                                w = sequence x n + block x max(0, n g - cores)
    stream: launch + overlap x w + K x max(bytes / rate, FLOPs / peak)

for g key heads: few tokens cost what their blocks cost, many what their bytes cost. `rate` is the sustained share of
the memory bandwidth, or what the n g busy cores reach alone where walks are not cut. Kernels that cut every walk into
as many parts take ceil(blocks / cores) rounds, each as long as a part. Fit and errors: docs/models/serving-cost.md.
Left out: uneven lengths, which leave cores idle at the end.
"""

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True, slots=True)
class Parts:
    """Walks that are cut into as many parts whatever the batch."""

    count: int
    """Parts of each walk."""
    heads: int
    """Query heads of a block."""
    start: float
    """Seconds of a block beside its tokens."""
    flops: float
    """FLOP/s of a block."""


@dataclass(frozen=True, slots=True)
class DecodeCurve:
    """Coefficients on one device, in SI units."""

    peak: float
    """Bytes/s of the memory, never exceeded."""
    arithmetic: float
    """FLOP/s that are never exceeded."""
    bandwidth: float
    """Bytes/s that many tokens in 16 bits are read at."""
    narrow: float
    """The same for 8 bits and less."""
    core: float
    """Bytes/s that one core reads alone."""
    cores: int
    """Cores that blocks are spread over."""
    launch: float
    """Seconds that are no work, of all kernels that belong to it."""
    gather: float
    """Seconds more where walks are cut and their parts gathered."""
    sequence: float
    """Seconds of a sequence."""
    block: float
    """Seconds of a block beyond the first one of each core, all cores together."""
    overlap: float
    """Share of the time of sequences and blocks that is not hidden behind reading."""
    cuts_all: bool
    """Whether walks are cut also where every query head has keys of its own."""
    write: float
    """Bytes/s at which keys and values are written."""
    write_token: float
    """Least seconds of a token that is written."""
    query: float
    """Bytes/s at which queries and results of prompts move beside the walk over the keys."""
    reread: float
    """Bytes/s of the last-level cache, for kernels that read keys once for each query head of a group."""
    parts: Parts | None = None
    """Of kernels that cut every walk into as many."""


def decode_lines(
    sequences: int,
    kv_heads: int,
    group: float,
    token_bytes: float,
    token_flops: float,
    narrow: bool,
    grouped: bool,
    curve: DecodeCurve,
    heads: int = 1,
) -> tuple[tuple[float, float], tuple[float, float]]:
    """(seconds, seconds a cached token) of the two lines whose larger one is the time.

    `token_bytes` are those of the keys and values of a token, `token_flops` what all query heads do with them, `group`
    the query heads of a key head; `narrow` says whether the cache has 8 bits or fewer, `grouped` whether the kernel
    reads keys once for all query heads of a group. `heads` are those that the blocks of a sequence share where every
    walk is cut into as many parts.
    """
    split = curve.cuts_all or (grouped and group > 1)
    work = curve.sequence * sequences + curve.block * max(0, sequences * kv_heads - curve.cores)
    rate = curve.narrow if narrow else curve.bandwidth
    if not split:
        rate = min(rate, sequences * kv_heads * (1 if grouped else group) * curve.core)
    again = 0.0 if grouped else group / curve.reread
    launch = curve.launch + (curve.gather if split else 0.0)
    per_token = max(token_bytes / min(rate, curve.peak), token_bytes * again, token_flops / curve.arithmetic)
    if curve.parts is not None:
        start, token = _rounds(sequences, heads, token_flops, curve.parts, curve.cores)
        launch, per_token = launch + start, max(per_token, token)
    return (launch + work, 0.0), (launch + curve.overlap * work, per_token)


def _rounds(sequences: int, heads: int, token_flops: float, parts: Parts, cores: int) -> tuple[float, float]:
    """(seconds, seconds a cached token of all sequences together) of rounds of blocks, one on each core."""
    groups = ceil(heads / parts.heads)
    rounds = ceil(sequences * groups * parts.count / cores)
    flops = token_flops / heads * parts.heads
    return rounds * parts.start, rounds * flops / (parts.flops * parts.count * sequences)


def decode_seconds(
    sequences: int,
    context: float,
    kv_heads: int,
    group: float,
    token_bytes: float,
    token_flops: float,
    narrow: bool,
    grouped: bool,
    curve: DecodeCurve,
    heads: int = 1,
) -> float:
    """Seconds of `sequences` decodes that read `context` cached tokens together; other arguments as `decode_lines`."""
    lines = decode_lines(sequences, kv_heads, group, token_bytes, token_flops, narrow, grouped, curve, heads)
    return max(base + slope * context for base, slope in lines)


def write_seconds(tokens: float, token_bytes: float, wide_bytes: float, launch: float, curve: DecodeCurve) -> float:
    """Seconds to write keys and values of `tokens` tokens, read as `wide_bytes` each, to the cache."""
    return launch + tokens * max(curve.write_token, (token_bytes + wide_bytes) / min(curve.write, curve.peak))
