"""Fit the all-reduces of serving engines' own kernels; figures, and errors with a number of devices held back.

TABLES as for the kernels: `comm/ENGINE/VERSION/custom_allreduce_perf.parquet` of each device, times under CUDA graphs.
Figures are those of `CustomAllReduce` under `engines` of hardware_profiles/collectives, one set an engine and chip.
vLLM leaves messages over 2 MB to the library, or to another kernel, on some devices: they are left out of its fit.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from simulator.calibration.asked import Asked, read_table, save
from simulator.calibration.fitting import TABLES, Floats, Parameter, said, solve

PARAMETERS = {
    "launch": Parameter(5e-6, 1e-6, 2e-5),
    "hop": Parameter(5e-6, 1e-8, 1e-4),
    "member": Parameter(1e-7, 1e-10, 3e-6),
    "efficiency": Parameter(0.35, 0.05, 1, False),
}
CHIPS: Mapping[str, tuple[Sequence[str], float]] = {
    "nccl-a100": (("a100-sxm",), 300e9),
    "nccl-h100": (("h100-sxm", "h200-sxm"), 450e9),
    "nccl-b200": (("b200-sxm",), 900e9),
}
"""Collective profile: the devices that it is for, and bytes/s of the links of one, one direction."""


class Engine(NamedTuple):
    """Whose kernels a table has."""

    kernel: str
    """Its word in the column `kernel_source`."""
    largest: float
    """Bytes of the largest message that is fitted."""
    limit: str
    """From which size on the library runs."""


ENGINES = {
    "vllm": Engine("vLLM_custom_graph", 2.1e6, "4 MiB"),
    "sglang": Engine("SGLang_CustomAllReduce_graph", 9e6, "16 MiB"),
    "trtllm": Engine("TRTLLM", 9e6, "16 MiB"),
}
FORMS = {"launch": (1e6, " us"), "member": (1e6, " us"), "hop": (1e6, " us"), "efficiency": (1.0, "")}
"""How a figure is written: its factor and unit."""


def times(table: pd.DataFrame, found: Mapping[str, float], links: float) -> Floats:
    """Predicted seconds of each row: the formulas of simulator/collectives/custom_all_reduce.py."""
    n, size = table.num_gpus.to_numpy(float), table.message_size.to_numpy(float)
    rate = links * found["efficiency"]
    start = found["launch"] + (n - 2) * found["member"]
    one = start + (n - 1) * size / rate
    two = start + found["hop"] + 2 * (n - 1) / n * size / rate
    return np.asarray(np.where(n == 2, one, np.minimum(one, two)))


def fit(table: pd.DataFrame, links: float) -> dict[str, float]:
    """Coefficients on the rows of a table."""
    measured = np.log(table.seconds.to_numpy())
    return solve(PARAMETERS, lambda found: np.log(times(table, found, links)) - measured, {}, 200)


def read(data: Path, device: str, engine: str) -> tuple[pd.DataFrame, str]:
    """The rows of an engine on a device that are fitted, and the folder of the newest version that has them."""
    folder, place = TABLES[device][0], ENGINES[engine]
    engine_folder = data / folder / "comm" / engine
    path = max(engine_folder.glob("*"), key=_version, default=engine_folder) / "custom_allreduce_perf.parquet"
    table = read_table(path, ("kernel_source", "message_size", "num_gpus", "latency"))
    table = table[(table.kernel_source == place.kernel) & (table.message_size <= place.largest)]
    return table.assign(seconds=table.latency * 1e-3), str(path.parent.relative_to(data))


def _version(folder: Path) -> list[int]:
    """The numbers of a version, so that 0.14 comes after 0.9."""
    return [int(number) for number in re.findall(r"\d+", folder.name)]


def calibrate(asked: Asked) -> None:
    """Fit every profile asked for, say its figures and errors, and write the figures into the folder asked for."""
    (data,) = asked.files
    text = "".join(_profile(asked, data, profile) for profile in asked.chosen(CHIPS, "collective profile"))
    if asked.out:
        save(asked.out / "all-reduce.figures.yaml", text)


def _profile(asked: Asked, data: Path, profile: str) -> str:
    """The lines of a collective profile under `engines`."""
    devices, links = CHIPS[profile]
    lines = [f"{profile}:", "  engines:"]
    for engine in ENGINES:
        found = [read(data, device, engine) for device in devices]
        table = pd.concat([rows for rows, _ in found], ignore_index=True)
        fitted = fit(table, links)
        lines += [f"    {engine}:", *_figures(fitted, engine, [folder for _, folder in found])]
        asked.say(said(f"{profile} {engine}: all rows", times(table, fitted, links) / table.seconds - 1))
        _say_held_out(asked, table, links)
    return "\n".join(lines) + "\n"


def _figures(found: Mapping[str, float], engine: str, folders: Sequence[str]) -> list[str]:
    """Figures as they stand in a profile."""
    source = f"fit on ai-dynamo/aiconfigurator {' and '.join(folders)} (Apache-2.0), by clustersim calibrate all-reduce"
    values = {name: f"{found[name] * factor:.3g}{unit}" for name, (factor, unit) in FORMS.items()}
    values["largest"] = ENGINES[engine].limit
    return [f'      {name}: {{value: {value}, status: measured, source: "{source}"}}' for name, value in values.items()]


def _say_held_out(asked: Asked, table: pd.DataFrame, links: float) -> None:
    """Errors of each number of devices under a fit of the others."""
    for count in sorted(table.num_gpus.unique()):
        held, others = table[table.num_gpus == count], table[table.num_gpus != count]
        blind = times(held, fit(others, links), links) / held.seconds - 1
        asked.say(said(f"  {count} devices held out", blind))
