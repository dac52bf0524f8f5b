"""The JSON form of documents. The fields of a class are the keys of its object, in their order.

A field with the mark `LEFT_OUT` is no key of the object where it is None or NaN. The entries of a mapping with the mark
`spread` are keys of the object, behind that prefix.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

LEFT_OUT = {"left out": True}
"""Metadata of a field that is written only where it is known."""


def plain(value: Any) -> Any:
    """A document, or a part of one, as dicts, lists and scalars."""
    if is_dataclass(value) and not isinstance(value, type):
        return {name: plain(item) for name, item in _written(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _written(value: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(value):
        item = getattr(value, field.name)
        if prefix := field.metadata.get("spread"):
            yield from ((f"{prefix}{key}", one) for key, one in item.items())
        elif not field.metadata.get("left out") or (item is not None and item == item):  # NaN is not itself
            yield field.name, item
