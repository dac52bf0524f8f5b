"""Fit recurrences of linear attention by family of kernels and kind, each device on its own.

Tables: gated delta net and Kimi delta attention of vLLM and SGLang. What they do not have (state-space layers, gated
linear attention, backward passes) keeps the estimates of `ScanKernels`. The short convolutions of the tables are passes
over memory like any other and are not fitted.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

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
from simulator.cost.device import scan_curve
from simulator.cost.scan import ScanCurve, scan_seconds, step_seconds
from simulator.model.ops import StateScan
from simulator.specs.kernels import ScanKernels

SCAN = {
    "launch": Parameter(1e-5, 1e-6, 6e-5),
    "block": Parameter(1.5e-5, 1e-6, 1e-4),
    "chain": Parameter(1e-8, 1e-10, 1e-6),
    "rate": Parameter(0.1, 0.003, 1.0),
}
FUSED = {name: parameter for name, parameter in SCAN.items() if name != "chain"}
"""Kernels that walk a head on one core have no chain beside the walk."""
STEP = {"step_launch": Parameter(3.7e-6, 1e-6, 1e-5), "step_memory": Parameter(0.82, 0.2, 1.0, False)}
COLD, HIDDEN = 1.5, 0.1
"""Steps whose states fill between the second and the first of these shares of the last-level cache are left out: a loop
of the benchmark finds states there that an engine does not; fewer are hidden by the launch."""
WARM = {"l40s": 5e7}
"""Scans of fewer bytes of rows are left out for the same reason, and more of the steps."""
WARM_HIDDEN = 0.02
COLUMNS = (
    "kernel_source",
    "phase",
    "batch_size",
    "seq_len",
    "num_k_heads",
    "head_k_dim",
    "num_v_heads",
    "head_v_dim",
    "latency",
)
CHUNK = 64
"""Rows of a chunk of all kernels of the tables."""


@dataclass(frozen=True)
class Table:
    """Rows of one table: its folder below the device's, scans and steps by a part of their kernels' names."""

    kind: str
    path: str
    scans: str
    steps: str


GDN, KDA = "linear_attention/{}/gdn_perf.parquet", "kda/{}/kda_perf.parquet"
PACKED = "fused_recurrent"
FUSED_GDN = Table("delta", GDN.format("vllm/0.24.0"), "chunk_gated_delta_rule_flashinfer", PACKED)
FUSED_KDA = Table("kda", KDA.format("vllm/0.1.dev19262"), "flashkda_fwd", "fused_kda_decode")
TRITON_KDA = Table("kda", KDA.format("sglang/0.5.16"), "chunk_kda", "packed_decode")
TRITON_GDN = Table("delta", GDN.format("sglang/0.5.14"), "chunk_gated_delta_rule", PACKED)
HOPPER = {"fused": (FUSED_GDN, FUSED_KDA), "triton": (TRITON_KDA,)}
FAMILIES: dict[str, dict[str, tuple[Table, ...]]] = {
    "h100-sxm": HOPPER,
    "h200-sxm": HOPPER,
    "b200-sxm": {"fused": (FUSED_GDN,), "triton": (TRITON_GDN,)},
    "l40s": {"triton": (TRITON_GDN,)},
}
"""Profile: family: tables."""


def read_scans(data: Path, profile: str, table: Table) -> pd.DataFrame:
    """Scans and steps of a table by shape: seconds, and which shapes are held back."""
    found = read_table(data / TABLES[profile][0] / table.path, COLUMNS)
    scans = (found.phase == "context") & (found.kernel_source == table.scans)
    steps = (found.phase == "generation") & found.kernel_source.str.contains(table.steps)
    keys = ["phase", "batch_size", "seq_len", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"]
    found = found[scans | steps].groupby(keys).latency.median().reset_index()
    return hold_back(
        found.assign(seconds=found.latency * 1e-3, kind=table.kind), ["num_k_heads", "num_v_heads", "batch_size"]
    )


def scan_times(table: pd.DataFrame, curve: ScanCurve) -> Floats:
    """Predicted seconds of scans."""
    kind, times = str(table.kind.iloc[0]), []
    for n, length, keys, key_dim, heads, value_dim in _shapes(table):
        op = StateScan(kind, heads, keys, key_dim, value_dim, CHUNK)
        row = op.flops / heads
        time, _, _ = scan_seconds((length,) * n, heads, key_dim * value_dim, row, 2.0 * op.moved, curve)
        times.append(time)
    return np.array(times)


def step_times(table: pd.DataFrame, curve: ScanCurve) -> Floats:
    """Predicted seconds of steps."""
    rows = _shapes(table)
    return np.array([step_seconds(n, 4.0 * heads * key * value, curve) for n, _, _, key, heads, value in rows])


def _shapes(table: pd.DataFrame) -> list[tuple[int, ...]]:
    columns = ["batch_size", "seq_len", "num_k_heads", "head_k_dim", "num_v_heads", "head_v_dim"]
    return [tuple(map(int, row)) for row in table[columns].itertuples(index=False)]


def fit_scans(data: Path, profile: str, device: Device, cache: float) -> tuple[list[str], Report, list[str]]:
    """(lines of YAML of a profile, rows of the report, what is not settled); no lines where there is no table."""
    lines: list[str] = []
    report: Report = []
    loose: list[str] = []
    for family, tables in FAMILIES.get(profile, {}).items():
        lines.append(f"  {family}:")
        for table in tables:
            found, rows, unsure = _fit(data, profile, device, cache, family, table)
            report, loose = report + rows, loose + unsure
            source = f"fitted on ai-dynamo/aiconfigurator {TABLES[profile][0]}/{Path(table.path).parent} (Apache-2.0)"
            lines += [f"    {table.kind}:", *group_yaml(found, f"{source} by {COMMAND}", 6)]
    return ["scans:", *lines] if lines else [], report, loose


def _fit(
    data: Path, profile: str, device: Device, cache: float, family: str, table: Table
) -> tuple[Found, Report, list[str]]:
    """(coefficients of a family and kind, rows of the report, what is not settled)."""
    rows = read_scans(data, profile, table)
    states = 8.0 * rows.batch_size * rows.num_v_heads * rows.head_k_dim * rows.head_v_dim
    passed = 4.0 * rows.batch_size * rows.seq_len * rows.num_v_heads * (rows.head_k_dim + rows.head_v_dim)
    large = (states > COLD * cache) | (states < (WARM_HIDDEN if profile in WARM else HIDDEN) * cache)
    scans = rows[(rows.phase == "context") & (passed > WARM.get(profile, 0.0))].reset_index(drop=True)
    steps = rows[(rows.phase == "generation") & large].reset_index(drop=True)
    fixed: Found = {"whole": 1.0, "chain": 0.0} if family == "fused" else {"whole": 0.0}

    def curve(found: Found) -> ScanCurve:
        spec = ScanKernels.model_construct(**(fixed | found))  # type: ignore[arg-type]
        known = device.scan_estimates["any"]
        return scan_curve(spec, device.bandwidth, known.cores, known.peak * known.cores, device.stream.efficiency)

    label = f"{table.kind} {family}"
    walk, first = _twice(profile, f"{label}, scans", scans, SCAN if family == "triton" else FUSED, scan_times, curve)
    step, second = _twice(profile, f"{label}, steps", steps, STEP, step_times, curve)
    return fixed | walk.found | step.found, [*first, *second], [*walk.lines, *step.lines]


class Settled(NamedTuple):
    """Coefficients of some rows, and what these do not settle."""

    found: Found
    lines: list[str]


def _twice(
    profile: str,
    label: str,
    table: pd.DataFrame,
    parameters: dict[str, Parameter],
    times: Callable[[pd.DataFrame, ScanCurve], Floats],
    curve: Callable[[Found], ScanCurve],
) -> tuple[Settled, Report]:
    """Coefficients with all rows, and the errors of those without the rows held back."""

    def fit(rows: pd.DataFrame, start: Found) -> tuple[Found, list[str]]:
        return fit_together(
            label, parameters, {profile: rows.seconds}, lambda _, found: times(rows, curve(found)), start, 40
        )

    blind, _ = fit(table[~table.held], {})
    held = table[table.held]
    kernels, _, shapes = label.partition(", ")
    row = report_row(profile, kernels, shapes, "held out", held, times(held, curve(blind)))
    return Settled(*fit(table, blind)), [row]
