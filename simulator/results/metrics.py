"""Headline figures of a training step as pure functions of what was simulated.

FLOP conventions (Korthikanti et al., arXiv:2205.05198, section 6.3): `model_flops` are what the mathematics of a step
needs and give the MFU; `hardware_flops` add what recomputation runs again and give the HFU. Breakdown keys are
`compute`, `recompute`, `optimizer`, `host` (the device waits for launches), `offload` (for activations that are kept
on its host), `exposed_AXIS` for communication that nothing hides (`exposed_tp`, `exposed_pp`, `exposed_dp` ...),
`stall` (what sharing adds), `straggler` (slower peers are waited for), `bubble`, `idle`.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from simulator import units
from simulator.errors import InputError, Problem, nearest
from simulator.metrics import METRICS, Metric
from simulator.results.result import Comparison

PERCENTILES = (50, 90, 95, 99)
"""Percentiles of step times that a result of several steps has."""
SECONDS_PER_DAY = 86_400
_MOST_LISTED = 60  # names in a hint: more than any one result has
EXPOSED = "exposed_"
"""What the keys of exposed communication in a breakdown begin with; the mesh axis follows."""

Breakdown = Mapping[str, float]
"""Seconds of the step of one device class by what the device did."""


WELL_KNOWN = ("mfu", "step_time_s", "output_throughput", "p99_ttft_ms", "peak_memory_bytes")
"""Examples for a message about an unknown figure."""


def metric(name: str) -> Metric:
    """How a figure is read; InputError naming the nearest one where there is none of that name."""
    if name not in METRICS:
        raise InputError(Problem(f"unknown metric `{name}`", hint=like(name, METRICS)))
    return METRICS[name]


def like(name: str, known: Iterable[str]) -> str:
    """A hint that names the figure closest to a name, or those that have it in them or in their label, or all."""
    names = list(known)
    near = nearest(name, names)
    if near.startswith("did"):
        return near
    word = name.casefold().replace("_", " ")
    found = [one for one in names if word in one.replace("_", " ") or (one in METRICS and word in _words(one))]
    if not found and len(names) > _MOST_LISTED:
        few = ", ".join(f"`{one}`" for one in WELL_KNOWN)
        return f"for example {few}; the reference of metrics lists them"
    listed = ", ".join(f"`{one}`" for one in found or names)
    return (f"perhaps {listed}" if found else f"known: {listed}") if names else "there are none"


def _words(name: str) -> str:
    return METRICS[name].label.casefold()


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
    value = units.parse(published, metric(name).dimension) / metric(name).scale
    return Comparison(name, value, simulated, error_of_time(name, value, simulated), source, note)


def training_metrics(
    *,
    step_s: float,
    shown_s: float | None = None,
    tokens: float,
    samples: float,
    devices: int,
    model_flops: float,
    hardware_flops: float,
    peak_flops: float,
    breakdown: Sequence[Breakdown],
    ranks: Sequence[int],
    peak_memory: float,
    causal_flops: float | None = None,
) -> dict[str, float]:
    """The figures of one step of `step_s` seconds in which all `devices` together did these tokens, sequences and FLOP.

    `peak_flops` is the dense peak of one device in the number format of the step, in FLOP/s; `breakdown` and `ranks`
    have one entry per device class; `peak_memory` is in bytes, of the fullest device; `causal_flops` are the model's
    without what a causal mask leaves out, None where there is no such mask. Where `step_s` is the mean of
    several steps, `shown_s` is the one of `breakdown`.
    """
    device_seconds = step_s * devices
    return {
        "step_time_s": step_s,
        "tokens_per_s": tokens / step_s,
        "tokens_per_s_per_device": tokens / device_seconds,
        "samples_per_s": samples / step_s,
        "model_flops_per_device": model_flops / device_seconds,
        "mfu": model_flops / device_seconds / peak_flops,
        **({} if causal_flops is None else {"mfu_causal": causal_flops / device_seconds / peak_flops}),
        "hardware_flops_per_device": hardware_flops / device_seconds,
        "hfu": hardware_flops / device_seconds / peak_flops,
        "bubble_fraction": mean(breakdown, ranks).get("bubble", 0.0) / (step_s if shown_s is None else shown_s),
        "exposed_communication_s": sum(exposed(mean(breakdown, ranks)).values()),
        "peak_memory_bytes": peak_memory,
    }


def run_metrics(metrics: Mapping[str, float], step_tokens: float, tokens: float) -> dict[str, float]:
    """Time, and energy and money where a step has them, of a run over `tokens` tokens at `step_tokens` a step."""
    steps = tokens / step_tokens
    whole = {"run_time_s": "step_time_s", "run_energy_j": "energy_j", "run_cost_usd": "cost_usd"}
    return {name: metrics[step] * steps for name, step in whole.items() if step in metrics}


def step_metrics(ticks: NDArray[np.int64], metrics: Mapping[str, float]) -> dict[str, float]:
    """Percentiles of the times of several steps, in picoseconds, and what a day of such steps gives and costs.

    Percentiles lie linearly between the two nearest steps. `metrics` are those of the mean step.
    """
    times = np.percentile(ticks, PERCENTILES) / units.TICKS_PER_SECOND
    found = {f"step_time_p{p}_s": value for p, value in zip(PERCENTILES, times.tolist(), strict=True)}
    found["step_time_max_s"] = units.to_seconds(int(ticks.max()))
    found["tokens_per_day"] = metrics["tokens_per_s"] * SECONDS_PER_DAY
    if "cost_usd" in metrics:
        found["cost_per_day_usd"] = metrics["cost_usd"] / metrics["step_time_s"] * SECONDS_PER_DAY
    return found


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
