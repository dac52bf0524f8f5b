"""Fit what serving adds to a kernel profile: attention over a cache, writing it, mixtures of experts, widened weights.

    python benchmarks/fit_serving.py DATA [--only a100-sxm] [--write FOLDER] [--report FILE]

DATA as for fit_kernels.py, whose products and prompt attention must be in the profiles already. Each group is fitted
twice: without the shapes held back (their errors are the report) and with all of them (the profile). `--write` replaces
the sections `decode`, `experts` and `weight_only` of FOLDER/PROFILE.yaml. Takes about three minutes on one core.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from fitting import TABLES, Parameter, errors, solve
from kernel_yaml import markdown, rounded

from simulator.cost import Device, compile_device
from simulator.cost.attention import attention_seconds
from simulator.cost.decode import DecodeCurve, decode_seconds, write_seconds
from simulator.cost.device import decode_curve
from simulator.cost.experts import ExpertCurve, expert_seconds
from simulator.cost.rows import Weights
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import DecodeKernels
from simulator.specs.resolve import load_spec

Found = dict[str, float]
SECTIONS = ("decode", "experts", "weight_only")
WRITE = {
    "write": Parameter(0.4, 0.02, 1),
    "write_token": Parameter(1e-9, 1e-11, 1e-7),
    "query": Parameter(0.5, 0.02, 1),
}
DECODE = {
    "launch": Parameter(9e-6, 2e-6, 3e-5),
    "gather": Parameter(3e-6, 1e-8, 2e-5),
    "sequence": Parameter(3e-8, 1e-10, 3e-7),
    "block": Parameter(25e-9, 1e-9, 2e-7),
    "overlap": Parameter(0.6, 0, 1, False),
    "memory": Parameter(0.85, 0.3, 1, False),
    "narrow": Parameter(0.8, 0.3, 1, False),
    "core": Parameter(1.2, 0.1, 8),
}
EXPERTS = {
    "launch": Parameter(1.5e-5, 1e-6, 6e-5),
    "rate": Parameter(0.7, 0.2, 1.3, False),
    "memory": Parameter(0.9, 0.4, 1.3, False),
    "ramp": Parameter(3e6, 1e4, 2e7),
    "passes": Parameter(1, 0.05, 10),
}
SKEW = {"skew": Parameter(0.7, 0.2, 1, False)}
"""Rows of the tables with skewed routing hit as many experts as this share of them would with independent choices."""
WIDENED = {"rate": Parameter(0.6, 0.2, 1, False), "memory": Parameter(0.9, 0.4, 1, False)}
COLD = 1.5
"""Contexts below this many times the last-level cache are found there by the benchmark's next loop, as no engine finds
them between the weights of other layers; those that the launch hides are kept."""
HIDDEN = 0.1
INT4_BYTES = 4.5 / 8
"""Of a weight with a 16-bit scale for each 32 of them, as the checkpoint of the table's shape has."""
UNGATED = (1024, 2688)
"""Hidden sizes of models in the tables whose experts have two matrices: left out, the tables do not say so."""


# ---- attention over a cache ----------------------------------------------------------------------------------------


def read_decode(data: Path, profile: str, cache: float) -> pd.DataFrame:
    """Decode attention without windows: shapes, bytes read, seconds, which shapes are held back."""
    folder, version, _, _ = TABLES[profile]
    table = pd.read_parquet(data / folder / "attention" / version / "generation_attention_perf.parquet")
    if "window_size" in table:
        table = table[table.window_size == 0]
    table = table[table.head_dim <= 256]
    table = table.assign(size=np.where(table.kv_cache_dtype == "fp8", 1.0, 2.0), context=table.step + 1)
    keys = ["batch_size", "num_heads", "num_key_value_heads", "head_dim", "size", "context"]
    table = table.groupby(keys, as_index=False).latency.median()
    table["seconds"] = table.latency * 1e-3
    table["bytes"] = 2.0 * table.batch_size * table.context * table.num_key_value_heads * table.head_dim * table["size"]
    table = table[(table.bytes < HIDDEN * cache) | (table.bytes > COLD * cache)].reset_index(drop=True)
    table["large"] = table.bytes > COLD * cache
    return _hold_back(table, ["num_heads", "num_key_value_heads", "head_dim"])


def _hold_back(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    shapes = table[keys].drop_duplicates().sample(frac=0.25, random_state=1)
    held = pd.MultiIndex.from_frame(table[keys]).isin(pd.MultiIndex.from_frame(shapes))
    return table.assign(held=held)


def decode_times(table: pd.DataFrame, curve: DecodeCurve, device: Device) -> np.ndarray:
    """Predicted seconds of each row, the write of one token a sequence included."""
    times = []
    columns = ("batch_size", "num_heads", "num_key_value_heads", "head_dim", "size", "context")
    for n, heads, kv, head_dim, size, context in zip(*(table[c].tolist() for c in columns), strict=True):
        token, flops = 2.0 * kv * head_dim * size, 4.0 * heads * head_dim
        time = decode_seconds(n, n * context, kv, heads / kv, token, flops, size < 2, True, curve)
        times.append(time + write_seconds(n, token, 4.0 * kv * head_dim, device.stream.launch, curve))
    return np.array(times)


def read_prompts(data: Path, profile: str) -> pd.DataFrame:
    """Prompt attention of heads of 128 whose time is largely the write of the cache."""
    folder, version, _, _ = TABLES[profile]
    table = pd.read_parquet(data / folder / "attention" / version / "context_attention_perf.parquet")
    if "window_size" in table:
        table = table[table.window_size == 0]
    table = table[(table.kv_cache_dtype == "bfloat16") & (table.head_dim == 128)]
    table = table[(table.isl >= 128) & (table.isl <= 1024) & (table.batch_size * table.isl >= 1024)]
    keys = ["batch_size", "num_heads", "num_key_value_heads", "isl"]
    table = table.groupby(keys, as_index=False).latency.median()
    return _hold_back(table.assign(seconds=table.latency * 1e-3), ["num_heads", "num_key_value_heads"])


def prompt_times(table: pd.DataFrame, curve: DecodeCurve, device: Device) -> np.ndarray:
    """Predicted seconds of each row of `read_prompts`."""
    attention, times = device.attention["paged"], []
    for batch, heads, kv, length, *_ in table.itertuples(index=False):
        moved = 512.0 * batch * length * (heads + kv)
        time, _, _ = attention_seconds(batch * heads, length, length, 128, True, False, moved, attention)
        time += 512.0 * batch * length * heads / curve.query
        times.append(time + write_seconds(batch * length, 512.0 * kv, 512.0 * kv, device.stream.launch, curve))
    return np.array(times)


def fit_decode(data: Path, profile: str, accelerator: Accelerator, device: Device) -> tuple[Found, list]:
    """(coefficients of `decode`, rows of the report)."""
    assert accelerator.on_chip is not None and accelerator.cores is not None
    bandwidth, cores = accelerator.memory.bandwidth.value, accelerator.cores.value
    peak = accelerator.peak["bf16"].value
    fixed = {"cuts_all": profile != "a100-sxm"}

    def curve(found: Found) -> DecodeCurve:
        return decode_curve(DecodeKernels.model_construct(**(fixed | found)), bandwidth, cores, peak)

    prompts = read_prompts(data, profile)
    defaults = {name: parameter.start for name, parameter in DECODE.items()}
    blind_write, write = _twice(
        WRITE, prompts, lambda found, rows: prompt_times(rows, curve(defaults | found), device), 1500
    )
    table = read_decode(data, profile, accelerator.on_chip.value)
    blind, found = _twice(DECODE, table, lambda f, rows: decode_times(rows, curve(write | f), device), 3000)
    held = prompt_times(prompts, curve(defaults | blind_write), device)
    report = _rows(profile, "prompts, 128 to 1,024", prompts, held)
    predicted = decode_times(table, curve(write | blind), device)
    for size, name in ((2.0, "decode, 16 bits"), (1.0, "decode, 8 bits")):
        for large, label in ((True, "beyond the cache"), (False, "small")):
            mask = ((table["size"] == size) & (table.large == large)).to_numpy()
            report += _rows(profile, f"{name}, {label}", table[mask], predicted[mask])
    if not (table["size"] == 1.0).any():
        del found["narrow"]
    return found | write | {"cuts_all": float(fixed["cuts_all"])}, report


def _twice(
    parameters: dict[str, Parameter],
    table: pd.DataFrame,
    predict: Callable[[Found, pd.DataFrame], np.ndarray],
    count: int,
) -> tuple[Found, Found]:
    """Coefficients without the rows held back, and with all."""
    found: list[Found] = []
    for rows in (table[~table.held], table):
        sample = rows.sample(min(count, len(rows)), random_state=0)
        measured = np.log(sample.seconds.to_numpy())
        start = found[0] if found else {}
        found.append(solve(parameters, lambda f: np.log(predict(f, sample)) - measured, start, 40))  # noqa: B023
    return found[0], found[1]


def _rows(profile: str, kernels: str, table: pd.DataFrame, predicted: np.ndarray) -> list[dict[str, object]]:
    """The row of the error table for the shapes that were held back."""
    mask = table.held.to_numpy()
    if not mask.any():
        return []
    name, _, shapes = kernels.partition(", ")
    found = errors(table[mask], predicted[mask])
    return [{"profile": profile, "dtype": name, "shapes": shapes, "set": "held out", **found}]


# ---- mixtures of experts -------------------------------------------------------------------------------------------


def read_experts(data: Path, profile: str, dtype: str, kernel: str) -> pd.DataFrame:
    """Mixtures of gated experts cut over tensor parallelism only, by rows."""
    folder, version, _, _ = TABLES[profile]
    table = pd.read_parquet(data / folder / "moe" / version / "moe_perf.parquet")
    table = table[(table.moe_dtype == dtype) & (table.moe_ep_size == 1) & table.kernel_source.str.contains(kernel)]
    table = table[(table.num_tokens <= 16384) & (table.inter_size % table.moe_tp_size == 0)]
    table = table[~table.hidden_size.isin(UNGATED) & (table.topk != 22)]
    table = table.assign(inner=table.inter_size // table.moe_tp_size, seconds=table.latency * 1e-3)
    table = table[table.inner >= 64].reset_index(drop=True)
    return _hold_back(table, ["hidden_size", "inter_size", "topk", "num_experts"])


def expert_times(
    table: pd.DataFrame,
    found: Found,
    device: Device,
    compute: str,
    size: float,
    widening: tuple[float, float] = (1.0, 1.0),
) -> np.ndarray:
    """Predicted seconds of each row."""
    curve = ExpertCurve(found["launch"], found["rate"], found["memory"], found["ramp"], found["passes"])
    products, times = replace(device.gemm[compute], result_size=2.0), np.empty(len(table))
    keys = ["hidden_size", "inner", "topk", "num_experts"]
    for shape, rows in table.assign(place=np.arange(len(table))).groupby(keys):
        hidden, inner, top_k, experts = (int(side) for side in shape)
        count = rows.num_tokens.to_numpy()
        free = experts * (1 - (1 - top_k / experts) ** (count * found["skew"]))
        even = (rows.distribution == "balanced").to_numpy()
        hit = np.where(even, np.minimum(experts, count * top_k), np.clip(free, top_k, None))
        weights = Weights(size, *widening, slim=size < 1)
        times[rows.place] = expert_seconds(count, hit, top_k, hidden, inner, True, curve, products, weights)
    return times


def fit_experts(data: Path, profile: str, device: Device) -> tuple[dict[str, Found], Found | None, list]:
    """(coefficients of `experts` by format, of `weight_only` if there is a table, rows of the report)."""
    known: dict[str, Found] = {}
    report = []
    for compute, dtype, kernel, size in (("bf16", "bfloat16", "", 2.0), ("fp8", "fp8_block", "triton", 1.0)):
        if compute not in device.peaks:
            continue
        table = read_experts(data, profile, dtype, kernel)
        blind, known[compute] = _twice(
            EXPERTS | SKEW,
            table,
            lambda f, rows, compute=compute, size=size: expert_times(rows, f, device, compute, size),
            2500,
        )
        predicted = expert_times(table, blind, device, compute, size)
        for low, high in ((1, 16), (17, 256), (257, 16384)):
            mask = table.num_tokens.between(low, high).to_numpy()
            report += _rows(profile, f"experts {compute}, {low} to {high:,} rows", table[mask], predicted[mask])
    table = read_experts(data, profile, "int4_wo", "") if "fp8" in device.peaks else pd.DataFrame()
    if not len(table):
        return known, None, report

    def widened(found: Found, rows: pd.DataFrame) -> np.ndarray:
        return expert_times(rows, known["bf16"], device, "bf16", INT4_BYTES, (found["rate"], found["memory"]))

    table = table[table.distribution == "balanced"].reset_index(drop=True)
    table = table.assign(held=table.num_tokens.isin(table.num_tokens.unique()[::4]))
    blind, final = _twice(WIDENED, table, widened, 500)
    report += _rows(profile, "experts int4, one shape, other row counts", table, widened(blind, table))
    return known, final, report


# ---- profiles ------------------------------------------------------------------------------------------------------


def fit_serving(data: Path, profile: str) -> tuple[list[str], list[dict[str, object]]]:
    """(lines of YAML, rows of the report) of one profile."""
    folder, version, name, _ = TABLES[profile]
    accelerator = load_spec(Accelerator, name)
    device = compile_device(accelerator)
    source = f"fitted on ai-dynamo/aiconfigurator {folder}/{{}}/{version} (Apache-2.0) by benchmarks/fit_serving.py"
    decode, report = fit_decode(data, profile, accelerator, device)
    experts, widened, more = fit_experts(data, profile, device)
    lines = ["decode:", *_group(decode, source.format("attention"), 2), "experts:"]
    for dtype, found in experts.items():
        lines += [f"  {dtype}:", *_group({key: found[key] for key in EXPERTS}, source.format("moe"), 4)]
    if widened is not None:
        lines += ["weight_only:", *_group(widened, source.format("moe") + ", int4 weights", 2)]
    return lines, report + more


UNITS = {"launch": (1e6, " us"), "gather": (1e6, " us"), "ramp": (1e-6, " MB")}
UNITS |= dict.fromkeys(("sequence", "block", "write_token"), (1e9, " ns"))


def _group(found: Found, source: str, indent: int) -> list[str]:
    """Lines of one group of coefficients."""
    space = " " * indent
    lines = [f"{space}status: measured", f'{space}source: "{source}"']
    for name, value in found.items():
        scale, unit = UNITS.get(name, (1.0, ""))
        text = str(bool(value)).lower() if name == "cuts_all" else f"{rounded(value * scale)}{unit}"
        lines.append(f"{space}{name}: {text}")
    return lines


def replaced(text: str, lines: Sequence[str]) -> str:
    """A profile with its sections of serving replaced; they stand before `best_attention`."""
    kept, inside = [], False
    for line in text.splitlines():
        if line and not line.startswith((" ", "#")):
            inside = line.partition(":")[0] in SECTIONS
        if not inside:
            kept.append(line)
    place = next(number for number, line in enumerate(kept) if line.startswith("best_attention"))
    return "\n".join([*kept[:place], *lines, *kept[place:]]) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, print the report, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", choices=sorted(TABLES))
    parser.add_argument("--write", type=Path)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args(arguments)
    report: list[dict[str, object]] = []
    for profile in [options.only] if options.only else TABLES:
        lines, rows = fit_serving(options.data, profile)
        report += rows
        print("\n".join(lines), markdown(rows), sep="\n\n", flush=True)
        if options.write:
            path = options.write / f"{profile}.yaml"
            path.write_text(replaced(path.read_text(), lines))
    if options.report:
        options.report.write_text(markdown(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
