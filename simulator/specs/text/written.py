"""A spec as a person would have written it: quantities with their units, in a tree that overrides can change.

The way back from a validated scenario to `Template`, for scenarios that were made in Python and have no file.
"""

from functools import cache, partial
from typing import TYPE_CHECKING, Any, get_args

from pydantic import BeforeValidator

from simulator import units
from simulator.errors import InputError, Problem
from simulator.specs.base import Figure, Spec
from simulator.specs.files.shape import Kind, below, canonical, specs
from simulator.specs.resolve import Template
from simulator.specs.text.yaml_text import Node, Place

if TYPE_CHECKING:
    from simulator.specs.scenario import AnyRun

_PLACE = Place("scenario")
_BASE = {
    "time": "s",
    "bytes": "B",
    "bandwidth": "B/s",
    "flop_rate": "FLOP/s",
    "flops": "FLOP",
    "power": "W",
    "energy": "J",
    "frequency": "Hz",
    "money": "USD",
    "money_rate": "USD/s",
    "rate": "/s",
    "count": "",
    "fraction": "",
}
"""The SI base unit of each of `units.DIMENSIONS`."""


def template_of(scenario: "AnyRun") -> Template:
    """The template of a scenario or of a workflow that was made in Python; InputError where it cannot be written
    down."""
    template = Template(_node(scenario, type(scenario)))
    if template.filled()[0] != scenario:
        raise InputError(Problem("the scenario cannot be written down and read again", hint="name its file instead"))
    return template


@cache
def dimension(kind: Kind) -> str | None:
    """Which of `units.DIMENSIONS` a value of this type is, also of a figure with its source; None for other types."""
    for item in getattr(kind, "__metadata__", ()):
        found = item.func if isinstance(item, BeforeValidator) else None
        if isinstance(found, partial) and found.func is units.parse:
            return str(found.keywords["dimension"])
    inner = [below(spec, "value") for spec in specs(kind) if issubclass(spec, Figure)]
    parts = (*inner, *get_args(kind)) if not isinstance(kind, type) else inner
    return next((named for part in parts if (named := dimension(part)) is not None), None)


def dimension_at(kind: Kind, path: str) -> str | None:
    """Which of `units.DIMENSIONS` the value at a dotted path is; None where it is none, or where nothing is known."""
    found: Kind | None = kind
    for part in path.split("."):
        found = below(found, canonical(found, part)) if found is not None else None
    return dimension(found) if found is not None else None


def _node(value: Any, kind: Kind) -> Node:
    """A value of a type as a node; a spec brings its own type, for a field may take several."""
    if isinstance(value, Spec):
        own = type(value)
        return _mapping({name: _node(getattr(value, name), below(own, name)) for name in value.model_fields_set})
    if isinstance(value, dict):
        return _mapping({str(key): _node(item, below(kind, str(key))) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return Node([_node(item, below(kind, str(i))) for i, item in enumerate(value)], _PLACE)
    named = dimension(kind) if isinstance(value, float) else None
    return Node(f"{value!r} {_BASE[named]}" if named and _BASE[named] else value, _PLACE)


def _mapping(entries: dict[str, Node]) -> Node:
    return Node(entries, _PLACE, dict.fromkeys(entries, _PLACE))
