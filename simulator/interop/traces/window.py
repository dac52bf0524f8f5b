"""JSON text to values: a line or a document at once, a long list item by item through a window that moves over it."""

import json
from collections.abc import Iterator
from typing import Any, Protocol, TextIO

from simulator.errors import InputError

_CHUNK = 1 << 16
_SPACE = " \t\r\n"


class Names(Protocol):
    """Makes errors that name the place of what is wrong."""

    def error(self, message: str, line: int | None = None) -> InputError:
        """The error to raise."""


def decoded(source: Names, text: str, line: int) -> Any:
    """The JSON value that a text is, which begins on a line; InputError where it is none."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise source.error(f"is no JSON: {error.msg}", line + error.lineno - 1) from None
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, lists of thousands of levels
        raise source.error(f"is no JSON that can be read: {error}", line) from None


class Window:
    """A part of a JSON list that is being read."""

    def __init__(self, source: Names, stream: TextIO, longest: int) -> None:
        """`longest` characters are the most that one item may have."""
        self._source = source
        self._stream = stream
        self._longest = longest
        self._text, self._at, self._line = "", 0, 1
        self._decoder = json.JSONDecoder()

    def items(self) -> Iterator[tuple[int, Any]]:
        """(line on which it begins, value) of each item; InputError where the text is no list of JSON values."""
        self._expect("[")
        if self._next() == "]":
            self._advance(1)
            return self._end()
        while True:
            yield self._item()
            if self._expect(",]") == "]":
                return self._end()

    def _item(self) -> tuple[int, Any]:
        self._next()
        line = self._line
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:  # cut off, perhaps: more text tells
                if not self._more():
                    raise self._source.error(f"is no JSON: {error.msg}", line) from None
            except (ValueError, RecursionError) as error:
                raise self._source.error(f"is no JSON that can be read: {error}", line) from None
            else:
                size = end - self._at  # what follows may move the window
                if end < len(self._text) or not self._more():  # a number may go on behind the window
                    self._advance(size)
                    return line, value

    def _expect(self, choices: str) -> str:
        found = self._next()
        if not found or found not in choices:
            what = f"`{found}`" if found else "the end of the file"
            wanted = " or ".join(f"`{choice}`" for choice in choices)
            raise self._source.error(f"is no JSON: {what} where {wanted} should be", self._line)
        self._advance(1)
        return found

    def _end(self) -> None:
        found = self._next()
        if found:
            raise self._source.error(f"is no JSON: `{found}` after the end of the list", self._line)

    def _next(self) -> str:
        """The next character that is no space, without taking it; nothing at the end."""
        while True:
            rest = len(self._text) - self._at
            while rest and self._text[self._at] in _SPACE:
                self._advance(1)
                rest -= 1
            if rest:
                return self._text[self._at]
            if not self._more():
                return ""

    def _advance(self, count: int) -> None:
        self._line += self._text.count("\n", self._at, self._at + count)
        self._at += count

    def _more(self) -> bool:
        """Read on, twice as much as there is; False at the end, or where the item is too long."""
        rest = self._text[self._at :]
        chunk = "" if len(rest) > self._longest else self._stream.read(max(_CHUNK, len(rest)))
        self._text, self._at = rest + chunk, 0
        return bool(chunk)
