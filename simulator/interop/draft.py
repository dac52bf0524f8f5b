"""A scenario in the making out of a foreign file: each value with where it came from, and what did not come along.

It is written as YAML for a person to go on with, so its comments are half of it: the origin beside each value, and at
the top what was assumed, what has an effect and is left out, and what was ignored.
"""

import json
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, NamedTuple

from simulator.errors import InputError, Problem

Value = str | int | float | bool | None | list[int] | list[str] | list[dict[str, Any]]
MOST_LISTED = 300
"""Names of what was ignored that are written out."""
_WIDTH = 110
_LIKENESS = 0.85
"""Share of letters in common from which on a name looks like another one misspelt."""
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/ ")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "~"})


class Setting(NamedTuple):
    """A value of the scenario."""

    value: Value
    note: str
    """Where it came from."""


@dataclass(slots=True)
class Draft:
    """What becomes the scenario."""

    file: str
    """Name of the foreign file, for messages."""
    form: str
    """What kind of file it is, in words."""
    settings: dict[str, Setting] = field(default_factory=dict)
    """Values by dotted key, in the order in which they are written."""
    assumed: list[str] = field(default_factory=list)
    """What the file leaves open and was chosen for it."""
    left_out: list[str] = field(default_factory=list)
    """What the file says, would have an effect, and is not in the scenario."""
    ignored: list[str] = field(default_factory=list)
    """Names of what the file says without an effect on the scenario."""
    misspelt: list[str] = field(default_factory=list)
    """Names of what the file says that nothing knows but that look like one that has an effect."""
    problems: list[Problem] = field(default_factory=list)
    """Why there will be no scenario."""

    def put(self, key: str, value: Value, note: str = "") -> None:
        """Set a value; None sets nothing."""
        if value is not None:
            self.settings[key] = Setting(value, note)

    def assume(self, key: str, value: Value, reason: str) -> None:
        """Set a value that the file does not give."""
        self.put(key, value, "assumed")
        self.assumed.append(f"{key}: {scalar(value)} ({reason})")

    def ignore(self, name: str, shown: str, known: Iterable[str], show: Callable[[str], str]) -> None:
        """Note a name without an effect, and whether it looks like one of the known names that have one."""
        near = get_close_matches(name, [one for one in known if one != name], n=1, cutoff=_LIKENESS)
        if near:
            self.misspelt.append(f"{shown} (did you mean {show(near[0])}?)")
        else:
            self.ignored.append(shown)

    def wrong(self, message: str, hint: str = "", line: int | None = None) -> None:
        """Note a problem."""
        self.problems.append(Problem(message, self.file, line or None, hint=hint))

    def text(self) -> str:
        """The scenario as YAML; InputError with all problems where there are some."""
        if self.problems:
            raise InputError(*self.problems)
        return "\n".join([*self._head(), *self._body()]) + "\n"

    def _head(self) -> list[str]:
        lines = [f"# Imported from {printable(self.file)} ({self.form}). Each value has where it came from beside it."]
        for title, items in (
            ("Assumed, for the file does not say it:", self.assumed),
            ("Not known, so without effect; check the spelling:", self.misspelt),
            ("Left out, though it has an effect:", self.left_out),
        ):
            if items:
                lines += ["#", f"# {title}", *(part for item in items for part in _wrapped(item, "#   - ", "#     "))]
        if self.ignored:
            lines += ["#", "# Ignored, for nothing in a scenario depends on it:"]
            more = f" and {len(self.ignored) - MOST_LISTED:,} more" if len(self.ignored) > MOST_LISTED else ""
            lines += _wrapped(", ".join(self.ignored[:MOST_LISTED]) + more, "#   ", "#   ")
        return lines

    def _body(self) -> list[str]:
        lines: list[str] = []
        above: tuple[str, ...] = ()
        for key, setting in self.settings.items():
            *parents, name = key.split(".")
            shared = next((i for i, (a, b) in enumerate(zip(above, parents, strict=False)) if a != b), len(above))
            shared = min(shared, len(parents))
            lines += [f"{'  ' * i}{parent}:" for i, parent in enumerate(parents) if i >= shared]
            above = tuple(parents)
            note = f"  # {printable(setting.note)}" if setting.note else ""
            lines.append(f"{'  ' * len(parents)}{name}: {scalar(setting.value)}{note}")
        return lines


def scalar(value: Value) -> str:
    """A value as YAML writes it."""
    if isinstance(value, list):
        return f"[{', '.join(map(_listed, value))}]"
    if isinstance(value, float):
        return f"{value:.12g}"
    if not isinstance(value, str):
        return json.dumps(value)
    text = printable(value)
    plain = text[:1].isalpha() and set(text) <= _PLAIN and text == text.strip() and text.lower() not in _WORDS
    return text if plain else json.dumps(text, ensure_ascii=False)


def _listed(value: Any) -> str:
    """An entry of a list."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_listed(each)}" for name, each in value.items()) + "}"
    return scalar(value)


def printable(text: str) -> str:
    """Text of a file on one line, without control characters, cut where it is very long."""
    clean = "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
    return clean if len(clean) <= 200 else clean[:197] + "..."


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    clean = "".join(c if c.isprintable() else "?" for c in text)
    return textwrap.wrap(
        clean, _WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    )
