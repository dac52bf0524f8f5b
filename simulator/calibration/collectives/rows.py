"""Measured collectives: the tables and rows that each collective profile answers for, and which of them a fit sees.

A fit sees two of three sizes of the sources of `FITTED`; the third size and all other sources are held out. Times of
launch-bound harnesses (below 1 MB, from other sources than those marked exact) are left out: they show the host.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from simulator import collectives
from simulator.calibration.asked import LAYOUT, explained, read_objects, read_table
from simulator.collectives.rate import CROWDED
from simulator.errors import InputError, Problem
from simulator.interop.rows.network import release_of
from simulator.specs.libraries.collectives import Environment

MB = 1 << 20
OPERATIONS = {"alltoall": "all_to_all", "sendrecv": "send", "send_recv": "send"}
FITTED = (
    "aiconfigurator",
    "vTrain",
    "vidur send",
    "DistCA",
    "dstack",
    "CoreWeave",
    "issue 309",
    "awsome",
    "docs A100",
    "MI300X",
    "MI355X",
    "B200",
    "GB200",
)
"""Sources that a fit may see, by a word of their name."""
UNSEEN = ("2.18", "TCPX", "MLPerf", "OCI OKE", "quick starts")
"""Sources that no fit sees, whatever else their name says: other versions and networks, later finds that test a fit."""
EXACT = (
    "aiconfigurator",
    "vidur send",
    "dgxc",
    "dstack",
    "awsome",
    "hisohara",
    "nccl-tests issue",
    "OCI OKE",
    "alibaba",
)
"""Sources whose times below 1 MB are the collective's and not the host's."""
UNTOLD = 5 * MB
"""Size to which nobody can say which protocol vTrain's A100 ran: their library is not named, and eight take 93 us from
1 to 4 MB alike, where under LL and LL128, which NCCL's tables take there, they would take 39 to 77."""

HALVED = "Google Cloud, NCCL tests on GKE (A4X)"
"""A library whose release is not stated and that moves half of what others do on the same GB200 under LL (160 of 340
GB/s over eight) and 0.54 of the links under Simple (0.75 and more): as if half of the channels ran."""


def _csv(path: Path) -> pd.DataFrame:
    """A table of comma-separated values; InputError where it is missing or none."""
    try:
        return pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise InputError(Problem(f"cannot be read: {error}", file=str(path), hint=LAYOUT)) from None


def aiconfigurator(data: Path, device: str) -> pd.DataFrame:
    """NCCL within a node as AIConfigurator measured it; messages are counted in elements, times in ms."""
    folder = data / f"data/kernels/{device}_sxm/comm/nccl"
    path = next(iter(sorted(folder.glob("*/nccl_perf.parquet"))), folder / "*/nccl_perf.parquet")
    table = read_table(path, ("message_size", "nccl_dtype", "op_name", "num_gpus", "latency"))
    size = table.message_size * np.where(table.nccl_dtype == "half", 2, 1)
    op, seconds = table.op_name.replace(OPERATIONS), table.latency * 1e-3
    return _rows(f"aiconfigurator {device.upper()}", op, table.num_gpus, size, seconds)


def _rows(source: str, op: Any, ranks: Any, size: Any, seconds: Any) -> pd.DataFrame:
    """Measurements within one node."""
    return pd.DataFrame({"source": source, "op": op, "ranks": ranks, "nodes": 1, "size": size, "seconds": seconds})


def vtrain(data: Path, device: str) -> pd.DataFrame:
    """All-reduces of vTrain: bytes, nanoseconds, 2 to 8 GPUs of one node; powers of two and half way between."""
    tables = []
    for ranks in range(2, 9):
        table = _csv(data / f"data/network/vtrain/{device}/AR_GPU{ranks}_1M_1024M_LUT")
        table.columns = pd.Index(["size", "count", "type", "ns", "bw", "ns_in_place", "bw_in_place"])
        kept = table[(table["size"] // MB).isin([b for p in range(11) for b in (1 << p, 3 << p)])]
        tables.append(_rows(f"vTrain {device.upper()}", "all_reduce", ranks, kept["size"], kept.ns * 1e-9))
    return pd.concat(tables)


def vidur(data: Path, device: str, op: str, nodes: int = 1) -> pd.DataFrame:
    """Medians of vidur: bytes, ms; every 25th size."""
    table = _csv(data / f"data/network/vidur/{device}_dgx/{op}.csv").sort_values("size")
    table = table[table.num_workers == nodes * table.devices_per_node]
    table = table[table.groupby("num_workers").cumcount() % 25 == 0]
    name, seconds = OPERATIONS.get(op, op), table[f"time_stats.{op}.median"] * 1e-3
    return _rows(f"vidur {name} {device.upper()}", name, table.num_workers, table["size"], seconds).assign(nodes=nodes)


def published(data: Path, wanted: Callable[[dict[str, Any]], bool]) -> pd.DataFrame:
    """Rows of network.jsonl, out of place or in place, whichever is faster."""
    rows, path = [], data / "measurements/network.jsonl"
    for row in read_objects(path, ("op", "metrics", "source")):
        op = OPERATIONS.get(row["op"], row["op"])
        if op not in collectives.OPERATIONS or not row.get("size_bytes") or "time_s" not in row["metrics"]:
            continue
        if row.get("environment") or row.get("num_domains"):  # libraries that were told otherwise, parts of racks
            continue
        if wanted(row):
            with explained(path, row):
                rows.append(_published_row(row, op))
    return pd.DataFrame(rows, columns=["source", "op", "ranks", "nodes", "size", "seconds", "algorithm", "environment"])


def _published_row(row: dict[str, Any], op: str) -> tuple[Any, ...]:
    """One row by the columns of `published`."""
    metrics = row["metrics"]
    seconds = min(metrics["time_s"], metrics.get("inplace_time_s") or metrics["time_s"])
    told = Environment(release=release_of(row.get("library"), row.get("library_version")))
    environment = told.model_dump_json(exclude_defaults=True) if told.release else ""
    where = row["num_ranks"], row["num_nodes"], row["size_bytes"]
    return _source(row), op, *where, seconds, _algorithm(row), environment


def _source(row: dict[str, Any]) -> str:
    inter = (row.get("interconnect") or {}).get("inter", "")
    return " ".join(
        filter(None, [row["source"].split(" (")[0], row.get("accelerator"), inter, row.get("library_version", "")])
    )


def _algorithm(row: dict[str, Any]) -> str:
    """An algorithm that the row forces."""
    word = str(row.get("algo"))
    return "ring" if "disabled" in word or "forced" in word else "nvls_tree" if word == "nvlstree" else "auto"


def _inter(*words: str) -> Callable[[dict[str, Any]], bool]:
    """Rows of accelerators and networks that contain all of the words (`!word`: not)."""

    def wanted(row: dict[str, Any]) -> bool:
        text = f"{row.get('accelerator')} {json.dumps(row.get('interconnect'))}"
        return all((word[1:] not in text) if word[0] == "!" else (word in text) for word in words)

    return wanted


def rows_of(data: Path, profile: str) -> pd.DataFrame:
    """All measured rows that a profile answers for, with the cluster that they ran on."""
    parts = [part.assign(cluster=cluster) for cluster, part in PARTS[profile](data)]
    rows = pd.concat(parts, ignore_index=True)
    rows["algorithm"] = rows["algorithm"].fillna("auto") if "algorithm" in rows else "auto"
    rows["environment"] = rows["environment"].fillna("") if "environment" in rows else ""
    rows["profile"] = profile
    rows["ranks"], rows["nodes"] = rows.ranks.astype(int), rows.nodes.astype(int)
    exact = rows.source.str.contains("|".join(EXACT))
    rows = rows[exact | (rows["size"] >= MB)].reset_index(drop=True)
    order = rows.groupby(["source", "op", "ranks", "nodes"])["size"].rank(method="dense").astype(int)
    fitted = rows.source.str.contains("|".join(FITTED)) & ~rows.source.str.contains("|".join(UNSEEN)) & told(rows)
    rows["part"] = np.where(~fitted, "other sources", np.where(order % 3 == 0, "held-out sizes", "fitted"))
    return rows


def told(rows: pd.DataFrame) -> pd.Series:
    """Whether it is known under which protocol each row ran, so that it tells that one's figures, and whether it had
    the channels that others have."""
    unknown = (rows.source.str.startswith("vTrain A100") & (rows["size"] < UNTOLD)) | (rows.source == HALVED)
    return ~unknown & ~(rows.op.isin(["send", "shift"]) & (rows.nodes > 1) & (rows.ranks > CROWDED))


def _a100(data: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    yield "dgx-a100", aiconfigurator(data, "a100")
    yield "dgx-a100", vtrain(data, "a100")
    yield "dgx-a100", vidur(data, "a100", "send_recv")
    yield "dgx-a100", vidur(data, "a100", "all_reduce")
    yield "dgx-a100", published(data, _inter("A100-SXM", "!EFA"))


def _h100(data: Path) -> Iterator[tuple[str, pd.DataFrame]]:
    for device in ("h100", "h200"):
        yield f"dgx-{device}", aiconfigurator(data, device)
    yield "dgx-h100", vidur(data, "h100", "send_recv")
    yield "dgx-h100", vidur(data, "h100", "send_recv", nodes=2)
    yield "dgx-h100", vidur(data, "h100", "all_reduce")
    yield "dgx-h100", published(data, _inter("H100-SXM", "!EFA", "!TCPX", "!Slingshot"))
    yield "dgx-h200", published(data, _inter("H200-SXM", "!EFA"))


PARTS: dict[str, Callable[[Path], Iterator[tuple[str, pd.DataFrame]]]] = {
    "nccl-a100": _a100,
    "nccl-h100": _h100,
    "nccl-a100-efa": lambda data: iter([("efa-p4de", published(data, _inter("A100-SXM", "EFA")))]),
    "nccl-h100-efa": lambda data: iter(
        [
            ("efa-p5", published(data, _inter("H100-SXM", "EFA"))),
            ("efa-p5", published(data, _inter("H200-SXM", "EFA"))),
        ]
    ),
    "nccl-b200": lambda data: iter(
        [
            ("dgx-b200", aiconfigurator(data, "b200")),
            ("dgx-b200", published(data, _inter("B200-SXM"))),
            ("gb200-nvl72", published(data, _inter("GB200 NVL72")).assign(nodes=lambda rows: -(-rows.ranks // 72))),
        ]
    ),
    "nccl-v100": lambda data: iter([("dgx-1-v100", vtrain(data, "v100"))]),
    "rccl": lambda data: iter([("mi300x-cluster", published(data, _inter("MI300X")))]),
    "rccl-mi355x": lambda data: iter([("mi355x-cluster", published(data, _inter("MI355X")))]),
}
