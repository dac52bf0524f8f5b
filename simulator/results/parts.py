"""Parts of a Result out of the header of its file: each field is checked by its type, and nothing is trusted."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from numpy.typing import NDArray

Part = TypeVar("Part")
LARGEST = 1e300
"""Numbers of a scenario beyond this, and what is none, were never simulated."""
LONGEST_S = 1e15
"""Seconds beyond which nothing was ever simulated; sums and quotients of shorter times are numbers."""


class Misfit(ValueError):
    """What the file says does not fit together; the message ends `is no result file: ...`."""


def said(part: Any) -> dict[str, Any]:
    """What of a part of a Result stands in the header."""
    return {field.name: getattr(part, field.name) for field in fields(part) if field.type in _CHECKS}


LATEST = 2.0**62
"""Picoseconds that a clock counts at most."""


def part(kind: type[Part], header: Mapping[str, Any], **others: Any) -> Part:
    """A part of a Result: `others`, such as its columns, and the rest of its fields as the header says.

    What has a default may be missing, as in older files. Raises Misfit for a value of another type, KeyError for one
    that is missing.
    """
    known: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.name not in others and (field.name in header or field.default is MISSING):
            known[field.name] = _CHECKS[field.type](header[field.name])
    return kind(**known, **others)


def require(condition: bool, message: str) -> None:
    """Raise Misfit where a condition does not hold."""
    if not condition:
        raise Misfit(message)


def within(column: NDArray[Any], size: int) -> bool:
    """Whether all indices are among those of `size` things."""
    return column.size == 0 or bool(column.min() >= 0 and column.max() < size)


def _typed(kind: type | tuple[type, ...], word: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        require(isinstance(value, kind) and not isinstance(value, bool), f"{str(value)[:40]!r} is not {word}")
        return value

    return check


def _each(check: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    def checked(value: Any) -> tuple[Any, ...]:
        require(isinstance(value, list), "a list is missing")
        return tuple(check(item) for item in value)

    return checked


text = _typed(str, "text")
whole = _typed(int, "a whole number")
mapping = _typed(dict, "a mapping")


def flag(value: Any) -> bool:
    """True or false."""
    require(isinstance(value, bool), f"{str(value)[:40]!r} is neither true nor false")
    return bool(value)


def plain(value: Any) -> dict[str, Any]:
    """A mapping of text, truth values, numbers that can be reckoned with, and lists and mappings of them."""
    _check_plain(mapping(value))
    return dict(value)


def _check_plain(value: Any) -> None:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_plain(item)
    elif isinstance(value, int | float):
        require(abs(value) <= LARGEST, f"{str(value)[:40] if isinstance(value, float) else 'a number'} is no setting")


texts = _each(text)
_number = _typed((int, float), "a number")


def numbers(value: Any) -> dict[str, float]:
    """A mapping of numbers."""
    return {key: float(_number(item)) for key, item in mapping(value).items()}


def times(value: Any) -> dict[str, float]:
    """A mapping of seconds."""
    found = numbers(value)
    require(all(abs(seconds) <= LONGEST_S for seconds in found.values()), "a part of its time is no time")
    return found


def words(value: Any) -> dict[str, str]:
    """A mapping of texts."""
    return {key: str(text(item)) for key, item in mapping(value).items()}


_CHECKS: dict[Any, Callable[[Any], Any]] = {
    str: text,
    int: whole,
    bool: flag,
    float: lambda value: float(_number(value)),
    dict[str, float]: numbers,
    dict[str, str]: words,
    tuple[int, ...]: _each(whole),
    tuple[float, ...]: _each(lambda value: float(_number(value))),
    tuple[str, ...]: texts,
    tuple[dict[str, float], ...]: _each(numbers),
}
"""How a field of a type is read."""
