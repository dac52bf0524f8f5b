"""A foreign description of a network as a cluster file that is known to load and to build."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import yaml

from simulator import fabric
from simulator.errors import InputError, Problem
from simulator.interop.draft import printable
from simulator.interop.networks import Reader, astra_sim, mpigraph, nccl_xml, node_link, slurm
from simulator.specs import catalog
from simulator.specs.hardware import Accelerator, Cluster
from simulator.specs.network.measured import MOST_BYTES
from simulator.specs.resolve import load_spec
from simulator.specs.text.yaml_text import file_text

NetworkFormat = Literal["networkx", "nccl", "slurm", "astra-sim", "mpigraph"]
READERS: dict[str, Reader] = {
    "networkx": node_link.read,
    "nccl": nccl_xml.read,
    "slurm": slurm.read,
    "astra-sim": astra_sim.read,
    "mpigraph": mpigraph.read,
}
"""Readers by format."""
MOST_LETTERS = 1 << 22
"""Bytes of the longest file that is read, but of matrices of pairs, which are long."""


_BEGINNING = 1 << 20
"""Bytes in which a format shows; launchers of many tasks write before the program does."""


def told(path: str) -> NetworkFormat | None:
    """The format of a file by its name, or by a key that no other format has; None where it is no network."""
    place = Path(path)
    if place.suffix == ".xml":
        return "nccl"
    if place.name in ("topology.conf", "topology.yaml"):
        return "slurm"
    if place.suffix in (".yml", ".yaml"):
        if _begins(place, "- topology:", "- {topology:"):
            return "slurm"
        return "astra-sim" if _begins(place, "npus_count") else None
    if _begins(place, "switchname=", "blockname="):
        return "slurm"
    return "mpigraph" if place.suffix == ".csv" or _begins(place, "START mpiGraph") else None


def _begins(place: Path, *words: str) -> bool:
    """Whether a line at the beginning of a file, a regular one, begins with one of some words, in any capitals."""
    try:
        if not place.is_file():  # opening a pipe could wait for ever
            return False
        with place.open("rb") as file:
            wanted = tuple(word.lower().encode() for word in words)
            return any(line.lower().startswith(wanted) for line in file.read(_BEGINNING).splitlines())
    except (OSError, ValueError):  # ValueError: no file has such a name
        return False


def cluster_file(path: str, cluster: str, form: NetworkFormat, nodes: int | None = None) -> str:
    """The text of a cluster file: what a foreign file says, on the nodes and library of a cluster that is known.

    `nodes` takes the first ones. InputError for what cannot be read, or makes no network.
    """
    name = printable(Path(path).name)
    most = MOST_BYTES if form == "mpigraph" else MOST_LETTERS
    text = file_text(Path(path), str(path), "description of a network", most)
    base = load_spec(Cluster, cluster)
    keys, assumed = READERS[form](text, name, base)
    if form == "mpigraph":  # the cluster reads it itself, from where it is
        keys["network"]["matrix"] = path
    if nodes is not None:
        keys["nodes"] = nodes
    if "node" in keys:
        keys["node"]["accelerator"] = _accelerator(base)
    written = {"extends": cluster, "name": f"{base.name}, {name}"} | keys
    head = [f"# Made of {name} ({form}) by clustersim import", *(f"# assumed: {one}" for one in assumed)]
    made = "\n".join(head) + "\n" + yaml.safe_dump(written, sort_keys=False, width=110)
    _check(made, name)
    return made


def _accelerator(base: Cluster) -> str:
    """The name of the accelerator's profile."""
    wanted = base.node.accelerator.name
    for name in catalog.names(Accelerator):
        if load_spec(Accelerator, f"accelerators/{name}").name == wanted:
            return f"accelerators/{name}"
    raise InputError(Problem(f"`{wanted}` has no profile of its own", hint="name another `--cluster`"))


def _check(text: str, name: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            fabric.build(load_spec(Cluster, str(path)))
        except InputError as error:
            raise InputError(*(replace(p, file=name, line=None, column=None) for p in error.problems)) from None
