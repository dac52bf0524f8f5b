"""What the figures of collectives are worth where nobody measured: fits without a source, a device, a number of nodes.

    python -m benchmarks.left_out_network DATA [--profile NAME ...] [--write] [--why]

DATA is the folder of tables (docs/howto/calibrate.md); the published rows are those that ship. All sources of a profile
take part in its fit, whatever the shipped figures were fitted on (but rows of which nobody can say under which protocol
they ran), and are left out one by one; then the rows of each
kind of device; then those of each number of nodes. What a fit begins at, and is held to where it sees nothing, are the
figures of other profiles (`simulator/calibration/collectives/prior.py`). `--write` puts the tables into
docs/models/collectives.md. `--why` says instead which figures each source alone tells: those that bring its rows nearer
when a fit without it is given them.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.validation import written
from simulator.calibration.asked import Asked
from simulator.calibration.collectives.figures import figures_of
from simulator.calibration.collectives.fit import fitted, without
from simulator.calibration.collectives.model import Model
from simulator.calibration.collectives.own import rows_of_file
from simulator.calibration.collectives.prior import prior
from simulator.calibration.collectives.rows import MB, aiconfigurator, told, vidur, vtrain
from simulator.specs import data_root
from simulator.specs.libraries.collectives import CollectiveProfile
from simulator.specs.resolve import load_spec

PAGE = data_root() / "docs" / "models" / "collectives.md"
BEGIN, END = "<!-- left out: written by benchmarks/left_out_network.py -->", "<!-- end of left out -->"
FAMILIES = {
    "nccl-a100": ("nccl-a100",),
    "nccl-h100": ("nccl-h100",),
    "nccl-b200": ("nccl-b200", "nccl-b300", "nccl-b200-efa"),
    "nccl-b300": ("nccl-b300",),
    "nccl-a100-efa": ("nccl-a100-efa",),
    "nccl-h100-efa": ("nccl-h100-efa",),
    "nccl-b200-efa": ("nccl-b200-efa",),
    "rccl": ("rccl",),
    "rccl-mi355x": ("rccl-mi355x",),
}
"""Profiles that are fitted, and those that share their figures, whose rows take part."""
OWN = {"nccl-b300": "all_to_all"}
"""Operations of which a profile has figures of its own, so that only these rows are its, and no other's."""
WAYS = {"source": "source", "kind of device": "device", "number of nodes": "places"}
"""What is left out, and the column that says it."""
LEAST = 0.01
"""Share of the time that a figure brings rows nearer, for it to be named."""
HALVES = {"below 1 MiB": (0.0, float(MB)), "from 1 MiB": (float(MB), np.inf)}


def tables(data: Path, name: str) -> Iterator[pd.DataFrame]:
    """Tables of a profile that do not ship, with the cluster and the device of their rows."""
    if name == "nccl-a100":
        for table in (aiconfigurator(data, "a100"), vtrain(data, "a100"), vidur(data, "a100", "send_recv")):
            yield table.assign(cluster="dgx-a100", device="a100-sxm")
    if name == "nccl-h100":
        for device in ("h100", "h200"):
            yield aiconfigurator(data, device).assign(cluster=f"dgx-{device}", device=f"{device}-sxm")
        for nodes in (1, 2):
            yield vidur(data, "h100", "send_recv", nodes=nodes).assign(cluster="dgx-h100", device="h100-sxm")
    if name == "nccl-b200":
        yield aiconfigurator(data, "b200").assign(cluster="dgx-b200", device="b200-sxm")


def rows_of_family(data: Path, name: str) -> pd.DataFrame:
    """All rows that the figures of a profile answer for."""
    shipped = rows_of_file(Asked((data_root() / "workloads" / "measurements" / "network.jsonl",)))
    parts = [_shared(shipped[member], name, member) for member in FAMILIES[name] if member in shipped]
    rows = pd.concat([*parts, *(table.assign(profile=name) for table in tables(data, name))], ignore_index=True)
    rows["algorithm"] = rows.algorithm.fillna("auto")
    rows["ranks"], rows["nodes"], rows["part"] = rows.ranks.astype(int), rows.nodes.astype(int), "other sources"
    rows.loc[told(rows), "part"] = "fitted"
    devices = rows.device.str.partition("-")[0].str.upper()
    return rows.assign(
        family=name, device=devices, places=rows.nodes.map("{} nodes".format).replace("1 nodes", "one node")
    )


def _shared(rows: pd.DataFrame, name: str, member: str) -> pd.DataFrame:
    """The rows of a member that the figures of a profile price: on a network of its own those in one node."""
    if member.startswith(f"{name}-"):
        return rows[rows.nodes == 1]
    if member not in OWN:
        return rows
    return rows[(rows.op == OWN[member]) == (member == name)]


def left_out(data: Path, names: Sequence[str]) -> pd.DataFrame:
    """All rows with their errors under fits that saw them (`seen`) and under those that saw no row of their kind."""
    found = []
    for name in names:
        rows, profile = rows_of_family(data, name), load_spec(CollectiveProfile, name)
        model, before = Model(rows, profile), prior(name, profile)
        for what, column in WAYS.items():
            blind, seen = without(model, rows[column], before)
            rows = rows.assign(**{"seen": seen, f"without {what}": blind})
        print(name, *lines(rows), sep="\n", file=sys.stderr)
        found.append(rows)
    return pd.concat(found, ignore_index=True)


def why(data: Path, name: str) -> Iterator[str]:
    """For each source of a profile the figures that it alone tells, the one that matters most first."""
    rows, profile = rows_of_family(data, name), load_spec(CollectiveProfile, name)
    model, before = Model(rows, profile), prior(name, profile)
    known, fixed, measured = (rows.part == "fitted").to_numpy(), figures_of(profile)[0], rows.seconds.to_numpy()
    seen = fitted(model, before=before)
    for source in sorted(set(rows.source)):
        mine = (rows.source == source).to_numpy()
        part, blind = model.part(mine), fitted(model, 1, before, known & ~mine)

        def off(figures: Mapping[str, float], part: Model = part, mine: Any = mine) -> float:
            return float(np.abs(part.seconds(fixed | dict(figures)) / measured[mine] - 1).mean())

        gains = {path: off(blind) - off(blind | {path: seen[path]}) for path in seen}
        yield f"{source} (`{name}`): {off(seen):.1%} on average with it, {off(blind):.1%} without"
        for path in sorted((path for path in gains if gains[path] > LEAST), key=lambda path: -gains[path]):
            yield f"  {path}: {blind[path]:.3g}, with it {seen[path]:.3g}: {100 * gains[path]:.1f} points"


def lines(rows: pd.DataFrame) -> Iterator[str]:
    """The tables as Markdown: all rows, then by what is left out."""
    yield "| left out | rows below 1 MiB | fit with them | without | rows from 1 MiB | fit with them | without |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for what in WAYS:
        yield f"| each {what}, all rows | {_cells(rows, what)} |"
    for what, column in WAYS.items():
        for (family, group), own in rows.groupby(["family", column]):
            yield f"| {group} (`{family}`) | {_cells(own, what)} |"


def _cells(rows: pd.DataFrame, what: str) -> str:
    cells: list[str] = []
    for low, high in HALVES.values():
        own = rows[(rows["size"] >= low) & (rows["size"] < high)]
        shown = [
            f"{float(own[column].abs().median()):.1%}" if len(own) else "" for column in ("seen", f"without {what}")
        ]
        cells += [str(len(own)), *shown]
    return " | ".join(cells)


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, print the tables, write them where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", metavar="DATA", type=Path)
    parser.add_argument("--profile", metavar="NAME", action="append", choices=FAMILIES)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--why", action="store_true")
    asked = parser.parse_args(arguments)
    if asked.why:
        for name in asked.profile or tuple(FAMILIES):
            print(*why(asked.data, name), sep="\n")
        return
    rows = left_out(asked.data, asked.profile or tuple(FAMILIES))
    table = list(lines(rows))
    print(*table, sep="\n")
    if asked.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), BEGIN, END, table), encoding="utf-8")


if __name__ == "__main__":
    main()
