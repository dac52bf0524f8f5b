"""Variants of a scenario: values of keys listed as `key.path=first,second`, and all their combinations.

A value is YAML as in any override; commas inside brackets, braces and quotes belong to it:
`serving.parallel={tp: 2, pp: 1},{tp: 4}` are two.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from simulator.errors import InputError, Problem
from simulator.specs.text.overrides import parse

MOST = 10_000
"""Combinations that are still tried."""
_EXAMPLE = "write `key.path=value,value`, for example `serving.parallel.tp=1,2,4`"


@dataclass(frozen=True, slots=True)
class Axis:
    """A key and the values that it takes in turn."""

    key: str
    """Dotted path, with a `+` before it where it is to be added."""
    values: tuple[str, ...]
    """YAML of each value."""

    @property
    def overrides(self) -> tuple[str, ...]:
        """An override for each value."""
        return tuple(f"{self.key}={value}" for value in self.values)


def parse_axis(text: str) -> Axis:
    """Read `key.path=first,second`; InputError where its form is wrong or a value is listed twice."""
    key, equals, listed = text.partition("=")
    shown = f"`{text[:200]}`"
    values = tuple(value.strip() for value in _split(listed))
    if not equals or not key.strip() or key.startswith("~"):
        raise InputError(Problem("lists no values of a key", file=shown, hint=_EXAMPLE))
    if not all(values):
        raise InputError(Problem("a value of the list is empty", file=shown, hint=_EXAMPLE))
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise InputError(Problem(f"`{twice}` is listed twice", file=shown, hint="list each value once"))
    axis = Axis(key.strip(), values)
    for override in axis.overrides:
        parse(override)
    return axis


def parse_axes(texts: Iterable[str], most: int = MOST) -> tuple[Axis, ...]:
    """Read several axes; InputError where one key has two lists or there are too many combinations."""
    axes = tuple(map(parse_axis, texts))
    keys = [axis.key.removeprefix("+") for axis in axes]
    for key in keys:
        if keys.count(key) > 1:
            raise InputError(Problem(f"`{key}` has two lists of values", hint="put all its values into one"))
    if (number := prod(len(axis.values) for axis in axes)) > most:
        raise InputError(Problem(f"{number:,} combinations are too many", hint=f"list at most {most:,}"))
    return axes


def told_apart(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """(overrides, axes) of what a user wrote: an axis lists several values of its key."""
    overrides: list[str] = []
    axes: list[str] = []
    for text in texts:
        several = not text.startswith("~") and len(list(_split(text.partition("=")[2]))) > 1
        (axes if several else overrides).append(text)
    return overrides, axes


def combinations(axes: Sequence[Axis]) -> Iterator[tuple[str, ...]]:
    """The overrides of each combination, the last axis changing fastest; one empty combination of no axes."""
    return product(*(axis.overrides for axis in axes))


def short_name(overrides: Sequence[str]) -> str:
    """Overrides in few words: the last key of each path where that is clear, and its value."""
    pairs = [text.removeprefix("+").partition("=")[::2] for text in overrides]
    last = [key.rpartition(".")[2] for key, _ in pairs]
    return ", ".join(
        f"{word if last.count(word) == 1 else key} {value}" for word, (key, value) in zip(last, pairs, strict=True)
    )


def _split(text: str) -> Iterator[str]:
    """The pieces between commas that stand in no bracket and no quotes."""
    piece, depth, quote = "", 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth <= 0:
            yield piece
            piece = ""
            continue
        piece += letter
    yield piece
