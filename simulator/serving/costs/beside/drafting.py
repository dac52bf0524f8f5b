"""What drafting adds to an iteration: passes of the module, head or model that drafts, and the logits of each draft.

The first pass works on all rows of the iteration, those of prompts among them, as the draft keeps keys and values of
its own; each further token takes a pass of one row a sequence (`width` rows where a tree grows). So g drafted tokens
of s sequences in an iteration of T rows take

    layers(T) + head(s) + (g - 1) (layers(w s) + head(w s))

beside the attention of each pass. A draft that gives k tokens a pass (Falcon, arXiv:2412.12639) takes g / k passes, in
each of which s or w s is k times as much. Medusa's heads take one pass of s rows; n-grams, and what the verifying pass
itself proposes, take nothing. Left out: the choice among candidates on the host, and rejected rows that are masked.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from simulator.cost import Device
from simulator.errors import InputError, Problem
from simulator.serving.costs.attention import Segments
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.footprint import Footprint
from simulator.serving.costs.formats import resolve_formats
from simulator.serving.costs.head_shapes import AnyAttention, attention_of_stage, cached_token
from simulator.serving.costs.operators import Gemm, Piece, Shard, head
from simulator.serving.costs.pieces import Ints, Pieces, RowCosts, fill
from simulator.specs.model import LayerKind, Model
from simulator.specs.serving import NumberFormats, ServingStack
from simulator.specs.speculation import Speculation

Kinds = tuple[tuple[LayerKind, int], ...]
"""(kind, layers) of what drafts."""
REMEMBERED = 1 << 15
"""Iterations whose ticks are kept."""


@dataclass(slots=True)
class Drafting:
    """Costs of drafting on one stage, the last."""

    spec: Speculation
    layers: RowCosts | None
    """Of a pass; None where nothing passes layers."""
    head: RowCosts | None
    """Of the logits of a pass; of all heads at once for Medusa."""
    attention: AnyAttention | None
    common: RowCosts | None
    """Of a pass, what replicas in step that share experts do together."""
    exchanges: tuple[RowCosts, RowCosts] | None = None
    """Of a pass, sending rows to their experts, as `StageCost.exchanges`."""
    _layers: dict[int, int] = field(default_factory=dict)
    _head: dict[int, int] = field(default_factory=dict)
    _common: dict[int, int] = field(default_factory=dict)
    _exchanges: tuple[dict[int, int], dict[int, int]] = field(default_factory=lambda: ({}, {}))
    _ticks: dict[tuple[int, ...], int] = field(default_factory=dict)
    _together: dict[tuple[int, ...], int] = field(default_factory=dict)
    _exchanged: dict[tuple[int, ...], int] = field(default_factory=dict)

    def ticks(self, rows: int, sequences: int, decoding: int) -> int:
        """Ticks of an iteration of so many rows after which `sequences` draft, `decoding` of which were verified."""
        known = self._ticks.get((rows, sequences, decoding))
        if known is None:
            known = self._iteration(rows, sequences, decoding)
            _remember(self._ticks, (rows, sequences, decoding), known)
        return known

    def _iteration(self, rows: int, sequences: int, decoding: int) -> int:
        """Ticks of `ticks`, which are not known yet."""
        length = self.spec.length(decoding)
        if not length or self.head is None:
            return 0
        if self.layers is None:
            return _known(self._head, self.head, sequences)
        first = _known(self._head, self.head, sequences * self.spec.per_pass)
        wide = sequences * self.spec.width * self.spec.per_pass
        further = _known(self._layers, self.layers, wide) + _known(self._head, self.head, wide)
        return _known(self._layers, self.layers, rows) + first + (self.spec.passes(length) - 1) * further

    def together(self, rows: int, sampled: int) -> int:
        """Ticks of the experts of all passes for the rows of all replicas in step, `sampled` of which are verified."""
        if self.common is None:
            return 0
        known = self._together.get((rows, sampled))
        if known is None:
            passes = self.spec.passes(self.spec.draft_length)
            further = (passes - 1) * _known(self._common, self.common, self._drafted(sampled))
            known = _known(self._common, self.common, rows) + further
            _remember(self._together, (rows, sampled), known)
        return known

    def exchanged(self, most: int, rows: int) -> int:
        """Ticks of sending the rows of all passes to their experts and back: of the rank with `most` rows, and of all
        ranks together."""
        if self.exchanges is None:
            return 0
        known = self._exchanged.get((most, rows))
        if known is None:
            known = self._sent_by_all(most, rows)
            _remember(self._exchanged, (most, rows), known)
        return known

    def _sent_by_all(self, most: int, rows: int) -> int:
        """Ticks of `exchanged`, which are not known yet."""
        if not self.spec.draft_length:
            return 0
        passes = self.spec.passes(self.spec.draft_length)
        further = (passes - 1) * self._sent(self._drafted(most), self._drafted(rows))
        return self._sent(most, rows) + further

    def _sent(self, most: int, rows: int) -> int:
        known = zip(self._exchanges, self.exchanges or (), (most, rows), strict=True)
        return max(_known(found, cost, count) for found, cost, count in known)

    def _drafted(self, verified: int) -> int:
        """Rows of a further pass for so many that were verified."""
        return -(-verified // self.spec.most_rows) * self.spec.width * self.spec.per_pass

    def decode(self, sequences: int) -> tuple[Segments, ...]:
        """Lines of the attention of decodes, pass by pass, see `Attention.decode`."""
        length = self.spec.length(sequences)
        if self.attention is None or not length:
            return ()
        further = self.attention.decode(sequences, self.spec.width * self.spec.per_pass)
        passes = self.spec.passes(length)
        return (self.attention.decode(sequences, self.spec.rows(sequences)), *(further,) * (passes - 1))

    def prompts(self, pieces: Iterable[tuple[int, int]]) -> int:
        """Ticks of the attention of chunks of prompts, each (tokens, cached tokens before them)."""
        return 0 if self.attention is None else self.attention.prompts(pieces)


def _remember(found: dict[tuple[int, ...], int], key: tuple[int, ...], ticks: int) -> None:
    """Keep the ticks of an iteration, all of them forgotten where there are too many."""
    if len(found) >= REMEMBERED:
        found.clear()
    found[key] = ticks


def _known(found: dict[int, int], cost: RowCosts, count: int) -> int:
    """Ticks for a number of rows, remembered."""
    if count not in found:
        fill(found, count, cost)
    return found[count]


def assumed(spec: Speculation | None) -> tuple[str, ...]:
    """What a run takes for granted of what is accepted."""
    if spec is None:
        return ()
    length = spec.draft_length
    if spec.tokens_per_step is not None:
        of = "as stated"
    else:
        rates = [spec.acceptance] if isinstance(spec.acceptance, float) else spec.rates(length)
        of = f"accepted with {', '.join(f'{100 * (rate or 0.0):.3g} %' for rate in rates)}"
    source = f" ({spec.source})" if spec.source else ", an assumption without a source"
    return (f"{length} drafted tokens give a sequence {spec.mean():.3g} an iteration on average: {of}{source}",)


def verified_rows(spec: Speculation | None, decodes: Ints) -> Ints:
    """Rows that so many decodes have in an iteration, for each number of them."""
    if spec is None or not len(decodes):
        return decodes
    found: Ints = decodes * np.array([spec.rows(count) for count in range(int(decodes.max()) + 1)])[decodes]
    return found


def drafting(pieces: Pieces, spec: Speculation, formats: NumberFormats, launch: float) -> Drafting:
    """Costs of drafting beside the last stage that `pieces` are of; `launch` are the seconds of a launch of
    attention. InputError where the model lacks what its speculation needs."""
    shard, kinds = _shard(pieces.shard, spec, formats, pieces.device, pieces.stack)
    own = replace(pieces, shard=shard, _sizes={})
    if spec.kind == "medusa":
        return Drafting(spec, None, lambda rows: own.total(_medusa(shard, spec.longest), rows), None, None)
    if not kinds:
        return Drafting(spec, None, None, None, None)
    depth = _depth(kinds)
    attention = attention_of_stage(shard, depth, own.device, own.stack)
    common = own.joint(depth) if own.in_step and shard.sharers > 1 else None
    layers = own.body(depth, spec.kind == "draft-model", launch)
    exchanges = own.exchanges(depth) if common is not None else None
    return Drafting(spec, layers, own.ending(depth, True, launch), attention, common, exchanges)


def drafted(need: Footprint, shard: Shard, spec: Speculation, formats: NumberFormats, pieces: Pieces) -> Footprint:
    """The memory of a device of the last stage with what drafts, and its keys and values."""
    own, kinds = _shard(shard, spec, formats, pieces.device, pieces.stack)
    weights = sum(count * own.layer_bytes(kind) for kind, count in kinds)
    if spec.kind == "draft-model":
        weights += (own.embedding_weights() + own.head_weights()) * own.formats.table_size
    if spec.kind == "medusa":
        sizes = (count * piece.n * piece.k for count, piece in _medusa(own, spec.longest) if isinstance(piece, Gemm))
        weights = sum(sizes) * own.formats.plain_size
    kv_token = cached_token(own, kinds)
    return replace(need, weights=need.weights + weights, kv_token=need.kv_token + kv_token)


def _depth(kinds: Kinds) -> Depth:
    return Depth(sum(count for _, count in kinds), 0, 0, kinds)


def _shard(
    shard: Shard, spec: Speculation, formats: NumberFormats, device: Device, stack: ServingStack
) -> tuple[Shard, Kinds]:
    """(what drafts on a device, its layers). Heads and draft models have 16 bits, with a cache as the model's."""
    if spec.kind == "mtp":
        return shard, ((_module(shard.model), 1),)
    if spec.kind in ("n-gram", "parallel"):
        return shard, ()
    given = NumberFormats.model_validate({"weights": shard.formats.plain, "kv": formats.kv})
    plain, _ = resolve_formats(given, device, stack.sums)
    if spec.kind == "draft-model":
        assert spec.model is not None
        _check_heads(spec.model, shard.tp)
        own = Shard(spec.model, shard.tp, plain, stack.fused_elementwise)
        return own, tuple((kind, spec.model.kinds.count(kind)) for kind in dict.fromkeys(spec.model.kinds))
    own = Shard(shard.model, shard.tp, plain, stack.fused_elementwise)
    if spec.kind == "medusa":
        return own, ()
    kind = next((kind for kind in shard.model.kinds if kind.attends), None)
    if kind is None:
        message = f"{shard.model.name} has no layer of attention that a head of its width could have"
        raise InputError(Problem(message, path="serving.speculation.kind", hint="write another kind"))
    return own, ((kind._replace(mlp="dense", window=None, predicts=True), 1),)


def _module(model: Model) -> LayerKind:
    if not model.predicting:
        message = f"{model.name} has no module for multi-token prediction (`mtp_layers`)"
        hint = "write `eagle`, `medusa`, `draft-model` or `n-gram`, or another model"
        raise InputError(Problem(message, path="serving.speculation.kind", hint=hint))
    return model.predicting[0]


def _check_heads(model: Model, tp: int) -> None:
    if model.heads % tp:
        message = f"tp {tp} of the model does not divide the {model.heads} heads of {model.name}, which drafts for it"
        raise InputError(Problem(message, path="serving.speculation.model", hint="name one that it divides"))


def _medusa(shard: Shard, heads: int) -> list[tuple[int, Piece]]:
    """A linear layer of the model's width, and logits, for each token that is drafted (arXiv:2401.10774)."""
    width = shard.model.hidden
    return [(heads, Gemm("linear", width, width)), *((heads, piece) for piece in head(shard))]
