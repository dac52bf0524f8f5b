"""Command-line arguments out of a foreign file, taken one by one; those that are not taken are listed.

Names are compared with underscores, so `--num-layers`, `num_layers` and `--num_layers` are one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from simulator.errors import nearest
from simulator.interop.draft import Draft, printable

MOST = 1_000_000_000
"""Largest number that a size may be."""
_NO = ("false", "0", "no", "none")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument with what follows it."""

    name: str
    """With underscores and without dashes."""
    values: tuple[str, ...]
    line: int = 0
    """Line of the file, from 1; 0 where it is not from the file."""
    doubt: str = ""
    """Why it is not known whether it is there or what it says."""

    @property
    def shown(self) -> str:
        """As a user would type it."""
        return typed(self.name)

    @property
    def place(self) -> str:
        """For the comment beside a value."""
        return f"{self.shown}, line {self.line}" if self.line else f"{self.shown}, --set"


def typed(name: str) -> str:
    """The name of an argument as a user would type it."""
    return f"--{name.replace('_', '-')}"


@dataclass(slots=True)
class Arguments:
    """Arguments by name; problems go to the draft."""

    draft: Draft
    found: Mapping[str, Argument]
    taken: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    """Names that were looked for, present or not."""

    def given(self, *names: str) -> Argument | None:
        """The first of the arguments that is there, from now on taken; None where none is, or only a doubtful one."""
        self.asked.update(names)
        for name in names:
            argument = self.found.get(name)
            if argument is None:
                continue
            self.taken.add(name)
            if not argument.doubt:
                return argument
            hint = f"write the value, or give it: --set {argument.shown.lstrip('-')}=VALUE"
            self.draft.wrong(f"{argument.shown} is not known: {argument.doubt}", hint, argument.line)
        return None

    def whole(self, *names: str, most: int = MOST) -> int | None:
        """A whole number from 1 to `most`; None where it is missing, or wrong, which is a problem."""
        argument = self.given(*names)
        if argument is None:
            return None
        text = argument.values[0] if argument.values else ""
        digits = text.replace("_", "")
        if digits.isascii() and digits.isdigit() and len(digits) < 30 and 1 <= int(digits) <= most:
            return int(digits)
        message = f"{argument.shown} takes a whole number from 1 to {most:,}, not `{printable(text[:40])}`"
        self.draft.wrong(message, line=argument.line)
        return None

    def text(self, *names: str) -> str | None:
        """A word."""
        argument = self.given(*names)
        return None if argument is None else " ".join(argument.values)[:200]

    def on(self, *names: str) -> bool:
        """Whether a switch is there, or says true."""
        argument = self.given(*names)
        if argument is None:
            return False
        word = (argument.values[0] if argument.values else "").lower()
        return word not in _NO

    def off(self, name: str) -> bool:
        """Whether a switch is there and says false."""
        argument = self.given(name)
        return argument is not None and bool(argument.values) and argument.values[0].lower() in _NO

    def choice(self, known: Mapping[str, str], *names: str) -> str | None:
        """What stands for the word of an argument in `known`; a problem where it is none of them."""
        word = self.text(*names)
        if word is None or word in known:
            return None if word is None else known[word]
        argument = self.given(*names)
        if argument is not None:
            hint = nearest(word, known)
            self.draft.wrong(f"{argument.shown} `{printable(word[:60])}` is not known", hint, argument.line)
        return None

    def note(self, *names: str) -> str:
        """The comment for a value that came from the first of the arguments that is there."""
        return next((self.found[name].place for name in names if name in self.found), "")

    def rest(self) -> Iterable[Argument]:
        """Arguments that were not taken."""
        return (argument for name, argument in self.found.items() if name not in self.taken)
