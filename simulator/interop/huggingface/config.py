"""Typed values out of a foreign configuration, each with the key that it was found under; all problems at once."""

from collections.abc import Mapping
from typing import Any

from simulator.errors import InputError, Problem
from simulator.specs.files.foreign import FieldValue, Translation
from simulator.specs.text.messages import excerpt

MOST = 1_000_000_000
"""Largest number that a size may be."""


class Config:
    """Reads a configuration field by field and collects what a spec needs.

    A key whose value is null counts as missing. What is missing without a default, of the wrong type or out of range is
    a problem; `translation` raises them together.
    """

    def __init__(self, entries: Mapping[str, Any], prefix: str = "") -> None:
        """Read `entries`, which stand under the dotted key `prefix` of the file."""
        self.entries = entries
        self.prefix = prefix
        self.fields: dict[str, FieldValue] = {}
        self.keys: dict[str, str] = {}
        self.problems: list[Problem] = []
        self.left_out: list[str] = []
        """What the file says and the spec cannot express."""

    def number(self, field: str, *keys: str, default: int | None = None) -> int | None:
        """Take a positive whole number from the first of the keys that is there."""
        value = self.whole(*keys, default=default)
        self.take(field, keys, value)
        return value

    def optional(self, field: str, *keys: str) -> None:
        """Take a positive whole number where one is given, and leave the field out else."""
        if self._given(keys) is not None:
            self.number(field, *keys)

    def flag(self, field: str, key: str, default: bool) -> bool:
        """Take true or false."""
        value = self.switch(key, default)
        self.take(field, (key,), value)
        return value

    def imply(self, **fields: str | int | bool) -> None:
        """Set fields that follow from the kind of model."""
        for field, value in fields.items():
            self.take(field, ("model_type",), value)

    def take(self, field: str, keys: tuple[str, ...], value: FieldValue | None) -> None:
        """Set a field that comes from the first of the keys that is there; None sets nothing."""
        if value is not None:
            self.fields[field] = value
            self.keys[field] = self._path(self._given(keys) or "model_type")

    def whole(self, *keys: str, default: int | None = None) -> int | None:
        """A positive whole number under the first of the keys that is there; None, and a problem, where it is none."""
        key = self._given(keys)
        value = default if key is None else self.entries[key]
        if key is None and default is None:
            self.wrong(keys[0], f"`{keys[0]}` is missing", _instead(keys))
        elif isinstance(value, bool) or not isinstance(value, int):
            self.wrong(key or keys[0], f"{excerpt(value)} is not a whole number")
        elif not 1 <= value <= MOST:
            self.wrong(key or keys[0], f"{excerpt(value)} is not between 1 and {MOST:,}")
        else:
            return value
        return None

    def switch(self, key: str, default: bool) -> bool:
        """True or false under a key."""
        value = self.entries.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.wrong(key, f"{excerpt(value)} is not true or false")
        return bool(value)

    def wrong(self, key: str, message: str, hint: str = "") -> None:
        """Note a problem at a key."""
        self.problems.append(Problem(message, path=self._path(key), hint=hint))

    def translation(self) -> Translation:
        """What was taken; InputError with all problems."""
        if self.problems:
            raise InputError(*self.problems)
        return Translation(self.fields, self.keys)

    def _given(self, keys: tuple[str, ...]) -> str | None:
        return next((key for key in keys if self.entries.get(key) is not None), None)

    def _path(self, key: str) -> str:
        return f"{self.prefix}.{key}" if self.prefix else key


def _instead(keys: tuple[str, ...]) -> str:
    return f"or write {' or '.join(f'`{key}`' for key in keys[1:])}" if len(keys) > 1 else ""
