"""Between which multiples of a simulated figure the measured one is expected, and the intervals that follow."""

from collections.abc import Mapping
from dataclasses import dataclass

from simulator.metrics import METRICS, PERCENTILES

LEVEL = 0.8
"""Share of measured runs that intervals hold: of rows of sources that the widths were not made from."""

STEP, TTFT, TPOT, REQUEST, MEMORY = "step", "ttft", "tpot", "request", "memory"
"""What spreads are about: the time of a training step, a first token, each later one, a request; peak memory."""
_KINDS = ("mean", "median", *(f"p{p}" for p in PERCENTILES))
_ABOUT = {
    STEP: ("step_time_s", "tokens_per_s", "tokens_per_s_per_device", "samples_per_s", "mfu", "mfu_causal", "hfu"),
    MEMORY: ("peak_memory_bytes",),
    TTFT: tuple(f"{kind}_ttft_ms" for kind in _KINDS),
    TPOT: tuple(f"{kind}_{name}_ms" for name in ("tpot", "itl") for kind in _KINDS),
    REQUEST: (
        *(f"{kind}_e2el_ms" for kind in _KINDS),
        *("output_throughput", "output_throughput_per_device", "total_token_throughput", "request_throughput"),
    ),
}
"""Metrics by what the spread of their values is about."""
ASKED: Mapping[str, tuple[str, ...]] = {"training": (STEP, MEMORY), "serving": (TTFT, TPOT, MEMORY)}
"""What a run of each kind always has, so that it is said where no published run speaks for it."""


@dataclass(frozen=True, slots=True)
class Spread:
    """Between which multiples of a simulated time or size `LEVEL` of measured ones are."""

    low: float
    """Factor on the simulated value."""
    high: float
    """Factor on the simulated value."""
    rows: int = 0
    """Published runs like this one; those further away count by their nearness, too."""
    sources: int = 0
    """Sources of the runs that the spread is made from."""
    differ: str = ""
    """In what the nearest published runs differ, in words; empty where there are runs like this one."""
    why: str = ""
    """What makes it wide beside what published runs tell, in words."""

    @property
    def basis(self) -> str:
        """What it is made from, in words."""
        why = f"; {self.why}" if self.why else ""
        if self.rows:
            return f"{100 * LEVEL:.0f} %, {self.rows:,} published run{'s' * (self.rows != 1)} like this one{why}"
        return f"{100 * LEVEL:.0f} %, no published run like this one: extrapolated from those with {self.differ}{why}"

    def around(self, value: float, rate: bool) -> tuple[float, float]:
        """The lowest and highest expected value of a figure, in its unit; rates fall where times rise."""
        return (value / self.high, value / self.low) if rate else (value * self.low, value * self.high)


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What decides how near published runs are to this one."""

    kind: str
    """`training` or `serving`."""
    device: str
    vendor: str
    year: int
    """Of the device's first availability."""
    stack: str
    format: str
    """Of products in training, of weights in serving."""
    model: str
    """`dense` or `experts`."""
    network: str
    """The collective library; empty on one device."""
    devices: int
    """Devices that talk to each other."""
    features: tuple[str, ...]
    """Of the layout, in words."""
    load: str = ""
    """How requests come, in words; empty in training."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Between which values the measured figure is expected."""

    low: float
    """In the unit of the figure."""
    high: float
    """In the unit of the figure."""
    level: float
    """Share of measured runs that such intervals hold."""
    rows: int
    """Published runs like this one."""
    basis: str
    """What it is made from, in words."""


def intervals(metrics: Mapping[str, float], spreads: Mapping[str, Spread]) -> dict[str, Interval]:
    """The intervals of the figures of a run, of those that published runs say anything about."""
    found = {}
    for about, names in _ABOUT.items():
        for name in names:
            if name in metrics and about in spreads:
                found[name] = interval(name, metrics[name], spreads[about])
    return found


def interval(name: str, value: float, spread: Spread) -> Interval:
    """The interval of one figure."""
    low, high = spread.around(value, METRICS[name].sense == "rate")
    return Interval(low, high, LEVEL, spread.rows, spread.basis)
