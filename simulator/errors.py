"""The few exception types, each with the exit code of the command line.

Whatever a user can get wrong is an `InputError` made of problems, each of which says where, what and what to write.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

MOST_LINES = 20
"""Problems that an error tells one by one; of more than these only the `FIRST_LINES`."""
FIRST_LINES = 10
LONGEST_WORD = 200
"""Letters of a word in a message, a path among them."""
LONGEST_PART = 4000
"""Letters of each part of a message."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the input."""

    message: str
    """What is wrong."""
    file: str | None = None
    """File, or a name such as `override`, in which it stands."""
    line: int | None = None
    """Line, from 1."""
    column: int | None = None
    """Column, from 1."""
    path: str = ""
    """Dotted path of the value, for example `training.parallel.tp`."""
    hint: str = ""
    """What to write instead."""

    def __str__(self) -> str:
        """`file:line:column: path: message; hint`, without the parts that are not known, on one line.

        Whatever of a user's text is quoted in it, a word has at most `LONGEST_WORD` letters and a part `LONGEST_PART`.
        """
        file, path, message, hint = map(_shortened, (self.file or "", self.path, self.message, self.hint))
        place = ":".join(str(part) for part in (file or None, self.line, self.column) if part is not None)
        text = ": ".join(part for part in (place, path, message) if part)
        return f"{text}; {hint}" if hint else text


class SimulatorError(Exception):
    """Base of all errors of the simulator; raised itself only where the simulator is wrong."""

    exit_code: ClassVar[int] = 3


class InputError(SimulatorError):
    """What the user gave cannot be used; carries every problem found, not only the first."""

    exit_code: ClassVar[int] = 2
    most_lines: ClassVar[int] = MOST_LINES

    def __init__(self, *problems: Problem | str) -> None:
        """Takes problems, or plain messages where no place is known."""
        super().__init__(*problems)
        self.problems: tuple[Problem, ...] = tuple(Problem(p) if isinstance(p, str) else p for p in problems)

    def __str__(self) -> str:
        """One line per problem, of very many only the first ones and how many more there are."""
        shown = self.problems if len(self.problems) <= self.most_lines else self.problems[:FIRST_LINES]
        lines = [str(problem) for problem in shown]
        more = len(self.problems) - len(lines)
        return "\n".join([*lines, f"and {more:,} more problems"] if more else lines)


class DeadlockError(InputError):
    """A schedule in which lanes wait for each other for ever; one problem per stuck lane."""

    most_lines: ClassVar[int] = 25
    """Whoever raises it counts the lanes that it leaves out."""


class InfeasibleError(SimulatorError):
    """The input is sound but cannot be carried out (out of memory, an objective that no size reaches)."""

    exit_code: ClassVar[int] = 4


def shortened(text: str, longest: int = LONGEST_WORD) -> str:
    """The text, or its beginning and dots, so that it has at most `longest` letters."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def _shortened(text: str) -> str:
    """A part of a message on one line, its words and itself of bounded length."""
    return shortened(" ".join(shortened(word) for word in text[: 8 * LONGEST_PART].split()), LONGEST_PART)


def nearest(name: str, choices: Iterable[str]) -> str:
    """A hint that names the one choice that a name begins, or the one closest to a misspelt name, or all where they
    are few, or nothing.

    For a name that is known and not modelled the hint names what there is instead.
    """
    from difflib import get_close_matches

    from simulator.unmodelled import unmodelled

    known = sorted(set(choices))
    if len(name) > LONGEST_WORD:  # no misspelling, and the search would take long
        return ""
    folded = {choice.casefold(): choice for choice in known}
    if name.casefold() not in folded and (said := unmodelled(name)):
        return said
    longer = [choice for choice in folded if len(name) > 2 and choice.startswith(f"{name.casefold()}-")]
    near = (len(longer) == 1 and longer) or get_close_matches(name.casefold(), folded, n=1, cutoff=0.6)
    if near:
        return f"did you mean `{folded[near[0]]}`?"
    if 0 < len(known) <= 12:
        return "known: " + ", ".join(f"`{choice}`" for choice in known)
    return ""
