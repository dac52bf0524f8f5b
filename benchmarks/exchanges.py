"""Errors of DeepEP's profiles on AIConfigurator's tables of one node, which their fit has not seen.

`python -m benchmarks.exchanges TABLES` with the folder that holds `h100_sxm`, `h200_sxm` and `b200_sxm`; prints the
table of docs/models/expert-exchange.md: median |error|, mean signed error and rows by kernels, devices and tokens.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from simulator.collectives import Routing, cost_of, token_bytes
from simulator.fabric import build
from simulator.interop.rows.exchanges import HEADER
from simulator.specs import load_spec
from simulator.specs.hardware import Cluster
from simulator.specs.libraries.collectives import CollectiveProfile

DEVICES = {"h100": "", "h200": "", "b200": "-b200"}
"""Devices, and what the names of their profiles end in."""
SIDES = (("dispatch", "fp8"), ("combine", "bf16"))
COLUMNS = {"normal": "{}_transmit_us", "ll": "{}_avg_t_us"}
PROFILES = {"normal": "deepep", "ll": "deepep-low-latency"}
MULTIPROCESSORS = 20
BINS = {"to 64": (0, 64), "65 to 1,024": (64, 1024), "more": (1024, 1 << 40)}


def errors(tables: Path, device: str, kernels: str) -> Iterator[tuple[int, float]]:
    """(tokens, predicted / measured - 1) of every row of a table."""
    table = pd.read_parquet(tables / f"{device}_sxm/comm/sglang/0.5.12/wideep_deepep_{kernels}_perf.parquet")
    if kernels == "normal":
        table = table[table.dispatch_sms == MULTIPROCESSORS]
    fabric = build(load_spec(Cluster, f"dgx-{device}").model_copy(update={"nodes": 1}))
    profile = load_spec(CollectiveProfile, PROFILES[kernels] + DEVICES[device])
    for row in table.to_dict("records"):
        routing = Routing(int(row["num_experts"]), int(row["num_topk"]))
        for operation, form in SIDES:
            header = HEADER if (kernels, operation) == ("ll", "dispatch") else 0.0
            size = row["num_token"] * routing.top_k * token_bytes(int(row["hidden_size"]), form, header)
            cost = cost_of(operation, [range(8)], size, fabric, profile, routing=routing)
            measured = row[COLUMNS[kernels].format(operation)]
            yield int(row["num_token"]), cost.slowest / 1e6 / measured - 1


def main(tables: Path) -> None:
    """Print the table."""
    for kernels in COLUMNS:
        for devices in (("h100", "h200"), ("b200",)):
            found = [row for device in devices for row in errors(tables, device, kernels)]
            for name, (low, high) in BINS.items():
                part = pd.Series([error for tokens, error in found if low < tokens <= high], dtype=float)
                if len(part):
                    figures = f"{part.abs().median():6.1%} ({part.mean():+.1%}, {len(part)})"
                    print(f"{PROFILES[kernels]:<20} {', '.join(devices):<12} {name:<12} {figures}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
