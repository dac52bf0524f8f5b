"""What the schemes of context parallelism share: the attention that they carry out, and their registry."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from simulator.axes import CP
from simulator.cost.work import Attention, Document, Stream
from simulator.errors import InputError, Problem
from simulator.model.ops import AttentionCore
from simulator.registry import Registry
from simulator.training.batches.documents import Packing
from simulator.training.step import Collective, Step, Turn

PATH = "training.parallel.cp"


@dataclass(frozen=True, slots=True)
class Sharing:
    """The attention of one layer and microbatch, whose sequences lie in equal parts on the ranks of a group."""

    core: AttentionCore
    """With the heads of one rank, of which tensor parallelism has taken its share."""
    ranks: int
    batch: int
    """Sequences."""
    sequence: int
    """Tokens of each, on all ranks together."""
    element: float
    """Bytes of a number on the wire and in memory."""
    dtype: str = "bf16"
    kernel: str | None = None
    """Generation of the fused kernel."""
    blocking: bool = False
    """Whether nothing runs beside kernels."""
    by_heads: int = 1
    """Of the ranks, neighbours that share heads in place of tokens, where a scheme has both."""
    part: tuple[int, int] | None = None
    """(ranks, distance between them) of the part of the group that this is about; None for all of it."""
    packing: Packing | None = None
    """What each sequence is packed of; None where it is one document."""
    whole: Callable[[AttentionCore], Iterator[Step]] = field(default=lambda core: iter(()), compare=False)
    """Attention over whole sequences on one device."""

    @property
    def tokens(self) -> int:
        """Tokens of a sequence on one rank."""
        return self.sequence // self.ranks

    @property
    def query_bytes(self) -> float:
        """Bytes of the queries of a rank."""
        return self.batch * self.tokens * self.core.heads * self.core.head_dim * self.element

    @property
    def result_bytes(self) -> float:
        """Bytes of the results of its attention."""
        return self.batch * self.tokens * self.core.attended * self.element

    @property
    def key_bytes(self) -> float:
        """Bytes of the keys of a rank."""
        return self.batch * self.tokens * self.core.kv_heads * self.core.head_dim * self.element

    @property
    def value_bytes(self) -> float:
        """Bytes of its values."""
        return self.batch * self.tokens * self.core.kv_heads * self.core.values * self.element

    @property
    def block_bytes(self) -> float:
        """Bytes of its keys and values."""
        return self.key_bytes + self.value_bytes

    def block(self, query: int, context: int, causal: bool = False) -> Attention:
        """The kernel of so many queries of each sequence over so many keys; of packed documents, which every rank has
        its part of, the same shares of each."""
        found = self.over(query, context, causal)
        if self.packing is None:
            return found
        shares = self.packing.shared(self.ranks).items()
        parts = (Document(n, _part(own, query, self.tokens), _part(own, context, self.tokens)) for own, n in shares)
        return replace(found, documents=tuple(sorted(parts)))

    def over(self, query: int, context: int, causal: bool) -> Attention:
        """The kernel of so many queries of each sequence over so many keys, of one document."""
        core = self.core
        return Attention(
            batch=self.batch,
            heads=core.heads,
            kv_heads=core.kv_heads,
            query=max(query, 1),
            context=max(context, 1),
            head_dim=core.head_dim,
            causal=causal,
            dtype=self.dtype,
            backward=core.backward,
            kernel=self.kernel,
            value_dim=core.value_dim,
            window=core.window if causal else None,
            chunked=core.chunked,
            density=core.blocks.share(self.sequence) if core.blocks else 1.0,
        )

    def merge(self, query: int, context: int) -> Stream:
        """Adding what a block found to what earlier ones did: results, or gradients of queries, to running sums of 4
        bytes; backward also the gradients of its keys and values to those that came with them."""
        core = self.core
        sums = float(self.batch * query * core.heads * (core.head_dim if core.backward else core.values))
        keys = float(self.batch * context * core.kv_heads * (core.head_dim + core.values) * core.backward)
        read = sums * (4 + self.element) + keys * 2 * self.element
        return Stream(read, sums * 4 + keys * self.element, kernels=2 if self.core.backward else 1)

    def send(self, name: str, operation: str, size: float) -> Collective:
        """A collective of the group."""
        return Collective(name, operation, size, CP.name, self.part)

    def turn(self, turn: Turn) -> Iterator[Step]:
        """A turn, with what runs beside it after it where nothing may."""
        if not self.blocking:
            yield turn
            return
        yield turn._replace(beside=())
        yield from turn.beside


@dataclass(frozen=True, slots=True)
class Scheme:
    """A way to attend over sequences that are cut."""

    core: Callable[[Sharing], Iterator[Step]]
    """The forward pass, or the backward pass where the core says so."""
    in_flight: Callable[[Sharing], float]
    """Bytes at once, beyond a rank's own tensors, while a layer's forward or backward pass runs."""
    pieces: int = 1
    """Equal pieces of a sequence on each rank."""
    fused: bool = True
    """Whether it needs fused attention."""
    windows: bool = True
    """Whether layers may look back to a window of tokens only."""
    only_windows: bool = False
    """Whether all layers that attend have to."""
    by_heads: bool = False
    """Whether ranks share heads, so that there cannot be more of them."""
    keeps_results: bool = False
    """Whether recomputation begins after attention, whose results are kept (rematerialisation-aware checkpoints)."""
    unfused: bool = False
    """Whether it keeps scores in memory, so that attention must not be fused."""
    documents: bool = False
    """Whether sequences may be packed of documents."""


SCHEMES: Registry[Scheme] = Registry("kind of context parallelism")


def _part(own: int, positions: int, tokens: int) -> int:
    """Positions of a document of which a rank has `own` tokens, where so many of all of its tokens take part."""
    return max(own * positions // tokens, 1)


def check_windows(kind: str, ranks: int, sequence: int, windows: Iterable[int | None]) -> None:
    """Refuse windows where all keys are passed around, and layers that attend beyond a neighbour's tokens where only
    its keys are; `windows` are those of all layers that attend."""
    windows, least = list(windows), sequence // ranks
    narrowest = min((window for window in windows if window is not None), default=None)
    if narrowest is not None and not SCHEMES.get(kind).windows:
        message = f"`cp_kind: {kind}` passes all keys around, and layers look back to {narrowest:,} tokens"
        raise InputError(Problem(message, path=f"{PATH}_kind", hint="write `all-gather` or `ulysses`"))
    if SCHEMES.get(kind).only_windows and any(window is None or window > least for window in windows):
        message = (
            f"`cp_kind: {kind}` takes keys of one neighbour, and layers look back to more than its {least:,} tokens"
        )
        raise InputError(Problem(message, path=f"{PATH}_kind", hint="write `all-gather` or `ulysses`"))


def check_documents(kind: str) -> None:
    """Refuse packed documents under schemes that have no kernels for them."""
    if not SCHEMES.get(kind).documents:
        message = f"`cp_kind: {kind}` has no way to attend within packed documents"
        able = ", ".join(f"`{name}`" for name in SCHEMES.names() if SCHEMES.get(name).documents)
        raise InputError(Problem(message, path="training.documents", hint=f"one of {able}, or leave `documents` out"))


def check(kind: str, ranks: int, sequence: int, heads: int, fused: bool) -> None:
    """Refuse what a scheme cannot do; `heads` are those of one tensor-parallel rank."""
    scheme = SCHEMES.get(kind, f"{PATH}_kind")
    if sequence % (scheme.pieces * ranks):
        parts = f"{scheme.pieces} x cp {ranks} = {scheme.pieces * ranks} pieces" if scheme.pieces > 1 else f"cp {ranks}"
        message = f"sequence_length {sequence:,} does not divide into {parts} (`cp_kind: {kind}`)"
        near = max(sequence // (scheme.pieces * ranks), 1) * scheme.pieces * ranks
        raise InputError(Problem(message, path=PATH, hint=f"a sequence_length of {near:,}, or another `cp`"))
    if scheme.by_heads and ranks > heads:
        message = f"cp {ranks} of `{kind}` is more than the {heads} attention heads of a tensor-parallel rank"
        raise InputError(Problem(message, path=PATH, hint=f"at most {heads}, or a ring: `cp_kind: zigzag`, or `usp`"))
    if scheme.fused and not fused:
        message = f"`cp_kind: {kind}` adds up blocks of fused attention, and attention is unfused"
        raise InputError(Problem(message, path=f"{PATH}_kind", hint="write `training.attention: fused`"))
    if scheme.unfused and fused:
        message = f"`cp_kind: {kind}` works on scores in memory, and attention is fused"
        raise InputError(Problem(message, path=f"{PATH}_kind", hint="write `training.attention: unfused`"))
