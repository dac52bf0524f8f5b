"""Fit collective profiles to measured collectives, and report their errors. Offline: needs pandas, pyarrow and scipy.

    python benchmarks/fit_collectives.py DATA report [PROFILE ...]     errors of the shipped profiles, as Markdown
    python benchmarks/fit_collectives.py DATA fit PROFILE ...          new values of a profile's measured figures

DATA is a folder with `data/kernels`, `data/network` and `measurements/network.jsonl` (see docs/models/collectives.md
for where they come from). A fit varies the figures of the profile whose status is `measured`, first those of `scale_up`
on rows within a node, then those of `scale_out` on rows across nodes, and minimises the logarithm of predicted /
measured. It sees two of three sizes of the sources marked `fit`; the third size and all other sources are held out.
Times of launch-bound harnesses (below 1 MB, from other sources than those marked exact) are left out: they show the
host.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import least_squares

from simulator import collectives, fabric
from simulator.collectives.algorithms import ALGORITHMS
from simulator.collectives.demand import demand_of
from simulator.collectives.layout import layouts
from simulator.collectives.rate import PASSES
from simulator.specs.collectives import CollectiveProfile
from simulator.specs.hardware import Cluster
from simulator.specs.resolve import load_spec

MB = 1 << 20
BINS = {
    "< 64 KB": (0, 64 << 10),
    "64 KB - 4 MB": (64 << 10, 4 * MB),
    "4 - 64 MB": (4 * MB, 64 * MB),
    ">= 64 MB": (64 * MB, 1 << 60),
}
BOUNDS = {
    "launch": (1e-6, 5e-4),
    "latency": (1e-7, 2e-4),
    "efficiency": (0.005, 1.0),
    "fraction": (0.01, 12.0),
    "bytes": (1e4, 3e9),
    "own_piece": (0.01, 1.5),
}
OWN = "own_piece"
BETWEEN = ("nvls_tree", "hierarchical", "hierarchical_tree")
"""Algorithms that always cross nodes."""
OPERATIONS = {"alltoall": "all_to_all", "sendrecv": "send", "send_recv": "send"}
FITTED = (
    "aiconfigurator",
    "vTrain",
    "vidur send",
    "DistCA",
    "dstack",
    "CoreWeave",
    "awsome",
    "docs A100",
    "MI300X",
    "B200",
    "GB200",
)
"""Sources that a fit may see, by a word of their name."""
EXACT = ("aiconfigurator", "vidur send", "dgxc", "dstack", "awsome", "hisohara")
"""Sources whose times below 1 MB are the collective's and not the host's."""


def aiconfigurator(data: Path, device: str) -> pd.DataFrame:
    """NCCL within a node as AIConfigurator measured it; messages are counted in elements, times in ms."""
    table = pd.read_parquet(next((data / f"data/kernels/{device}_sxm/comm/nccl").glob("*/nccl_perf.parquet")))
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
        table = pd.read_csv(data / f"data/network/vtrain/{device}/AR_GPU{ranks}_1M_1024M_LUT")
        table.columns = pd.Index(["size", "count", "type", "ns", "bw", "ns_in_place", "bw_in_place"])
        kept = table[(table["size"] // MB).isin([b for p in range(11) for b in (1 << p, 3 << p)])]
        tables.append(_rows(f"vTrain {device.upper()}", "all_reduce", ranks, kept["size"], kept.ns * 1e-9))
    return pd.concat(tables)


def vidur(data: Path, device: str, op: str, nodes: int = 1) -> pd.DataFrame:
    """Medians of vidur: bytes, ms; every 25th size."""
    table = pd.read_csv(data / f"data/network/vidur/{device}_dgx/{op}.csv").sort_values("size")
    table = table[table.num_workers == nodes * table.devices_per_node]
    table = table[table.groupby("num_workers").cumcount() % 25 == 0]
    name, seconds = OPERATIONS.get(op, op), table[f"time_stats.{op}.median"] * 1e-3
    return _rows(f"vidur {name} {device.upper()}", name, table.num_workers, table["size"], seconds).assign(nodes=nodes)


def published(data: Path, wanted: Callable[[dict[str, Any]], bool]) -> pd.DataFrame:
    """Rows of network.jsonl, out of place or in place, whichever is faster."""
    rows = []
    for line in (data / "measurements/network.jsonl").read_text().splitlines():
        row = json.loads(line)
        metrics, op = row["metrics"], OPERATIONS.get(row["op"], row["op"])
        if op not in collectives.OPERATIONS or not row.get("size_bytes") or "time_s" not in metrics or not wanted(row):
            continue
        seconds = min(metrics["time_s"], metrics.get("inplace_time_s") or metrics["time_s"])
        rows.append((_source(row), op, row["num_ranks"], row["num_nodes"], row["size_bytes"], seconds, _algorithm(row)))
    return pd.DataFrame(rows, columns=["source", "op", "ranks", "nodes", "size", "seconds", "algorithm"])


def _source(row: dict[str, Any]) -> str:
    inter = (row.get("interconnect") or {}).get("inter", "")
    return " ".join(
        filter(None, [row["source"].split(" (")[0], row["accelerator"], inter, row.get("library_version", "")])
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
    parts = [part.assign(cluster=cluster) for cluster, part in _PARTS[profile](data)]
    rows = pd.concat(parts, ignore_index=True)
    rows["algorithm"] = rows["algorithm"].fillna("auto") if "algorithm" in rows else "auto"
    rows["ranks"], rows["nodes"] = rows.ranks.astype(int), rows.nodes.astype(int)
    exact = rows.source.str.contains("|".join(EXACT))
    rows = rows[exact | (rows["size"] >= MB)].reset_index(drop=True)
    order = rows.groupby(["source", "op", "ranks", "nodes"])["size"].rank(method="dense").astype(int)
    fitted = rows.source.str.contains("|".join(FITTED)) & ~rows.source.str.contains("2.18|TCPX|MLPerf")
    rows["part"] = np.where(~fitted, "other sources", np.where(order % 3 == 0, "held-out sizes", "fitted"))
    return rows


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
    yield "dgx-h100", published(data, _inter("H100-SXM", "!EFA", "!TCPX"))
    yield "dgx-h200", published(data, _inter("H200-SXM", "!EFA"))


_PARTS: dict[str, Callable[[Path], Iterator[tuple[str, pd.DataFrame]]]] = {
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
            ("gb200-nvl72", published(data, _inter("GB200 NVL72")).assign(nodes=1)),
        ]
    ),
    "nccl-v100": lambda data: iter([("dgx-1-v100", vtrain(data, "v100"))]),
    "rccl": lambda data: iter([("mi300x-cluster", published(data, _inter("MI300X")))]),
}


@cache
def _fabric(cluster: str, nodes: int) -> fabric.Fabric:
    return fabric.build(load_spec(Cluster, cluster).model_copy(update={"nodes": int(nodes)}))


def _group(row: Any) -> tuple[fabric.Fabric, np.ndarray[Any, Any]]:
    """The ranks of a row: the first ones of each node."""
    machine = _fabric(row.cluster, row.nodes)
    ranks = 2 if row.op == "send" and row.nodes == 1 else row.ranks // row.nodes
    return machine, (np.arange(row.nodes)[:, None] * machine.per_node + np.arange(ranks)).ravel()


def predicted(rows: pd.DataFrame, profile: CollectiveProfile) -> np.ndarray[Any, Any]:
    """Seconds as the simulator prices them."""
    seconds = []
    for row in rows.itertuples():
        machine, group = _group(row)
        cost = collectives.price(str(row.op), group, _number(row.size), machine, profile, str(row.algorithm))
        seconds.append(cost.slowest / 1e12)
    return np.array(seconds)


def _number(cell: Any) -> float:
    return float(cell)


def _names(profile: CollectiveProfile, op: str, forced: str) -> tuple[str, ...]:
    return (forced,) if forced != "auto" else profile.algorithms[op]  # type: ignore[index]


def _taken(row: Any, profile: CollectiveProfile) -> str:
    """What the library's tuner takes, whatever the figures; empty where it has none."""
    tuner = profile.tuner if row.nodes == 1 or (profile.tuner and profile.tuner.across_nodes) else None
    known = {f"{option.algorithm}/{option.protocol}" for option in tuner.options} if tuner else set()
    machine, group = _group(row)
    if not known or not {name.partition("/")[0] for name in known} & set(_names(profile, row.op, row.algorithm)):
        return ""
    [taken] = collectives.price(row.op, group, row.size, machine, profile, row.algorithm).algorithms
    return taken if taken in known else ""


class Model:
    """The closed form over all rows at once: what `collectives.price` does, with the figures as variables."""

    def __init__(self, rows: pd.DataFrame, profile: CollectiveProfile) -> None:
        """Collect hops and link times of every row and algorithm."""
        self.rows, self.profile = rows, profile
        names = {name for serving in profile.algorithms.values() for name in serving}
        self.features = {name: np.full((7, len(rows)), np.nan) for name in sorted(names)}
        for place, row in enumerate(rows.itertuples()):
            for name in _names(profile, str(row.op), str(row.algorithm)):
                self.features[name][:, place] = self._features(row, name)
        self.taken = [_taken(row, profile) for row in rows.itertuples()]
        self.pieces = np.nan_to_num(rows.op.map(PASSES).to_numpy(float) * (rows.ranks.to_numpy() - 1), nan=np.inf)

    def _features(self, row: Any, name: str) -> list[float]:
        """Hops, link seconds of a byte (inside nodes, between), whether nodes are crossed, wire beyond the known."""
        machine, group = _group(row)
        layout, _ = next(layouts(group[None], machine))
        phases = ALGORITHMS.get(name)(str(row.op), layout)
        if phases is None:
            return [np.nan] * 7
        total = np.zeros(7)
        for phase in phases:
            demand = demand_of(phase, group[None], machine)
            inner, outer = demand.alone(machine)
            wire = [
                max(0.0, float(w[0]) - f.value)
                for w, f in zip(demand.wire, (self.profile.wire.scale_up, self.profile.wire.scale_out), strict=True)
            ]
            hops = np.array([phase.inner, phase.outer])
            total[:4] += phase.repeat * np.array([*hops, inner[0], outer[0]])
            total[5:] += phase.repeat * hops * wire
            total[4] = max(total[4], float(phase.outer > 0))
        return list(total)

    def seconds(self, figures: dict[str, float]) -> np.ndarray[Any, Any]:
        """Time of what the library's tuner takes, where it has none the shortest, given all figures by path."""
        best = np.full(len(self.rows), np.inf)
        size = self.rows["size"].to_numpy(float)
        for name, (hops_in, hops_out, busy_in, busy_out, crosses, wire_in, wire_out) in self.features.items():
            for protocol in self.profile.protocols_of(name):
                inner, outer = (
                    {k: figures.get(f"{protocol}.{s}.{k}", 0.0) for k in BOUNDS if k != OWN}
                    for s in ("scale_up", "scale_out")
                )
                launch, fraction, full = (
                    np.where(crosses > 0, outer[k], inner[k]) for k in ("launch", "fraction", "bytes")
                )
                moving = np.maximum(busy_in / inner["efficiency"], busy_out / outer["efficiency"])
                moving = moving * (size + fraction * np.minimum(size, full)) * (1 + figures[OWN] / self.pieces)
                seconds = (
                    launch + hops_in * inner["latency"] + hops_out * outer["latency"] + wire_in + wire_out + moving
                )
                mine = [taken in ("", f"{name}/{protocol}") for taken in self.taken]
                best = np.where(mine, np.fmin(best, seconds), best)
        return best


def figures_of(profile: CollectiveProfile) -> tuple[dict[str, float], set[str]]:
    """All figures of the protocols by path, `fill` left out of it, and those that are measured."""
    values, measured = {OWN: profile.own_piece.value if profile.own_piece else 0.0}, set()
    if profile.own_piece and profile.own_piece.status == "measured":
        measured.add(OWN)
    for name, protocol in profile.protocols.items():
        for scope_name, scope in (("scale_up", protocol.scale_up), ("scale_out", protocol.scale_out)):
            figures = {"launch": scope.launch, "latency": scope.latency, "efficiency": scope.efficiency}
            if scope.fill is not None:
                figures |= {"fraction": scope.fill.fraction, "bytes": scope.fill.bytes}
            for key, figure in figures.items():
                path = f"{name}.{scope_name}.{key}"
                values[path] = max(float(figure.value), 1e-12)
                if figure.status == "measured":
                    measured.add(path)
    return values, measured


def fit(rows: pd.DataFrame, profile: CollectiveProfile, starts: int = 1) -> dict[str, float]:
    """New values of the measured figures, from descents that start at the present ones and around them."""
    values, measured = figures_of(profile)
    for across in (False, True):
        seen = rows[(rows.part == "fitted") & ((rows.nodes > 1) == across)].reset_index(drop=True)
        free = sorted(path for path in measured if _crosses(path, profile) == across)
        if len(seen) and free:
            values |= _solved(Model(seen, profile), seen, values, free, starts)
    return {path: values[path] for path in sorted(measured)}


def _crosses(path: str, profile: CollectiveProfile) -> bool:
    """Whether a figure shows only in collectives between nodes."""
    protocol, _, rest = path.partition(".")
    return rest.startswith("scale_out") or (
        protocol != OWN and profile.protocols[protocol].algorithms[:1] in [(n,) for n in BETWEEN]
    )


def _solved(
    model: Model, rows: pd.DataFrame, values: dict[str, float], free: list[str], starts: int
) -> dict[str, float]:
    """The best of several descents from starting points around the present values."""
    low, high = (np.log([BOUNDS[path.rsplit(".", 1)[-1]][end] for path in free]) for end in (0, 1))
    start = np.clip(np.log([values[path] for path in free]), low + 1e-3, high - 1e-3)
    random = np.random.default_rng(1)
    measured = np.log(rows.seconds.to_numpy())

    def residuals(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        logs: np.ndarray[Any, Any] = np.log(model.seconds(values | dict(zip(free, np.exp(x), strict=True)))) - measured
        return logs

    found = []
    for attempt in range(starts):
        shifted = np.clip(start + (attempt > 0) * random.normal(0, 0.3, len(free)), low + 1e-3, high - 1e-3)
        found.append(least_squares(residuals, shifted, bounds=(low, high), loss="soft_l1", f_scale=0.1, max_nfev=120))
    best = min(found, key=lambda result: float(result.cost))
    return dict(zip(free, np.exp(best.x).tolist(), strict=True))


def report(rows: pd.DataFrame, seconds: np.ndarray[Any, Any]) -> str:
    """Mean absolute and signed error of the time by part, place and size, as Markdown; then by source."""
    rows = rows.assign(error=seconds / rows.seconds - 1, place=np.where(rows.nodes > 1, "between nodes", "one node"))
    lines = [f"| rows | place | {' | '.join(BINS)} |", "| --- | --- |" + " --- |" * len(BINS)]
    for (part, place), group in rows.groupby(["part", "place"]):
        lines.append(f"| {part} | {place} | {' | '.join(_cells(group))} |")
    lines += ["", f"| source | operation | ranks | {' | '.join(BINS)} |", "| --- | --- | --- |" + " --- |" * len(BINS)]
    for (source, op), group in rows.groupby(["source", "op"]):
        ranks = ", ".join(map(str, sorted(set(group.ranks))))
        part = group.part.iloc[0].replace("held-out sizes", "fitted")
        lines.append(f"| {source} ({part}) | {op} | {ranks} | {' | '.join(_cells(group))} |")
    return "\n".join(lines)


def _cells(group: pd.DataFrame) -> Iterator[str]:
    for low, high in BINS.values():
        part = group.error[(group["size"] >= low) & (group["size"] < high)]
        yield f"{part.abs().mean():.1%} ({part.mean():+.1%}, {len(part)})" if len(part) else ""


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("action", choices=("report", "fit"))
    parser.add_argument("profiles", nargs="*", default=list(_PARTS))
    parser.add_argument("--starts", type=int, default=1, help="descents of a fit; more can swap the roles of protocols")
    given = parser.parse_args()
    for name in given.profiles:
        profile, rows = load_spec(CollectiveProfile, name), rows_of(given.data, name)
        print(f"\n### {name}\n")
        if given.action == "fit":
            for path, value in fit(rows, profile, given.starts).items():
                print(f"{path}: {value:.4g}")
        else:
            print(report(rows, predicted(rows, profile)))


if __name__ == "__main__":
    main()
