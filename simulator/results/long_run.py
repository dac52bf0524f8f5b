"""What became of a run of weeks: time by what it went to, failures by cause, checkpoints, and the advised interval."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simulator.results.parts import Misfit, numbers, require, whole

STATES = ("training", "checkpoint", "detection", "restart", "idle", "lost work")
"""What a run does, by the number that bands carry."""
PARTS = ("training", "slow", "fewer nodes", "checkpoint", "detection", "restart", "idle", "lost work")
"""What the time of a run is made of, in the order of pages."""
TICKS_PER_SECOND = 10**9
"""The clock of a long run counts nanoseconds: 146 years of them."""
SPARED = 1e-3
"""Share of the time that may go to a longer interval of checkpoints than the best, which is then advised."""


@dataclass(frozen=True, slots=True)
class LongRun:
    """Several simulated runs, each with failures of its own; figures are means over them."""

    seconds: dict[str, float]
    """Time by what it went to; sums to the mean run."""
    failures: dict[str, float]
    """Failures by cause."""
    checkpoint: dict[str, float]
    """`bytes`, `stall_s`, `write_s`, `store_s`, `load_s`, `interval_s`, `interval_steps`, `taken`."""
    tried: tuple[dict[str, float], ...] = ()
    """Intervals that were tried, `interval_s` and `ratio` of each; empty where nothing fails."""
    samples: tuple[dict[str, float], ...] = ()
    """Of each run `time_s`, `ratio`, `failures`, `steps`, `lost_s`."""
    shown: int = 0
    """The run whose bands these are: the one of median ratio."""
    bands: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 3), np.int64))
    """(from, to, number of the state) in nanoseconds, in order and without gaps; shape (n, 3)."""


def header(run: LongRun) -> dict[str, Any]:
    """All but the bands as plain data."""
    return {name: value for name, value in asdict(run).items() if name != "bands"}


def of_header(known: Mapping[str, Any], bands: NDArray[np.int64]) -> LongRun:
    """A run out of a file; Misfit where it says what cannot be."""
    lists = {name: tuple(numbers(one) for one in _listed(known[name])) for name in ("tried", "samples")}
    require(bands.shape[1] == 3, "bands of a run have three columns")
    ordered = bool((bands[:, 1] >= bands[:, 0]).all() and (bands[:, 0] >= 0).all())
    require(ordered, "a band of a run ends before it starts")
    require(bool(np.isin(bands[:, 2], range(len(STATES))).all()), "a band of a run is of an unknown state")
    require(all("interval_s" in one and "ratio" in one for one in lists["tried"]), "a tried interval lacks a figure")
    seconds, failures, checkpoint = (numbers(known[name]) for name in ("seconds", "failures", "checkpoint"))
    return LongRun(seconds, failures, checkpoint, lists["tried"], lists["samples"], whole(known["shown"]), bands)


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Misfit("a list is missing")
    return value
