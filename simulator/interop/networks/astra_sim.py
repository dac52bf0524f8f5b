"""ASTRA-sim's analytical network YAML: a list of dimensions, the first of which is the node.

`bandwidth` is in GB/s a link, `latency` in ns a hop (a switch takes two). Of three and more dimensions those after the
first are levels of a tree where all are switches, whose passages make up what their hops take beyond those below; else
a graph (`astra_grid`). Grammar: astra-sim/astra-network-analytical.
"""

from math import prod
from typing import Any

from simulator.errors import InputError, Problem
from simulator.interop.networks import Read, astra_grid, figure
from simulator.specs.hardware import Cluster
from simulator.specs.text import yaml_text

_INSIDE = {"ring": "ring", "fullyconnected": "mesh", "switch": "switch"}
_KEYS = ("topology", "npus_count", "bandwidth", "latency")


def read(text: str, name: str, cluster: Cluster) -> Read:
    """The dimensions as a node and its network."""
    data = yaml_text.plain(yaml_text.compose(text, name))
    columns = [data.get(key) if isinstance(data, dict) else None for key in _KEYS]
    for key, column in zip(_KEYS, columns, strict=True):
        if not isinstance(column, list) or not 1 <= len(column) <= 8 or len(column) != len(columns[0] or ()):
            raise InputError(Problem("is no list with an entry for each dimension", name, path=key))
    dimensions = [_dimension(place, name, *row) for place, row in enumerate(zip(*columns, strict=True))]
    dimensions = [*dimensions[:1], *(dimension for dimension in dimensions[1:] if dimension[1] > 1)]
    kind, devices, rate, delay = dimensions[0]
    each = {"ring": 2 if devices > 2 else 1, "fullyconnected": devices - 1}.get(kind, 1)
    hops = 2 if kind == "switch" else 1
    scale_up: dict[str, Any] = {"kind": _INSIDE[kind] if devices > 1 else "none"}
    if devices > 1:
        scale_up |= {"bandwidth": _rate(each * rate, name), "latency": _ns(hops * delay, name)}
    node: dict[str, Any] = {"name": f"{devices} NPUs of {name}", "devices": devices, "scale_up": scale_up}
    keys: dict[str, Any] = {"node": node, "nodes": 1}
    assumed = ["the accelerator and the collective library are those of the cluster that was named"]
    if len(dimensions) > 1:
        keys["nodes"] = prod(size for _, size, _, _ in dimensions[1:])
        if len(dimensions) > 2 and any(kind != "switch" for kind, *_ in dimensions[1:]):
            sent, none = _rate(astra_grid.sent(dimensions), name), _ns(0.0, name)  # cables have the latency
            node["nics"] = {"count": devices, "bandwidth": sent, "latency": none}
            keys["network"] = astra_grid.network(dimensions, name)
            return Read(keys, [*assumed, astra_grid.ASSUMED])
        card = {"count": devices, "bandwidth": _rate(dimensions[1][2], name)}
        node["nics"] = card | {"latency": _ns(_card_ns(*dimensions[1]), name)}
        keys["network"] = _network(dimensions[1:], name, devices)
        assumed += _quicker_above(dimensions[1:])
    return Read(keys, assumed)


def _card_ns(kind: str, size: int, _: float, delay: float) -> float:
    """What cards add to a way: two hops through a switch, one on a direct cable; of a ring its cables have it."""
    return 0.0 if _is_ring(kind, size) else delay * (2 if kind == "switch" else 1)


def _is_ring(kind: str, size: int) -> bool:
    """Whether a way may take several hops; a ring of two is a cable."""
    return kind == "ring" and size > 2


def _passages(dimensions: list[tuple[str, int, float, float]]) -> list[float]:
    """Nanoseconds of a passage through the switches of each level, negative where hops are quicker than the way there:
    a way that turns in one passes it once and those below twice, but for the lowest, whose hops are the cards'."""
    found = [0.0]
    for *_, delay in dimensions[1:]:
        found.append(2 * (delay - dimensions[0][3]) - 2 * sum(max(0.0, passage) for passage in found))
    return found


def _quicker_above(dimensions: list[tuple[str, int, float, float]]) -> list[str]:
    """What is said of levels whose hops would take less than the way up to them does."""
    places = [place for place, passage in enumerate(_passages(dimensions), 1) if passage < 0]
    return [f"hops of dimension-{place} are no quicker than the way through those below" for place in places]


def _dimension(place: int, name: str, kind: Any, size: Any, rate: Any, delay: Any) -> tuple[str, int, float, float]:
    word = str(kind).lower().replace("_", "")
    if word not in _INSIDE:
        raise InputError(Problem(f"`{kind}` is not Ring, FullyConnected or Switch", name, path=f"topology[{place}]"))
    if not isinstance(size, int) or isinstance(size, bool) or not 1 <= size <= 1_000_000:
        raise InputError(Problem(f"`{size}` is no number of NPUs", name, path=f"npus_count[{place}]"))
    for value, key, least in ((rate, "bandwidth", 1e-9), (delay, "latency", 0.0)):
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not least <= value <= 1e9:
            raise InputError(Problem(f"`{value}` is out of range", name, path=f"{key}[{place}]"))
    return word, size, float(rate), float(delay)


def _network(dimensions: list[tuple[str, int, float, float]], name: str, cards: int) -> dict[str, Any]:
    kind, size, rate, delay = dimensions[0]
    if len(dimensions) == 1 and kind == "fullyconnected":
        # A link of each card to its like in each other node: as many cables between their switches as there are cards.
        return {"kind": "full-mesh", "shape": [size], "bandwidth": _rate(rate * cards, name)}
    if len(dimensions) == 1 and _is_ring(kind, size):
        cable = {"bandwidth": f"{rate * cards} GB/s", "latency": f"{delay:.12g} ns"}
        ends = [{"between": [f"s{i}", f"s{(i + 1) % size}"]} | cable for i in range(size)]
        return {"kind": "graph", "hosts": [{"switches": [f"s{i}"]} for i in range(size)], "cables": ends}
    levels, below, passages = [], 1, _passages(dimensions)
    for place, (_, count, up, _) in enumerate(dimensions, 1):
        below *= count
        above = dimensions[place][2] if place < len(dimensions) else up
        level = {"name": f"dimension-{place}", "nodes": below, "oversubscription": max(1.0, up / above)}
        levels.append(level | {"latency": _ns(max(0.0, passages[place - 1]), name)})
    return {"kind": "tree", "levels": levels}


def _rate(rate: float, name: str) -> dict[str, str]:
    return figure(f"{rate:.12g} GB/s", name)


def _ns(delay: float, name: str) -> dict[str, str]:
    return figure(f"{delay:.12g} ns", name)
