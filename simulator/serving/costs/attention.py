"""Attention of the layers of a stage: decodes as lines in the cached tokens, chunks of prompts as blocks of rows.

The launch of one attention kernel a layer is part of `StageCost.rows`, so that neither decodes nor prompts have it.
Equations and known errors: docs/models/serving-cost.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from simulator.cost import Device
from simulator.cost.attention import AttentionCurve, beyond, rate_at, walked
from simulator.cost.decode import DecodeCurve, Parts, decode_lines
from simulator.cost.device import sixteen_bit
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.in_turns import score_seconds
from simulator.serving.costs.operators import Shard
from simulator.serving.costs.states import States
from simulator.specs.serving import ServingStack
from simulator.units import TICKS_PER_SECOND

Segments = tuple[tuple[int, int, int], ...]

FAR = 1 << 62
"""More cached tokens than there will be."""
PAGED = "paged"
"""Kernels of which the rate of 8-bit caches was measured; those of other engines are taken to read them as fast as 16
bits."""
MOST_CUTS = 16
"""Parts into which the walk of a block of rows is cut at most, by kernels that cut."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention of the layers of a stage on one device of a tensor-parallel group."""

    shard: Shard
    layers: Depth
    device: Device
    stack: ServingStack
    gather: float = 0.0
    """Seconds in which a layer's keys and values of a cached token come from the devices that hold parts of them, for a
    chunk of a prompt after it."""
    curve: AttentionCurve = field(init=False)
    """Kernel of prompts."""
    cuts_all: bool = field(init=False)
    """Whether walks are cut for idle cores."""
    scale: float = field(init=False)
    """Ticks of all layers for a second of one."""
    prompt_scale: float = field(init=False)
    """The same of the layers that prompts pass."""
    per_key: float = field(init=False)
    """Seconds in which one core passes a block of rows over one key."""
    row_seconds: tuple[float, float] = field(init=False)
    """Seconds of the memory for the query and result of a row: beside the keys, and apart from the walk."""
    token_seconds: float = field(init=False)
    """Seconds of the memory for the keys and values of a token."""
    expand_seconds: float = field(init=False)
    """Seconds to gather a cached token and expand its latent for a chunk after it; 0 where keys and values are cached
    whole."""
    score_seconds: float = field(init=False)
    """Seconds of the memory for the scores of a row and a key, of all heads; 0 where the kernel is fused."""
    windowed: float = field(init=False)
    """Share of the layers that have a sliding window."""
    states: States = field(init=False)
    """Recurrences of the layers that have no attention."""

    def __post_init__(self) -> None:
        shard, curve, decode = self.shard, kernel(self.device, self.stack), self.device.decode
        row = 2.0 * shard.heads * shard.mean_dim * shard.formats.plain_size
        for name, value in {
            "curve": curve,
            "cuts_all": decode.cuts_all,
            "scale": self._layers(self.layers.layers) * TICKS_PER_SECOND / self.stack.kernel_efficiency.value,
            "prompt_scale": self._layers(self.layers.full) * TICKS_PER_SECOND / self.stack.kernel_efficiency.value,
            "states": States(self.shard, self.layers, self.device, self.stack),
            "per_key": 4.0 * curve.rows * shard.mean_dim / rate_at(shard.head_dim, curve.forward),
            "row_seconds": (row / curve.bandwidth, row / decode.query),
            "token_seconds": shard.prompt_bytes / curve.bandwidth,
            "expand_seconds": self._expanded(curve) + self.gather,
            "windowed": self.layers.windowed_share(shard.model),
            "score_seconds": shard.heads * score_seconds(self.device, self.stack, curve.bandwidth),
        }.items():
            object.__setattr__(self, name, value)

    def _expanded(self, curve: AttentionCurve) -> float:
        """Seconds of the product that makes keys and values of a cached token from its latent, and of writing them."""
        core = self.shard.core
        if core.latent is None:
            return 0.0
        expanded = core.heads * (core.head_dim - (core.latent.width - core.latent.values) + core.values)
        rate = curve.cores * rate_at(core.head_dim, curve.forward)
        return 2.0 * core.latent.values * expanded / rate + self.shard.prompt_bytes / curve.bandwidth

    def _layers(self, count: int) -> int:
        return self.layers.attending(self.shard.model, count)

    def decode(self, sequences: int, queries: int = 1) -> Segments:
        """(up to this many cached tokens, base, slope) of the ticks of `sequences` decodes, see `StageCost.decode`.

        Each has `queries` rows that look back at the same cached tokens, which are read once for all of them.
        """
        if sequences == 0:
            return ((FAR, 0, 0),)
        lines, step = self._decode(sequences, queries), self.states.step(sequences * queries)
        return tuple((end, base + step, slope) for end, base, slope in lines)

    def _decode(self, sequences: int, queries: int) -> Segments:
        """The same of attention alone."""
        if not self.scale:
            return ((FAR, 0, 0),)
        shard = self.shard
        narrow = shard.formats.kv_size < 2.0 and self.stack.attention_kernel == PAGED
        latent = shard.core.latent is not None
        kv_heads = 1 if latent else shard.kv_heads
        group = 1.0 if latent else shard.heads / kv_heads  # all heads of a latent are one block
        (floor, _), (base, slope) = decode_lines(
            sequences,
            kv_heads,
            group * shard.dcp,  # heads of all that hold parts of these tokens, on this part of them
            shard.held_bytes,
            shard.decode_flops * queries,
            narrow,
            latent or self.stack.groups(group, shard.head_dim),
            self._latents if latent else self.device.decode,
            shard.core.heads,
        )
        least, start, step = (round(time * self.scale) for time in (floor, base, slope))
        known = min(round(self.curve.launch * self.scale), start)
        least, start = least - known, start - known
        if start >= least or step == 0:
            lines: Segments = ((FAR, max(start, least), step),)
        else:
            lines = (((least - start) // step, least, 0), (FAR, start, step))
        core = shard.core
        if core.chosen is None:
            return self._windowed(lines, sequences, shard.model.window, self.windowed)
        launch, token = (round(time * self.scale) for time in self._index(queries))
        chosen = self._windowed(lines, sequences, core.chosen, 1.0)  # each query reads tokens of its own choice
        return tuple((end, queries * base + launch, queries * slope + token) for end, base, slope in chosen)

    @property
    def _latents(self) -> DecodeCurve:
        """The kernel of decodes over latents: that of the device, or the engine's own."""
        device, walks = self.device, self.stack.latent_walks
        if walks is None:
            return device.latent
        flops = walks.rate.value * sixteen_bit(device.peaks) / device.latent.cores
        return replace(device.latent, parts=Parts(walks.parts.value, walks.heads, walks.start.value, flops))

    def _index(self, queries: int) -> tuple[float, float]:
        """(seconds, seconds a cached token) in which the indexer of a layer scores the tokens before some queries of a
        sequence, layers without one of their own counted in; the choice of the highest is part of the launch."""
        scorer, device = self.shard.core.indexer, self.device
        if scorer is None:
            return 0.0, 0.0
        flops = 2.0 * queries * scorer.heads * scorer.head_dim / self._index_rate()
        share = self.shard.index_share
        return 2 * share * device.latent.launch, share * max(scorer.key_bytes / device.latent.bandwidth, flops)

    def _index_rate(self) -> float:
        """FLOP/s of the indexer's scores: the share of the peak of latent attention, in 8 bits where there are any."""
        return self.device.latent.arithmetic * self.device.peak("fp8") / self.device.peak("bf16")

    def _windowed(self, lines: Segments, sequences: int, window: int | None, share: float) -> Segments:
        """Lines of decodes of which a share of the layers reads no more than a window of each sequence.

        Sequences are taken to be alike: beyond `sequences` windows of cached tokens those layers take no longer.
        """
        if window is None:
            return lines
        floor, (_, base, slope) = lines[:-1], lines[-1]
        end, less = sequences * window, round(slope * (1.0 - share))
        if floor and end <= floor[-1][0]:  # windows are full before reading takes longer than the floor
            end, reached, _ = floor[-1]
            return (*floor, (FAR, reached - less * end, less))
        return (*floor, (end, base, slope), (FAR, base + (slope - less) * end, less))

    def shared(self, sequences: int) -> tuple[int, int]:
        """(base, slope in the prefix's tokens) of the ticks of decodes that read a prefix together.

        The queries of all `sequences` and of all query heads of a key head are the rows of one product. What they find
        is put together with what each finds in its own tokens, so that walks over the prefix are cut as suits the
        cores.
        """
        curve, shard, latent = self.curve, self.shard, self.shard.core.latent
        kv_heads = 1 if latent else shard.kv_heads
        blocks = -(-sequences * -(-shard.heads // kv_heads) // curve.rows) * kv_heads
        waves = min(-(-blocks * cuts // curve.cores) / cuts for cuts in range(1, MOST_CUTS + 1))
        compute = waves * self.per_key
        if latent:
            compute *= (latent.width + latent.values) / (2.0 * shard.mean_dim)
        token: float = (compute**4 + (shard.held_bytes / curve.bandwidth) ** 4) ** 0.25
        base = curve.launch + blocks * curve.block / curve.cores + sequences * self.row_seconds[1]
        return round(base * self.scale), round(token * self.scale)

    def prompt(self, chunk: int, before: int) -> int:
        """Ticks of a chunk of a prompt after so many cached tokens."""
        if chunk == 0:
            return 0
        if self.shard.model.window is not None or self.shard.core.chosen is not None or self.states.scans:
            return self.prompts(((chunk, before),))
        # `_chunk` and `_kernel` in one, as every iteration with a prompt asks for it.
        curve, heads, keys, rows = self.curve, self.shard.heads, chunk + before, self.curve.rows
        blocks = -(-chunk // rows)
        walked_keys = blocks * before + rows * (blocks * (blocks + 1)) // 2 - (blocks * rows - chunk)
        longest = curve.block + keys * self.per_key
        if self.cuts_all:
            longest /= min(MOST_CUTS, max(1, curve.cores // (blocks * heads)))
        compute = heads * (blocks * curve.block + walked_keys * self.per_key) / curve.cores + curve.tail * longest
        compute = longest if longest > compute else compute
        memory = chunk * self.row_seconds[0] + keys * (self.token_seconds + chunk * self.score_seconds)
        walk: float = (compute**4 + memory**4) ** 0.25
        return round((walk + chunk * self.row_seconds[1] + before * self.expand_seconds) * self.prompt_scale)

    def prompts(self, pieces: Iterable[tuple[int, int]]) -> int:
        """Ticks of chunks (tokens, cached tokens before them) of prompts in one kernel."""
        taken = [(chunk, before) for chunk, before in pieces if chunk]
        share, window = self.windowed, self.shard.model.window
        if not taken:
            return 0
        passed = self.states.passed([chunk for chunk, _ in taken])
        if not self.prompt_scale:
            return passed
        if self.shard.core.chosen is not None:
            return self._sparse(taken, self.shard.core.chosen) + passed
        whole = self._prompts(taken, FAR)
        if self.expand_seconds:
            whole += round(sum(before for _, before in taken) * self.expand_seconds * self.prompt_scale)
        if window is not None:
            whole = round((1.0 - share) * whole + share * self._prompts(taken, window))
        return whole + passed

    def both_ways(self, pieces: Iterable[int]) -> int:
        """Ticks of pieces of so many rows in one kernel, each row of which sees all of its piece."""
        return self.across((size, size) for size in pieces)

    def across(self, pieces: Iterable[tuple[int, int]]) -> int:
        """Ticks of pieces of (rows, keys) in one kernel, each row of which sees all keys of its piece."""
        curve, rows, work, longest, memory = self.curve, 0, 0.0, 0.0, 0.0
        for size, seen in pieces:
            blocks, keys = walked(size, seen, False, curve.rows)
            walk = curve.block + seen * self.per_key
            if self.cuts_all:
                walk /= min(MOST_CUTS, max(1, curve.cores // (blocks * self.shard.heads)))
            rows, longest = rows + size, max(longest, walk)
            work += self.shard.heads * (blocks * curve.block + keys * self.per_key)
            memory += size * self.row_seconds[0] + seen * (self.token_seconds + size * self.score_seconds)
        return self._kernel(work, longest, memory, rows) if rows else 0

    def _sparse(self, pieces: Sequence[tuple[int, int]], chosen: int) -> int:
        """Ticks of chunks whose rows attend to the latents of so many tokens, and of the indexer that chooses them;
        heads are filled up to what the kernel works on."""
        core, pairs = self.shard.core, sum(chunk * before + chunk * (chunk + 1) / 2 for chunk, before in pieces)
        assert core.latent is not None
        filled = -(-core.heads // self.device.padded_heads) * self.device.padded_heads / core.heads
        wider = filled * (core.latent.width + core.latent.values) / (2.0 * self.shard.mean_dim)
        scored = 0.0
        if core.indexer is not None:
            flops = 2.0 * core.indexer.heads * core.indexer.head_dim * pairs
            scored = self.shard.index_share * (flops / self._index_rate() + self.device.latent.launch)
        return round(wider * self._prompts(pieces, chosen) + scored * self.prompt_scale)

    def _prompts(self, pieces: Iterable[tuple[int, int]], window: int) -> int:
        """Ticks of chunks in one kernel whose rows look back to so many tokens."""
        rows, work, longest, memory = 0, 0.0, 0.0, 0.0
        for chunk, before in pieces:
            own, walk, read = self._chunk(chunk, before, window)
            rows, work, memory = rows + chunk, work + own, memory + read
            longest = walk if walk > longest else longest
        return self._kernel(work, longest, memory, rows)

    def _chunk(self, chunk: int, before: int, window: int) -> tuple[float, float, float]:
        """Seconds of a chunk: of all its blocks on one core, of its longest walk, of the memory."""
        curve, heads, per_key = self.curve, self.shard.heads, self.per_key
        blocks, keys = walked(chunk, chunk + before, True, curve.rows)
        keys -= beyond(chunk, before, window, curve.rows)
        longest = curve.block + min(chunk + before, curve.rows + window) * per_key
        if self.cuts_all:  # idle cores take parts of each walk; all end about when the longest part does
            longest /= min(MOST_CUTS, max(1, curve.cores // (blocks * heads)))
        seen = min(chunk + before, chunk + window)
        memory = chunk * self.row_seconds[0] + seen * (self.token_seconds + chunk * self.score_seconds)
        return heads * (blocks * curve.block + keys * per_key), longest, memory

    def _kernel(self, work: float, longest: float, memory: float, rows: int) -> int:
        """Ticks of a kernel of so many rows, see cost/attention.py; its launch is part of `StageCost.rows`."""
        compute = max(longest, work / self.curve.cores + self.curve.tail * longest)
        walk: float = (compute**4 + memory**4) ** 0.25
        return round((walk + rows * self.row_seconds[1]) * self.prompt_scale)


def summed(lines: Sequence[Segments]) -> Segments:
    """Segments of several kernels one after the other, as those of one."""
    if len(lines) == 1:
        return lines[0]
    found = []
    for limit in sorted({end for line in lines for end, _, _ in line}):
        here = [next(segment for segment in line if limit <= segment[0]) for line in lines]
        found.append((limit, sum(base for _, base, _ in here), sum(slope for *_, slope in here)))
    return tuple(found)


def kernel(device: Device, stack: ServingStack) -> AttentionCurve:
    """The kernel of prompts that the stack asks for, else the best that the device has."""
    return device.attention.get(stack.attention_kernel or "", device.attention[device.best_attention])
