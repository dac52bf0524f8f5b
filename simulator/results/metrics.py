"""Headline figures of a training step as pure functions of what was simulated.

FLOP conventions (Korthikanti et al., arXiv:2205.05198, section 6.3): `model_flops` are what the mathematics of a step
needs and give the MFU; `hardware_flops` add what recomputation runs again and give the HFU. Breakdown keys are
`compute`, `recompute`, `optimizer`, `host` (the device waits for launches), `exposed_AXIS` for communication that
nothing hides (`exposed_tp`, `exposed_pp`, `exposed_dp` ...), `stall` (what sharing adds), `offload`, `bubble`, `idle`.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from simulator import units
from simulator.errors import InputError, Problem, nearest
from simulator.results.result import Comparison

EXPOSED = "exposed_"
"""What the keys of exposed communication in a breakdown begin with; the mesh axis follows."""

Breakdown = Mapping[str, float]
"""Seconds of the step of one device class by what the device did."""


class Metric(NamedTuple):
    """How a figure is read, printed and compared."""

    label: str
    """Words for a page."""
    dimension: str
    """One of `units.DIMENSIONS`."""
    sense: Literal["time", "rate", "size"]
    """`time`: less is faster; `rate`: more is faster; `size`: neither, a difference is just a difference."""


METRICS: dict[str, Metric] = {
    "step_time_s": Metric("step time", "time", "time"),
    "tokens_per_s": Metric("tokens per second", "rate", "rate"),
    "tokens_per_s_per_device": Metric("tokens per second and device", "rate", "rate"),
    "samples_per_s": Metric("sequences per second", "rate", "rate"),
    "model_flops_per_device": Metric("model FLOP/s per device", "flop_rate", "rate"),
    "mfu": Metric("model FLOP utilisation (MFU)", "fraction", "rate"),
    "hardware_flops_per_device": Metric("hardware FLOP/s per device", "flop_rate", "rate"),
    "hfu": Metric("hardware FLOP utilisation (HFU)", "fraction", "rate"),
    "bubble_fraction": Metric("pipeline bubble", "fraction", "size"),
    "exposed_communication_s": Metric("exposed communication", "time", "time"),
    "peak_memory_bytes": Metric("peak memory", "bytes", "size"),
    "energy_j": Metric("energy of a step", "energy", "size"),
    "cost_usd": Metric("cost of a step", "money", "size"),
    "run_time_s": Metric("time of the run", "time", "time"),
    "run_energy_j": Metric("energy of the run", "energy", "size"),
    "run_cost_usd": Metric("cost of the run", "money", "size"),
}
"""The figures of a training step, by their names in the JSON form and in its order."""


def metric(name: str) -> Metric:
    """How a figure is read; InputError naming the nearest one where there is none of that name."""
    if name not in METRICS:
        raise InputError(Problem(f"unknown metric `{name}`", hint=nearest(name, METRICS)))
    return METRICS[name]


def error_of_time(name: str, measured: float, predicted: float) -> float:
    """Relative error with one sign for all figures: positive where the simulation is too slow (or too large).

    predicted / measured - 1 for times and sizes, measured / predicted - 1 for rates. NaN where a divisor is 0.
    """
    over, under = (measured, predicted) if metric(name).sense == "rate" else (predicted, measured)
    return over / under - 1 if under else float("nan")


def compare(name: str, published: str | float, simulated: float, source: str, note: str = "") -> Comparison:
    """A published figure (text with its unit, or a number of SI units where the metric needs none) beside ours.

    Raises InputError for an unknown metric, ValueError for text that is not a quantity of it.
    """
    value = units.parse(published, metric(name).dimension)
    return Comparison(name, value, simulated, error_of_time(name, value, simulated), source, note)


def training_metrics(
    *,
    step_s: float,
    tokens: float,
    samples: float,
    devices: int,
    model_flops: float,
    hardware_flops: float,
    peak_flops: float,
    breakdown: Sequence[Breakdown],
    ranks: Sequence[int],
    peak_memory: float,
) -> dict[str, float]:
    """The figures of one step of `step_s` seconds in which all `devices` together did these tokens, sequences and FLOP.

    `peak_flops` is the dense peak of one device in the number format of the step, in FLOP/s; `breakdown` and `ranks`
    have one entry per device class; `peak_memory` is in bytes, of the fullest device.
    """  # fmt: skip
    device_seconds = step_s * devices
    return {
        "step_time_s": step_s,
        "tokens_per_s": tokens / step_s,
        "tokens_per_s_per_device": tokens / device_seconds,
        "samples_per_s": samples / step_s,
        "model_flops_per_device": model_flops / device_seconds,
        "mfu": model_flops / device_seconds / peak_flops,
        "hardware_flops_per_device": hardware_flops / device_seconds,
        "hfu": hardware_flops / device_seconds / peak_flops,
        "bubble_fraction": mean(breakdown, ranks).get("bubble", 0.0) / step_s,
        "exposed_communication_s": sum(exposed(mean(breakdown, ranks)).values()),
        "peak_memory_bytes": peak_memory,
    }


def run_metrics(metrics: Mapping[str, float], step_tokens: float, tokens: float) -> dict[str, float]:
    """Time, and energy and money where a step has them, of a run over `tokens` tokens at `step_tokens` a step."""
    steps = tokens / step_tokens
    whole = {"run_time_s": "step_time_s", "run_energy_j": "energy_j", "run_cost_usd": "cost_usd"}
    return {name: metrics[step] * steps for name, step in whole.items() if step in metrics}


def mean(breakdown: Sequence[Breakdown], ranks: Sequence[int]) -> dict[str, float]:
    """Seconds of the step by what an average device did; classes weigh as many times as they have ranks."""
    total = sum(ranks)
    keys = dict.fromkeys(key for part in breakdown for key in part)
    return {
        key: sum(part.get(key, 0.0) * count for part, count in zip(breakdown, ranks, strict=True)) / total
        for key in keys
    }


def exposed(breakdown: Breakdown) -> dict[str, float]:
    """The exposed communication in a breakdown: axis of the mesh to seconds."""
    return {key.removeprefix(EXPOSED): value for key, value in breakdown.items() if key.startswith(EXPOSED)}
