"""Changes given on the command line.

`key.path=value` sets a value that the schema knows, `+key.path=value` adds one that is not there yet (a key that the
file chooses, the next item of a list), `~key.path` removes one. List items go by their index. Values are YAML, as in
a file: `training.parallel={tp: 8, pp: 2}`, `cluster=clusters/selene`.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, NamedTuple

from simulator.errors import InputError, Problem
from simulator.specs.base import Figure
from simulator.specs.files.shape import Kind, below, canonical, fields, fixed_keys, is_list, specs, suggestion
from simulator.specs.text.yaml_text import Node, Place, compose

_LONGEST = 200

Expand = Callable[[Node, Kind, str], Node]
"""Follows the references inside a new value: (value, its type, its path) to value."""


class Override(NamedTuple):
    """One change."""

    place: Place
    """Holds the text of the override, for messages."""
    action: Literal["set", "add", "remove"]
    """What to do."""
    keys: tuple[str, ...]
    """Path from the root of the file."""
    value: Node
    """The new value; null where one is removed."""


def parse(text: str) -> Override:
    """Read an override; InputError where its form is wrong."""
    place = Place(f"override `{text if len(text) <= _LONGEST else text[:_LONGEST] + '...'}`")
    path, equals, value = text.partition("=")
    action: Literal["set", "add", "remove"] = "set"
    if path.startswith(("+", "~")):
        action = "add" if path[0] == "+" else "remove"
        path = path[1:]
    if bool(equals) == (action == "remove"):
        wanted = "`~key.path`" if action == "remove" else "`key.path=value`, `+key.path=value` or `~key.path`"
        raise InputError(place.problem("is no override", hint=f"write {wanted}"))
    keys = tuple(key.strip() for key in path.split("."))
    if not all(keys):
        raise InputError(place.problem("a key of the path is empty", hint="write `training.parallel.tp=8`"))
    return Override(place, action, keys, compose(value, place.file, place=place))


def apply(root: Node, override: Override, kind: Kind, expand: Expand) -> Node:
    """The tree with one change; `kind` is the type of the root. InputError where the path leads nowhere."""
    return _change(root, override, kind, 0, expand)


def _change(node: Node, override: Override, kind: Kind, depth: int, expand: Expand) -> Node:
    """Rebuild the nodes along the path from `depth` on."""
    key = canonical(kind, override.keys[depth])
    inner = below(kind, key)
    last = depth + 1 == len(override.keys)
    present = key in node.children()
    problem = _obstacle(node, override, kind, depth, present)
    if problem is not None:
        raise InputError(problem)
    if not last:
        child = node.child(key)
        if child is None or not isinstance(child.value, (dict, list)):
            child = Node([] if is_list(inner) else {}, override.place)
        return _replace(node, key, _change(child, override, inner, depth + 1, expand), override.place)
    if override.action == "remove":
        return _replace(node, key, None, override.place)
    value = expand(_as_figure(override.value, inner), inner, ".".join(override.keys))
    return _replace(node, key, value, override.place)


def _obstacle(node: Node, override: Override, kind: Kind, depth: int, present: bool) -> Problem | None:
    """What keeps the override from going on with its key number `depth`."""
    key, last = override.keys[depth], depth + 1 == len(override.keys)
    path = ".".join(override.keys[: depth + 1])
    problem = override.place.problem
    if below(kind, canonical(kind, key)) is None:
        known = fields(kind) or node.children()
        return problem(f"unknown key `{key}`", path, suggestion(kind, key)) if known else problem("holds no keys", path)
    if override.action == "remove" and not present:
        return problem("there is nothing to remove", path)
    if override.action == "add" and last and present:
        return problem("is there already", path, "leave out the `+` to change it")
    if override.action == "add" and isinstance(node.value, list) and not present and int(key) != len(node.value):
        return problem("is not the next item", path, f"the list has {len(node.value)}: add number {len(node.value)}")
    if override.action == "set" and not fixed_keys(kind) and not present:
        return problem(f"unknown key `{key}`", path, "write `+` before the path to add it")
    return None


def _replace(node: Node, key: str, child: Node | None, place: Place) -> Node:
    """The mapping or list with one entry changed, added or (None) removed."""
    children = {name: old for name, old in node.children().items() if name != key or child is not None}
    if child is not None:
        children[key] = child
    if isinstance(node.value, list):
        return replace(node, value=list(children.values()))
    return replace(node, value=children, keys=node.keys | {key: place})


def _as_figure(value: Node, kind: Kind) -> Node:
    """A bare value where a figure with its source stands: the override is the source."""
    if (
        isinstance(value.value, (dict, list))
        or value.value is None
        or not any(issubclass(k, Figure) for k in specs(kind))
    ):
        return value
    parts = {"value": value, "status": Node("estimate", value.place), "source": Node(value.place.file, value.place)}
    return Node(dict(parts), value.place, dict.fromkeys(parts, value.place))
