"""Layers with a state: a step of decoding reads and writes it, a chunk of a prompt scans from it.

Neither depends on the tokens before. Equations, fit and known errors: docs/models/linear.md. Left out: that engines
gather the states of a batch, and launches of their own for prompts and decodes that run in one iteration.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from simulator.cost import Device
from simulator.cost.scan import ScanCurve, scan_seconds, step_seconds
from simulator.model.ops import StateScan
from simulator.serving.costs.depth import Depth
from simulator.serving.costs.operators import Shard
from simulator.specs.model import Model
from simulator.specs.serving import ServingStack
from simulator.units import TICKS_PER_SECOND


@dataclass(frozen=True, slots=True)
class States:
    """Recurrences of the layers of a stage on one device of a tensor-parallel group."""

    shard: Shard
    layers: Depth
    device: Device
    stack: ServingStack
    scans: tuple[tuple[int, StateScan, ScanCurve], ...] = field(init=False)
    """How many layers have it, the recurrence, and its kernels."""

    def __post_init__(self) -> None:
        found: Counter[StateScan] = Counter()
        for kind, count in self.layers.each(self.shard.model.kinds[0]):
            if (own := self.shard.scan(kind)) is not None:
                found[own] += count
        families = self.stack.scan_kernels
        scans = tuple((count, own, self.device.scan(families, own.kind)) for own, count in found.items())
        object.__setattr__(self, "scans", scans)

    def step(self, sequences: int) -> int:
        """Ticks of one token of so many sequences."""
        size = self.shard.formats.plain_size
        return self._ticks(
            count * step_seconds(sequences, own.state * own.state_bytes + own.tail * size, curve)
            for count, own, curve in self.scans
        )

    def passed(self, chunks: Sequence[int]) -> int:
        """Ticks of chunks of prompts of so many tokens."""
        return self._ticks(count * self._scan(chunks, own, curve) for count, own, curve in self.scans)

    def _scan(self, chunks: Sequence[int], own: StateScan, curve: ScanCurve) -> float:
        moved, per_head = own.moved * self.shard.formats.plain_size, own.flops / own.heads
        return scan_seconds(chunks, own.heads, own.key_dim * own.value_dim, per_head, moved, curve)[0]

    def _ticks(self, seconds: Iterable[float]) -> int:
        return round(sum(seconds) * TICKS_PER_SECOND / self.stack.kernel_efficiency.value)


def estimated_scans(model: Model, device: Device, stack: ServingStack) -> tuple[str, ...]:
    """What to say where kernels of layers with a state were not measured on the device."""
    kinds = dict.fromkeys(kind.attention for kind in model.kinds if kind.stateful)
    unknown = [kind for kind in kinds if not device.scan(stack.scan_kernels, kind).known]
    if not unknown:
        return ()
    return (f"kernels of `{'`, `'.join(unknown)}` layers are not measured on {device.name}: priced by estimates",)
