"""Condense measured attention over prompts into kernel profiles.

Devices of equal silicon are fitted together (`fitting.CHIPS`), each generation of kernels by itself, on tables of a
serving engine and on rows and figures of publications.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simulator.calibration.asked import explained, read_objects, read_table
from simulator.calibration.fitting import (
    TABLES,
    Floats,
    Found,
    Parameter,
    Report,
    fit_together,
    of_device,
    report_row,
    shared,
)
from simulator.calibration.kernels.figures import A100_FORWARD, FIGURES, LENGTHS, PARENTS
from simulator.calibration.kernels.profile_lines import DIGITS
from simulator.cost.attention import attention_seconds
from simulator.cost.device import attention_curve
from simulator.interop.rows.kernels import PASSES
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import AttentionKernels, KernelProfile
from simulator.specs.resolve import load_spec

ATTENTION = {
    "launch": Parameter(5e-6, 1e-6, 2e-5),
    "block": Parameter(1e-6, 1e-7, 1e-5),
    "backward_block": Parameter(5e-6, 2e-7, 3e-5),
    "tail": Parameter(0.4, 0, 1, False),
}
"""A launch is a kernel's at least, and a call of an operator from Python at most; cores finish apart by no more than
the longest block."""
CONTEXT_COLUMNS = (
    "attn_dtype",
    "kv_cache_dtype",
    "batch_size",
    "num_heads",
    "num_key_value_heads",
    "isl",
    "head_dim",
    "latency",
)
"""Columns of a table of prompts."""
MOST_CASES = 300
"""Rows of a table of prompts that are fitted."""
RATE = Parameter(0.5, 0.02, 1.0, False)
CUDNN = {"h200-sxm": "H200"}
"""By profile, what cuDNN's kernels were timed on (NVIDIA/cudnn-frontend), by its name in the rows. Those of
GB200 (cuDNN 9.19) can be fitted as well (within 2.4 % in the median), and were not taken: with them steps of Blackwell,
too fast already, come out 1 to 2.5 % faster, and cuDNN 9.10 on B200 took up to a third longer."""
HEADS = (64, 128, 192)
"""Sizes of heads that they were timed at; 192 with values of 128, as latent attention has them."""
WRITE = {"token": Parameter(1e-9, 1e-11, 1e-6), "cache": Parameter(0.5, 0.02, 2)}
"""Writing keys and values to a cache, which the serving tables include: seconds a token, and share of the bandwidth."""


# ---- attention ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One measured attention: shape, which passes, seconds, weight, and whether writing a cache is in the time."""

    batch: int
    heads: int
    kv_heads: int
    length: int
    head_dim: int
    causal: bool
    passes: tuple[bool, ...]
    seconds: float
    cached: bool = False
    value_dim: int | None = None
    """Size of a head's values where it is not that of its keys."""
    window: int | None = None

    @property
    def flops(self) -> float:
        """Of the forward pass."""
        return 4.0 * self.batch * self.heads * self.length**2 * self.head_dim * (0.5 if self.causal else 1.0)


def figure_cases(generation: str) -> list[Case]:
    """Cases of the figures, in seconds."""
    cases = []
    for (name, size, causal, backward), rates in FIGURES.items():
        for length, rate in zip(LENGTHS, rates, strict=True):
            if name == generation:
                case = Case(16384 // length, 2048 // size, 2048 // size, length, size, causal, (backward,), 1.0)
                cases.append(_timed(case, case.flops * (2.5 if backward else 1.0) / (rate * 1e12)))
    return cases


def _timed(case: Case, seconds: float) -> Case:
    return replace(case, seconds=seconds)


def published_cases(measurements: Path, device: str, library: str) -> list[Case]:
    """Published rows of one library on one device; forward and backward together where that is what was timed."""
    cases = []
    for row in read_objects(measurements, ("op", "accelerator", "metrics")):
        with explained(measurements, row):
            wanted = row["op"].startswith("attention") and device in row["accelerator"]
            if wanted and row.get("library") == library and "heads" in (row.get("shape") or {}):
                cases.append(_published_case(row))
    return cases


def _published_case(row: dict[str, Any]) -> Case:
    shape = row["shape"]
    batch, heads, length = shape["batch"], shape["heads"], shape["seqlen"]
    passes, keys = PASSES[row["op"]], shape.get("kv_heads", heads)
    case = Case(batch, heads, keys, length, shape["head_dim"], shape["causal"], passes, row["metrics"]["time_s"])
    return replace(case, value_dim=shape.get("value_dim"), window=shape.get("window"))


def read_attention(data: Path, profile: str, kind: str, columns: Sequence[str]) -> pd.DataFrame:
    """The table of a serving engine's attention without windows, `context` over prompts or `generation`."""
    folder, version, _, _ = TABLES[profile]
    table = read_table(data / folder / "attention" / version / f"{kind}_attention_perf.parquet", columns)
    return table[table.window_size == 0] if "window_size" in table else table


def table_cases(data: Path, profile: str, sizes: Sequence[int]) -> list[Case]:
    """Causal prefill of a serving engine, writing of the cache included."""
    table = read_attention(data, profile, "context", CONTEXT_COLUMNS)
    table = table[(table.attn_dtype == "bfloat16") & (table.kv_cache_dtype == "bfloat16") & (table.isl >= 64)]
    keys = ["batch_size", "num_heads", "num_key_value_heads", "isl", "head_dim"]
    table = table[table.head_dim.isin(sizes)].groupby(keys).latency.median().reset_index()
    shapes = zip(*(table[key].tolist() for key in keys), table.latency.tolist(), strict=True)
    return [Case(b, h, kv, n, d, True, (False,), latency * 1e-3, True) for b, h, kv, n, d, latency in shapes]


def attention_spec(found: Found, source: str) -> AttentionKernels:
    """The spec of fitted coefficients."""
    rates = {
        side: {int(n[1:]): round(v, DIGITS) for n, v in found.items() if n[0] == side and n[1:].isdigit()}
        for side in "fb"
    }
    return AttentionKernels.model_construct(
        rows=128,
        memory=0.85,
        status="measured",
        source=source,
        forward=rates["f"],
        backward=rates["b"],
        launch=found["launch"],
        block=found["block"],
        backward_block=found["backward_block"],
        tail=found["tail"],
    )


def attention_times(cases: Sequence[Case], spec: AttentionKernels, found: Found, accelerator: Accelerator) -> Floats:
    """Predicted seconds of each case."""
    assert accelerator.cores is not None
    bandwidth = accelerator.memory.bandwidth.value
    curve = attention_curve(spec, accelerator.peak["bf16"].value, bandwidth, accelerator.cores.value, 1.0)
    times = []
    for case in cases:
        heads, keys = case.batch * case.heads, case.batch * case.kv_heads
        moved = 2.0 * case.length * (case.head_dim + (case.value_dim or case.head_dim)) * (heads + keys)
        shape = heads, case.length, case.length, case.head_dim, case.causal
        total = sum(
            attention_seconds(
                *shape, backward, moved * (1 + backward), curve, value_dim=case.value_dim, window=case.window
            )[0]
            for backward in case.passes
        )
        if case.cached:
            written = 8.0 * keys * case.length * case.head_dim
            total += case.batch * case.length * found["token"] + written / (bandwidth * found["cache"])
        times.append(total)
    return np.array(times)


@dataclass(frozen=True)
class Generation:
    """What one generation of kernels is fitted on: cases by device, sizes of heads with rates forward and backward."""

    cases: Mapping[str, Sequence[Case]]
    forward: Sequence[int]
    backward: Sequence[int] = ()


UNKNOWN = {"token": 0.0, "cache": 1.0, "b128": 0.5, "backward_block": 0.0}
"""Coefficients that a generation's cases do not need."""


def fit_attention(name: str, generation: Generation) -> tuple[Found, list[str]]:
    """(coefficients of a generation on the devices of a chip, what is not settled)."""
    parameters = ATTENTION | {f"f{size}": RATE for size in generation.forward}
    parameters |= {f"b{size}": RATE for size in generation.backward}
    if not generation.backward:
        parameters = {key: value for key, value in parameters.items() if key != "backward_block"}
    if any(case.cached for cases in generation.cases.values() for case in cases):
        parameters |= WRITE
    accelerators = {profile: load_spec(Accelerator, TABLES[profile][2]) for profile in generation.cases}
    measured = {profile: [case.seconds for case in cases] for profile, cases in generation.cases.items()}

    def times(profile: str, found: Found) -> Floats:
        full = UNKNOWN | of_device(found, profile)
        return attention_times(generation.cases[profile], attention_spec(full, ""), full, accelerators[profile])

    return fit_together(name, shared(parameters, ("cache",), list(generation.cases)), measured, times, {}, 60)


def report_attention(cases: Sequence[Case], found: Found, profile: str, generation: str) -> Report:
    """Rows of the error table by what was timed."""
    full = UNKNOWN | found
    predicted = attention_times(cases, attention_spec(full, ""), full, load_spec(Accelerator, TABLES[profile][2]))
    rows: Report = []
    for passes, label in (((False,), "forward"), ((True,), "backward"), ((False, True), "forward and backward")):
        mask = np.array([case.passes == passes for case in cases])
        if mask.any():
            table = pd.DataFrame({"seconds": [case.seconds for case in cases]})[mask]
            rows.append(report_row(profile, generation, label, "fitted", table, predicted[mask]))
    return rows


def generations_of(data: Path, measurements: Path, chip: Sequence[str]) -> dict[str, Generation]:
    """What is known of each generation of kernels on a chip."""
    first = chip[0]
    if first == "a100-sxm":
        anchors = [case for size in A100_FORWARD for case in _anchors(size, load_spec(Accelerator, TABLES[first][2]))]
        newer = published_cases(measurements, "A100", "FlashAttention-2") + anchors
        older = published_cases(measurements, "A100", "FlashAttention-1")
        served = Generation({first: _thin(table_cases(data, first, (128,)))}, (128,))
        return {
            "fa2": Generation({first: newer}, (64, 128), (64, 128)),
            "fa1": Generation({first: older}, (64,), (64,)),
            "paged": served,
        }
    found = {}
    if first == "h100-sxm":
        for name, library in (("fa3", "FlashAttention-3"), ("fa2", "FlashAttention-2")):
            rows = [case for case in published_cases(measurements, "H100", library) if len(case.passes) == 2]
            found[name] = Generation({first: figure_cases(name) + rows}, (64, 128, 256), (64, 128))
    sizes = (64, 128, 256) if first == "b200-sxm" else (64, 128, 192, 256)
    tables = {profile: [case for case in table_cases(data, profile, sizes) if _cold(profile, case)] for profile in chip}
    found["paged"] = Generation({profile: _thin(cases) for profile, cases in tables.items()}, sizes)
    if chip[-1] in CUDNN:
        found["cudnn"] = Generation({chip[-1]: published_cases(measurements, CUDNN[chip[-1]], "cuDNN")}, HEADS, HEADS)
    return found


def fit_generations(
    data: Path, measurements: Path, chip: Sequence[str]
) -> tuple[dict[str, dict[str, Found]], Report, list[str]]:
    """(coefficients by profile and generation, rows of the report, what is not settled) of a chip."""
    found: dict[str, dict[str, Found]] = {profile: {} for profile in chip}
    report: Report = []
    loose: list[str] = []
    for name, generation in generations_of(data, measurements, chip).items():
        known, lines = fit_attention(name, generation)
        loose += lines
        for profile in chip:
            own = found[profile][name] = of_device(known, profile)
            report += report_attention(generation.cases.get(profile, ()), own, profile, name)
    for profile in chip:
        found[profile]["paged"] |= _backward(profile, found[profile])
    return found, report, loose


def _backward(profile: str, known: Mapping[str, Found]) -> Found:
    """Rates of the backward pass of the best generation: serving tables have none."""
    best = next(iter(known))
    if best != "paged":
        return {name: value for name, value in known[best].items() if name.startswith("b") and name != "block"}
    parent = load_spec(KernelProfile, PARENTS[profile])
    kernels = parent.attention[parent.best_attention]
    rates = {f"b{size}": float(share) for size, share in kernels.backward.items()}
    return rates | {"backward_block": float(kernels.backward_block)}


def _cold(profile: str, case: Case) -> bool:
    """Whether a prompt is so long that its arithmetic hides what the benchmark's loop finds in a large cache."""
    return profile != "l40s" or case.length >= 1024


def _anchors(size: int, accelerator: Accelerator) -> list[Case]:
    case = Case(1, 2048 // size, 2048 // size, 16384, size, False, (False,), 1.0)
    return [_timed(case, case.flops / (A100_FORWARD[size] * accelerator.peak["bf16"].value))] * 3


def _thin(cases: list[Case]) -> list[Case]:
    chosen = np.random.default_rng(0).permutation(len(cases))[:MOST_CASES]
    return [cases[number] for number in sorted(chosen)]
