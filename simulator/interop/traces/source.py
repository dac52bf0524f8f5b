"""A file of requests, opened carefully: as CSV, as JSON a line, as a JSON list or as one JSON document.

All of them yield values with the number of their line. Bounds: a line, or an item of a list, has at most `LONGEST`
characters, a document that must be read at once at most `MOST_CHARACTERS`, and a file at most `MOST_LINES` lines.
"""

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, TextIO

from simulator.errors import InputError, Problem, nearest
from simulator.interop.traces.window import Window, decoded

LONGEST = 1 << 22
"""Characters of a line, or of an item of a JSON list."""
MOST_CHARACTERS = 1 << 26
"""Characters of a JSON document that is read at once."""
MOST_LINES = 20_000_000
_HEAD = 1 << 16


@dataclass(frozen=True, slots=True)
class Source:
    """One file."""

    path: Path
    name: str
    """As messages show it."""

    def error(self, message: str, line: int | None = None, column: str = "", hint: str = "") -> InputError:
        """What is wrong and where; `column` is a name."""
        return InputError(Problem(message, self.name, line, path=column, hint=hint))

    def head(self) -> str:
        """The beginning of the file; InputError where it cannot be read, holds nothing, or is no text."""
        with self._opened() as stream:
            text = stream.read(_HEAD)
        if "\0" in text:
            raise self.error("is no text", hint="name a file of requests")
        if not text.strip():
            raise self.error("is empty" if len(text) < _HEAD else "begins with nothing but space")
        return text

    def lines(self) -> Iterator[tuple[int, str]]:
        """(number, text) of every line that is not empty."""
        with self._opened() as stream:
            for number in range(1, MOST_LINES + 2):
                line = stream.readline(LONGEST + 1)
                if not line:
                    return
                if len(line) > LONGEST:
                    raise self.error(f"has a line of more than {LONGEST:,} characters", number)
                if not line.isspace():
                    yield number, line
        raise self.error(f"has more than {MOST_LINES:,} lines", hint="cut it into smaller files")

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """(last line, cells) of the rows of a CSV file, the header among them."""
        current = 0

        def texts() -> Iterator[str]:
            nonlocal current
            for current, text in self.lines():  # noqa: B007 - read below
                yield text

        reader = csv.reader(texts(), strict=True, skipinitialspace=True)
        try:
            for row in reader:
                yield current, row
        except csv.Error as error:
            raise self.error(f"is no CSV: {error}", current) from None

    def table(self, *columns: str, optional: tuple[str, ...] = ()) -> Iterator[tuple[int, list[str | None]]]:
        """(line, cells of these columns) of a CSV file with a header; None for an optional column that it lacks.

        InputError where a needed column is missing, or a row has other than as many cells as the header.
        """
        rows = self.rows()
        line, header = next(rows)
        places = places_of(header)
        missing = [name for name in columns if fold(name) not in places]
        if missing:
            hint = "its columns are " + ", ".join(f"`{name.strip()[:40]}`" for name in header[:12])
            raise self.error(f"the column `{missing[0]}` is missing", line, hint=hint)
        wanted = [places.get(fold(name), -1) for name in (*columns, *optional)]
        width = len(header)
        for line, row in rows:
            if len(row) != width:
                raise self.error(f"has {len(row)} cells where the header has {width}", line)
            yield line, [row[place] if place >= 0 else None for place in wanted]

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line, object) of a file with one JSON object a line."""
        for number, line in self.lines():
            value = decoded(self, line, number)
            if not isinstance(value, dict):
                raise self.error("is no JSON object", number, hint="one object in braces a line")
            yield number, value

    def items(self) -> Iterator[tuple[int, Any]]:
        """(line on which it begins, value) of each item of a JSON list, of which one at a time is in memory."""
        with self._opened() as stream:
            yield from Window(self, stream, LONGEST).items()

    def document(self) -> Any:
        """The whole file as one JSON value."""
        with self._opened() as stream:
            text = stream.read(MOST_CHARACTERS + 1)
        if len(text) > MOST_CHARACTERS:
            raise self.error(f"is longer than {MOST_CHARACTERS:,} characters")
        return decoded(self, text, 1)

    def key(self, record: dict[str, Any], name: str, line: int) -> Any:
        """The value of a key that an object must have."""
        if name not in record:
            raise self.error(f"the key `{name}` is missing", line, hint=nearest(name, map(str, record)))
        return record[name]

    @contextmanager
    def _opened(self) -> Iterator[TextIO]:
        """The file as text; what goes wrong with reading it is an InputError."""
        try:
            mode = self.path.stat().st_mode
            if S_ISDIR(mode) or not S_ISREG(mode):
                raise self.error("is a directory" if S_ISDIR(mode) else "is no regular file", hint="name a file")
            stream = self.path.open(encoding="utf-8-sig")
        except (OSError, ValueError) as error:  # ValueError: a null byte in the name, or half a surrogate pair
            reason = "no file has such a name" if isinstance(error, ValueError) else error.strerror
            raise self.error(f"cannot be read: {reason}") from None
        with stream:
            try:
                yield stream
            except UnicodeDecodeError:
                raise self._undecodable() from None
            except OSError as error:
                raise self.error(f"cannot be read: {error.strerror}") from None

    def _undecodable(self) -> InputError:
        """Where the first byte stands that is no UTF-8; the file is read again, line by line."""
        with self.path.open("rb") as stream:
            for number, line in enumerate(iter(partial(stream.readline, LONGEST), b""), 1):
                try:
                    line.decode()
                except UnicodeDecodeError as error:
                    column = len(line[: error.start].decode()) + 1
                    byte = f"byte 0x{line[error.start]:02x} is no text in UTF-8"
                    return InputError(Problem(byte, self.name, number, column, hint="save it as UTF-8"))
        return self.error("is no text in UTF-8", hint="save it as UTF-8")


def fold(name: str) -> str:
    """The name of a column without regard to case and to space around it."""
    return name.strip().casefold()


def places_of(header: list[str]) -> dict[str, int]:
    """Position of each column by its folded name, the first of two that are alike."""
    places: dict[str, int] = {}
    for place, name in enumerate(header):
        places.setdefault(fold(name), place)
    return places
