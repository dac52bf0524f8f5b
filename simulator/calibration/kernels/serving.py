"""Fit what serving adds to a kernel profile: attention over a cache, mixtures of experts, recurrences, dequantising.

Products and prompt attention must be in the profiles already. Each group is fitted twice: without the shapes held back
(their errors are the report) and with all of them (the profile); devices of equal silicon share what is not memory.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from simulator.calibration.asked import Asked, present, save
from simulator.calibration.fitting import (
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
from simulator.calibration.kernels import experts as mixtures
from simulator.calibration.kernels.attention import read_attention
from simulator.calibration.kernels.experts import Family, expert_times, read_experts
from simulator.calibration.kernels.latents import fit_latents
from simulator.calibration.kernels.profile_lines import COMMAND, group_yaml
from simulator.calibration.kernels.scans import fit_scans
from simulator.cost import Device, compile_device
from simulator.cost.attention import attention_seconds
from simulator.cost.decode import DecodeCurve, decode_seconds, write_seconds
from simulator.cost.device import decode_curve
from simulator.specs.hardware import Accelerator
from simulator.specs.kernels import DecodeKernels, KernelProfile
from simulator.specs.resolve import load_spec

SHAPE = ("batch_size", "num_heads", "num_key_value_heads", "head_dim")
"""Columns of every table of attention."""
SECTIONS = ("decode", "experts", "latent", "scans", "weight_only")
WRITE = {
    "write": Parameter(0.4, 0.02, 1),
    "write_token": Parameter(1e-9, 1e-11, 1e-7),
    "query": Parameter(0.5, 0.02, 4),
}
DECODE = {
    "launch": Parameter(9e-6, 2e-6, 3e-5),
    "gather": Parameter(3e-6, 1e-8, 2e-5),
    "sequence": Parameter(3e-8, 0, 3e-7, False),
    "block": Parameter(25e-9, 1e-9, 2e-7),
    "overlap": Parameter(0.6, 0, 1, False),
    "memory": Parameter(0.85, 0.3, 1, False),
    "narrow": Parameter(0.8, 0.3, 1, False),
    "core": Parameter(1.2, 0.1, 8),
}
OWN = ("memory", "narrow", "write", "query")
CUTS_ALL = {"a100-sxm": False}
"""FlashAttention-2 of vLLM 0.14 cuts walks only where heads are grouped; later kernels always."""
REREAD = {"a100-sxm": 29.6, "h100-sxm": 18.6, "h200-sxm": 18.6}
"""Bytes a cycle and multiprocessor of reading keys again, from whole runs: TensorRT-LLM 0.5 reaches 4.5 TB/s where
heads are grouped (its published tables), which the tables of kernels do not have."""
DEQUANTISED = {"rate": Parameter(0.6, 0.2, 1, False), "memory": Parameter(0.9, 0.3, 1, False)}
COLD = 1.5
"""Contexts below this many times the last-level cache are found there by the benchmark's next loop, as no engine finds
them between the weights of other layers; those that the launch hides are kept."""
HIDDEN = 0.1
INT4_BYTES = 4.5 / 8
"""Of a weight with a 16-bit scale for each 32 of them, as the checkpoint of the table's shape has."""


# ---- attention over a cache ----------------------------------------------------------------------------------------


def read_decode(data: Path, profile: str, cache: float) -> pd.DataFrame:
    """Decode attention without windows: shapes, bytes read, seconds, which shapes are held back."""
    table = read_attention(data, profile, "generation", (*SHAPE, "kv_cache_dtype", "step", "latency"))
    table = table[table.head_dim <= 256]
    table = table.assign(size=np.where(table.kv_cache_dtype == "fp8", 1.0, 2.0), context=table.step + 1)
    keys = ["batch_size", "num_heads", "num_key_value_heads", "head_dim", "size", "context"]
    table = table.groupby(keys).latency.median().reset_index()
    table["seconds"] = table.latency * 1e-3
    table["bytes"] = 2.0 * table.batch_size * table.context * table.num_key_value_heads * table.head_dim * table["size"]
    table = table[(table.bytes < HIDDEN * cache) | (table.bytes > COLD * cache)].reset_index(drop=True)
    table["large"] = table.bytes > COLD * cache
    return hold_back(table, ["num_heads", "num_key_value_heads", "head_dim"])


def decode_times(table: pd.DataFrame, curve: DecodeCurve, device: Device) -> Floats:
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
    table = read_attention(data, profile, "context", (*SHAPE, "kv_cache_dtype", "isl", "latency"))
    table = table[(table.kv_cache_dtype == "bfloat16") & (table.head_dim == 128)]
    table = table[(table.isl >= 128) & (table.isl <= 1024) & (table.batch_size * table.isl >= 1024)]
    keys = ["batch_size", "num_heads", "num_key_value_heads", "isl"]
    table = table.groupby(keys).latency.median().reset_index()
    return hold_back(table.assign(seconds=table.latency * 1e-3), ["num_heads", "num_key_value_heads"])


def prompt_times(table: pd.DataFrame, curve: DecodeCurve, device: Device) -> Floats:
    """Predicted seconds of each row of `read_prompts`."""
    attention, times = device.attention["paged"], []
    for batch, heads, kv, length, *_ in table.itertuples(index=False):
        moved = 512.0 * batch * length * (heads + kv)
        time, _, _ = attention_seconds(batch * heads, length, length, 128, True, False, moved, attention)
        time += 512.0 * batch * length * heads / curve.query
        times.append(time + write_seconds(batch * length, 512.0 * kv, 512.0 * kv, device.stream.launch, curve))
    return np.array(times)


@dataclass(frozen=True)
class Place:
    """A device that is fitted, with its profile's products and attention."""

    profile: str
    accelerator: Accelerator
    device: Device

    def curve(self, found: Found) -> DecodeCurve:
        """Attention over a cache by the coefficients of its chip."""
        assert self.accelerator.cores is not None
        fixed = {"cuts_all": CUTS_ALL.get(self.profile, True)}
        spec = DecodeKernels.model_construct(**(fixed | of_device(found, self.profile)))  # type: ignore[arg-type]
        bandwidth, peak = self.accelerator.memory.bandwidth.value, self.accelerator.peak["bf16"].value
        return decode_curve(spec, bandwidth, self.accelerator.cores.value, peak)


Predict = Callable[[Place, Found, pd.DataFrame], Floats]
Tables = Mapping[str, pd.DataFrame]


def fit_decode(data: Path, places: Sequence[Place]) -> tuple[dict[str, Found], Report, list[str]]:
    """(coefficients of `decode` by profile, rows of the report, what is not settled) of a chip."""
    defaults = {name: parameter.start for name, parameter in DECODE.items()}
    prompts = {place.profile: read_prompts(data, place.profile) for place in places}
    tables = {
        p.profile: read_decode(data, p.profile, p.accelerator.on_chip.value) for p in places if p.accelerator.on_chip
    }

    def written(place: Place, found: Found, rows: pd.DataFrame) -> Floats:
        return prompt_times(rows, place.curve(defaults | found), place.device)

    blind_write, write, loose = _twice(WRITE, places, prompts, written, 250)

    def read(place: Place, found: Found, rows: pd.DataFrame) -> Floats:
        return decode_times(rows, place.curve(write | found), place.device)

    narrow = any((table["size"] == 1.0).any() for table in tables.values())
    wanted = {name: each for name, each in DECODE.items() if narrow or name != "narrow"}
    plain = {} if narrow else {"narrow": 0.75}
    blind, found, lines = _twice(wanted, places, tables, lambda p, f, r: read(p, plain | f, r), 500)
    report: Report = []
    known = {}
    for place in places:
        name = place.profile
        held = written(place, blind_write, prompts[name])
        report += _rows(name, "prompts, 128 to 1,024", prompts[name], held)
        report += _decode_rows(name, tables[name], read(place, plain | blind, tables[name]))
        known[name] = of_device(found, name) | of_device(write, name)
        known[name]["cuts_all"] = float(CUTS_ALL.get(name, True))
    return known, report, loose + lines


def _decode_rows(profile: str, table: pd.DataFrame, predicted: Floats) -> Report:
    report: Report = []
    for size, name in ((2.0, "decode, 16 bits"), (1.0, "decode, 8 bits")):
        for large, label in ((True, "beyond the cache"), (False, "small")):
            mask = ((table["size"] == size) & (table.large == large)).to_numpy()
            report += _rows(profile, f"{name}, {label}", table[mask], predicted[mask])
    return report


def _twice(
    parameters: dict[str, Parameter], places: Sequence[Place], tables: Tables, predict: Predict, count: int
) -> tuple[Found, Found, list[str]]:
    """Coefficients without the rows held back, and with all, and what those do not settle."""
    devices = {place.profile: place for place in places}

    def fit(seen: Tables, start: Found) -> tuple[Found, list[str]]:
        samples = {name: rows.sample(min(count, len(rows)), random_state=0) for name, rows in seen.items()}
        measured = {name: rows.seconds for name, rows in samples.items()}
        each = shared(parameters, OWN, list(devices))

        def times(name: str, found: Found) -> Floats:
            return predict(devices[name], found, samples[name])

        return fit_together(", ".join(parameters), each, measured, times, start, 25)

    blind, _ = fit({name: tables[name][~tables[name].held] for name in devices}, {})
    return blind, *fit({name: tables[name] for name in devices}, blind)


def _rows(profile: str, kernels: str, table: pd.DataFrame, predicted: Floats) -> Report:
    """The row of the error table for the shapes that were held back."""
    mask = table.held.to_numpy()
    if not mask.any():
        return []
    name, _, shapes = kernels.partition(", ")
    return [report_row(profile, name, shapes, "held out", table[mask], predicted[mask])]


# ---- dequantised weights ------------------------------------------------------------------------------------------


def fit_dequantised(
    data: Path, places: Sequence[Place], experts: Mapping[str, Found]
) -> tuple[dict[str, Found], Report]:
    """(coefficients of `weight_only` by profile, rows of the report), beside fitted mixtures in 16 bits."""
    tables = {}
    for place in places:
        table = read_experts(data, place.profile, Family("w4a16", TABLES[place.profile][1], "int4_wo", ""))
        table = table[table.distribution == "balanced"].reset_index(drop=True)
        tables[place.profile] = table.assign(held=table.num_tokens.isin(table.num_tokens.unique()[::4]))
    if not all(len(table) for table in tables.values()):
        return {}, []

    def dequantised(place: Place, found: Found, rows: pd.DataFrame) -> Floats:
        mine = of_device(found, place.profile)
        rates = mine["rate"], mine["memory"]
        return expert_times(rows, experts[place.profile], place.device, "bf16", INT4_BYTES, rates)

    blind, final, _ = _twice(DEQUANTISED, places, tables, dequantised, 100)
    report: Report = []
    for place in places:
        predicted = dequantised(place, blind, tables[place.profile])
        report += _rows(place.profile, "experts int4, one shape, other row counts", tables[place.profile], predicted)
    return {place.profile: of_device(final, place.profile) for place in places}, report


# ---- profiles ------------------------------------------------------------------------------------------------------


def fit_serving(asked: Asked, chip: tuple[str, ...], folder: Path) -> tuple[Report, list[str]]:
    """(rows of the report, what is not settled) of a chip; its profiles get their sections of serving.

    The profiles are those in `folder` where their products have been fitted, else the shipped ones; they are written
    into `folder`.
    """
    data, places = asked.files[0], []
    for profile in chip:
        accelerator = load_spec(Accelerator, TABLES[profile][2])
        path = folder / f"{profile}.yaml"
        if not path.exists():
            save(path, present(None, KernelProfile.folder or "", profile))
        places.append(Place(profile, accelerator, compile_device(accelerator, load_spec(KernelProfile, str(path)))))
    decode, report, loose = fit_decode(data, places)
    experts, rows, lines = mixtures.fit_chip(data, {place.profile: place.device for place in places})
    report, loose = report + rows, loose + lines
    sixteen = {profile: next(iter(families.values()))["bf16"] for profile, families in experts.items()}
    dequantised, rows = fit_dequantised(data, places, sixteen)
    report += rows
    for place in places:
        profile, known = place.profile, place.accelerator.on_chip
        lines = serving_lines(profile, decode[profile], experts[profile], dequantised.get(profile))
        own, rows, unsure = fit_scans(data, profile, place.device, known.value if known else 0.0)
        lines, report, loose = lines + own, report + rows, loose + unsure
        own, rows, unsure = fit_latents(data, profile, place.device, known.value if known else 0.0)
        lines, report, loose = lines + own, report + rows, loose + unsure
        asked.say("\n".join([profile, *lines]))
        path = folder / f"{profile}.yaml"
        save(path, replaced(path.read_text(encoding="utf-8"), lines))
    return report, loose


def serving_lines(
    profile: str, decode: Found, experts: Mapping[str, Mapping[str, Found]], dequantised: Found | None
) -> list[str]:
    """Lines of YAML of one profile."""
    folder, version, _, _ = TABLES[profile]
    source = f"fitted on ai-dynamo/aiconfigurator {folder}/{{}}/{version} (Apache-2.0) by {COMMAND}"
    lines = ["decode:", *group_yaml(decode, source.format("attention"), 2)]
    lines += (
        [f"  reread: {REREAD[profile]} # 4.5 TB/s of TensorRT-LLM 0.5 in its published tables"]
        if profile in REREAD
        else []
    )
    lines += mixtures.expert_lines(profile, experts)
    if dequantised is not None:
        lines += ["weight_only:", *group_yaml(dequantised, source.format("moe") + ", int4 weights", 2)]
    return lines


def replaced(text: str, lines: Sequence[str]) -> str:
    """A profile with its sections of serving replaced; they stand before `best_attention`, else before `notes`."""
    kept, inside = [], False
    for line in text.splitlines():
        if line and not line.startswith((" ", "#")):
            inside = line.partition(":")[0] in SECTIONS
        if not inside:
            kept.append(line)
    place = next(number for number, line in enumerate(kept) if line.startswith(("best_attention", "notes")))
    return "\n".join([*kept[:place], *lines, *kept[place:]]) + "\n"
