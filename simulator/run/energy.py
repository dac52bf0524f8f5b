"""Energy of a run from what its devices do: arithmetic, memory, links, waiting. Model: docs/models/compute.md."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from simulator.axes import EP, TP
from simulator.cost.economy import MEMORY, activity, energy_j, held, with_links
from simulator.results.result import Iterations, Replica
from simulator.results.serving import iterations as of
from simulator.specs.hardware import LEAST_IDLE, Accelerator
from simulator.specs.hardware import idle_w as waiting_w
from simulator.units import TICKS_PER_SECOND

if TYPE_CHECKING:  # a training needs nothing of what serves
    from simulator.serving.costs.iteration import ReplicaCost

Floats = NDArray[np.float64]

PASSES_MEMORY = 0.5
"""Rate of the memory over its peak while a training step computes: products read operands, passes between them stream;
an estimate."""
LEVELS = 1024
"""Equal parts of the span above idle by which seconds are added up where links are known only in the end."""
LINKS = {TP.name, EP.name, "transfer"}
"""Words in the names of parts of a replica's time in which links work."""


def idle_w(accelerator: Accelerator) -> float:
    """Watts of a device that waits; a share of its peak where the profile does not say."""
    assert accelerator.power is not None
    return waiting_w(accelerator.power)


def guessed_idle(accelerators: Iterable[Accelerator]) -> tuple[str, ...]:
    """What to list as assumed of accelerators whose idle power is not given."""
    return tuple(
        f"power.idle of {each.name} is {LEAST_IDLE:.0%} of its peak (its profile does not say)"
        for each in accelerators
        if each.power is not None and each.power.idle is None
    )


def _memory_share(accelerator: Accelerator) -> float:
    known = accelerator.power.memory if accelerator.power else None
    return MEMORY if known is None else known.value


def step_energy_j(accelerator: Accelerator, parts: dict[str, float], arithmetic: float, step_s: float) -> float | None:
    """Joules of one device in a training step of `step_s` seconds; None where its profile knows no power.

    `parts` are seconds of the step that is shown by what they consist of, `arithmetic` the seconds that its products
    would take at the peak.
    """
    if accelerator.power is None:
        return None
    whole = sum(parts.values())
    working = parts["compute"] + parts["recompute"] + parts["stall"]
    share = _memory_share(accelerator)
    above = parts["optimizer"] * float(activity(0.0, 1.0, memory_share=share))
    above += sum(value for name, value in parts.items() if name.startswith("exposed")) * float(activity(0.0, 0.0, 1.0))
    if working > 0:
        above += working * float(activity(arithmetic / working, PASSES_MEMORY, memory_share=share))
    return energy_j(
        accelerator.power.peak.value, idle_w(accelerator), min(above / whole, held(accelerator.power)), step_s
    )


def replica_energy_j(
    accelerator: Accelerator, cost: "ReplicaCost", replica: Replica, verified: NDArray[np.int64], duration_s: float
) -> float | None:
    """Joules of all devices of a replica; None where the accelerator's profile knows no power.

    Arithmetic is that of the linear layers on all rows and of decoding's attention, without that of prompts; memory
    reads the weights once an iteration and what is cached, states twice. `verified` are the rows of decodes of each
    kind of iteration, drafts and members of a static batch that are done among them.
    """
    if accelerator.power is None:
        return None
    rows, share = replica.iterations, linked(replica.parts, replica.busy)
    working = working_s(accelerator, cost, replica.weights, rows, share, verified)
    return total_energy_j(accelerator, replica.devices, working, duration_s)


def total_energy_j(accelerator: Accelerator, devices: int, working: float, duration_s: float) -> float | None:
    """Joules of so many devices that were above idle for `working` seconds, weighted as by `working_s`."""
    if accelerator.power is None:
        return None
    above = working / duration_s if duration_s else 0.0
    share = min(above, held(accelerator.power))
    return devices * energy_j(accelerator.power.peak.value, idle_w(accelerator), share, duration_s)


def working_s(
    accelerator: Accelerator,
    cost: "ReplicaCost",
    weights: float,
    rows: Iterations,
    links: float,
    verified: NDArray[np.int64],
) -> float:
    """Seconds of iterations weighted with their share of the power above idle, `links` that of time in which links
    work; the rest as for `replica_energy_j`."""
    found = _unlinked(accelerator, cost, weights, rows, verified)
    return sum(float(lasts @ with_links(share, links)) for lasts, share in found)


@dataclass(slots=True, eq=False)
class PowerLevels:
    """Seconds of iterations by their share of the power above idle before links, which are known when a run ends.

    What a level is worth is the mean of the shares in it, so that only the level in which power reaches its peak with
    links is off, by half of its width at most.
    """

    lasts: Floats = field(default_factory=lambda: np.zeros(LEVELS))
    """Seconds by level."""
    weighted: Floats = field(default_factory=lambda: np.zeros(LEVELS))
    """Seconds by level, each times its share."""

    def add(
        self,
        accelerator: Accelerator,
        cost: "ReplicaCost",
        weights: float,
        rows: Iterations,
        verified: NDArray[np.int64],
    ) -> None:
        """Iterations as for `working_s`."""
        for lasts, share in _unlinked(accelerator, cost, weights, rows, verified):
            level = np.minimum((share * LEVELS).astype(np.int64), LEVELS - 1)
            self.lasts += np.bincount(level, lasts, LEVELS)
            self.weighted += np.bincount(level, lasts * share, LEVELS)

    def working_s(self, links: float) -> float:
        """Seconds weighted as by `working_s`."""
        there = self.lasts > 0
        return float(self.lasts[there] @ with_links(self.weighted[there] / self.lasts[there], links))


def _unlinked(
    accelerator: Accelerator, cost: "ReplicaCost", weights: float, rows: Iterations, verified: NDArray[np.int64]
) -> Iterator[tuple[Floats, Floats]]:
    """Seconds of iterations, and their share of the power above idle without links; some rows at a time."""
    stages = len(cost.stages)
    for here, some in of.pieces(rows):
        rows_of_decodes, count = verified[here], some.count.astype(np.float64)
        lasts = (some.first + some.growth * (count - 1) / 2) / TICKS_PER_SECOND / stages
        sequences = some.decodes + some.done
        context = some.context + sequences * (count - 1) / 2
        queries = rows_of_decodes / np.maximum(sequences, 1)
        arithmetic = (rows_of_decodes + some.prompt_tokens) * cost.peak_row_s + queries * context * cost.peak_context_s
        states = 2.0 * sequences * cost.state_replica_bytes / cost.devices
        moved = (weights + context * cost.kv_token_bytes + states) / accelerator.memory.bandwidth.value
        compute, memory = arithmetic / stages / np.maximum(lasts, 1e-12), moved / np.maximum(lasts, 1e-12)
        yield count * lasts, activity(compute, memory, memory_share=_memory_share(accelerator))


def linked(parts: dict[str, float], busy: float) -> float:
    """Share of a replica's time in which links work."""
    seconds = sum(value for part, value in parts.items() if LINKS.intersection(part.split()))
    return seconds / busy if busy else 0.0
