"""Condense measured kernel times into kernel profiles, and report the error on shapes that were held back.

    python benchmarks/fit_kernels.py DATA MEASUREMENTS [--only a100-sxm] [--write FOLDER] [--report FILE]

DATA is a folder with the tables of ai-dynamo/aiconfigurator (`a100_sxm/gemm/...parquet`), MEASUREMENTS a JSONL file of
published kernels, FOLDER usually hardware_profiles/kernels. Needs scipy, pandas, pyarrow, and `simulator` importable.
Matrix products are fitted twice: without the shapes held back (their errors are the report) and with all shapes (the
profile). Takes about five minutes on one core.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from fit_serving import fit_serving
from fitting import TABLES, Parameter, errors, solve
from kernel_rows import A100_FORWARD, FIGURES, GENERATIONS, LENGTHS, NOTES, STREAMS
from kernel_yaml import DIGITS, attention_yaml, gemm_yaml, markdown, older_yaml

from simulator.cost.attention import attention_seconds
from simulator.cost.device import attention_curve, gemm_curve
from simulator.cost.gemm import gemm_seconds
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import AttentionKernels, GemmKernels, Tile
from simulator.specs.resolve import load_spec

AMPERE = ((256, 128), (256, 64), (128, 64), (64, 64))
HOPPER = ((192, 192), (128, 128), (256, 64), (128, 64), (64, 64), (64, 32))
TILES = {"a100-sxm": AMPERE, "h100-sxm": HOPPER, "h200-sxm": HOPPER}
FORMATS = {"bf16": "bfloat16", "fp8": "fp8"}
FP8_LARGEST_RESULT = 1.5e9


GEMM = {
    "launch": Parameter(2.3e-6, 5e-7, 6e-6),
    "prologue": Parameter(3e-7, 5e-8, 5e-6),
    "step": Parameter(1.5e-9, 1e-11, 1e-8),
    "store": Parameter(1.2, 0.1, 10),
    "softness": Parameter(0.4, 0, 1, False),
    "memory": Parameter(0.85, 0.3, 0.98, False),
    "ramp": Parameter(1e6, 1e3, 1e7),
    "split": Parameter(2.5e-6, 1e-8, 6e-6),
    "split_traffic": Parameter(1, 0.05, 4),
    "edge": Parameter(50, 5, 200),
    "limit": Parameter(0.8, 0.55, 1, False),
    "settle": Parameter(3e-4, 2e-5, 1e-3),
}
TILE = Parameter(0.9, 0.3, 1.0, False)
FP8 = {"limit": Parameter(0.85, 0.75, 1, False)}
"""Long fp8 products keep 1.3 to 1.6 of 2 PFLOP/s in the tables: no lower limit than that is believed."""
CAST = {
    "cast_launch": Parameter(2e-6, 1e-8, 1e-5),
    "cast_row": Parameter(7e-9, 1e-9, 3e-8),
    "cast_memory": Parameter(0.7, 0.2, 1, False),
}
"""The fp8 tables include casting the 16-bit activations with one dynamic scale: a pass that finds the largest value and
one that writes, 5 bytes an element, with an atomic operation a row. The profile holds the bare product."""
ATTENTION = {
    "launch": Parameter(4e-6, 2e-6, 6e-6),
    "block": Parameter(1e-6, 2e-7, 1e-5),
    "backward_block": Parameter(5e-6, 2e-7, 3e-5),
    "tail": Parameter(0.3, 0, 0.6, False),
}
RATE = Parameter(0.5, 0.02, 1.0, False)
WRITE = {"token": Parameter(1e-9, 1e-11, 1e-6), "cache": Parameter(0.5, 0.02, 2)}
"""Writing keys and values to a cache, which the serving tables include: seconds a token, and share of the bandwidth."""


# ---- matrix products ----------------------------------------------------------------------------------------------


def read_gemms(data: Path, profile: str, dtype: str) -> pd.DataFrame:
    """Columns m, n, k, seconds, group (training, middle, decode, narrow), held (random pairs of n and k) and large."""
    folder, version, _, _ = TABLES[profile]
    table = pd.read_parquet(data / folder / "gemm" / version / "gemm_perf.parquet")
    table = table[table.gemm_dtype == FORMATS[dtype]]
    table = table.groupby(["m", "n", "k"], as_index=False).latency.median()
    table["seconds"] = table.latency * 1e-3
    table = table[(table.m <= 16) | (table.m % 16 == 0)]
    if dtype == "fp8":  # halves its rate there on both devices, as if another kernel took over: left out
        table = table[table.m * table.n < FP8_LARGEST_RESULT]
    table = table.reset_index(drop=True)
    wide = (table.n >= 1024) & (table.k >= 1024)
    table["group"] = np.where(
        ~wide, "narrow", np.where(table.m >= 1024, "training", np.where(table.m >= 128, "middle", "decode"))
    )
    pairs = table[["n", "k"]].drop_duplicates().sample(frac=0.25, random_state=1)
    table["held"] = pd.MultiIndex.from_frame(table[["n", "k"]]).isin(pd.MultiIndex.from_frame(pairs))
    table["large"] = (table.m >= 8192) & (table.n >= 8192) & (table.k >= 8192)
    return table


def draw(table: pd.DataFrame, count: int) -> pd.DataFrame:
    """A sample in which training shapes are 40 %, decode shapes 30 %, middle ones 20 % and narrow ones 10 %."""
    share = {"training": 0.4, "decode": 0.3, "middle": 0.2, "narrow": 0.1}
    parts = [
        rows.sample(min(len(rows), round(count * share[str(group)])), random_state=0)
        for group, rows in table.groupby("group")
    ]
    return pd.concat(parts)


def gemm_spec(found: dict[str, float], tiles: Sequence[tuple[int, int]], source: str) -> GemmKernels:
    """The spec of fitted coefficients."""
    return GemmKernels.model_construct(
        status="measured",
        source=source,
        alignment=8,
        tiles=tuple(_tile(long, short, found[f"{long}x{short}"]) for long, short in tiles),
        **{name: found[name] for name in GEMM},
    )


def _tile(long: int, short: int, efficiency: float) -> Tile:
    return Tile(long=long, short=short, efficiency=round(efficiency, DIGITS))


def gemm_times(table: pd.DataFrame, spec: GemmKernels, dtype: str, accelerator: Accelerator) -> np.ndarray:
    """Predicted seconds of each row."""
    peaks = {str(key): figure.value for key, figure in accelerator.peak.items()}
    assert accelerator.cores is not None
    curve = gemm_curve(dtype, {dtype: spec}, peaks, accelerator.memory.bandwidth.value, accelerator.cores.value, 1.0)
    shapes = zip(table.m.tolist(), table.n.tolist(), table.k.tolist(), strict=True)
    return np.array([gemm_seconds(m, n, k, 1, curve)[0] for m, n, k in shapes])


def cast_times(table: pd.DataFrame, found: dict[str, float], accelerator: Accelerator) -> np.ndarray:
    """Seconds of casting the activations, 0 where nothing is cast."""
    if "cast_row" not in found:
        return np.zeros(len(table))
    stream = 5.0 * table.m * table.k / (accelerator.memory.bandwidth.value * found["cast_memory"])
    return np.asarray(found["cast_launch"] + np.maximum(stream, found["cast_row"] * table.m))


def fit_gemm(
    table: pd.DataFrame,
    profile: str,
    dtype: str,
    accelerator: Accelerator,
    start: dict[str, float],
    count: int,
    evaluations: int,
) -> dict[str, float]:
    """Coefficients of one format on one device."""
    tiles = TILES[profile]
    parameters = GEMM | {f"{long}x{short}": TILE for long, short in tiles} | (FP8 | CAST if dtype == "fp8" else {})
    sample = draw(table, count)
    measured = np.log(sample.seconds.to_numpy())

    def residuals(found: dict[str, float]) -> np.ndarray:
        bare = gemm_times(sample, gemm_spec(found, tiles, ""), dtype, accelerator)
        return np.log(bare + cast_times(sample, found, accelerator)) - measured

    return solve(parameters, residuals, start, evaluations)


def report_gemm(
    table: pd.DataFrame,
    held_back: dict[str, float],
    final: dict[str, float],
    profile: str,
    dtype: str,
    accelerator: Accelerator,
) -> list[dict[str, object]]:
    """Rows of the error table."""
    tiles, rows = TILES[profile], []
    blind, full = (
        gemm_times(table, gemm_spec(found, tiles, ""), dtype, accelerator) + cast_times(table, found, accelerator)
        for found in (held_back, final)
    )
    for group in ("training", "middle", "decode", "narrow"):
        inside = (table.group == group).to_numpy()
        for label, mask, predicted in (
            ("held-out n, k", inside & (table.held & ~table.large).to_numpy(), blind),
            ("held-out large", inside & table.large.to_numpy(), blind),
            ("final, all", inside, full),
        ):
            if mask.any():
                rows.append(
                    {
                        "profile": profile,
                        "dtype": dtype,
                        "shapes": group,
                        "set": label,
                        **errors(table[mask], predicted[mask]),
                    }
                )
    return rows


def report_published(
    found: dict[str, float], measurements: Path, profile: str, dtype: str, accelerator: Accelerator
) -> list[dict[str, object]]:
    """Rows of the error table for published products that the fit has not seen, by library."""
    table, rows = published_gemms(measurements, TABLES[profile][3], dtype), []
    if len(table):
        table["predicted"] = gemm_times(table, gemm_spec(found, TILES[profile], ""), dtype, accelerator)
        for library, part in table.groupby("library"):
            rows.append(
                {
                    "profile": profile,
                    "dtype": dtype,
                    "shapes": library,
                    "set": "published, unseen",
                    **errors(part, part.predicted.to_numpy()),
                }
            )
    return rows


def published_gemms(measurements: Path, device: str, dtype: str) -> pd.DataFrame:
    """Published products that were not fitted: columns m, n, k, seconds, library."""
    rows = []
    for line in measurements.read_text().splitlines():
        row = json.loads(line)
        same = device in row["accelerator"].replace("H800", "H100") and row.get("dtype", "").replace("fp16", "bf16")[
            :4
        ].startswith(dtype)
        if row["op"] == "gemm" and same and "time_s" in row["metrics"]:
            rows.append({**row["shape"], "seconds": row["metrics"]["time_s"], "library": row["library"]})
    return pd.DataFrame(rows)


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
    for line in measurements.read_text().splitlines():
        row = json.loads(line)
        shape = row.get("shape") or {}
        if (
            row["op"].startswith("attention")
            and device in row["accelerator"]
            and row.get("library") == library
            and "heads" in shape
        ):
            passes = (False, True) if row["op"] == "attention_fwd_bwd" else (False,)
            cases.append(
                Case(
                    shape["batch"],
                    shape["heads"],
                    shape["heads"],
                    shape["seqlen"],
                    shape["head_dim"],
                    shape["causal"],
                    passes,
                    row["metrics"]["time_s"],
                )
            )
    return cases


def table_cases(data: Path, profile: str, sizes: Sequence[int]) -> list[Case]:
    """Causal prefill of a serving engine, writing of the cache included."""
    folder, version, _, _ = TABLES[profile]
    table = pd.read_parquet(data / folder / "attention" / version / "context_attention_perf.parquet")
    table = table[(table.attn_dtype == "bfloat16") & (table.kv_cache_dtype == "bfloat16") & (table.isl >= 64)]
    if "window_size" in table:
        table = table[table.window_size == 0]
    keys = ["batch_size", "num_heads", "num_key_value_heads", "isl", "head_dim"]
    table = table[table.head_dim.isin(sizes)].groupby(keys, as_index=False).latency.median()
    return [Case(*map(int, row[:5]), True, (False,), row[5] * 1e-3, True) for row in table.itertuples(index=False)]


def attention_spec(found: dict[str, float], source: str) -> AttentionKernels:
    """The spec of fitted coefficients."""
    rates = {
        side: {int(n[1:]): round(v, DIGITS) for n, v in found.items() if n[0] == side and n[1:].isdigit()}
        for side in "fb"
    }
    return AttentionKernels(
        status="measured",
        source=source,
        forward=rates["f"],
        backward=rates["b"],
        launch=f"{found['launch']} s",
        block=f"{found['block']} s",
        backward_block=f"{found['backward_block']} s",
        tail=found["tail"],
    )


def attention_times(
    cases: Sequence[Case], spec: AttentionKernels, found: dict[str, float], accelerator: Accelerator
) -> np.ndarray:
    """Predicted seconds of each case."""
    assert accelerator.cores is not None
    bandwidth = accelerator.memory.bandwidth.value
    curve = attention_curve(spec, accelerator.peak["bf16"].value, bandwidth, accelerator.cores.value, 1.0)
    times = []
    for case in cases:
        heads, keys = case.batch * case.heads, case.batch * case.kv_heads
        moved = 4.0 * case.length * case.head_dim * (heads + keys)
        total = sum(
            attention_seconds(
                heads, case.length, case.length, case.head_dim, case.causal, backward, moved * (1 + backward), curve
            )[0]
            for backward in case.passes
        )
        if case.cached:
            written = 8.0 * keys * case.length * case.head_dim
            total += case.batch * case.length * found["token"] + written / (bandwidth * found["cache"])
        times.append(total)
    return np.array(times)


def fit_attention(
    cases: Sequence[Case], sizes: tuple[Sequence[int], Sequence[int]], accelerator: Accelerator
) -> dict[str, float]:
    """Coefficients of one generation; `sizes` are the head sizes with forward and with backward measurements."""
    parameters = ATTENTION | {f"f{size}": RATE for size in sizes[0]} | {f"b{size}": RATE for size in sizes[1]}
    if any(case.cached for case in cases):
        parameters |= WRITE
    measured = np.log([case.seconds for case in cases])

    def residuals(found: dict[str, float]) -> np.ndarray:
        full = {"token": 0.0, "cache": 1.0, "b128": 0.5} | found
        return np.log(attention_times(cases, attention_spec(full, ""), full, accelerator)) - measured

    return solve(parameters, residuals, {}, 60)


def report_attention(
    cases: Sequence[Case], found: dict[str, float], profile: str, generation: str, accelerator: Accelerator
) -> list[dict[str, object]]:
    """Rows of the error table by what was timed."""
    full = {"token": 0.0, "cache": 1.0, "b128": 0.5} | found
    predicted = attention_times(cases, attention_spec(full, ""), full, accelerator)
    rows = []
    for passes, label in (((False,), "forward"), ((True,), "backward"), ((False, True), "forward and backward")):
        mask = np.array([case.passes == passes for case in cases])
        if mask.any():
            table = pd.DataFrame({"seconds": [case.seconds for case in cases]})[mask]
            rows.append(
                {
                    "profile": profile,
                    "dtype": generation,
                    "shapes": label,
                    "set": "fitted",
                    **errors(table, predicted[mask]),
                }
            )
    return rows


def fit_generations(data: Path, measurements: Path, profile: str, accelerator: Accelerator) -> tuple[dict, list]:
    """(coefficients by generation, rows of the report)."""
    _, _, _, name = TABLES[profile]
    published = measurements
    sources: dict[str, tuple[list[Case], tuple[Sequence[int], Sequence[int]], Accelerator]] = {}
    if name == "A100":
        anchors = [case for size in A100_FORWARD for case in _anchors(size, accelerator)]
        sources["fa2"] = (
            published_cases(published, name, "FlashAttention-2") + anchors,
            ((64, 128), (64, 128)),
            accelerator,
        )
        sources["fa1"] = (published_cases(published, name, "FlashAttention-1"), ((64,), (64,)), accelerator)
        sources["paged"] = (_thin(table_cases(data, profile, (128,))), ((128,), ()), accelerator)
    else:
        hopper = load_spec(Accelerator, "h100-sxm")
        for generation, library in (("fa3", "FlashAttention-3"), ("fa2", "FlashAttention-2")):
            rows = [case for case in published_cases(published, "H100", library) if len(case.passes) == 2]
            sources[generation] = (figure_cases(generation) + rows, ((64, 128, 256), (64, 128)), hopper)
        sources["paged"] = (
            _thin(table_cases(data, profile, (64, 128, 192, 256))),
            ((64, 128, 192, 256), ()),
            accelerator,
        )
    found, report = {}, []
    for generation, (cases, sizes, device) in sources.items():
        found[generation] = fit_attention(cases, sizes, device)
        report += report_attention(cases, found[generation], profile, generation, device)
    best = next(iter(found.values()))
    found["paged"] |= {
        name: best[name] for name in best if name.startswith("b")
    }  # serving tables have no backward pass
    return found, report


def _anchors(size: int, accelerator: Accelerator) -> list[Case]:
    case = Case(1, 2048 // size, 2048 // size, 16384, size, False, (False,), 1.0)
    return [_timed(case, case.flops / (A100_FORWARD[size] * accelerator.peak["bf16"].value))] * 3


def _thin(cases: list[Case]) -> list[Case]:
    return cases[:: max(1, len(cases) // 1500)]


def run(data: Path, measurements: Path, profile: str, count: int) -> tuple[list[str], list[dict[str, object]]]:
    """(lines of YAML, rows of the report) of one profile."""
    folder, version, name, _ = TABLES[profile]
    accelerator = load_spec(Accelerator, name)
    source = f"fitted on ai-dynamo/aiconfigurator {folder}/gemm/{version} (Apache-2.0) by benchmarks/fit_kernels.py"
    lines, report = [f"name: {accelerator.name}", "gemm:"], []
    for dtype in ("bf16", "fp8") if "fp8" in accelerator.peak else ("bf16",):
        table = read_gemms(data, profile, dtype)
        blind = fit_gemm(table[~table.held & ~table.large], profile, dtype, accelerator, {}, count, 30)
        final = fit_gemm(table, profile, dtype, accelerator, blind, count, 15)
        report += report_gemm(table, blind, final, profile, dtype, accelerator)
        report += report_published(final, measurements, profile, dtype, accelerator)
        lines += gemm_yaml(dtype, final, tuple(GEMM), TILES[profile], source)
    generations, rows = fit_generations(data, measurements, profile, accelerator)
    lines.append("attention:")
    for generation, found in generations.items():
        served = f"fitted on ai-dynamo/aiconfigurator {folder}/attention/{version} by benchmarks/fit_kernels.py"
        lines += attention_yaml(generation, found, GENERATIONS.get((profile, generation), served))
    if "fa1" not in generations:
        lines += older_yaml(generations["fa2"])
    share, launch, origin = STREAMS[profile]
    lines += ["stream:", "  status: measured", f'  source: "{origin}"', f"  memory: {share}", f"  launch: {launch} us"]
    served, serving_rows = fit_serving(data, profile)
    lines += served
    lines.append(f"best_attention: {next(iter(generations))}")
    return [*lines, f'notes: "{NOTES[profile]}"'], report + rows + serving_rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, print the report, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("measurements", type=Path)
    parser.add_argument("--only", choices=sorted(TABLES))
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--report", type=Path)
    options = parser.parse_args(arguments)
    report: list[dict[str, object]] = []
    for profile in [options.only] if options.only else TABLES:
        lines, rows = run(options.data, options.measurements, profile, options.samples)
        report += rows
        print("\n".join(lines), markdown(rows), sep="\n\n", flush=True)
        if options.write:
            (options.write / f"{profile}.yaml").write_text("\n".join(lines) + "\n")
    if options.report:
        options.report.write_text(markdown(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
