"""Fit the all-reduces of serving engines' own kernels; coefficients and held-out errors.

TABLES as for the kernels. One count of devices is held back at a time. Coefficients are those of `CustomAllReduce` in
hardware_profiles/collectives; messages of 4 MB and more run through the library in these tables.
"""

import numpy as np
import pandas as pd

from simulator.calibration.asked import Asked, read_table
from simulator.calibration.fitting import TABLES, Floats, Parameter, errors, solve

PARAMETERS = {
    "launch": Parameter(5e-6, 1e-6, 2e-5),
    "hop": Parameter(5e-6, 1e-8, 2e-5),
    "member": Parameter(1e-7, 1e-10, 3e-6),
    "efficiency": Parameter(0.35, 0.05, 1, False),
}
LINKS = {"a100-sxm": 300e9, "h100-sxm": 450e9, "h200-sxm": 450e9}
"""Bytes/s of the scale-up links of a device, one direction."""
LARGEST = 2.1e6


def times(table: pd.DataFrame, found: dict[str, float], links: float) -> Floats:
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


def calibrate(asked: Asked) -> None:
    """Fit every profile asked for and say its coefficients and errors."""
    (data,) = asked.files
    for profile in asked.chosen(LINKS, "profile"):
        links = LINKS[profile]
        folder, version, _, _ = TABLES[profile]
        path = data / folder / "comm" / version / "custom_allreduce_perf.parquet"
        table = read_table(path, ("backend", "message_size", "num_gpus", "latency"))
        table = table[(table.backend == "vllm_graph") & (table.message_size <= LARGEST)]
        table = table.assign(seconds=table.latency * 1e-3)
        found = fit(table, links)
        asked.say(f"{profile} { {name: float(f'{value:.3g}') for name, value in found.items()} }")
        asked.say(f"  all rows {errors(table, times(table, found, links))}")
        for count in (2, 4, 8):
            held = table[table.num_gpus == count]
            blind = fit(table[table.num_gpus != count], links)
            asked.say(f"  {count} devices held out {errors(held, times(held, blind, links))}")
