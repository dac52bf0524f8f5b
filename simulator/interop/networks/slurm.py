"""Slurm's `topology.conf` (plug-ins tree and block) and `topology.yaml` (tree, block, flat).

These say which switch has which nodes, and nothing of rates (`LinkSpeed` has no effect in Slurm either): switches are
taken not to block, so that a cable up carries all that comes from below. Grammar: SchedMD/slurm, topology.conf(5) and
topology.yaml(5).
"""

import re
from typing import Any

import yaml

from simulator.errors import InputError, Problem
from simulator.interop.networks import Read
from simulator.specs.hardware import Cluster

_MOST_NAMES = 200_000
_PART = re.compile(r"([^\[\],]+)(?:\[([\d,\-]+)\])?([^\[\],]*)")
_TOP = "core"


def read(text: str, name: str, cluster: Cluster) -> Read:
    """The switches as a network of kind `graph`."""
    lines = _of_yaml(text, name) if name.endswith((".yaml", ".yml")) else _of_conf(text, name)
    nodes = {switch: hosts(entry.get("nodes", ""), name, line) for switch, (entry, line) in lines.items()}
    children = {switch: hosts(entry.get("switches", ""), name, line) for switch, (entry, line) in lines.items()}
    above = _above(children, lines, name)
    homes = {host: switch for switch, some in nodes.items() for host in some}
    if not homes:
        raise InputError(Problem("names no nodes", name, hint="SwitchName=leaf0 Nodes=n[0-15]"))
    if cluster.node.nics is None:
        raise InputError(Problem(f"nodes of `{cluster.name}` have no cards", name, hint="name another `--cluster`"))
    injected = cluster.node.nics.count * cluster.node.nics.bandwidth.value
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
    if len(tops) > 1:
        above |= dict.fromkeys(tops, _TOP)
    cables = [
        {"between": [low, high], "bandwidth": f"{below[low] * injected / 1e9:.12g} GB/s"}
        for low, high in above.items()
        if below[low]
    ]
    network = {"kind": "graph", "hosts": _rows(homes), "cables": cables}
    assumed = ["cables between switches carry all that comes from below: Slurm's file says nothing of rates"]
    return Read({"nodes": len(homes), "network": network}, assumed)


def _rows(homes: dict[str, str]) -> list[dict[str, Any]]:
    """Nodes in a row at one switch as one entry, in the order of the file."""
    found: list[dict[str, Any]] = []
    for switch in homes.values():
        if found and found[-1]["switches"] == [switch]:
            found[-1]["nodes"] += 1
        else:
            found.append({"nodes": 1, "switches": [switch]})
    return found


def _above(children: dict[str, list[str]], lines: dict[str, Any], name: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for high, lows in children.items():
        for low in lows:
            if low not in lines:
                raise InputError(Problem(f"`{high}` joins a switch `{low}` that is not there", name, lines[high][1]))
            found[low] = high
    return found


def hosts(text: str, name: str, line: int | None = None) -> list[str]:
    """Names of a host list such as `n[0-3,8],login`; InputError for what is none."""
    found: list[str] = []
    rest = text.strip()
    while rest:
        match = _PART.match(rest)
        if match is None or (match.end() < len(rest) and rest[match.end()] != ","):
            raise InputError(Problem(f"`{text[:60]}` is no list of hosts", name, line, hint="write n[0-15]"))
        before, ranges, after = match.groups()
        found += [f"{before}{number}{after}" for number in _numbers(ranges, text, name, line)] if ranges else [before]
        rest = rest[match.end() + 1 :]
    return found


def _numbers(ranges: str, text: str, name: str, line: int | None) -> list[str]:
    found: list[str] = []
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        high = high or low
        if not (low.isdecimal() and high.isdecimal()) or not 0 <= int(high) - int(low) < _MOST_NAMES:
            raise InputError(Problem(f"`{text[:60]}` is no list of hosts", name, line, hint="write n[0-15]"))
        found += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return found


def _of_conf(text: str, name: str) -> dict[str, tuple[dict[str, str], int | None]]:
    found: dict[str, tuple[dict[str, str], int | None]] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        pairs = {key.lower(): value for key, _, value in (word.partition("=") for word in words)}
        if not pairs or "blocksizes" in pairs:
            continue
        switch = pairs.get("switchname") or pairs.get("blockname")
        if not switch:
            hint = "SwitchName=leaf0 Nodes=n[0-15]"
            raise InputError(Problem(f"`{words[0][:40]}` names neither a switch nor a block", name, number, hint=hint))
        if switch in found:
            raise InputError(Problem(f"`{switch}` is there twice", name, number))
        found[switch] = pairs, number
    return found


def _of_yaml(text: str, name: str) -> dict[str, tuple[dict[str, str], int | None]]:
    try:
        data = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        raise InputError(Problem(f"is no YAML: {getattr(error, 'problem', 'too deep')}", name, line)) from None
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    entry = next((one for one in entries if one.get("cluster_default")), entries[0] if entries else None)
    if entry is None:
        raise InputError(Problem("lists no topologies", name, hint="- {topology: t, tree: {switches: [...]}}"))
    for kind, word, one in (("tree", "switches", "switch"), ("block", "blocks", "block")):
        if isinstance(entry.get(kind), dict):
            rows = entry[kind].get(word)
            if not isinstance(rows, list) or not all(isinstance(row, dict) and one in row for row in rows):
                raise InputError(Problem(f"`{kind}` has no list of `{word}`", name))
            return {
                str(row[one]): ({"nodes": str(row.get("nodes", "")), "switches": str(row.get("children", ""))}, None)
                for row in rows
            }
    hint = "write the cluster by hand: docs, bring your own cluster"
    raise InputError(Problem("only topologies `tree` and `block` are read", name, hint=hint))
