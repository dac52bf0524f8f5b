"""Condense measured matrix products into kernel profiles.

Devices of equal silicon are fitted together: tiles, pipeline and launches are one set of coefficients for all of them;
memory (`memory`, `ramp`) is each device's own. Ranges are physical and explained in docs/models/compute.md. Each is
fitted without the shapes held back (their errors are the report), then with all shapes (the profile).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from simulator.calibration.asked import explained, read_objects, read_table
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
from simulator.calibration.kernels.profile_lines import COMMAND, DIGITS, gemm_yaml
from simulator.cost.device import gemm_curve, with_blocks
from simulator.cost.gemm import MOST_WAVES, SHORTEST_SPLIT, STEP, GemmCurve, gemm_seconds
from simulator.cost.work import ELEMENT_BYTES
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import GemmKernels, Tile
from simulator.specs.resolve import load_spec

AMPERE = ((256, 128), (256, 64), (128, 64), (64, 64))
HOPPER = ((192, 192), (128, 128), (256, 64), (128, 64), (64, 64), (64, 32))
BLACKWELL = ((256, 256), (256, 128), (128, 128), (128, 64), (64, 64))
ADA = ((256, 128), (128, 128), (128, 64), (64, 64), (64, 32))
SCALED = ((256, 128), (128, 128), (128, 64), (64, 64))
BLOCKS = ((128, 128), (128, 64), (64, 64), (64, 32))
TILES = {
    ("a100-sxm", "bf16"): AMPERE,
    ("h100-sxm", "bf16"): HOPPER,
    ("h200-sxm", "bf16"): HOPPER,
    ("b200-sxm", "bf16"): BLACKWELL,
    ("l40s", "bf16"): ADA,
    ("h100-sxm", "fp8"): SCALED,
    ("h200-sxm", "fp8"): SCALED,
    ("b200-sxm", "fp8"): BLACKWELL,
    ("l40s", "fp8"): ADA,
    ("b200-sxm", "fp4"): BLACKWELL,
    ("h100-sxm", "fp8_block"): BLOCKS,
    ("h200-sxm", "fp8_block"): BLOCKS,
}
"""Sides of the tiles that cuBLAS (16 bits), vLLM's CUTLASS kernels with scales (fp8, fp4: no split sums) and DeepGEMM
(scales of blocks: `get_best_configs` of deepseek-ai/DeepGEMM) have."""
BOOST = {"h100-sxm": 1.08, "h200-sxm": 1.08, "b200-sxm": 1.06}
"""Boost clock over that at which the peak is stated, which bounds the rate of a tile; 1 elsewhere."""
FORMATS = {"bf16": "bfloat16", "fp8": "fp8", "fp4": "nvfp4", "fp8_block": "fp8_block"}
SCALED_FORMATS = ("fp8", "fp4", "fp8_block")
"""Formats whose tables contain the casts of the activations, and whose kernels split no sums."""
FP8_LARGEST_RESULT = 1.5e9
BLOCK_SMALLEST = 7e10
"""Multiplications below which vLLM's products with scales of blocks wait for their host (70 us and more a launch)."""
BLOCK_LIBRARY, BLOCK_LAUNCH, BLOCK_WEIGHT = "DeepGEMM", 2e-6, 6
"""Whose published products stand for smaller ones: kernels alone, without casts, as a profiler times them (DeepGEMM
`bench_kineto`), to which the time from one kernel to the next is added; how often each counts in the fit."""
WARM = {"l40s": (2e6, 2e7)}
"""Traffic between these bytes is found in the cache by the benchmark's next loop, at 1.3 to 1.8 TB/s beside 0.65 to
0.73 from memory, as no engine finds it between other layers: left out. Other devices show no such step."""

GEMM = {
    "launch": Parameter(2e-6, 3e-7, 6e-6),
    "prologue": Parameter(3e-7, 1e-8, 3e-6),
    "step": Parameter(1.5e-9, 1e-11, 1e-8),
    "store": Parameter(1.2, 0.1, 10),
    "softness": Parameter(0.4, 0, 1, False),
    "memory": Parameter(0.85, 0.3, 0.98, False),
    "ramp": Parameter(1e6, 3e4, 2e7),
    "split": Parameter(2.5e-6, 5e-7, 1e-5),
    "split_traffic": Parameter(1, 0.1, 8),
    "edge": Parameter(30, 1, 200),
    "limit": Parameter(0.8, 0.5, 1, False),
    "settle": Parameter(1e-4, 1e-5, 5e-3),
}
CURVE = {"top": Parameter(0.85, 0.4, 1, False), "slope": Parameter(0.2, 0, 1, False)}
"""Rates of tiles a x b: `top` of the peak for the largest, falling as the power `slope` of the side s = 2 a b / (a + b)
of the square with its ratio of arithmetic to operands; 0: operands never limit, 1: they alone do."""
OWN = ("memory", "ramp")
SPLIT = ("split", "split_traffic")
CAST = {
    "cast_launch": Parameter(2e-6, 1e-7, 1e-5),
    "cast_row": Parameter(7e-9, 1e-10, 3e-8),
    "cast_memory": Parameter(0.7, 0.2, 1, False),
}
"""The fp8 tables include casting the 16-bit activations with one dynamic scale: a pass that finds the largest value and
one that writes, 5 bytes an element, with an atomic operation a row. The profile holds the bare product."""
CAST_BYTES = {"fp8_block": 3.0}
"""Bytes an element where that is one pass: scales of blocks are found in it."""


@dataclass(frozen=True)
class Products:
    """Measured products of one format on one device."""

    profile: str
    dtype: str
    accelerator: Accelerator
    table: pd.DataFrame

    def times(self, found: Found) -> Floats:
        """Predicted seconds of each row, casts included, by the coefficients of its chip."""
        mine = of_device(found, self.profile)
        casts = cast_times(self.table, mine, self.accelerator, CAST_BYTES.get(self.dtype, 5.0))
        return gemm_times(self.table, self.curve(mine)) + np.where(self.table.bare, 0.0, casts)

    def curve(self, found: Found) -> GemmCurve:
        """The model of this device; `store` is relative to the memory of the first device of the chip."""
        return curve_of(gemm_spec(found, TILES[self.profile, self.dtype], ""), self.dtype, self.accelerator)

    def where(self, mask: "pd.Series[bool]") -> "Products":
        """Some of the rows."""
        return replace(self, table=self.table[mask])


def read_gemms(data: Path, profile: str, dtype: str) -> pd.DataFrame:
    """Columns m, n, k, seconds, group (training, middle, decode, narrow), held (random pairs of n and k) and large."""
    folder, version, _, _ = TABLES[profile]
    path = data / folder / "gemm" / version / "gemm_perf.parquet"
    table = read_table(path, ("gemm_dtype", "m", "n", "k", "latency"))
    table = table[table.gemm_dtype == FORMATS[dtype]]
    table = table.groupby(["m", "n", "k"]).latency.median().reset_index()
    table["seconds"] = table.latency * 1e-3
    table = table[(table.m <= 16) | (table.m % 16 == 0)]
    if dtype == "fp8":  # halves its rate there on both Hopper devices, as if another kernel took over: left out
        table = table[table.m * table.n < FP8_LARGEST_RESULT]
    if dtype == "fp8_block":
        table = table[table.m * table.n * table.k.astype(float) >= BLOCK_SMALLEST]
    low, high = WARM.get(profile, (0.0, 0.0))
    moved = ELEMENT_BYTES[dtype] * (table.m * table.k + table.k * table.n) + 2.0 * table.m * table.n
    table = table[(moved <= low) | (moved >= high)].reset_index(drop=True)
    wide = (table.n >= 1024) & (table.k >= 1024)
    table["group"] = np.where(
        ~wide, "narrow", np.where(table.m >= 1024, "training", np.where(table.m >= 128, "middle", "decode"))
    )
    table["large"] = (table.m >= 8192) & (table.n >= 8192) & (table.k >= 8192)
    table["bare"] = False
    return hold_back(table, ["n", "k"])


def with_published(table: pd.DataFrame, measurements: Path, profile: str, dtype: str) -> pd.DataFrame:
    """A table with the published products that stand for what it does not have, each as often as it counts."""
    if dtype != "fp8_block" or profile != "h100-sxm":
        return table
    found = published_gemms(measurements, TABLES[profile][3], dtype)
    found = found[found.library == BLOCK_LIBRARY]
    found = found.assign(seconds=found.seconds + BLOCK_LAUNCH, bare=True, held=False, large=False)
    found["group"] = np.where(found.m >= 1024, "training", np.where(found.m >= 128, "middle", "decode"))
    return pd.concat([table, *BLOCK_WEIGHT * [found[found.columns.intersection(table.columns)]]], ignore_index=True)


def draw(table: pd.DataFrame, count: int) -> pd.DataFrame:
    """A sample in which training shapes are 40 %, decode shapes 30 %, middle ones 20 % and narrow ones 10 %."""
    share = {"training": 0.4, "decode": 0.3, "middle": 0.2, "narrow": 0.1}
    parts = [
        rows.sample(min(len(rows), round(count * share[str(group)])), random_state=0)
        for group, rows in table.groupby("group")
    ]
    return pd.concat(parts)


def tile_rates(found: Found, tiles: Sequence[tuple[int, int]]) -> list[float]:
    """Rate of each tile over its core's share of the peak, see `CURVE`."""
    sides = [2.0 * a * b / (a + b) for a, b in tiles]
    return [found["top"] * (side / max(sides)) ** found["slope"] for side in sides]


def gemm_spec(found: Found, tiles: Sequence[tuple[int, int]], source: str) -> GemmKernels:
    """The spec of fitted coefficients."""
    rates = tile_rates(found, tiles)
    return GemmKernels.model_construct(
        status="measured",
        source=source,
        alignment=8,
        tiles=tuple(
            Tile(long=a, short=b, efficiency=round(rate, DIGITS)) for (a, b), rate in zip(tiles, rates, strict=True)
        ),
        splits="split" in found,
        **{name: found.get(name, 0.0) for name in GEMM},  # type: ignore[arg-type]
    )


def curve_of(spec: GemmKernels, dtype: str, accelerator: Accelerator) -> GemmCurve:
    """The model of one format on a device."""
    peaks = with_blocks({str(key): figure.value for key, figure in accelerator.peak.items()})
    assert accelerator.cores is not None
    return gemm_curve(dtype, {dtype: spec}, peaks, accelerator.memory.bandwidth.value, accelerator.cores.value, 1.0)  # type: ignore[dict-item]


def gemm_times(table: pd.DataFrame, curve: GemmCurve) -> Floats:
    """Seconds of `gemm_seconds` for each row, in one pass over tiles and splits; a row in 500 is checked against it."""
    m, n, k = (table[side].to_numpy(np.int64) for side in "mnk")
    elements = m * n.astype(np.float64)
    memory = (curve.size * (m + n) * k + curve.result_size * elements + curve.ramp) / curve.bandwidth
    best = np.full(len(table), np.inf)
    for long, short, step in curve.tiles:
        tiles = np.minimum(-(-m // long) * -(-n // short), -(-m // short) * -(-n // long))
        fixed = curve.prologue + curve.store * long * short
        for split in curve.splits:
            depth = -(-k // (split * STEP)) * STEP
            waves = tiles * split / curve.cores
            soft = curve.softness
            waves = np.where(waves > 1.0, (1.0 - soft) * np.ceil(waves) + soft * waves, 1.0)
            compute = waves * (depth * step + fixed) + (curve.split if split > 1 else 0.0)
            traffic = memory + (curve.split_traffic * elements * split if split > 1 else 0.0)
            total = compute**4 + traffic**4 + (tiles * split * depth * (long + short) * curve.size * curve.feed) ** 4
            never = (split > 1) & ((split * SHORTEST_SPLIT > k) | ((split - 1) * tiles > MOST_WAVES * curve.cores))
            best = np.minimum(best, np.where(never, np.inf, total))
    body = best**0.25
    power = 2.0 * elements * k / (curve.peak * (1.0 - (1.0 - curve.limit) * body / (body + curve.settle)))
    found: Floats = curve.launch + np.maximum(body, power)
    for row in range(0, len(table), 500):
        expected = gemm_seconds(int(m[row]), int(n[row]), int(k[row]), 1, curve)[0]
        assert abs(found[row] / expected - 1) < 1e-9, (m[row], n[row], k[row], found[row], expected)
    return found


def cast_times(table: pd.DataFrame, found: Found, accelerator: Accelerator, size: float = 5.0) -> Floats:
    """Seconds of casting the activations, `size` bytes an element; 0 where nothing is cast."""
    if "cast_row" not in found:
        return np.zeros(len(table))
    stream = size * table.m * table.k / (accelerator.memory.bandwidth.value * found["cast_memory"])
    return np.asarray(found["cast_launch"] + np.maximum(stream, found["cast_row"] * table.m))


def fit_gemm(chip: Sequence[Products], start: Found, count: int, evaluations: int) -> tuple[Found, list[str]]:
    """(coefficients of one format on the devices of a chip, what their rows do not settle)."""
    whole = chip[0].dtype in SCALED_FORMATS
    curve = CURVE | {"top": replace(CURVE["top"], high=BOOST.get(chip[0].profile, 1.0))}
    parameters = curve | {name: each for name, each in GEMM.items() if not (whole and name in SPLIT)}
    parameters |= CAST if whole else {}
    parameters = shared(parameters, OWN, [part.profile for part in chip])
    samples = {part.profile: replace(part, table=draw(part.table, count)) for part in chip}

    def times(profile: str, found: Found) -> Floats:
        return samples[profile].times(_absolute(found, samples[profile], chip[0]))

    measured = {profile: sample.table.seconds for profile, sample in samples.items()}
    return fit_together(chip[0].dtype, parameters, measured, times, start, evaluations)


def _absolute(found: Found, device: Products, first: Products) -> Found:
    """`store` and `split_traffic` are of the cache, equal on equal silicon, but written relative to the memory."""
    ratio = device.accelerator.memory.bandwidth.value / first.accelerator.memory.bandwidth.value
    scaled = {"store": found["store"] / ratio}
    if "split" in found:
        scaled["split_traffic"] = found["split_traffic"] * ratio
    return found | scaled


SHAPES = ("training", "middle", "decode", "narrow")


def report_gemm(part: Products, blind: Found, final: Found) -> Report:
    """Rows of the error table."""
    table = part.table
    rows: Report = []
    unseen, full = part.times(blind), part.times(final)
    for group in SHAPES:
        inside = (table.group == group).to_numpy()
        for label, mask, predicted in (
            ("held-out n, k", inside & (table.held & ~table.large).to_numpy(), unseen),
            ("held-out large", inside & table.large.to_numpy(), unseen),
            ("final, all", inside, full),
        ):
            if mask.any():
                rows.append(report_row(part.profile, part.dtype, group, label, table[mask], predicted[mask]))
    return rows


def report_published(part: Products, final: Found, measurements: Path) -> Report:
    """Rows of the error table for published products, by library; whether the fit has seen them is said."""
    table = published_gemms(measurements, TABLES[part.profile][3], part.dtype)
    rows: Report = []
    if len(table):
        table["predicted"] = gemm_times(table, part.curve(of_device(final, part.profile)))
        for library, own in table.groupby("library"):
            predicted = own.predicted.to_numpy()
            seen = part.dtype == "fp8_block" and library == BLOCK_LIBRARY
            label = "published, fitted" if seen else "published, unseen"
            rows.append(report_row(part.profile, part.dtype, str(library), label, own, predicted))
    return rows


def published_gemms(measurements: Path, device: str, dtype: str) -> pd.DataFrame:
    """Published products: columns m, n, k, seconds, library."""
    rows = []
    for row in read_objects(measurements, ("op", "accelerator", "metrics")):
        with explained(measurements, row):
            words = row.get("dtype", "").replace("fp16", "bf16")
            numbers = "fp8_block" if "128x128" in words else words[:4]
            same = device in row["accelerator"].replace("H800", "H100") and numbers.startswith(dtype)
            if row["op"] == "gemm" and same and "time_s" in row["metrics"]:
                rows.append({**row["shape"], "seconds": row["metrics"]["time_s"], "library": row["library"]})
    return pd.DataFrame(rows)


def fit_chip(
    data: Path, measurements: Path, chip: Sequence[str], dtype: str, count: int
) -> tuple[dict[str, Found], Report, list[str]]:
    """(coefficients by profile, rows of the report, what is not settled) of one format."""
    parts = []
    for profile in chip:
        accelerator = load_spec(Accelerator, TABLES[profile][2])
        table = with_published(read_gemms(data, profile, dtype), measurements, profile, dtype)
        parts.append(Products(profile, dtype, accelerator, table))
    seen = [part.where(~part.table.held & ~part.table.large) for part in parts]
    blind, _ = fit_gemm(seen, {}, count, 60)
    final, loose = fit_gemm(parts, blind, count, 30)
    report: Report = []
    found = {}
    for part in parts:
        mine = [of_device(_absolute(each, part, parts[0]), part.profile) for each in (blind, final)]
        report += report_gemm(part, *mine) + report_published(part, mine[1], measurements)
        found[part.profile] = mine[1]
    return found, report, loose


def formats(profile: str) -> tuple[str, ...]:
    """Number formats with tables of products."""
    peaks = load_spec(Accelerator, TABLES[profile][2]).peak
    return tuple(dtype for dtype in FORMATS if dtype.removesuffix("_block") in peaks and (profile, dtype) in TILES)


def gemm_lines(dtype: str, found: Found, profile: str) -> list[str]:
    """Lines of YAML of one format."""
    folder, version, _, _ = TABLES[profile]
    also = f" and on the published products of {BLOCK_LIBRARY}" if dtype == "fp8_block" else ""
    source = f"fitted on ai-dynamo/aiconfigurator {folder}/gemm/{version} (Apache-2.0){also} by {COMMAND}"
    partners = [other for chip in CHIPS if profile in chip for other in chip if other != profile]
    source += f", arithmetic together with {' and '.join(partners)}" if partners else ""
    tiles = TILES[profile, dtype]
    rates = {f"{a}x{b}": rate for (a, b), rate in zip(tiles, tile_rates(found, tiles), strict=True)}
    names = tuple(name for name in GEMM if name in found)
    return gemm_yaml(dtype, found | rates, names, tiles, source) + ([] if "split" in found else ["    splits: false"])
