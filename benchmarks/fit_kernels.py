"""Condense measured kernel times into kernel profiles, and report the error on shapes that were held back.

    python -m benchmarks.fit_kernels DATA MEASUREMENTS [--only a100-sxm] [--write FOLDER] [--report FILE]

DATA is a folder with the tables of ai-dynamo/aiconfigurator (`a100_sxm/gemm/...parquet`), MEASUREMENTS a JSONL file of
published kernels, FOLDER hardware_profiles/kernels. Needs scipy, pandas, pyarrow, `simulator` importable. Devices of
equal silicon are fitted together (`fitting.CHIPS`); matrix products are in `fit_gemm.py`, what serving adds in
`fit_serving.py`. What rows do not identify and what ends at a bound of its range is named in the report. Takes about
fifteen minutes on one core.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks import fit_gemm
from benchmarks.fit_serving import fit_serving
from benchmarks.fitting import CHIPS, TABLES, Floats, Found, Parameter, errors, of_device, shared, solution, unsettled
from benchmarks.kernel_rows import A100_FORWARD, FIGURES, GENERATIONS, LENGTHS, NOTES, PARENTS, STREAMS
from benchmarks.kernel_yaml import DIGITS, attention_yaml, markdown, older_yaml
from simulator.cost.attention import attention_seconds
from simulator.cost.device import attention_curve
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import AttentionKernels, KernelProfile
from simulator.specs.resolve import load_spec

Report = list[dict[str, object]]

ATTENTION = {
    "launch": Parameter(5e-6, 1e-6, 2e-5),
    "block": Parameter(1e-6, 1e-7, 1e-5),
    "backward_block": Parameter(5e-6, 2e-7, 3e-5),
    "tail": Parameter(0.4, 0, 1, False),
}
"""A launch is a kernel's at least, and a call of an operator from Python at most; cores finish apart by no more than
the longest block."""
MOST_CASES = 300
"""Rows of a table of prompts that are fitted."""
RATE = Parameter(0.5, 0.02, 1.0, False)
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


@dataclass(frozen=True)
class Generation:
    """What one generation of kernels is fitted on: cases by device, sizes of heads with rates forward and backward."""

    cases: Mapping[str, Sequence[Case]]
    forward: Sequence[int]
    backward: Sequence[int] = ()


UNKNOWN = {"token": 0.0, "cache": 1.0, "b128": 0.5}
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
    measured = np.log([case.seconds for cases in generation.cases.values() for case in cases])

    def residuals(found: Found) -> Floats:
        each = []
        for profile, cases in generation.cases.items():
            full = UNKNOWN | {"backward_block": 0.0} | of_device(found, profile)
            each.append(attention_times(cases, attention_spec(full, ""), full, accelerators[profile]))
        return np.asarray(np.log(np.concatenate(each)) - measured)

    solved = solution(shared(parameters, ("cache",), list(generation.cases)), residuals, {}, 60)
    return solved.found, unsettled(f"{' and '.join(generation.cases)} {name}", solved)


def report_attention(cases: Sequence[Case], found: Found, profile: str, generation: str) -> Report:
    """Rows of the error table by what was timed."""
    full = UNKNOWN | {"backward_block": 0.0} | found
    predicted = attention_times(cases, attention_spec(full, ""), full, load_spec(Accelerator, TABLES[profile][2]))
    rows: Report = []
    for passes, label in (((False,), "forward"), ((True,), "backward"), ((False, True), "forward and backward")):
        mask = np.array([case.passes == passes for case in cases])
        if mask.any():
            table = pd.DataFrame({"seconds": [case.seconds for case in cases]})[mask]
            name: dict[str, object] = {"profile": profile, "dtype": generation, "shapes": label, "set": "fitted"}
            rows.append(name | errors(table, predicted[mask]))
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


# ---- profiles -------------------------------------------------------------------------------------------------------


def attention_lines(profile: str, generations: Mapping[str, Found]) -> list[str]:
    """Lines of YAML of fused attention."""
    folder, version, _, _ = TABLES[profile]
    served = f"fitted on ai-dynamo/aiconfigurator {folder}/attention/{version} by benchmarks/fit_kernels.py"
    lines = ["attention:"]
    for generation, found in generations.items():
        lines += attention_yaml(generation, found, GENERATIONS.get((profile, generation), served))
    return lines + (older_yaml(generations["fa2"]) if "fa2" in generations and "fa1" not in generations else [])


def stream_lines(profile: str) -> list[str]:
    """Lines of YAML of passes over memory, where they were measured on the device itself."""
    if profile not in STREAMS:
        return []
    share, launch, origin = STREAMS[profile]
    return ["stream:", "  status: measured", f'  source: "{origin}"', f"  memory: {share}", f"  launch: {launch} us"]


def head_lines(profile: str) -> list[str]:
    """First lines of a profile."""
    name = load_spec(Accelerator, TABLES[profile][2]).name
    return [*([f"extends: {PARENTS[profile]}"] if profile in PARENTS else []), f"name: {name}"]


def write(folder: Path, profile: str, lines: Sequence[str]) -> None:
    """Write a profile; what a hand has measured elsewhere (`BY_HAND`) stays as it is in the file."""
    path = folder / f"{profile}.yaml"
    kept = path.read_text().splitlines() if path.exists() else []
    by_hand = [line for line in kept if line.strip().startswith(BY_HAND)]
    place = max((number for number, line in enumerate(lines) if line.startswith("    settle:")), default=0) + 1
    if by_hand:  # they belong to the 16-bit products, the first format
        place = next(number for number, line in enumerate(lines) if line.startswith("    settle:")) + 1
    path.write_text("\n".join([*lines[:place], *by_hand, *lines[place:]]) + "\n")


BY_HAND = ("misaligned_batch:",)


def run(
    data: Path, measurements: Path, chip: tuple[str, ...], count: int, folder: Path | None, serving: bool = True
) -> tuple[Report, list[str]]:
    """Fit a chip and write its profiles: products and prompt attention, then serving, which builds on them."""
    report: Report = []
    loose: list[str] = []
    lines = {profile: [*head_lines(profile), "gemm:"] for profile in chip}
    for dtype in fit_gemm.formats(chip[0]):
        found, rows, unsure = fit_gemm.fit_chip(data, measurements, chip, dtype, count)
        report, loose = report + rows, loose + unsure
        for profile, own in found.items():
            lines[profile] += fit_gemm.gemm_lines(dtype, own, profile)
    generations, rows, unsure = fit_generations(data, measurements, chip)
    report, loose = report + rows, loose + unsure
    for profile in chip:
        lines[profile] += [*attention_lines(profile, generations[profile]), *stream_lines(profile)]
        best = [] if profile in PARENTS else [f"best_attention: {next(iter(generations[profile]))}"]
        lines[profile] += [*best, f'notes: "{NOTES[profile]}"']
        print("\n".join(lines[profile]), flush=True)
        if folder:
            write(folder, profile, lines[profile])
    if folder and serving:
        rows, unsure = fit_serving(data, chip, folder)
        report, loose = report + rows, loose + unsure
    return report, loose


def main(arguments: Sequence[str] | None = None) -> int:
    """Fit, print the report, and write what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("measurements", type=Path)
    parser.add_argument("--only", choices=sorted(TABLES))
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--products", action="store_true", help="leave what serving adds to fit_serving.py")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args(arguments)
    report: Report = []
    for chip in CHIPS:
        if options.only in (None, *chip):
            rows, loose = run(
                options.data, options.measurements, chip, options.samples, options.write, not options.products
            )
            report += rows
            print(markdown(rows), *loose, sep="\n", flush=True)
    if options.report:
        options.report.write_text(markdown(report) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
