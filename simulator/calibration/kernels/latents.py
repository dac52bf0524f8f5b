"""Fit decode attention over latents (multi-head latent attention) on each device by itself.

Tables: the generation kernels of TensorRT-LLM, latents of 512 and 64 elements, 1 to 128 query heads, 16 bits. Prompts
of such models take the fused attention that is fitted elsewhere, at their sizes of keys and values; their error is
reported.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from simulator.calibration.asked import read_table
from simulator.calibration.fitting import (
    TABLES,
    Floats,
    Found,
    Parameter,
    Report,
    fit_together,
    hold_back,
    report_row,
)
from simulator.calibration.kernels.profile_lines import COMMAND, group_yaml
from simulator.cost import Device
from simulator.cost.attention import attention_seconds
from simulator.cost.decode import DecodeCurve, decode_seconds, write_seconds
from simulator.cost.device import latent_curve, sixteen_bit
from simulator.specs.kernels import LatentKernels

LATENT = {
    "launch": Parameter(1.2e-5, 2e-6, 6e-5),
    "sequence": Parameter(3e-8, 1e-10, 3e-7),
    "overlap": Parameter(0.5, 0, 1, False),
    "memory": Parameter(0.85, 0.3, 1, False),
    "rate": Parameter(0.4, 0.02, 1, False),
}
WHOLE = ("a100-sxm", "l40s")
"""Profiles whose kernels walk over a sequence on one core."""
PADDED = {"b200-sxm": 128}
"""Query heads that rows over chosen tokens are filled up to, where not 64 (vLLM's FlashMLA backend of sparse
attention); its tables of whole modules have 16, 32, 64 heads as slow as 128 there, and as 64 on Hopper."""
CORE = Parameter(0.5, 0.05, 8)
VERSIONS = {
    "a100-sxm": "trtllm/1.0.0",
    "h100-sxm": "trtllm/1.3.0rc20",
    "h200-sxm": "trtllm/1.3.0rc20",
    "b200-sxm": "trtllm/1.3.0rc20",
    "l40s": "trtllm/1.0.0",
}
"""Framework and version of each profile's tables."""
WIDTH, VALUES = 576, 512
"""Elements of a cached latent with its rotated key, and of those that are summed."""
KEYS, HEAD_VALUES = 192, 128
"""Size of a head's keys and values in prompts."""
COLD, HIDDEN = 1.5, 0.1
"""Latents that fill between the second and the first of these shares of the last-level cache are left out: a loop of
the benchmark finds them there, as no engine does; fewer are hidden by the launch."""
MOST = 500
"""Rows that are fitted."""
COLUMNS = ("num_heads", "batch_size", "isl", "step", "kv_cache_dtype", "latency")


def read_latents(data: Path, profile: str, kind: str) -> pd.DataFrame:
    """Attention of latents, `generation` or `context`: shapes, seconds, which are held back."""
    path = data / TABLES[profile][0] / "mla" / VERSIONS[profile] / f"{kind}_mla_perf.parquet"
    table = read_table(path, COLUMNS)
    table = table[table.kv_cache_dtype == "bfloat16"]
    table = table.groupby(["num_heads", "batch_size", "isl", "step"]).latency.median().reset_index()
    return hold_back(table.assign(seconds=table.latency * 1e-3), ["num_heads", "batch_size"])


def latent_times(table: pd.DataFrame, curve: DecodeCurve) -> Floats:
    """Predicted seconds of each row of decodes."""
    return np.array(
        [
            decode_seconds(n, n * (step + 1), 1, 1.0, 2.0 * WIDTH, 2.0 * heads * (WIDTH + VALUES), False, True, curve)
            for heads, n, step in table[["num_heads", "batch_size", "step"]].itertuples(index=False)
        ]
    )


def prompt_times(table: pd.DataFrame, device: Device) -> Floats:
    """Predicted seconds of each row of prompts, by the kernel of a serving engine where it is known."""
    curve, times = device.attention.get("paged", device.attention[device.best_attention]), []
    for heads, n, length in table[["num_heads", "batch_size", "isl"]].itertuples(index=False):
        moved = 4.0 * n * heads * length * (KEYS + HEAD_VALUES)
        time, _, _ = attention_seconds(
            n * heads, length, length, KEYS, True, False, moved, curve, value_dim=HEAD_VALUES
        )
        time += 2.0 * n * heads * length * (KEYS + HEAD_VALUES) / device.decode.query
        times.append(time + write_seconds(n * length, 2.0 * WIDTH, 2.0 * WIDTH, device.stream.launch, device.decode))
    return np.array(times)


def fit_latents(data: Path, profile: str, device: Device, cache: float) -> tuple[list[str], Report, list[str]]:
    """(lines of YAML of a profile, rows of the report, what is not settled)."""
    rows = read_latents(data, profile, "generation")
    size = 2.0 * WIDTH * rows.batch_size * (rows.step + 1)
    rows = rows[(size < HIDDEN * cache) | (size > COLD * cache)].reset_index(drop=True)

    parameters = dict(LATENT)
    if profile in WHOLE:  # blocks that walk a sequence alone hide nothing of each other
        parameters = {name: one for name, one in LATENT.items() if name != "overlap"} | {"core": CORE}
    fixed: Found = {"cuts": 0.0, "overlap": 0.0} if profile in WHOLE else {}

    def curve(found: Found) -> DecodeCurve:
        spec = LatentKernels.model_construct(**(fixed | found))  # type: ignore[arg-type]
        return latent_curve(spec, device.bandwidth, device.latent.cores, sixteen_bit(device.peaks))

    def fit(seen: pd.DataFrame, start: Found) -> tuple[Found, list[str]]:
        sample = seen.sample(min(MOST, len(seen)), random_state=0)
        measured = {profile: sample.seconds}

        def times(_: str, found: Found) -> Floats:
            return latent_times(sample, curve(found))

        return fit_together("latent", parameters, measured, times, start, 40)

    blind, _ = fit(rows[~rows.held], {})
    found, loose = fit(rows, blind)
    report: Report = []
    held = rows[rows.held]
    for many, words in ((False, "1 to 64 heads"), (True, "128 heads")):
        part = held[(held.num_heads == 128) == many]
        report.append(report_row(profile, "latent decode", words, "held out", part, latent_times(part, curve(blind))))
    prompts = read_latents(data, profile, "context")
    prompts = prompts[(prompts.isl >= 512) & (prompts.batch_size * prompts.isl >= 1024)]
    report.append(
        report_row(profile, "latent prompts", "from 512", "not fitted", prompts, prompt_times(prompts, device))
    )
    source = (
        f"fitted on ai-dynamo/aiconfigurator {TABLES[profile][0]}/mla/{VERSIONS[profile]} (Apache-2.0) by {COMMAND}"
    )
    lines = ["latent:", *group_yaml(found, source, 2)]
    lines += [f"  padded_heads: {PADDED[profile]}"] if profile in PADDED else []
    return lines + (["  overlap: 0", "  cuts: false"] if profile in WHOLE else []), report, loose
