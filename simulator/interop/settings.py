"""Values of a program's configuration file, each asked for once, with the line that it came from."""

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from simulator.errors import InputError, Problem
from simulator.interop.arguments import MOST
from simulator.interop.draft import Draft, printable
from simulator.specs.text.yaml_text import scalar


@dataclass(slots=True)
class Settings:
    """Values of a configuration file by dotted key; problems go to the draft."""

    draft: Draft
    values: MutableMapping[str, Any]
    lines: MutableMapping[str, int]
    program: str
    """Whose defaults stand for what is missing."""
    taken: set[str] = field(default_factory=set)

    def get(self, *keys: str) -> Any:
        """The value under the first of the keys that is there; None where none is."""
        self.taken.update(keys)
        return next((self.values[key] for key in keys if key in self.values), None)

    def whole(self, *keys: str, default: int, least: int = 1) -> int:
        """A whole number; the default where it is missing, or wrong, which is a problem."""
        value = self.get(*keys)
        if value is None:
            return default
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST and (value or not least):
            return value
        low = 1 if least else 0
        message = f"{self.key(*keys)} is a whole number from {low} to {MOST:,}, not `{printable(str(value)[:40])}`"
        self.draft.wrong(message, line=self.lines.get(self.key(*keys)))
        return default

    def key(self, *keys: str) -> str:
        """The first of the keys that is there, else the first."""
        return next((key for key in keys if key in self.values), keys[0])

    def note(self, *keys: str) -> str:
        """The comment for a value that came from the first of the keys that is there."""
        key = self.key(*keys)
        if key not in self.values:
            return f"{self.program}'s default"
        return f"{key}, line {self.lines[key]}" if key in self.lines else f"{key}, --set"

    def wrong(self, message: str, hint: str, *keys: str) -> None:
        """Note a problem at a key."""
        self.draft.wrong(message, hint, self.lines.get(self.key(*keys)) if keys else None)

    def set(self, given: Mapping[str, str]) -> None:
        """Set keys as a user writes them; InputError for a value that is no scalar."""
        for key, word in given.items():
            try:
                self.values[key] = scalar(word)
            except ValueError as error:
                raise InputError(Problem(str(error), "--set", path=key)) from None
            self.lines.pop(key, None)

    def leave(self, left_out: Mapping[str, str], silent: Sequence[object]) -> None:
        """Note all keys that were not asked for: with their reason those whose value is none of the `silent` ones."""
        for key, value in self.values.items():
            if key in self.taken:
                continue
            if key in left_out and value not in silent:
                self.draft.left_out.append(f"{key}: {left_out[key]}")
            else:
                section, _, name = key.rpartition(".")
                known = [other.rpartition(".") for other in (*self.taken, *left_out)]
                beside = [last for above, _, last in known if above == section]
                self.draft.ignore(name, key, beside, f"{section}.{{}}".lstrip(".").format)
