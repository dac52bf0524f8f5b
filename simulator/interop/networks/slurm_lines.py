"""What the files of Slurm's topology plug-ins list: switches, blocks, rings and tori, each with its line."""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from simulator.errors import InputError, Problem

_MOST_NAMES = 200_000
_PART = re.compile(r"([^\[\],]+)(?:\[([\d,\-]+)\])?([^\[\],]*)")
_LINE = ("line",)
"""Key of the line of a mapping: no key of YAML, which are scalars here."""
_KINDS = (
    ("tree", "switches", "switch"),
    ("block", "blocks", "block"),
    ("ring", "rings", "ring"),
    ("torus3d", "toruses", "name"),
)
"""Topologies that are read, what they list, and the key of a name."""


@dataclass(frozen=True, slots=True)
class Line:
    """An entry of a file."""

    nodes: str
    """Host list of its nodes."""
    switches: str
    """Host list of the switches below."""
    number: int | None
    """Its line."""
    keys: dict[str, Any] = field(default_factory=dict)
    """All that it says, in YAML."""


class _Loader(yaml.SafeLoader):
    """Mappings remember their lines."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found | {_LINE: node.start_mark.line + 1}


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


def of_conf(text: str, name: str) -> tuple[str, dict[str, Line]]:
    """(kind, entries by name) of a topology.conf."""
    found: dict[str, Line] = {}
    kind = "tree"
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        pairs = {key.lower(): value for key, _, value in (word.partition("=") for word in words)}
        if not pairs or "blocksizes" in pairs:
            continue
        kind = "block" if "blockname" in pairs else kind
        switch = pairs.get("switchname") or pairs.get("blockname")
        if not switch:
            hint = "SwitchName=leaf0 Nodes=n[0-15]"
            raise InputError(Problem(f"`{words[0][:40]}` names neither a switch nor a block", name, number, hint=hint))
        if switch in found:
            raise InputError(Problem(f"`{switch}` is there twice", name, number))
        found[switch] = Line(pairs.get("nodes", ""), pairs.get("switches", ""), number)
    return kind, found


def of_yaml(text: str, name: str) -> tuple[str, dict[str, Line]]:
    """(kind, entries by name) of the default topology of a topology.yaml."""
    try:
        data = yaml.load(text, _Loader)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else None
        raise InputError(Problem(f"is no YAML: {getattr(error, 'problem', 'too deep')}", name, line)) from None
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    entry = next((one for one in entries if one.get("cluster_default")), entries[0] if entries else None)
    if entry is None:
        raise InputError(Problem("lists no topologies", name, hint="- {topology: t, tree: {switches: [...]}}"))
    for kind, word, one in _KINDS:
        if isinstance(entry.get(kind), dict):
            rows = entry[kind].get(word)
            if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and one in row for row in rows):
                message = f"`{kind}` has no list of `{word}`, each with its `{one}`"
                raise InputError(Problem(message, name, entry[kind][_LINE]))
            return kind, _entries(rows, one, name)
    if entry.get("flat"):
        message = "topology `flat` says nothing of the network"
        raise InputError(Problem(message, name, entry[_LINE], hint="take the `--cluster` itself"))
    kinds = ", ".join(f"`{kind}`" for kind, _, _ in _KINDS)
    hint = "write the cluster by hand: docs, bring your own cluster"
    raise InputError(Problem(f"only topologies {kinds} are read", name, entry[_LINE], hint=hint))


def _entries(rows: list[dict[Any, Any]], one: str, name: str) -> dict[str, Line]:
    found: dict[str, Line] = {}
    for row in rows:
        if str(row[one]) in found:
            raise InputError(Problem(f"`{row[one]}` is there twice", name, row[_LINE]))
        found[str(row[one])] = Line(str(row.get("nodes", "")), str(row.get("children", "")), row[_LINE], row)
    return found
