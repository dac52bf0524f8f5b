"""NCCL's topology XML (`NCCL_TOPO_DUMP_FILE`): the inside of a node and its network cards.

Documents with a DTD or with entities are refused, so that no file can make the reader grow or open others. NVLinks have
the rate that NCCL counts one with, by compute capability (src/graph/topo.h); without them devices meet over PCIe.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from simulator.errors import InputError, Problem
from simulator.interop.networks import Read, figure
from simulator.specs.hardware import Cluster

NVLINK_GB_S = {60: 18.0, 70: 20.0, 80: 20.0, 86: 12.0, 90: 20.6, 100: 40.1}
"""GB/s of one NVLink and direction by the least compute capability that has it."""
_SWITCH = "0x068000"
_MOST_DEEP, _MOST_TAGS = 40, 20_000


@dataclass(slots=True)
class Tag:
    """An element with those that it holds."""

    name: str
    line: int
    attributes: dict[str, str]
    within: "Tag | None"
    children: list["Tag"] = field(default_factory=list)

    def all(self, name: str) -> "list[Tag]":
        """Elements of a name in it, however deep."""
        found = [self] if self.name == name else []
        for child in self.children:
            found += child.all(name)
        return found

    def number(self, key: str, file: str, least: float = 0.0) -> float:
        """An attribute as a number; InputError for others."""
        text = self.attributes.get(key, "")
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not least <= value <= 1e12:
            raise InputError(Problem(f"`{key}` of <{self.name}> is `{text[:40]}`, no number", file, self.line))
        return value


def parse(text: str, file: str) -> Tag:
    """The root of a document; InputError, with its place, for one that is malformed or has a DTD or entities."""
    root = Tag("", 0, {}, None)
    open_, count = [root], [0]
    parser = expat.ParserCreate()

    def refuse(*_: Any) -> None:
        message = "declares a document type or entities, which are not read"
        raise InputError(Problem(message, file, parser.CurrentLineNumber, hint="delete the <!DOCTYPE ...>"))

    def start(name: str, attributes: dict[str, str]) -> None:
        count[0] += 1
        if len(open_) > _MOST_DEEP or count[0] > _MOST_TAGS:
            raise InputError(Problem("has too many elements, or too deep ones", file, parser.CurrentLineNumber))
        tag = Tag(name, parser.CurrentLineNumber, attributes, open_[-1])
        open_[-1].children.append(tag)
        open_.append(tag)

    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: open_.pop()
    try:
        parser.Parse(text, True)
    except expat.ExpatError as error:
        words = expat.ErrorString(error.code)
        raise InputError(Problem(f"is malformed XML: {words}", file, error.lineno, error.offset + 1)) from None
    return root


def read(text: str, name: str, cluster: Cluster) -> Read:
    """The node, on the network of the cluster."""
    root = parse(text, name)
    gpus, nets = root.all("gpu"), root.all("net")
    if not root.all("system") or not gpus:
        raise InputError(Problem("is no topology of NCCL: no <system> with <gpu>", name, hint="NCCL_TOPO_DUMP_FILE"))
    assumed = ["the accelerator, the network between nodes and the library are those of the cluster that was named"]
    scale_up = _scale_up(gpus, name, assumed)
    node: dict[str, Any] = {"name": f"Node of {name}", "devices": len(gpus), "scale_up": scale_up}
    ports = [net for net in nets if net.number("speed", name, 1.0)]
    if ports:
        speeds = Counter(net.number("speed", name, 1.0) for net in ports)
        speed, count = max(speeds.items(), key=lambda item: item[0] * item[1])
        if len(speeds) > 1:
            assumed.append(f"cards of other speeds than {speed:g} Mbit/s are left out")
        node["nics"] = {
            "count": count,
            "bandwidth": figure(f"{speed / 8000:g} GB/s", f"{name}, speed {speed:g} Mbit/s"),
        }
    return Read({"node": node}, assumed)


def _scale_up(gpus: list[Tag], name: str, assumed: list[str]) -> dict[str, Any]:
    if len(gpus) == 1:
        return {"kind": "none"}
    each = NVLINK_GB_S[max(least for least in NVLINK_GB_S if least <= max(60, gpus[0].number("sm", name)))]
    where = {_bus(gpu): place for place, gpu in enumerate(gpus)}
    switched, pairs = [0.0] * len(gpus), defaultdict[tuple[int, int], float](float)
    for place, gpu in enumerate(gpus):
        for link in gpu.all("nvlink"):
            count, target = link.number("count", name, 1.0), link.attributes.get("target", "").lower()
            if link.attributes.get("tclass", "").lower().startswith(_SWITCH):
                switched[place] += count
            elif target in where:
                pairs[min(place, where[target]), max(place, where[target])] = count
    if min(switched):
        source = f"{name}, {min(switched):g} NVLinks to switches at NCCL's {each:g} GB/s"
        return {"kind": "switch", "bandwidth": figure(f"{min(switched) * each:.12g} GB/s", source)}
    if pairs:
        links = [{"between": list(pair), "count": int(count)} for pair, count in sorted(pairs.items())]
        source = f"{name}, NVLinks at NCCL's {each:g} GB/s"
        return {"kind": "links", "bandwidth": figure(f"{each} GB/s", source), "links": links}
    assumed.append("devices without NVLink meet over PCIe switches, and these over one host")
    return _pcie(gpus, name)


def _pcie(gpus: list[Tag], name: str) -> dict[str, Any]:
    parent = gpus[0].within
    assert parent is not None  # the root at least
    speed, width = parent.attributes.get("link_speed", ""), parent.attributes.get("link_width", "")
    lanes = float(width) if width.isdecimal() else 16.0
    # NCCL's x16 is 12, 24 and 48 GB/s for 8, 16 and 32 GT/s.
    words = speed.split()
    rate = 1.5 * float(words[0]) if words and words[0].replace(".", "", 1).isdecimal() else 24.0
    homes = Counter(id(gpu.within.within) if gpu.within else 0 for gpu in gpus)
    size = min(homes.values()) if len(set(homes.values())) == 1 else 1
    source = f"{name}, PCIe {speed or 'of unknown speed'} x{lanes:g}"
    return {"kind": "pcie", "switch_devices": size, "bandwidth": figure(f"{rate * lanes / 16:.12g} GB/s", source)}


def _bus(gpu: Tag) -> str:
    return gpu.within.attributes.get("busid", "").lower() if gpu.within else ""
