"""What an iteration saves where collectives of its layers run beside kernels: layouts of their operations on lanes.

The time of a stage is that of its operations one after the other, less what a layout of those of its layers saves:

* `ladder_residual` of the model: each tensor-parallel sum runs beside the block after it (arXiv:2501.06589).
* `overlap.batches: two`: halves of the batch by turns, the collectives of each beside the kernels of the other
  (SGLang's two-batch overlap, vLLM's dual-batch overlap, after DeepSeek-V3, arXiv:2412.19437). Each half reads the
  weights.
* `overlap.batches: nano` and `nano-serial`: two nano-batches beside each other, or one after the other (`nano`).
* `overlap.tensor`: sums in steps beside the products around them (`fused`).
* `overlap.context`: what devices with parts of the cached tokens found of some sequences is exchanged beside the
  attention of the next ones (Helix's HOP-B, arXiv:2507.07120, section 2.2).

What attention takes is spread evenly over the layers that have it, and over parts of a batch by their rows. But for
nano-batches, kernels and collectives beside each other are taken not to slow each other.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from simulator.errors import InputError, Problem
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.fused import saved_by_steps
from simulator.serving.costs.lanes import Segment, in_turns, makespan, one_late
from simulator.serving.costs.nano import NanoBatch, Shares, laid_out
from simulator.serving.costs.operators import Collective, Piece, Write, context_parts, launched, layer, together
from simulator.serving.costs.pieces import Pieces
from simulator.specs.model import LayerKind, Model
from simulator.specs.serving import Layout, Overlap
from simulator.units import TICKS_PER_SECOND, to_ticks

Saved = Callable[[int, int, float, float], float]
"""(rows, rows of all replicas in step, seconds of attention, those of decodes) -> seconds that a layout saves."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of a stage in segments that end with a collective."""

    pieces: Pieces
    depth: Depth
    launch: float
    """Seconds of a launch of attention."""
    _known: dict[tuple[LayerKind, int, int], tuple[Segment, ...]] = field(default_factory=dict)

    def attends(self, kind: LayerKind) -> bool:
        """Whether attention takes time in its layers."""
        return kind.attends or kind.stateful

    @property
    def attending(self) -> int:
        """Layers over which attention is spread."""
        return sum(count for kind, count in self.kinds() if self.attends(kind))

    def segments(self, rows: int, joint: int, attention: float) -> list[Segment]:
        """Those of all layers at so many rows; `attention` is of all layers together."""
        found: list[Segment] = []
        for kind, count in self.kinds():
            first, *others = self._layer(kind, rows, joint)
            if self.attends(kind):
                first = first._replace(kernels=first.kernels + attention / self.attending)
            found += [first, *others] * count
        return found

    def _layer(self, kind: LayerKind, rows: int, joint: int) -> tuple[Segment, ...]:
        """Segments of a layer without what attention reads."""
        if (kind, rows, joint) not in self._known:
            seconds = kind.attends * self.launch / self.pieces.stack.kernel_efficiency.value
            found: list[Segment] = []
            for piece in layer(self.pieces.shard, kind=kind):
                lasts = self._seconds(piece, rows, joint)
                if isinstance(piece, Collective):
                    found.append(Segment(seconds, lasts))
                    seconds = 0.0
                else:
                    seconds += lasts
            self._known[kind, rows, joint] = tuple([*found, Segment(seconds, 0.0)] if seconds or not found else found)
        return self._known[kind, rows, joint]

    def nano(self, kind: LayerKind, rows: int, joint: int) -> NanoBatch:
        """A layer as a nano-batch, without what attention reads: it begins when keys and values are written."""
        written, found = 0.0, 0.0
        for piece in layer(self.pieces.shard, kind=kind):
            found += self._seconds(piece, rows, joint)
            written = found if isinstance(piece, Write) else written
        first, *others = self._layer(kind, rows, joint)
        return NanoBatch(
            written,
            0.0,
            first.kernels - written,
            first.collective,
            tuple((one.kernels, one.collective) for one in others),
        )

    def kinds(self) -> tuple[tuple[LayerKind, int], ...]:
        """Kinds of the layers and how many there are of each."""
        return self.depth.passed(self.pieces.shard.model.kinds[0])

    def _seconds(self, piece: Piece, rows: int, joint: int) -> float:
        count = joint if together(piece) else rows
        return float(self.pieces.seconds(piece, np.array([count]))[0]) if count else 0.0

    def launches(self, rows: int) -> float:
        """Seconds in which the host launches the kernels of the layers where no captured graph is replayed."""
        stack = self.pieces.stack
        if rows <= (stack.graphs or 0):
            return 0.0
        shard, each = self.pieces.shard, stack.kernel_launch.value
        return sum(n * (launched(layer(shard, kind=kind), stack) + each * kind.attends) for kind, n in self.kinds())


@dataclass(frozen=True, slots=True)
class Overlapping:
    """What iterations of a stage save; by `saved`."""

    seconds: Saved
    sharers: int
    """Replicas whose rows experts work on, where none are counted: each is taken to have as many."""
    least: int
    """Rows of an iteration from which its layout differs."""

    def saved(self, rows: int, attention: int, joint: int | None = None, reading: int = 0) -> int:
        """Ticks that an iteration of so many rows, and so many ticks of attention, is shorter than its operations one
        after the other; `joint` are the rows of all replicas in step, `reading` the ticks of attention of decodes."""
        if rows < self.least:
            return 0
        all_rows = rows * self.sharers if joint is None else joint
        return to_ticks(self.seconds(rows, all_rows, attention / TICKS_PER_SECOND, reading / TICKS_PER_SECOND))


def overlapping(pieces: Pieces, depth: Depth, launch: float, overlap: Overlap) -> Overlapping | None:
    """What a stage saves; None where its operations run one after the other."""
    shard, sharers = pieces.shard, 1 if pieces.in_step else pieces.shard.sharers
    layers = Layers(pieces, depth, launch)
    if shard.model.ladder_residual and shard.tp > 1:
        return Overlapping(lambda *asked: _ladder(layers, *asked), sharers, 1)
    if overlap.batches == "two" and (shard.tp > 1 or shard.sharers > 1):
        return Overlapping(lambda *asked: _two(layers, *asked), sharers, max(overlap.from_rows, 2))
    if overlap.batches in ("nano", "nano-serial"):
        return Overlapping(lambda *asked: _nano(layers, overlap, *asked), sharers, max(overlap.from_rows, 2))
    if overlap.tensor != "none" and shard.tp > 1:
        return Overlapping(saved_by_steps(pieces, depth, overlap.tensor), sharers, overlap.from_rows)
    if overlap.context == "sequences" and shard.dcp > 1:
        return Overlapping(_saved_by_sequences(layers), sharers, max(overlap.from_rows, 2))
    return None


def _saved_by_sequences(layers: Layers) -> Saved:
    """What exchanges beside attention save, in the number of parts that saves most: each part has a kernel of attention
    and an exchange of its own, in order on a lane each, so that p parts of a layer with attention a and an exchange of
    c take a / p + (p - 1) max(a / p, c) + c, and p - 1 launches."""
    pieces = layers.pieces
    exchange = next(piece for piece in context_parts(pieces.shard) if isinstance(piece, Collective))
    launch = pieces.device.decode.launch / pieces.stack.kernel_efficiency.value

    def found(rows: int, _: int, attention: float, reading: float) -> float:
        if attention > reading or not layers.attending:  # prompts are among them
            return 0.0
        counts = np.array(sorted({2**power for power in range(rows.bit_length())} | {rows}))
        counts = counts[counts <= rows]
        sends = pieces.seconds(exchange, -(-rows // counts))
        each = reading / layers.attending / counts
        lasts = each + (counts - 1) * (np.maximum(each, sends) + launch) + sends
        return float(layers.attending * (lasts[0] - lasts.min()))

    return found


def _ladder(layers: Layers, rows: int, joint: int, attention: float, _: float) -> float:
    segments = layers.segments(rows, joint, attention)
    serial = sum(one.serial for one in segments)
    return max(serial - max(makespan(one_late(segments)), layers.launches(rows)), 0.0)


def _two(layers: Layers, rows: int, joint: int, attention: float, _: float) -> float:
    """Negative where halves lose more than they hide."""
    serial = sum(one.serial for one in layers.segments(rows, joint, attention))
    parts = ((rows + 1) // 2, (joint + 1) // 2), (rows // 2, joint // 2)
    first, second = (layers.segments(own, all_, attention / 2) for own, all_ in parts)
    return serial - max(makespan(in_turns(zip(first, second, strict=True))), 2 * layers.launches(rows))


def _nano(layers: Layers, overlap: Overlap, rows: int, joint: int, attention: float, reading: float) -> float:
    """Negative where nano-batches lose more than they hide."""
    serial = sum(one.serial for one in layers.segments(rows, joint, attention))
    shares = Shares(overlap.reading_share, overlap.sending_share)
    first = min(max(round(rows * overlap.first_share), 1), rows - 1)
    parts = [(own, round(joint * own / rows), own / rows) for own in (first, rows - first)]
    found = 0.0
    for kind, count in layers.kinds():
        each = layers.attends(kind) / max(layers.attending, 1)
        nanos = [
            nano._replace(reading=share * each * reading, behind=nano.behind + share * each * (attention - reading))
            for nano, share in ((layers.nano(kind, own, all_), share) for own, all_, share in parts)
        ]
        alone = count * sum(nano.serial for nano in nanos)
        found += alone if overlap.batches == "nano-serial" else laid_out(nanos, count, shares)
    return serial - max(found, 2 * layers.launches(rows))


def check_overlap(model: Model, overlap: Overlap, layout: Layout) -> None:
    """Refuse layouts that are not simulated together."""
    path = "serving.overlap"
    if overlap.context != "none" and layout.dcp_exchange != "all-to-all":
        message = "queries that are gathered are there before attention begins, so that nothing is sent beside it"
        hint = "write `parallel: {dcp_exchange: all-to-all}`, or leave `context` out"
        raise InputError(Problem(message, path=f"{path}.context", hint=hint))
    chosen = [f"`{key}: {getattr(overlap, key)}`" for key in ("tensor", "batches", "context")]
    named = [text for text in chosen if "none" not in text] + ["`model.ladder_residual`"] * model.ladder_residual
    if len(named) > 1:
        message = f"{' and '.join(named)} hide collectives of the same layers, which is not simulated together"
        raise InputError(Problem(message, path=path, hint="leave one of them out"))
    if named and model.prompt_layers is not None:
        message = f"{named[0]} with `prompt_layers`, after which the rows of prompts leave, is not simulated"
        raise InputError(Problem(message, path=path, hint="leave one of them out"))
    if overlap.tensor != "none" and model.parallel_mlp:
        message = f"{named[0]}: attention and MLP of {model.name} end in one sum, which two products feed"
        raise InputError(Problem(message, path=f"{path}.tensor", hint="leave it out"))


def overlap_assumptions(overlap: Overlap) -> tuple[str, ...]:
    """What is said of rates that kernels reach on shares of a device."""
    said = "kernels on shares of the multiprocessors reach the rates that NanoFlow measured on A100 (arXiv:2408.12757)"
    return (said,) if overlap.batches == "nano" else ()


def overlap_warnings(layout: Layout, tp: int, overlap: Overlap) -> tuple[str, ...]:
    """What is said of overlap without effect."""
    found = (
        (overlap.tensor != "none" and tp == 1, f"overlap.tensor {overlap.tensor}: there is no tensor parallelism"),
        (overlap.batches == "two" and tp * layout.ep == 1, "overlap.batches two: there are no collectives to hide"),
    )
    return tuple(f"no effect: {text}" for applies, text in found if applies)
