"""What the files of Slurm's topology plug-ins list: switches, blocks, rings and tori, each with its line."""

import re
from dataclasses import dataclass, field
from typing import Any

from simulator.errors import InputError, Problem
from simulator.specs.text import yaml_text

MOST_NAMES = 200_000
"""Of hosts in a file."""
_MOST_DIGITS = 18
"""Of a number in a name."""
_NO = (None, False, "", 0, "no", "off", "n")
"""Values of a key that is not set."""
_PART = re.compile(r"([^\[\],]+)(?:\[([\d,\-]+)\])?([^\[\],]*)")
_LINE = ("line",)
"""Key of the line of a mapping: no key of YAML, which are text."""
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
        if len(found) > MOST_NAMES:
            raise too_many(name, line)
        rest = rest[match.end() + 1 :]
    return found


def _numbers(ranges: str, text: str, name: str, line: int | None) -> list[str]:
    found: list[str] = []
    for part in ranges.split(","):
        low, _, high = part.partition("-")
        high = high or low
        is_range = low.isdecimal() and high.isdecimal() and len(low) <= _MOST_DIGITS and len(high) <= _MOST_DIGITS
        if not is_range or int(high) < int(low):
            raise InputError(Problem(f"`{text[:60]}` is no list of hosts", name, line, hint="write n[0-15]"))
        if int(high) - int(low) >= MOST_NAMES - len(found):
            raise too_many(name, line)
        found += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
    return found


def too_many(name: str, line: int | None) -> InputError:
    """For a list that goes on too long."""
    return InputError(Problem(f"more than {MOST_NAMES:,} names", name, line, hint="name each host once"))


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
    data = _lined(yaml_text.compose(text, name))
    entries = [entry for entry in data if isinstance(entry, dict)] if isinstance(data, list) else []
    entry = next((one for one in entries if _is_set(one.get("cluster_default"))), entries[0] if entries else None)
    if entry is None:
        raise InputError(Problem("lists no topologies", name, hint="- {topology: t, tree: {switches: [...]}}"))
    for kind, word, one in _KINDS:
        if isinstance(entry.get(kind), dict):
            rows = entry[kind].get(word)
            if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and one in row for row in rows):
                message = f"`{kind}` has no list of `{word}`, each with its `{one}`"
                raise InputError(Problem(message, name, entry[kind][_LINE]))
            return kind, _entries(rows, one, name)
    if _is_set(entry.get("flat")):
        message = "topology `flat` says nothing of the network"
        raise InputError(Problem(message, name, entry[_LINE], hint="take the `--cluster` itself"))
    kinds = ", ".join(f"`{kind}`" for kind, _, _ in _KINDS)
    hint = "write the cluster by hand: docs, bring your own cluster"
    raise InputError(Problem(f"only topologies {kinds} are read", name, entry[_LINE], hint=hint))


def _entries(rows: list[dict[Any, Any]], one: str, name: str) -> dict[str, Line]:
    found: dict[str, Line] = {}
    for row in rows:
        title = row[one]
        if isinstance(title, bool) or not isinstance(title, (str, int)) or title == "":
            raise InputError(Problem(f"`{one}` is no name", name, row[_LINE], hint="write text"))
        if str(title) in found:
            raise InputError(Problem(f"`{title}` is there twice", name, row[_LINE]))
        found[str(title)] = Line(_listed(row, "nodes", name), _listed(row, "children", name), row[_LINE], row)
    return found


def _listed(row: dict[Any, Any], key: str, name: str) -> str:
    """The host list under a key; empty where there is none."""
    said = row.get(key)
    if said is not None and not isinstance(said, str):
        raise InputError(Problem(f"`{key}` is no text", name, row[_LINE], hint='write a host list, such as "n[0-15]"'))
    return said or ""


def _is_set(value: Any) -> bool:
    """Whether a switch of the file is on; `no` and `off` are text to YAML 1.2."""
    return (value.lower() if isinstance(value, str) else value) not in _NO


def _lined(node: yaml_text.Node) -> Any:
    """The value of a node, whose mappings have their lines."""
    if isinstance(node.value, dict):
        return {**{key: _lined(child) for key, child in node.value.items()}, _LINE: node.place.line}
    return [_lined(child) for child in node.value] if isinstance(node.value, list) else node.value
