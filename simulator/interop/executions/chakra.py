"""Chakra's execution traces (mlcommons/chakra, schema/protobuf/et_def.proto), binary and as JSON, in and out.

A file has a rank's graph: metadata, then nodes, each message behind its length. Attributes have the names that
ASTRA-sim reads: `is_cpu_op`, `num_ops`, `tensor_size`, `comm_type`, `comm_size`, `comm_src`, `comm_dst`, `comm_tag`,
`pg_name`. In JSON, `nodes` is a list of the same messages in protobuf's JSON form.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from simulator.errors import InputError, Problem
from simulator.interop.executions import wire
from simulator.interop.executions.graph import MOST_NODES, Execution, Operation, ordered, read_bounded

VERSION = "0.0.4"
"""Of the schema, in what is written; 0.x and 1.x are read."""
_READ = re.compile(r"^(\d+)\.\d")
_METADATA, _COMPUTE, _SEND, _RECEIVE, _COLLECTIVE = 1, 4, 5, 6, 7
_TYPES = (
    "INVALID",
    "METADATA",
    "MEM_LOAD",
    "MEM_STORE",
    "COMP",
    "COMM_SEND",
    "COMM_RECV",
    "COMM_COLL",
    "STORAGE",
    "BATCH",
    "CHECKPOINT",
)
_COLLECTIVES = {
    0: "all_reduce",
    1: "reduce",
    2: "all_gather",
    3: "gather",
    4: "scatter",
    5: "broadcast",
    6: "all_to_all",
    7: "reduce_scatter",
    8: "reduce_scatter",
    9: "barrier",
}
_NUMBER_OF = {"all_reduce": 0, "all_gather": 2, "broadcast": 5, "all_to_all": 6, "reduce_scatter": 7}
_VALUES = {3: "d", 5: "d", 7: "i", 9: "i", 11: "u", 13: "u", 27: "u", 29: "s"}
"""Fields of an attribute that are read, and what they hold."""
_RANK = re.compile(r"\.(\d+)\.(?:et|eg|json)$")


def read(path: str | Path, rank: int | None = None) -> Execution:
    """The execution of a rank; the rank is that of the name (`prefix.3.et`) where it is left out.

    Raises InputError for a file that is too large, is no trace or of another version, and for graphs that do not hold.
    """
    path = Path(path)
    data = read_bounded(path)
    named = _RANK.search(path.name)
    number = rank if rank is not None else int(named[1]) if named else 0
    try:
        version, nodes = _of_json(data) if data.lstrip()[:1] == b"{" else _of_wire(data)
    except (wire.Malformed, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        message = f"is no execution trace of Chakra: {str(error)[:120] or type(error).__name__}"
        raise InputError(Problem(message, file=str(path))) from error
    _check_version(version, path)
    operations = [_operation(node) for node in nodes if node["type"] != _METADATA]
    if not operations:
        raise InputError(Problem("has no operations", file=str(path)))
    left = {node["id"] for node in nodes if node["type"] == _METADATA}
    for one in operations:
        one.after = tuple(before for before in one.after if before not in left)
    untimed = sum(
        not one.duration_s and not one.collective and not one.flops and not one.moved_bytes for one in operations
    )
    notes = (f"{untimed:,} operations have neither a time nor work: they take none",) if untimed else ()
    return Execution(path.name, number, ordered(operations, str(path), lambda one: one.id), notes=notes)


def _check_version(version: str, path: Path) -> None:
    found = _READ.search(version)
    if version and (found is None or int(found[1]) > 1):
        message = f"is of version `{version[:30]}` of Chakra's schema"
        raise InputError(Problem(message, file=str(path), hint="versions 0.x and 1.x are read"))


def _of_wire(data: bytes) -> tuple[str, list[dict[str, Any]]]:
    version, nodes = "", list[dict[str, Any]]()
    for number, message in enumerate(wire.messages(data)):
        if number == 0:
            version = next((v.decode() for f, k, v in wire.fields(message) if f == 1 and isinstance(v, bytes)), "")
            continue
        if len(nodes) == MOST_NODES:
            raise wire.Malformed(f"it has more than {MOST_NODES:,} nodes")
        nodes.append(_node(message))
    return version, nodes


def _node(message: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {"id": 0, "name": "", "type": 0, "after": [], "duration": 0, "attr": {}}
    for field, _, value in wire.fields(message):
        if field == 2 and isinstance(value, bytes):
            found["name"] = value.decode(errors="replace")
        elif field in (4, 5):
            found["after"] += wire.packed(value)
        elif field == 10 and isinstance(value, bytes):
            name, held = _attribute(value)
            found["attr"][name] = held
        elif isinstance(value, int) and field in (1, 3, 7):
            found[{1: "id", 3: "type", 7: "duration"}[field]] = value
    return found


def _attribute(message: bytes) -> tuple[str, Any]:
    name: str = ""
    held: Any = None
    for field, _, value in wire.fields(message):
        if field == 1 and isinstance(value, bytes):
            name = value.decode(errors="replace")
        elif (kind := _VALUES.get(field)) is not None:
            if isinstance(value, int):
                held = wire.signed(value) if kind == "i" else value
            else:
                held = value.decode(errors="replace") if kind == "s" else wire.double(value)
    return name, held


def _of_json(data: bytes) -> tuple[str, list[dict[str, Any]]]:
    said = json.loads(data)
    metadata = said.get("metadata", {})
    nodes = said["nodes"]
    if not isinstance(nodes, list) or len(nodes) > MOST_NODES:
        raise wire.Malformed(f"`nodes` is no list of at most {MOST_NODES:,}")
    return str(metadata.get("version", "")), [_json_node(node) for node in nodes]


def _json_node(node: Mapping[str, Any]) -> dict[str, Any]:
    kind = node.get("type", 0)
    if isinstance(kind, str):
        kind = _TYPES.index(kind.removesuffix("_NODE"))
    after = [*_either(node, "ctrl_deps", []), *_either(node, "data_deps", [])]
    attributes = {
        one["name"]: next((v for k, v in one.items() if k.lower().endswith("val")), None)
        for one in node.get("attr", [])
    }
    return {
        "id": int(node["id"]),
        "name": str(node.get("name", "")),
        "type": int(kind),
        "after": [int(one) for one in after],
        "duration": int(_either(node, "duration_micros", 0)),
        "attr": attributes,
    }


def _either(node: Mapping[str, Any], name: str, otherwise: Any) -> Any:
    """A field under its own name or under that of protobuf's JSON form."""
    first, *rest = name.split("_")
    return node.get(name, node.get(first + "".join(word.capitalize() for word in rest), otherwise))


def _operation(node: Mapping[str, Any]) -> Operation:
    held, kind = node["attr"], node["type"]
    one = Operation(node["id"], node["name"], after=tuple(node["after"]))
    one.duration_s = 1e-6 * (node["duration"] or _number(held, "runtime"))
    one.flops, one.moved_bytes = _number(held, "num_ops"), _number(held, "tensor_size")
    if kind in (_SEND, _RECEIVE, _COLLECTIVE):
        one.lane, one.size_bytes, one.group = (
            "communication",
            _number(held, "comm_size"),
            str(held.get("pg_name") or ""),
        )
        one.tag = int(_number(held, "comm_tag"))
    if kind == _COLLECTIVE:
        one.collective = _COLLECTIVES.get(int(_number(held, "comm_type")), "all_reduce")
    elif kind == _SEND:
        one.collective, one.peer, one.lane = "send", int(_number(held, "comm_dst")), "send"
    elif kind == _RECEIVE:
        one.collective, one.peer, one.lane = "receive", int(_number(held, "comm_src")), "receive"
    elif held.get("is_cpu_op"):
        one.lane = "host"
    return one


def _number(held: Mapping[str, Any], name: str) -> float:
    value = float(held.get(name) or 0)
    if not 0 <= value < 1e30:
        raise InputError(Problem(f"`{name}` of a node is {value:g}", hint="it is at least 0"))
    return value


# ---- out ----------------------------------------------------------------------------------------------------------


def encoded(execution: Execution) -> bytes:
    """A rank's execution as a binary trace."""
    return b"".join(map(wire.delimited, (wire.text(1, VERSION), *_written(execution))))


def _written(execution: Execution) -> Iterator[bytes]:
    for one in execution.operations:
        kind = {"send": _SEND, "receive": _RECEIVE, "": _COMPUTE}.get(one.collective, _COLLECTIVE)
        message = wire.integer(1, one.id) + wire.text(2, one.name) + wire.integer(3, kind)
        message += wire.integers(5, one.after) + wire.integer(7, round(1e6 * one.duration_s))
        yield message + b"".join(wire.text(10, attribute) for attribute in _attributes(one, execution.rank, kind))


def _attributes(one: Operation, rank: int, kind: int) -> Iterator[bytes]:
    def integer(name: str, value: float, field: int = 9) -> bytes:
        return wire.text(1, name) + wire.integer(field, round(value))

    yield integer("is_cpu_op", one.lane == "host", 27)
    if kind == _COMPUTE:
        yield integer("num_ops", one.flops)
        yield integer("tensor_size", one.moved_bytes, 13)
        return
    yield integer("comm_size", one.size_bytes)
    if kind == _COLLECTIVE:
        yield integer("comm_type", _NUMBER_OF.get(one.collective, 0))
        yield wire.text(1, "pg_name") + wire.text(29, one.group)
        return
    ends = (rank, one.peer) if kind == _SEND else (one.peer, rank)
    yield integer("comm_src", ends[0], 7)
    yield integer("comm_dst", ends[1], 7)
    yield integer("comm_tag", one.tag, 7)
