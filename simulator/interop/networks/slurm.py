"""Slurm's `topology.conf` (plug-ins tree and block) and `topology.yaml` (tree, block, ring, torus3d).

These say which switch has which nodes, and nothing of rates (`LinkSpeed` has no effect in Slurm either): switches are
taken not to block, so that a cable up carries all that comes from below; a cable between neighbours of a ring or torus
carries what the cards of a node do. Slurm allows trees that nothing joins; they are no one network and are refused.
Left out: `regions` of a torus. Grammar: SchedMD/slurm, topology.conf(5) and topology.yaml(5).
"""

from itertools import chain, count
from math import prod
from typing import Any

from simulator.errors import InputError, Problem
from simulator.interop.networks import Read
from simulator.interop.networks.slurm_lines import MOST_NAMES, Line, hosts, of_conf, of_yaml, too_many
from simulator.specs.hardware import Cluster

_TOP = "core"
_FREE = "cables between switches carry all that comes from below: Slurm's file says nothing of rates"
_NEXT = "a cable to a neighbour carries what the cards of a node do: Slurm's file says nothing of rates"
_AXES = ("x", "y", "z")
_LONGEST = 1_000_000
"""Side of a torus."""


def read(text: str, name: str, cluster: Cluster) -> Read:
    """The switches as a network of kind `graph`."""
    if cluster.node.nics is None:
        raise InputError(Problem(f"nodes of `{cluster.name}` have no cards", name, hint="name another `--cluster`"))
    injected = cluster.node.nics.count * cluster.node.nics.bandwidth.value
    first = next((line for line in map(str.strip, text.splitlines()) if line and line[0] != "#"), "")
    is_yaml = name.endswith((".yaml", ".yml")) or first.startswith("-")
    kind, lines = of_yaml(text, name) if is_yaml else of_conf(text, name)
    if kind in ("ring", "torus3d"):
        return _grid(kind, lines, name, injected)
    return _tree(kind, lines, name, injected, is_yaml)


def _tree(kind: str, lines: dict[str, Line], name: str, injected: float, is_yaml: bool) -> Read:
    """Switches above switches, or blocks below one network."""
    above, homes = _above(lines, name), _homes(lines, name)
    if not homes:
        raise InputError(Problem("names no nodes", name, hint="SwitchName=leaf0 Nodes=n[0-15]"))
    below = dict.fromkeys(lines, 0)
    for switch in homes.values():
        here: str | None = switch
        for _ in range(len(lines) + 1):
            if here is None:
                break
            below[here] += 1
            here = above.get(here)
        else:
            raise InputError(Problem(f"switches lead back to `{switch}`", name))
    tops = [switch for switch in lines if switch not in above and below[switch]]
    assumed = [_FREE]
    if len(tops) > 1:
        if kind == "tree":
            raise InputError(_in_parts(tops, lines, name, is_yaml))
        above |= dict.fromkeys(tops, _free(lines))
        assumed.append("blocks meet in one switch that does not block: Slurm's file says nothing of what joins them")
    cables = [
        {"between": [low, high], "bandwidth": f"{below[low] * injected / 1e9:.12g} GB/s"}
        for low, high in above.items()
        if below[low]
    ]
    network = {"kind": "graph", "hosts": _rows(homes), "cables": cables}
    return Read({"nodes": len(homes), "network": network}, assumed)


def _in_parts(tops: list[str], lines: dict[str, Line], name: str, is_yaml: bool) -> Problem:
    """Trees that nothing joins."""
    message = f"nothing joins the tree below `{tops[1]}` to the one below `{tops[0]}`"
    if len(tops) > 2:
        message += f" ({len(tops):,} trees in all)"
    all_of_them = ",".join(tops if len(tops) <= 8 else [*tops[:7], "..."])
    top = _free(lines)
    switch = f'{{switch: {top}, children: "{all_of_them}"}}' if is_yaml else f"SwitchName={top} Switches={all_of_them}"
    return Problem(message, name, lines[tops[1]].number, hint=f"write what does, `{switch}`, or keep one tree")


def _free(lines: dict[str, Line]) -> str:
    """A name that no switch of the file has."""
    return next(top for top in chain([_TOP], (f"{_TOP}-{place}" for place in count(1))) if top not in lines)


def _homes(lines: dict[str, Line], name: str) -> dict[str, str]:
    """The switch of each host; InputError for a host that is named twice."""
    found: dict[str, str] = {}
    for switch, line in lines.items():
        for host in hosts(line.nodes, name, line.number):
            if host in found:
                message = f"`{switch}` names the node `{host[:60]}`, which `{found[host]}` has"
                raise InputError(Problem(message, name, line.number, hint="name each node once"))
            found[host] = switch
        if len(found) > MOST_NAMES:
            raise too_many(name, line.number)
    return found


def _rows(homes: dict[str, str]) -> list[dict[str, Any]]:
    """Nodes in a row at one switch as one entry, in the order of the file."""
    found: list[dict[str, Any]] = []
    for switch in homes.values():
        if found and found[-1]["switches"] == [switch]:
            found[-1]["nodes"] += 1
        else:
            found.append({"nodes": 1, "switches": [switch]})
    return found


def _above(lines: dict[str, Line], name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for high, line in lines.items():
        for low in hosts(line.switches, name, line.number):
            if low not in lines:
                raise InputError(Problem(f"`{high}` joins a switch `{low}` that is not there", name, line.number))
            if low in found:
                message = f"`{high}` joins the switch `{low}`, which `{found[low]}` joins"
                raise InputError(Problem(message, name, line.number, hint="name each switch below one other"))
            found[low] = high
    return found


def _grid(kind: str, lines: dict[str, Line], name: str, injected: float) -> Read:
    """Nodes of a ring or of a torus, x first, each at a switch of its own that is joined to its neighbours."""
    if len(lines) > 1:
        first, second = list(lines)[:2]
        message = f"nothing joins `{second}` to `{first}`: they are no one network"
        raise InputError(Problem(message, name, lines[second].number, hint="keep one of them"))
    (title, line), *_ = lines.items()
    names = hosts(line.nodes, name, line.number)
    shape = (len(names),) if kind == "ring" else _shape(line, title, name)
    places = prod(shape)
    if not names or places != len(names) or len(set(names)) != places:
        message = f"`{title}` has {places:,} places and names {len(set(names)):,} nodes"
        raise InputError(Problem(message, name, line.number, hint=f"name {places:,} nodes, each once"))
    cables = [
        {"between": [names[here], names[there]], "bandwidth": f"{injected / 1e9:.12g} GB/s"}
        for here, there in neighbours(shape)
    ]
    network = {"kind": "graph", "hosts": [{"switches": [one]} for one in names], "cables": cables}
    return Read({"nodes": places, "network": network}, [_NEXT])


def neighbours(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    """Pairs of places on a grid that closes in each dimension, the first dimension counted first; two in a row have one
    cable."""
    found, step = list[tuple[int, int]](), 1
    for size in shape:
        for place in range(prod(shape)):
            at = place // step % size
            if at + 1 < size:
                found.append((place, place + step))
            elif size > 2:
                found.append((place, place - at * step))
        step *= size
    return found


def _shape(line: Line, title: str, name: str) -> tuple[int, ...]:
    if "regions" in line.keys:
        message = f"`{title}` places its nodes by `regions`, which are not read"
        raise InputError(Problem(message, name, line.number, hint="list all `nodes`, x first"))
    dims = line.keys.get("dims")
    sizes = [dims.get(axis) for axis in _AXES] if isinstance(dims, dict) else []
    whole = [size for size in sizes if isinstance(size, int) and not isinstance(size, bool)]
    shape = tuple(size for size in whole if 0 < size <= _LONGEST)
    if len(shape) < len(_AXES):
        raise InputError(Problem(f"`{title}` has no `dims`", name, line.number, hint="dims: {x: 4, y: 4, z: 4}"))
    return shape
