"""A resolved spec as YAML, with the origin of each value beside it.

The page is a file of the same kind: what it shows can be saved and loaded, and means the same.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from simulator.report.catalogue.quantities import dimension_of, exact
from simulator.report.text.plain import clean
from simulator.specs.base import Figure, Spec
from simulator.specs.text import written

_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"
_COMMENT_COLUMN = 48
_WIDEST = 72
_PLAIN_TEXT = re.compile(r"[A-Za-z_/][\w./+()%-]*(?: [\w./+()%-]+)*|[\d.]+ [A-Za-z%][\w/%]*")
_RESERVED = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}


class _Line(NamedTuple):
    """One line of the page."""

    text: str
    """YAML, indented."""
    path: str | None
    """Dotted path of the value on it; None where there is none."""


def explain(spec: Spec, origins: Mapping[str, str], *, colour: bool = False) -> str:
    """The spec as YAML; `origins` gives a comment per dotted path such as `training.parallel.tp`."""
    lines = list(_mapping(spec, "", ""))
    column = max([_COMMENT_COLUMN] + [len(line.text) + 2 for line in lines if len(line.text) <= _WIDEST])
    begin, end = (_DIM, _PLAIN) if colour else ("", "")
    shown = []
    for line in lines:
        origin = _origin(line.path, origins)
        shown.append(f"{line.text:<{column - 2}}  {begin}# {origin}{end}" if origin else line.text)
    return "\n".join(shown) + "\n"


def _origin(path: str | None, origins: Mapping[str, str]) -> str | None:
    """Origin of a value: its own or, for what is shown on one line, that of the first value in it."""
    if path is None:
        return None
    if path in origins:
        return clean(origins[path])
    inner = next((origin for key, origin in origins.items() if key.startswith(path + ".")), None)
    return clean(inner) if inner is not None else None


def _mapping(spec: Spec, path: str, indent: str) -> Iterator[_Line]:
    for name, field in type(spec).model_fields.items():
        value, below = getattr(spec, name), f"{path}.{name}" if path else name
        if name not in spec.unwritten:
            annotation: Any = field.annotation  # of what may be left open the quantity stands in it
            dimension = dimension_of(field.metadata) or written.dimension(annotation)
            yield from _entry(name, value, dimension, below, indent)
        elif isinstance(value, Spec):
            yield from _mapping(value, below, indent)
        else:
            for key, item in (value or {}).items():
                yield from _entry(key, item, None, f"{below}.{key}", indent)


def _entry(key: str, value: Any, dimension: str | None, path: str, indent: str) -> Iterator[_Line]:
    head = f"{indent}{_text(key)}:"
    if isinstance(value, Figure):
        yield from _figure(head, value, path, indent)
    elif _is_leaf(value):
        yield _Line(f"{head} {_flow(value, dimension)}", path)
    elif isinstance(value, Spec):
        yield _Line(head, None)
        yield from _mapping(value, path, indent + "  ")
    elif isinstance(value, Mapping):
        yield _Line(head, None)
        for name, item in value.items():
            yield from _entry(str(name), item, dimension, f"{path}.{name}", indent + "  ")
    else:
        yield _Line(head, None)
        for index, item in enumerate(value):
            yield from _item(item, dimension, f"{path}.{index}", indent + "  ")


def _figure(head: str, figure: Figure[Any], path: str, indent: str) -> Iterator[_Line]:
    """A number and how it is known on one line, its source on the next, so that origins stay in one column."""
    dimension = dimension_of(type(figure).model_fields["value"].metadata)
    yield _Line(f"{head} {{value: {_flow(figure.value, dimension)}, status: {figure.status},", path)
    yield _Line(f"{indent}  source: {_text(figure.source)}}}", None)


def _item(value: Any, dimension: str | None, path: str, indent: str) -> Iterator[_Line]:
    """An item of a list in block form: the first line of a mapping carries the dash."""
    lines = (
        list(_mapping(value, path, indent + "  "))
        if isinstance(value, Spec)
        else [_Line(indent + "  " + _flow(value, dimension), path)]
    )
    for number, line in enumerate(lines):
        text = f"{indent}- {line.text[len(indent) + 2 :]}" if number == 0 else line.text
        yield line._replace(text=text)


def _is_leaf(value: Any) -> bool:
    """What stands on one line: scalars, empty things, lists of scalars."""
    if isinstance(value, (Spec, Mapping)):
        return not isinstance(value, Spec) and not value
    if isinstance(value, (list, tuple)):
        return all(not isinstance(item, (Spec, Mapping)) for item in value)
    return True


def scalar(value: Any, dimension: str | None = None) -> str:
    """A single value as YAML, with a unit where it has a dimension."""
    return _flow(value, dimension)


def _flow(value: Any, dimension: str | None) -> str:
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_flow(item, dimension) for item in value) + "]"
    if isinstance(value, Mapping):
        return "{}"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, (int, float)):
        return exact(value, dimension) if dimension is not None else _number(value)
    return _text(str(value))


def _number(value: int | float) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() and abs(value) < 1e16 else repr(value)


def _text(text: str) -> str:
    """Text as a YAML scalar: plain where no reader could take it for something else, else in double quotes."""
    if _PLAIN_TEXT.fullmatch(text) and text.casefold() not in _RESERVED:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)
