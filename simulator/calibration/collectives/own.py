"""Measured collectives of one's own: published rows, or a log of nccl-tests with the cluster that it ran on.

Two of three sizes of each source, operation and group are fitted, the third is held out.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from simulator.calibration.asked import Asked, printable
from simulator.calibration.collectives.model import runs
from simulator.collectives import operation_of
from simulator.errors import InputError, Problem
from simulator.interop.nccl_tests import read_log
from simulator.interop.rows.accelerators import kinds
from simulator.interop.rows.benchmarks import is_header
from simulator.interop.rows.exchanges import OPERATIONS as EXCHANGED
from simulator.interop.rows.jsonl import Refused, parse_line, read_lines, read_row
from simulator.interop.rows.network import OPERATIONS, MappedCollective, NetworkRow, map_network
from simulator.run.measured.network import group_of, has_other_cards
from simulator.specs.hardware import Accelerator, Cluster
from simulator.specs.libraries.collectives import CollectiveProfile, Environment
from simulator.specs.resolve import load_spec

WORDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall", "sendrecv")
COLUMNS = (
    "source",
    "op",
    "ranks",
    "nodes",
    "size",
    "seconds",
    "algorithm",
    "cluster",
    "device",
    "environment",
    "call",
    "issue",
)


def rows_of_file(asked: Asked) -> dict[str, pd.DataFrame]:
    """Measurements of a file by the collective profile of the cluster that they ran on; InputError where none is."""
    (path,) = asked.files
    refused = list[str]()
    found = _published(path, refused) if path.suffix == ".jsonl" else _logged(path, asked, refused)
    asked.say_refused(refused)
    table = _able(pd.DataFrame(found, columns=COLUMNS))
    if table.empty:
        first = f"; {refused[0]}" if refused else ""
        raise InputError(Problem(f"has no collectives that are simulated{first}", file=str(path)))
    table["id"] = [f"{row.source} {row.op} {row.ranks} on {row.nodes}: {row.size:.0f}" for row in table.itertuples()]
    order = table.groupby(["source", "op", "ranks", "nodes"])["size"].rank(method="dense").astype(int)
    table["part"] = np.where(order % 3 == 0, "held-out sizes", "fitted")
    return {str(name): _known(str(name), own.reset_index(drop=True)) for name, own in table.groupby("profile")}


def _able(table: pd.DataFrame) -> pd.DataFrame:
    """The rows that the library of their cluster can run, each with its profile: an algorithm that a row forces may
    not exist for its operation or its ranks."""
    profiles = [str(load_spec(Cluster, name).collectives) for name in table.cluster]
    table = table.assign(profile=pd.Series(profiles, dtype=object))
    can = [
        row.algorithm == "auto" or runs(row, load_spec(CollectiveProfile, str(row.profile)))
        for row in table.itertuples()
    ]
    return table[np.array(can, bool)].reset_index(drop=True)


def _known(name: str, rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of a profile, messages to the next rank as sends where it does not tell the two apart."""
    told_apart = "shift" in load_spec(CollectiveProfile, name).algorithms
    return rows if told_apart else rows.assign(op=rows.op.replace({"shift": "send"}))


def _published(path: Path, refused: list[str]) -> list[tuple[object, ...]]:
    """The rows of a file; `refused` takes what is wrong with collectives that cannot be read or simulated."""
    found = []
    for line in read_lines(path):
        try:
            data = parse_line(line)
            if is_header(data) or data.get("op") in tuple(EXCHANGED):
                continue
            row = read_row(NetworkRow, data)
            if row.op not in OPERATIONS:  # copies, and kernels of the same file
                continue
            mapped = map_network(row)
            group_of(mapped)
        except Refused as reason:  # damaged, of machines that no cluster stands for, of ranks that do not fit
            refused.append(f"{line.place}: {reason}")
            continue
        if mapped.row.size_bytes is not None and not (
            _host_shows(mapped) or has_other_cards(mapped) or mapped.sockets or mapped.engine
        ):
            found.append(_row(mapped))
    return found


def _host_shows(mapped: MappedCollective) -> bool:
    return mapped.harness is not None and mapped.size_bytes < 1 << 20


def _row(mapped: MappedCollective) -> tuple[object, ...]:
    return (
        mapped.row.source,
        mapped.operation.partition(":")[0],
        mapped.ranks,
        mapped.nodes,
        mapped.size_bytes,
        mapped.measured_s,
        mapped.algorithm,
        mapped.cluster,
        mapped.row.device,
        mapped.environment.model_dump_json(exclude_defaults=True) if mapped.environment else "",
        mapped.harness.seconds(mapped.row, 0.0) if mapped.harness and mapped.harness.call else 0.0,
        mapped.harness.seconds(mapped.row, 0.0) if mapped.harness and not mapped.harness.call else 0.0,
    )


def _logged(path: Path, asked: Asked, refused: list[str]) -> list[tuple[object, ...]]:
    """The rows of a log; `refused` takes what is wrong with those that cannot be read."""
    log, cluster = read_log(path), asked.cluster
    refused += map(str, log.refused)
    text = path.read_text(encoding="utf-8", errors="replace")[:4000]
    named = re.search("|".join(WORDS), f"{path.name} {text}".lower())
    if named is None:
        raise InputError(Problem("no operation is named", file=str(path), hint=f"put {', '.join(WORDS)} in its name"))
    if cluster is None:
        raise InputError(Problem("a log does not say where it ran", file=str(path), hint="write `--cluster NAME`"))
    if log.ranks is None or log.nodes is None:
        raise InputError(Problem("its head does not list the ranks", file=str(path), hint="keep the lines of # Rank"))
    _check_places(path, log.ranks, log.nodes, cluster)
    if other := other_devices(log.devices, cluster):
        asked.say(f"warning: {path}: {other}")
    op = operation_of(named[0])
    told = Environment(release=log.release).model_dump_json(exclude_defaults=True) if log.release else ""
    return [
        (path.name, op, log.ranks, log.nodes, one.size_bytes, one.time_s, "auto", cluster, cluster, told, 0.0, 0.0)
        for one in log.sizes
        if one.time_s < 3600
    ]


def _check_places(path: Path, ranks: int, nodes: int, cluster: str) -> None:
    """Refuse ranks that a cluster has no devices for, as if they had them, and nodes that are not alike."""
    devices = load_spec(Cluster, cluster).node.devices
    problem = None
    if ranks == 1:
        problem = "1 rank sends nothing to another"
    elif ranks % nodes:
        problem = f"{ranks} ranks on {nodes} nodes are not as many on each"
    elif ranks > nodes * devices:
        problem = f"{ranks // nodes} ranks a node, but a node of `{cluster}` has {devices} devices"
    if problem:
        raise InputError(Problem(problem, file=str(path), hint="write the `--cluster` that the log was made on"))


def other_devices(devices: Sequence[str], cluster: str) -> str:
    """What a log says of devices that the cluster has not; empty where it has them, or where none is known."""
    own = load_spec(Cluster, cluster).node.accelerator.name
    for words in devices:
        may_be = [load_spec(Accelerator, name).name for name in kinds(words)]
        if may_be and own not in may_be:
            return f"the log names {printable(words)}, and `{cluster}` has {own}"
    return ""
