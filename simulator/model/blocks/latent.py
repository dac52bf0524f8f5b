"""Multi-head latent attention: keys and values of all heads come from one narrow latent, which is what is cached.

Down-projections are whole on every device of tensor parallelism, up-projections cut by heads; the cache, which no head
owns, is copied (DeepSeek-V2, arXiv:2405.04434, section 2.1; layout as in Megatron-Core's multi_latent_attention.py).
Rows of a prompt or of training attend in full width (keys of `qk_nope_head_dim` + `qk_rope_head_dim`, values of
`v_head_dim`). A decode reads the latents themselves: the up-projection of keys is applied to its query, that of values
to its result, with the same weights and arithmetic for a row as expanding them, so that one product stands for both.

Where an indexer chooses the tokens of a row (`index_top_k`), rows of prompts and of training too attend over the
latents.

Left out: expanding the latents of cached tokens again for later chunks of a prompt, and, in serving, writing keys
together of their two parts.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from simulator.axes import TP
from simulator.model.blocks.around import PARTED, gate, rotary
from simulator.model.blocks.base import ATTENTIONS, KEYS, QUERIES, WHOLE, enter, leave
from simulator.model.cut import Cut
from simulator.model.ops import (
    COLUMN,
    ROW,
    WIDE,
    AttentionCore,
    CacheWrite,
    Elementwise,
    Indexer,
    Latent,
    Linear,
    Op,
    Traffic,
)
from simulator.specs.model import Model

LATENT_NORM = "latent norm"


@ATTENTIONS.add("mla")
def latent(model: Model, cut: Cut, window: int | None, part: str = WHOLE) -> Iterator[Op]:
    """From the normed rows to what the residual stream adds."""
    sizes = _Sizes.of(model, cut)
    yield from _latents(model, cut, sizes, part)
    if part != KEYS:
        yield from _queries(model, cut, sizes)
    if part == WHOLE:
        yield from enter(cut, "latent", sizes.cached)
        yield Op("key and value up", Linear(sizes.rank, sizes.expanded, COLUMN, TP))
        yield from _indexed(model, sizes)
    if model.position == "rotary":
        yield rotary(((sizes.heads if part != KEYS else 0) + (part != QUERIES)) * sizes.positions)
        if part == WHOLE:
            yield _parted(sizes)
    if part != QUERIES:
        scorer = indexer(model)
        yield Op("cache", CacheWrite(float(sizes.cached), scorer.key_bytes if scorer else 0.0))
    if part != KEYS:
        yield from _attended(model, cut, sizes)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes of the block on a device."""

    heads: int
    keys: int
    """Of a head's queries and keys."""
    values: int
    positions: int
    """Elements of a key with positions."""
    rank: int
    """Of the latent of keys and values."""
    queries: int | None
    """Of the latent of queries."""

    @staticmethod
    def of(model: Model, cut: Cut) -> "_Sizes":
        """Those of a model that has them all, as its spec checks."""
        assert model.kv_lora_rank and model.qk_nope_head_dim and model.qk_rope_head_dim and model.v_head_dim
        keys = model.qk_nope_head_dim + model.qk_rope_head_dim
        rotated, rank = model.qk_rope_head_dim, model.kv_lora_rank
        return _Sizes(cut.share(model.heads), keys, model.v_head_dim, rotated, rank, model.q_lora_rank)

    @property
    def cached(self) -> int:
        """Elements of a row in the cache."""
        return self.rank + self.positions

    @property
    def expanded(self) -> int:
        """Elements of keys without positions, and of values, of all heads."""
        return self.heads * (self.keys - self.positions + self.values)


def _latents(model: Model, cut: Cut, sizes: _Sizes, part: str) -> Iterator[Op]:
    """The narrow rows that queries, and keys and values, come from: one product for both."""
    queries = (sizes.queries or 0) if part != KEYS else 0
    width = queries + (sizes.cached if part != QUERIES else 0)
    biases = bool(model.biases if model.attention_biases is None else model.attention_biases)
    if width:
        yield Op("attention down", Linear(model.hidden, width, rows=cut.rows, bias=biases))
    if part != QUERIES:
        yield _norm(sizes.rank, cut)
    if queries:
        yield _norm(queries, cut)


def _queries(model: Model, cut: Cut, sizes: _Sizes) -> Iterator[Op]:
    """Queries of the device's heads, from their latent or at once."""
    width = sizes.heads * sizes.keys
    if sizes.queries is None:
        yield from enter(cut, "attention", model.hidden)
        yield Op("query", Linear(model.hidden, width, COLUMN, TP, bias=model.biases, keeps=cut.rows is not None))
    else:
        yield from enter(cut, "query latent", sizes.queries)
        yield Op("query up", Linear(sizes.queries, width, COLUMN, TP))


def _parted(sizes: _Sizes) -> Op:
    """Writing keys of all heads together of their two parts, and values apart from them; backward the way back
    (Megatron-Core's fused kernel, `ApplyMLARotaryEmbKV`)."""
    apart = float(sizes.expanded + sizes.positions)
    whole = float(sizes.heads * (sizes.keys + sizes.values))
    back = ((PARTED, Traffic(whole, apart)),)
    return Op(PARTED, Elementwise(PARTED, Traffic(apart, whole), back))


def indexer(model: Model) -> Indexer | None:
    """What chooses the tokens that a row attends to, where the layer has one of its own."""
    return Indexer(model.index_heads, model.index_head_dim) if model.index_heads and model.index_head_dim else None


def _indexed(model: Model, sizes: _Sizes) -> Iterator[Op]:
    """Queries, one key, and weights of the heads of the indexer, whole on every device (DeepSeek-V3.2,
    arXiv:2512.02556, section 2.1)."""
    scorer = indexer(model)
    if scorer is None:
        return
    width = scorer.heads * scorer.head_dim
    yield Op("index query", Linear(sizes.queries or model.hidden, width, keeps=False))
    yield Op("index key", Linear(model.hidden, scorer.head_dim, keeps=False))
    yield Op("index weights", Linear(model.hidden, scorer.heads, format=WIDE, keeps=False))
    moved = Traffic(width + scorer.head_dim, (width + scorer.head_dim) / 2, 2)
    back = (("index cast", Traffic(width + scorer.head_dim, width + scorer.head_dim)),)
    kept = float(width + scorer.head_dim + scorer.heads)
    yield Op("index cast", Elementwise("index cast", moved, back, kept=kept))


def _attended(model: Model, cut: Cut, sizes: _Sizes) -> Iterator[Op]:
    """Attention in full width, or over the cached latents, and what follows it."""
    kept, absorbed = float(sizes.heads * (2 * sizes.keys + sizes.values)), Latent(sizes.cached, sizes.rank)
    core = AttentionCore(
        sizes.heads,
        sizes.heads,
        sizes.keys,
        causal=cut.causal,
        kept=kept,
        value_dim=sizes.values,
        latent=absorbed,
        chosen=model.index_top_k,
        indexer=indexer(model),
        sinks=model.attention_sinks,
    )
    yield Op("attention", core)
    if model.attention_gate:
        yield from enter(cut, "attention gate", model.hidden)
        yield Op("attention gate", Linear(model.hidden, core.attended, COLUMN, TP, keeps=cut.rows is not None))
        yield gate(core.attended)
    yield Op("attention out", Linear(core.attended, model.hidden, ROW, TP, bias=model.biases))
    yield from leave(cut, "attention", model.hidden)


def _norm(width: int, cut: Cut) -> Op:
    """The root-mean-square norm of a latent."""
    back = ((LATENT_NORM, Traffic(2.0 * width, width, 2)),)
    return Op(LATENT_NORM, Elementwise(LATENT_NORM, Traffic(width, width), back, width, (width,), cut.rows))
