"""Fit mixtures of experts by family of kernels.

Devices of equal silicon share what is arithmetic and host (`launch`, `rate`, `passes`); `memory` and `ramp` are each
one's own. A family is what an engine runs: `FAMILIES` says which rows of which table stand for it. What rows take whose
experts are elsewhere is fitted afterwards (`spread_experts.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from simulator.calibration.asked import read_table
from simulator.calibration.fitting import (
    CHIPS,
    TABLES,
    Floats,
    Found,
    Parameter,
    Report,
    fit_together,
    hold_back,
    of_device,
    report_row,
    shared,
)
from simulator.calibration.kernels.profile_lines import COMMAND, group_yaml
from simulator.calibration.kernels.spread_experts import SPREAD, balanced, fit_spread, spread_times
from simulator.cost import Device
from simulator.cost.experts import ExpertCurve, expert_seconds
from simulator.cost.rows import Weights
from simulator.specs.hardware import Accelerator
from simulator.specs.resolve import load_spec

EXPERTS = {
    "launch": Parameter(1.5e-5, 2e-6, 6e-5),
    "rate": Parameter(0.7, 0.2, 1.5, False),
    "memory": Parameter(0.9, 0.3, 1.3, False),
    "delay": Parameter(1.5e-6, 2e-7, 2e-5),
    "passes": Parameter(1, 0.2, 10),
}
SKEW = {"skew": Parameter(0.7, 0.2, 1, False)}
"""Rows of the tables with skewed routing hit as many experts as this share of them would with independent choices."""
"""`delay` are the seconds that each product is behind a steady stream, from a kernel's start in a graph to a launch of
the host that nothing hides; the profile holds its traffic (`ramp`). `memory` ends where all of the bandwidth is
reached."""
MIXED = EXPERTS | {
    "launch": replace(EXPERTS["launch"], high=3e-4),
    "rate": replace(EXPERTS["rate"], high=2.5),
    "passes": replace(EXPERTS["passes"], high=40.0),
}
"""Ranges for weights narrower than the rows: unfused steps around the products, and arithmetic that is faster than
where both have the wider format."""
EACH = {"each": Parameter(2e-7, 0, 2e-6, False)}
"""What kernels for a scale of each block take for each expert of the device: 40 us of 32 experts, 115 us of 256."""
OWN = ("memory", "delay")
SPREAD_KEYS = (*SPREAD, "apart", "tile")
WARM = {"l40s": 1e8}
"""Weights of fewer bytes than these are found in the cache by the benchmark's next loop: such rows are left out."""
COLUMNS = (
    "moe_dtype",
    "moe_ep_size",
    "moe_tp_size",
    "kernel_source",
    "num_tokens",
    "inter_size",
    "hidden_size",
    "topk",
    "num_experts",
    "distribution",
    "latency",
)
"""Columns of a table of mixtures."""
UNGATED = (1024, 2688)
"""Hidden sizes of models in the tables whose experts have two matrices: left out, the tables do not say so."""


@dataclass(frozen=True)
class Family:
    """Rows of a table: format in the profile, framework and version, format in the table, kernels whose name contains
    `kernel`."""

    kind: str
    version: str
    dtype: str
    kernel: str
    each: bool = False
    """Whether it takes a time for each expert of the device."""
    spread: tuple[str, str] = ("", "")
    """Version and kernels of the table that has rows with experts on other devices, where this one has none."""

    @property
    def compute(self) -> str:
        """Format of the products."""
        return {"w4a16": "bf16", "w4a8": "fp8"}.get(self.kind, self.kind)

    @property
    def size(self) -> float:
        """Bytes of a weight; 4-bit ones with a scale of 8 bits for 16 (nvfp4) or 32 (mxfp4) of them, or of 16 bits for
        32 (int4)."""
        return {"bf16": 2.0, "fp8": 1.0, "fp4": 4.5 / 8, "int4_wo": 4.5 / 8}.get(
            self.dtype if self.dtype == "int4_wo" else self.kind, 4.25 / 8
        )


TRITON = (
    Family("bf16", "vllm/0.24.0", "bfloat16", "triton"),
    Family("fp8", "vllm/0.24.0", "fp8_block", "triton"),
)
SGLANG = "sglang/0.5.14", "fused_moe_triton"
"""SGLang's own copy of the same kernel."""
CUTLASS = (
    Family("bf16", "trtllm/1.3.0rc20", "bfloat16", "cutlass"),
    Family("fp8", "trtllm/1.3.0rc20", "fp8", "cutlass"),
)
TRTLLM_GEN = (
    *(replace(family, kernel="flashinfer_trtllm") for family in TRITON),
    Family("fp4", "vllm/0.24.0", "nvfp4", "flashinfer_trtllm"),
    Family("w4a16", "vllm/0.24.0", "w4a16_mxfp4", "flashinfer_trtllm"),
    Family("w4a8", "trtllm/1.3.0rc20", "w4a8_mxfp4_mxfp8", ""),
)
BLOCKS = Family("fp8", "trtllm/1.3.0rc20", "fp8_block", "cutlass", each=True)
HOPPER: dict[str, tuple[Family, ...]] = {
    "triton": (
        TRITON[0],
        replace(TRITON[1], spread=SGLANG),
        Family("w4a16", "vllm/0.24.0", "w4a16_mxfp4", "oaitriton"),
    ),
    "cutlass": (*CUTLASS, Family("w4a16", "trtllm/1.3.0rc20", "w4a16_mxfp4", "")),
    "cutlass-blocks": (BLOCKS,),
    "marlin": (Family("w4a16", "vllm/0.24.0", "int4_wo", "marlin"),),
}
NATIVE = (*CUTLASS, TRTLLM_GEN[-1])
FAMILIES: dict[tuple[str, ...], dict[str, tuple[Family, ...]]] = {
    ("a100-sxm",): {
        "triton": (Family("bf16", "vllm/0.14.0", "bfloat16", "", spread=("sglang/0.5.10", "fused_moe_triton")),),
        "cutlass": (Family("bf16", "trtllm/1.0.0", "bfloat16", ""),),
    },
    ("h100-sxm", "h200-sxm"): HOPPER,
    ("b200-sxm",): {
        "trtllm-gen": TRTLLM_GEN,
        "cutlass": NATIVE,
        "deepgemm": (replace(BLOCKS, kernel="deepgemm"),),
    },
    ("l40s",): {"triton": TRITON, "cutlass": CUTLASS},
}
"""Chip: family: formats. `triton` is vLLM's kernel (fp8 with a scale for each block of a matrix), `cutlass` the grouped
product of TensorRT-LLM (fp8 with one scale a matrix), `cutlass-blocks` that with a scale for each block on Hopper and
`deepgemm` the same on Blackwell (`moe_config.backend: DEEPGEMM`), `trtllm-gen` FlashInfer's kernels of Blackwell, which
vLLM takes there, and TensorRT-LLM for MXFP4, `marlin` vLLM's product of 16-bit rows and 4-bit weights, which it takes
for MXFP4 too where it is asked to (`VLLM_MXFP4_USE_MARLIN`); its table has int4 weights. `w4a16` and `w4a8` are weights
in 4 bits (MXFP4) beside rows in 16 and 8."""


def read_mixtures(data: Path, profile: str, family: Family) -> pd.DataFrame:
    """Mixtures of gated experts, cut over tensor parallelism and spread over expert parallelism, by rows."""
    folder, _, _, _ = TABLES[profile]
    table = read_table(data / folder / "moe" / family.version / "moe_perf.parquet", COLUMNS)
    table = table[(table.moe_dtype == family.dtype) & table.kernel_source.str.contains(family.kernel)]
    table = table[(table.num_tokens <= 16384) & (table.inter_size % table.moe_tp_size == 0)]
    table = table[~table.hidden_size.isin(UNGATED) & (table.topk != 22)]
    table = table.assign(inner=table.inter_size // table.moe_tp_size, seconds=table.latency * 1e-3)
    read = np.minimum(table.num_experts / table.moe_ep_size, table.num_tokens * table.topk / table.moe_ep_size)
    read = np.maximum(read, 1.0) * 3.0 * table.hidden_size * table.inner
    found: pd.DataFrame = table[(table.inner >= 64) & (read >= WARM.get(profile, 0.0))].reset_index(drop=True)
    return found


def read_experts(data: Path, profile: str, family: Family) -> pd.DataFrame:
    """Mixtures whose experts are all on one device, or cut over several."""
    table = read_mixtures(data, profile, family)
    table = table[table.moe_ep_size == 1].reset_index(drop=True)
    return hold_back(table, ["hidden_size", "inter_size", "topk", "num_experts"])


def expert_times(
    table: pd.DataFrame,
    found: Found,
    device: Device,
    compute: str,
    size: float,
    dequantising: tuple[float, float] = (1.0, 1.0),
) -> Floats:
    """Predicted seconds of each row."""
    curve = curve_of(found, device)
    products, times = replace(device.gemm[compute], result_size=2.0), np.empty(len(table))
    keys = ["hidden_size", "inner", "topk", "num_experts"]
    for shape, rows in table.assign(place=np.arange(len(table))).groupby(keys):
        hidden, inner, top_k, experts = (int(side) for side in np.array(shape))
        count = rows.num_tokens.to_numpy()
        free = experts * (1 - (1 - top_k / experts) ** (count * found["skew"]))
        even = (rows.distribution == "balanced").to_numpy()
        hit = np.where(even, np.minimum(experts, count * top_k), np.clip(free, top_k, None))
        weights = Weights(size, *dequantising, slim=size < 1)
        times[rows.place] = expert_seconds(count, hit, top_k, hidden, inner, True, curve, products, weights, experts)
    return times


def curve_of(found: Found, device: Device) -> ExpertCurve:
    """Coefficients of one device as what prices a mixture."""
    ramp, known = found["delay"] * device.bandwidth, (found["launch"], found["rate"], found["memory"])
    spread = found.get("passes_elsewhere", 0.0), found.get("apart", 0.0), int(found.get("tile", 0))
    return ExpertCurve(*known, ramp, found["passes"], found.get("each", 0.0), *spread)


SHAPES = 24


def _some_shapes(table: pd.DataFrame) -> pd.DataFrame:
    """All rows of some shapes: the model prices the rows of a shape at once."""
    keys = ["hidden_size", "inner", "topk", "num_experts"]
    shapes = table[keys].drop_duplicates()
    return table.merge(shapes.sample(min(SHAPES, len(shapes)), random_state=0), on=keys)


def fit_family(
    tables: dict[str, pd.DataFrame], devices: dict[str, Device], family: Family, start: Found
) -> tuple[Found, list[str]]:
    """(coefficients of the devices of a chip, what their rows do not settle)."""
    samples = {p: _some_shapes(table) for p, table in tables.items()}

    def times(profile: str, found: Found) -> Floats:
        own = of_device(found, profile)
        return expert_times(samples[profile], own, devices[profile], family.compute, family.size)

    free = (EXPERTS if family.kind == family.compute else MIXED) | SKEW | (EACH if family.each else {})
    parameters = shared(free, OWN, list(tables))
    for profile, device in devices.items():
        most = device.bandwidth / device.gemm[family.compute].bandwidth
        parameters[f"memory@{profile}"] = replace(EXPERTS["memory"], high=most)
    measured = {profile: rows.seconds for profile, rows in samples.items()}
    return fit_together(f"experts {family.version} {family.kind}", parameters, measured, times, start, 20)


ROWS = ((1, 16), (17, 256), (257, 16384))


def fit_chip(
    data: Path, devices: dict[str, Device]
) -> tuple[dict[str, dict[str, dict[str, Found]]], Report, list[str]]:
    """(coefficients by profile, family and format, rows of the report, what is not settled) of a chip's devices."""
    chip = tuple(devices)
    found: dict[str, dict[str, dict[str, Found]]] = {profile: {} for profile in chip}
    report: Report = []
    loose: list[str] = []
    for name, kinds in FAMILIES[chip].items():
        for family in kinds:
            tables = {p: read_experts(data, p, family) for p in chip}
            seen = {p: table[~table.held] for p, table in tables.items()}
            blind, _ = fit_family(seen, devices, family, {})
            final, lines = fit_family(tables, devices, family, blind)
            loose += lines
            for profile, table in tables.items():
                predicted = expert_times(
                    table, of_device(blind, profile), devices[profile], family.compute, family.size
                )
                for low, high in ROWS:
                    mask = (table.held & table.num_tokens.between(low, high)).to_numpy()
                    label = f"experts {name} {family.kind}"
                    shapes = f"{low} to {high:,} rows"
                    if mask.any():
                        report.append(report_row(profile, label, shapes, "held out", table[mask], predicted[mask]))
            spread, rows, lines = _spread(data, devices, name, family, final)
            report, loose = report + rows, loose + lines
            for profile in chip:
                found[profile].setdefault(name, {})[family.kind] = of_device(final, profile) | spread
    return found, report, loose


def _spread(
    data: Path, devices: dict[str, Device], name: str, family: Family, final: Found
) -> tuple[Found, Report, list[str]]:
    """What rows take whose experts are elsewhere; nothing where no table has any."""
    version, kernel = family.spread
    of = replace(family, version=version, kernel=kernel) if version else family
    tables = {profile: balanced(read_mixtures(data, profile, of)) for profile in devices}
    if not all(len(table) for table in tables.values()):
        return {}, [], []

    def time(rows: pd.DataFrame, profile: str, spread: Found) -> Floats:
        curve = curve_of(of_device(final, profile) | spread, devices[profile])
        return spread_times(rows, curve, devices[profile], family.compute, family.size)

    return fit_spread(f"experts {name} {family.kind}", tables, time)


def expert_lines(profile: str, families: Mapping[str, Mapping[str, Found]]) -> list[str]:
    """Lines of YAML of one profile."""
    chip = next(chip for chip in CHIPS if profile in chip)
    folder = TABLES[profile][0]
    lines = ["experts:"]
    for name, known in families.items():
        lines.append(f"  {name}:")
        for kind in FAMILIES[chip][name]:
            table = f"{folder}/moe/{kind.version} {kind.dtype}"
            beside = f", rows with experts elsewhere on {folder}/moe/{kind.spread[0]}" if kind.spread[0] else ""
            source = f"fitted on ai-dynamo/aiconfigurator {table}{beside} (Apache-2.0) by {COMMAND}"
            bandwidth = load_spec(Accelerator, TABLES[profile][2]).memory.bandwidth.value
            own = known[kind.kind] | {"ramp": known[kind.kind]["delay"] * bandwidth}
            keys = ("launch", "rate", "memory", "ramp", "passes", *(EACH if kind.each else ()), *SPREAD_KEYS)
            coefficients = {key: own[key] for key in keys if key not in SPREAD_KEYS or own.get(key)}
            lines += [f"    {kind.kind}:", *group_yaml(coefficients, source, 6)]
    return lines
