"""Seconds of the pieces of a stage for many numbers of rows at once."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from simulator.axes import EP, TP
from simulator.cost import Device
from simulator.cost.blocks import block_seconds
from simulator.cost.experts import expert_seconds
from simulator.cost.gemm import GemmCurve
from simulator.cost.rows import Weights, known_products
from simulator.cost.stream import stream_rows
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.formats import BLOCKED, Formats
from simulator.serving.costs.graphs import GraphSizes
from simulator.serving.costs.in_turns import WIDE, library, library_seconds, most_read, own_stream
from simulator.serving.costs.operators import (
    Collective,
    Elementwise,
    Experts,
    Gemm,
    Piece,
    Shard,
    Write,
    context_parts,
    embedding,
    head,
    keys,
    launched,
    layer,
    together,
)
from simulator.serving.costs.sends import Library, Sending
from simulator.serving.costs.sizes import Sizes
from simulator.serving.costs.spread import Spread
from simulator.specs.model import LayerKind
from simulator.specs.serving import ServingStack
from simulator.units import TICKS_PER_SECOND

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
RowCosts = Callable[[Ints], dict[str, Floats]]
"""From numbers of rows, shape (r,), to seconds by part, each of shape (r,)."""

PARTS = ("linear", "head", TP.name, EP.name, "other")
"""What the rows of a pass cost time for; decode context parallelism adds its axis where it is there."""
BLOCK = 256
"""Row counts that are evaluated together."""
GATHERED_BYTES = 2.0**25
"""Cached keys and values that are gathered at once (vLLM: chunks of a workspace)."""


@dataclass(frozen=True, slots=True)
class Pieces:
    """Costs of the pieces of one stage."""

    shard: Shard
    device: Device
    stack: ServingStack
    library: Library
    group: tuple[int, ...]
    """Ranks of the tensor-parallel group."""
    sharers: tuple[int, ...] = ()
    """Ranks that share experts, this one and its like in other replicas."""
    everybody: tuple[int, ...] = ()
    """All ranks of a stage that share experts, those of tensor-parallel groups among them."""
    in_step: bool = False
    """Whether `together` counts what sharers do with the rows of all; if not, each is taken to have as many."""
    graphs: GraphSizes | None = None
    """Sizes of captured graphs; None: of every size."""
    _sizes: dict[str, Sizes] = field(default_factory=dict)

    def body(self, depth: Depth, first: bool, launch: float) -> RowCosts:
        """What all rows pass, apart from attention; `launch` are the seconds of a launch of attention."""
        attending = depth.attending(self.shard.model, depth.full) * (1 + self.shard.model.kinds[0].crosses)
        return self._passed(self._body(depth, first), self.launch_seconds(depth), attending * launch)

    def encoder(self, depth: Depth, more: Sequence[Piece], launch: float, launches: int = 0) -> RowCosts:
        """What rows of an encoder pass, that keeps nothing of them, apart from attention: its layers, and `more` of so
        many `launches`."""
        layers = [entry for entry in self._body(depth, False) if not isinstance(entry[1], Write)]
        pieces = [*layers, *((1, piece) for piece in more)]
        host = self.stack.kernel_launch.value * launches + self.launch_seconds(depth)
        return self._passed(pieces, host, depth.full * launch)

    def filling(self, depth: Depth, first: bool) -> RowCosts | None:
        """What the rows cost that fill a captured graph up, which pass all but the experts; None where graphs are of
        every size."""
        graphs = self.graphs
        if graphs is None:
            return None
        dense = [(count, piece) for count, piece in self._body(depth, first) if not _of_experts(piece)]

        def cost(rows: Ints) -> dict[str, Floats]:
            filled = self.total(dense, graphs.captured(rows))
            return {part: np.maximum(filled[part] - own, 0.0) for part, own in self.total(dense, rows).items()}

        return cost

    def launching(self, depth: Depth, first: bool) -> RowCosts | None:
        """By how much an iteration with prompts waits longer for the host than one that replays captured graphs, less
        what it need not fill up; None where both replay them."""
        if self.stack.graph_prompts:
            return None
        pieces, peers = self._body(depth, first), 1 if self.in_step else self.shard.sharers
        own = [entry for entry in pieces if not together(entry[1])]
        shared = [entry for entry in pieces if together(entry[1])]
        host, most = self.launch_seconds(depth), self.stack.graphs or 0

        def cost(rows: Ints) -> dict[str, Floats]:
            busy = sum(self.total(own, rows).values()) + sum(self.total(shared, rows * peers).values())
            waits = {"host": np.where(rows <= most, np.maximum(host - busy, 0.0), 0.0)}
            return waits if filling is None else waits | {part: -more for part, more in filling(rows).items()}

        filling = self.filling(depth, first)
        return cost

    def launch_seconds(self, depth: Depth) -> float:
        """Seconds in which the host launches the kernels of all layers, which all rows pass, one by one."""
        each, kinds = self.stack.kernel_launch.value, depth.passed(self.shard.model.kinds[0])
        found = sum(
            count
            * (launched(layer(self.shard, kind=kind), self.stack) + each * ((kind.attention != "none") + kind.crosses))
            for kind, count in kinds
        )
        return found + depth.skipped_caches * launched(keys(self.shard), self.stack)

    def _body(self, depth: Depth, first: bool) -> list[tuple[int, Piece]]:
        """Pieces that all rows pass, with how often each runs."""
        pieces = self._layers(depth.passed(self.shard.model.kinds[0]))
        pieces += [(depth.skipped_caches, piece) for piece in keys(self.shard)] if depth.skipped else []
        return pieces + ([(1, piece) for piece in embedding(self.shard)] if first else [])

    def _ending(self, depth: Depth, last: bool) -> list[tuple[int, Piece]]:
        """The same of rows that give a token, and of decodes."""
        pieces: list[tuple[int, Piece]] = [(1, piece) for piece in head(self.shard)] if last else []
        attending = depth.attending(self.shard.model, depth.layers)
        pieces += [(attending, piece) for piece in context_parts(self.shard)]
        return pieces + ([(depth.skipped, piece) for piece in layer(self.shard, late=True)] if depth.skipped else [])

    def _layers(self, kinds: Iterable[tuple[LayerKind, int]]) -> list[tuple[int, Piece]]:
        """Pieces of layers of each kind, with how often each runs."""
        return [(count, piece) for kind, count in kinds for piece in layer(self.shard, kind=kind)]

    def ending(self, depth: Depth, last: bool, launch: float) -> RowCosts:
        """What only rows pass that give a token: later layers, where prompts skip them, and the output head of the last
        stage."""
        pieces = self._ending(depth, last)
        if not depth.skipped:
            return lambda rows: self.total(pieces, rows)
        host = launched(layer(self.shard, late=True), self.stack) + self.stack.kernel_launch.value
        return self._passed(pieces, depth.skipped * host, depth.skipped * launch)

    def exchanges(self, depth: Depth) -> tuple[RowCosts, RowCosts] | None:
        """(of rows of the largest rank, of all rows): sending each row to the devices of its experts and back, where
        all have as many rows as the largest, to devices with as many each; and where the rows of all are spread evenly
        over ranks, to devices with the load that they have. None where ranks gather the rows of all."""
        if self.shard.exchange is None:
            return None
        kinds, ranks = depth.passed(self.shard.model.kinds[0]), self.shard.sharers
        sent = [(count, piece) for count, piece in self._layers(kinds) if isinstance(piece, Collective) and piece.sent]

        def cost(rows: Ints, even: bool) -> dict[str, Floats]:
            seconds = sum((n * self._sent(piece, rows, even) for n, piece in sent), np.zeros(len(rows)))
            return {EP.name: seconds}

        return lambda rows: cost(rows * ranks, True), lambda rows: cost(rows, False)

    def _sent(self, piece: Collective, rows: Ints, even: bool) -> Floats:
        return self._collective(piece, even).seconds(rows.astype(np.float64) * piece.row_bytes)

    def together(self, depth: Depth) -> tuple[RowCosts, RowCosts]:
        """(of all rows, of rows that give a token): what replicas that share experts do with the rows of all, what
        `exchanges` has apart."""
        kinds = depth.passed(self.shard.model.kinds[0])
        body = [(count, piece) for count, piece in self._layers(kinds) if together(piece) and not _sends(piece)]
        ending = [(depth.skipped, piece) for piece in layer(self.shard, late=True) if together(piece) and depth.skipped]
        return lambda rows: self.total(body, rows), lambda rows: self.total(ending, rows)

    def joint(self, depth: Depth) -> RowCosts:
        """`together` of all rows with the `exchanges` of as many, spread evenly over ranks."""
        body, exchanges = self.together(depth)[0], self.exchanges(depth)
        if exchanges is None:
            return body
        sent = exchanges[1]
        return lambda rows: (found := body(rows)) | {EP.name: found[EP.name] + sent(rows)[EP.name]}

    def gathering(self) -> float:
        """Seconds in which the keys and values of a cached token of a layer are gathered from those that hold parts of
        them; 0 where each holds all."""
        if self.shard.dcp == 1:
            return 0.0
        group = self.group[: self.shard.dcp]
        return self.library.seconds("all_gather", group, GATHERED_BYTES) / GATHERED_BYTES * self.shard.kv_bytes

    def sends(self, depth: Depth, first: bool, last: bool) -> tuple[Sending, ...]:
        """The collectives of a stage."""
        return tuple(
            self._sending(count, piece, sampled)
            for sampled, pieces in ((False, self._body(depth, first)), (True, self._ending(depth, last)))
            for piece, count in _counted(pieces).items()
            if isinstance(piece, Collective)
        )

    def _sending(self, count: int, piece: Collective, sampled: bool) -> Sending:
        joint = together(piece)
        peers = self.shard.sharers if joint and not self.in_step else 1
        sizes, in_step = self._collective(piece), joint and self.in_step
        ranks = self.shard.dcp if piece.context else 0
        told = sampled, piece.among, in_step, peers, ranks
        return Sending(piece.operation, piece.part, piece.row_bytes, count, sizes, *told)

    def _passed(self, pieces: Sequence[tuple[int, Piece]], host: float, launch: float) -> RowCosts:
        """Pieces, the seconds `launch` of the launches of attention, and those in which the host launches all."""
        own = [entry for entry in pieces if not together(entry[1])]
        shared = [entry for entry in pieces if together(entry[1])]
        peers = 1 if self.in_step else self.shard.sharers

        def cost(rows: Ints) -> dict[str, Floats]:
            found = self.total(own, rows)
            found["other"] += launch / self.stack.kernel_efficiency.value
            others = self.total(shared, rows * peers)
            # Without captured graphs the device waits for the host wherever kernels are shorter than their launches.
            waiting = np.maximum(host - sum(found.values()) - sum(others.values()), 0.0)
            found["other"] += np.where(rows > (self.stack.graphs or 0), waiting, 0.0)
            return found if self.in_step else {part: found[part] + others[part] for part in PARTS}

        return cost

    def total(self, pieces: Sequence[tuple[int, Piece]], rows: Ints) -> dict[str, Floats]:
        """Seconds of pieces, each so many times, by part; equal pieces are evaluated once."""
        found = {part: np.zeros(len(rows)) for part in PARTS}
        known: dict[Piece, Floats] = {}
        for count, piece in pieces:
            if piece not in known:
                known[piece] = self.seconds(piece, rows)
            found[piece.part] = found.get(piece.part, 0.0) + count * known[piece]
        return found

    def seconds(self, piece: Piece, rows: Ints) -> Floats:
        """Seconds of a piece for each number of rows, of all replicas together where it is `together`; the engine's
        efficiency applies to kernels, not to sums."""
        if isinstance(piece, Collective):
            return self._collective(piece).seconds(rows.astype(np.float64) * piece.row_bytes)
        return self._kernel(piece, rows) / self.stack.kernel_efficiency.value

    def _kernel(self, piece: Gemm | Experts | Elementwise | Write, rows: Ints) -> Floats:
        stream, decode = own_stream(self.device, self.stack), self.device.decode
        if isinstance(piece, Elementwise):
            wider = WIDE / self.shard.formats.plain_size if self.stack.wide_activations else 1.0
            return stream_rows(rows.astype(np.float64) * piece.row_bytes * wider, piece.kernels, stream)
        if isinstance(piece, Write):
            moved = (piece.row_bytes + piece.wide_bytes) / min(decode.write, decode.peak)
            return stream.launch + rows.astype(np.float64) * max(decode.write_token, moved)
        return self._product(piece, rows) if isinstance(piece, Gemm) else self._experts(piece, rows)

    def _product(self, piece: Gemm, rows: Ints) -> Floats:
        """The framework's own products, from some rows on those of the vendor's library."""
        formats, of, blocks = self.shard.formats, library(self.device, self.stack), self.stack.block_products
        if blocks is not None and not piece.plain and formats.weights == formats.compute == "fp8":
            return block_seconds(rows, piece.n, piece.k, blocks, self.device)
        own = known_products(rows.tobytes(), piece.n, piece.k, *self.product(formats, piece.plain))
        if of is None or not (of.widens or piece.plain or not formats.dequantised):
            return own
        many = library_seconds(rows, piece.n, piece.k, formats, piece.plain, self.device, self.stack)
        return np.where(rows < of.from_rows, own, many)

    def _experts(self, piece: Experts, rows: Ints) -> Floats:
        formats = self.shard.formats.of_experts
        curve, weights = self.product(formats)
        experts = self.device.mixture(self.stack.expert_kernels, formats.mixture)
        if experts is None:
            experts = self.device.mixture(self.stack.expert_kernels, formats.compute)
        elif formats.mixture != formats.compute:  # measured with the weights that they dequantise
            weights = Weights(formats.weight_size)
        assert experts is not None
        spread = self.shard.spread or Spread(self.shard.model, piece.spread)
        sizes, found = (piece.top_k, piece.hidden, piece.inner, piece.gated), np.zeros(len(rows))
        held = piece.experts / piece.spread
        gathered = rows if self.shard.exchange is None else np.zeros(len(rows))
        for here, hit in spread.work(rows):
            own, beyond = (hit + spread.shared, *sizes), np.maximum(gathered - here, 0.0)
            found = np.maximum(found, expert_seconds(here, *own, experts, curve, weights, held, beyond))
        return found

    def product(self, formats: Formats, plain: bool = False) -> tuple[GemmCurve, Weights]:
        """(curve, weights) of products with matrices in 16 bits, or in the format of linear layers."""
        dtype = formats.plain_compute if plain else BLOCKED if formats.blocks else formats.compute
        size = formats.plain_size if plain else formats.factor_size
        curve = replace(
            self.device.gemm[dtype], size=size, result_size=formats.plain_size, bandwidth=self._bandwidth(dtype)
        )
        if plain:
            return curve, Weights(formats.plain_size)
        if formats.dequantised:
            return curve, Weights(formats.weight_size, *self.device.dequantising, slim=True)
        return curve, Weights(formats.weight_size)

    def _bandwidth(self, dtype: str) -> float:
        """Bytes/s that products read, of the memory and of the kernels' own loads."""
        return min(self.device.gemm[dtype].bandwidth, most_read(self.device, self.stack))

    def _collective(self, piece: Collective, even: bool = False) -> Sizes:
        """Cost of an operation of a group by its size; `even` as for the library."""
        operation, group = piece.operation, self.sharers if piece.among else self.group
        group = group[: self.shard.dcp] if piece.context else group
        even = even or (piece.sent and self.shard.spread is not None and self.shard.spread.even)
        key = f"{operation} {piece.among} {piece.context} {even}"
        if key not in self._sizes:
            group = self.everybody if piece.sent else group
            self._sizes[key] = Sizes(lambda size: self.library.seconds(operation, group, size, even))
        return self._sizes[key]


def _of_experts(piece: Piece) -> bool:
    """Whether a piece works on rows of experts: theirs, or what replicas that share them do together."""
    return isinstance(piece, Experts) or together(piece)


def both(cost: RowCosts, more: RowCosts) -> RowCosts:
    """The sum of two costs, by part."""

    def found(rows: Ints) -> dict[str, Floats]:
        own = cost(rows)
        return own | {part: own[part] + seconds for part, seconds in more(rows).items()}

    return found


def _sends(piece: Piece) -> bool:
    return isinstance(piece, Collective) and piece.sent


def _counted(pieces: Iterable[tuple[int, Piece]]) -> dict[Piece, int]:
    """How often equal pieces run, all together."""
    found: dict[Piece, int] = {}
    for count, piece in pieces:
        found[piece] = found.get(piece, 0) + count
    return found


def hop(pieces: Pieces, source: int, destination: int) -> Sizes:
    """Cost of sending activations from a rank to another by size."""
    return Sizes(lambda size: pieces.library.seconds("send", (source, destination), size))


def by_part(costs: Iterable[dict[str, Floats]]) -> dict[str, int]:
    """Ticks by part of costs of one number of rows each."""
    found = dict.fromkeys(PARTS, 0)
    for cost in costs:
        for part, seconds in cost.items():
            found[part] = found.get(part, 0) + int(ticks(seconds)[0])
    return found


def ticks(seconds: Floats) -> Ints:
    """Whole ticks."""
    rounded: Ints = np.rint(seconds * TICKS_PER_SECOND).astype(np.int64)
    return rounded


def fill(known: dict[int, int], count: int, cost: RowCosts) -> None:
    """Evaluate the block of row counts around `count`, and keep the ticks of each."""
    if count in known:
        return
    first = max(1, count // BLOCK * BLOCK)
    counts = np.arange(first, (count // BLOCK + 1) * BLOCK)
    total = sum((ticks(seconds) for seconds in cost(counts).values()), np.zeros(len(counts), np.int64))
    known.update(zip(counts.tolist(), total.tolist(), strict=True))
    known[0] = 0
