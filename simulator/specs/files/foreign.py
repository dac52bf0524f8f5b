"""Files of other programs that stand where a spec is expected, such as the `config.json` of a Hugging Face model.

What translates them lives on a higher floor and registers itself under the data room of the spec that it makes; here
a translation gets the places of the values that it was made from, so that origins and problems name the foreign file.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from simulator.errors import InputError, Problem
from simulator.registry import Registry
from simulator.specs.text.yaml_text import Node, Place, plain

Inside = Mapping[str, str | int | bool | list[int]]
FieldValue = str | int | float | bool | Inside | list[int] | list[dict[str, str | int | bool]]
"""Value of a field: a word, a number, a mapping of such, or a list of numbers or of mappings."""


class Translation(NamedTuple):
    """Fields of a spec and what they were made from."""

    fields: dict[str, FieldValue]
    """Values by field."""
    keys: dict[str, str]
    """Dotted key of the foreign file that each field comes from; the whole file where one is missing."""


Translator = Callable[[Mapping[str, Any]], Translation]
"""Raises InputError whose problems have dotted keys of the foreign file as paths."""

TRANSLATORS: Registry[Translator] = Registry("reader of foreign files")
"""By the data room of the spec that they make; `import simulator.run` brings ours."""

NAMES = {"workloads/models": "config.json"}
"""Rooms whose specs may come from a foreign JSON file, and what that file is called in its folder."""


def find(reference: str, rooms: tuple[str, ...], beside: Path | None) -> Path | None:
    """The foreign file that a reference means: a path that ends in `.json`, or a folder that holds such a file.

    Paths start from the folder `beside` (that of the referring file), else from the working folder.
    """
    room = _room(rooms)
    return None if room is None else next(_candidates(reference, NAMES[room], beside), None)


def empty_folder(reference: str, rooms: tuple[str, ...], beside: Path | None) -> str:
    """The file that a folder would need to stand for a spec of these rooms; empty where the reference is no folder."""
    room = _room(rooms)
    bases = (Path.cwd(),) if beside is None else (beside, Path.cwd())
    return NAMES[room] if room is not None and any(_is_folder(base / reference) for base in bases) else ""


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # no file can have such a name
        return False


def is_foreign(path: Path, rooms: tuple[str, ...]) -> bool:
    """Whether a file that stands for a spec of these rooms is to be translated."""
    return path.suffix == ".json" and _room(rooms) is not None


def translated(root: Node, rooms: tuple[str, ...]) -> Node:
    """The spec that a foreign file holds, each value at the place that it comes from; InputError as the translator."""
    room = _room(rooms)
    if room is None or not isinstance(root.value, dict):
        return root
    if room not in TRANSLATORS.names():
        message = f"nothing that reads a {NAMES[room]} is loaded"
        raise InputError(root.place.problem(message, hint="import simulator.run before loading it"))
    try:
        fields, keys = TRANSLATORS.get(room)(plain(root))
    except InputError as error:
        raise InputError(*(_placed(root, problem) for problem in error.problems)) from None
    nodes = {name: _nodes(value, _node(root, keys.get(name, "")).place) for name, value in fields.items()}
    return replace(root, value=nodes, keys={name: node.place for name, node in nodes.items()})


def _nodes(value: FieldValue, place: Place) -> Node:
    """A value, and all that it holds, at one place."""
    if isinstance(value, list):
        return Node([_nodes(each, place) for each in value], place)
    if isinstance(value, Mapping):
        inner = {name: _nodes(each, place) for name, each in value.items()}
        return Node(inner, place, keys=dict.fromkeys(inner, place))
    return Node(value, place)


def _room(rooms: tuple[str, ...]) -> str | None:
    return next((room for room in rooms if room in NAMES), None)


def _candidates(reference: str, name: str, beside: Path | None) -> Iterator[Path]:
    bases = (Path.cwd(),) if beside is None else (beside, Path.cwd())
    for path in (base / reference for base in bases):
        try:
            if reference.endswith(".json") and path.is_file():
                yield path
            elif path.is_dir() and (path / name).is_file():
                yield path / name
        except (OSError, ValueError):  # no file can have such a name
            continue


def _placed(root: Node, problem: Problem) -> Problem:
    return _node(root, problem.path).place.problem(problem.message, problem.path, problem.hint)


def _node(root: Node, key: str) -> Node:
    """The node that a dotted key leads to, or the last one on the way that exists."""
    node = root
    for part in key.split(".") if key else ():
        child = node.child(part)
        if child is None:
            break
        node = child
    return node
