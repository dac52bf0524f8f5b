"""Files of measurements, line by line, without trust: one JSON object a line, bounded in length, depth and number."""

import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from simulator.errors import InputError, Problem
from simulator.specs.files.shape import members
from simulator.specs.text.messages import plainly

LONGEST = 1 << 16
"""Bytes of a line."""
MOST = 100_000
"""Lines of a file."""
R = TypeVar("R", bound=BaseModel)
_LONGEST_ID = 200
_NUMBER = re.compile(r"[+-]?(\d{1,18}|\d{1,3}(,\d{3}){1,4})(\.\d{1,15})?(e[+-]?\d{1,2})?", re.I)
_YES_OR_NO = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_OPEN = ("", "unknown", "not stated", "n/a", "na", "none", "null", "?", "-", "default")
_NAMED = 4  # missing keys that a refusal names


class Refused(Exception):
    """A row that cannot be simulated; the message says why."""


def misfit(error: ValidationError) -> Refused:
    """The refusal of a row whose keys are not as they must be, each key once."""
    details = error.errors(include_url=False)
    missing = [f"`{detail['loc'][0]}`" for detail in details if detail["type"] == "missing"]
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    lacks = [f"without key{'s' if len(missing) > 1 else ''} {', '.join(missing[:_NAMED])}{more}"] if missing else []
    wrong = {detail["loc"][:1]: plainly(detail) for detail in reversed(details) if detail["type"] != "missing"}
    return Refused("; ".join([*lacks, *reversed(wrong.values())]))


def id_of(line: "Line") -> str:
    """The `id` of a row that cannot be read otherwise; its file, without the folder, and line where there is none."""
    try:
        known = parse_line(line).get("id")
    except Refused:
        known = None
    return known[:_LONGEST_ID] if isinstance(known, str) and known.strip() else f"{Path(line.file).name}:{line.number}"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file, not parsed yet."""

    file: str
    number: int
    """From 1."""
    text: str | None
    """None where it is too long or no text."""

    @property
    def place(self) -> str:
        """`file:number`."""
        return f"{self.file}:{self.number}"


def read_lines(path: str | Path) -> Iterator[Line]:
    """The lines of a file that are not blank; InputError where the file cannot be opened or has too many of them."""
    try:
        if not S_ISREG(os.stat(path).st_mode):
            raise InputError(Problem("is no regular file", file=str(path)))
        with open(path, "rb") as file:
            number = 0
            while chunk := file.readline(LONGEST + 1):
                number += 1
                if number > MOST:
                    raise InputError(Problem(f"more than {MOST:,} lines", file=str(path), hint="split the file"))
                line = _line(str(path), number, chunk)
                while len(chunk) > LONGEST and not chunk.endswith(b"\n"):
                    chunk = file.readline(LONGEST + 1)
                if line.text is None or line.text.strip():
                    yield line
    except (OSError, ValueError) as error:  # ValueError: a null byte in the name, or half a surrogate pair
        reason = "no file has such a name" if isinstance(error, ValueError) else error.strerror
        raise InputError(Problem(f"cannot be read: {reason}", file=str(path))) from None


def _line(file: str, number: int, chunk: bytes) -> Line:
    if len(chunk) > LONGEST:
        return Line(file, number, None)
    try:
        return Line(file, number, chunk.decode())
    except UnicodeDecodeError:
        return Line(file, number, None)


def parse_line(line: Line) -> dict[str, Any]:
    """The object on a line; raises Refused saying why it is none."""
    if line.text is None:
        raise Refused(f"the line is longer than {LONGEST:,} bytes or not text in UTF-8")
    try:
        data = json.loads(line.text, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        reason = "brackets too deep" if isinstance(error, RecursionError) else str(error)
        raise Refused(f"not a JSON object: {reason}") from None
    if not isinstance(data, dict):
        raise Refused(f"not a JSON object but {type(data).__name__}")
    return data


def read_row(form: type[R], data: Mapping[str, Any]) -> R:
    """Check the object of a line; raises Refused naming the keys that are wrong."""
    try:
        return form.model_validate({key: _as_asked(form, key, value) for key, value in data.items()})
    except ValidationError as error:
        raise misfit(error) from None


def _as_asked(form: type[BaseModel], key: str, value: Any) -> Any:
    """A value in the type of its key where it says the same in another: `"8"` and `8.0` for 8, `"yes"` for true."""
    info = form.model_fields.get(key)
    kinds: tuple[Any, ...] = members(info.annotation) if info else ()  # type: ignore[arg-type]
    if isinstance(value, dict):
        return {inner: number(item) for inner, item in value.items()}
    if isinstance(value, str) and str not in kinds:
        return _unquoted(value, kinds)
    if isinstance(value, float) and float not in kinds and int in kinds and value.is_integer():
        return int(value)
    if isinstance(value, bool) and str in kinds and type(None) in kinds:
        return str(value).lower()
    return value


def _unquoted(text: str, kinds: tuple[Any, ...]) -> Any:
    """What a text says in place of a number or a yes or no; the text itself where it says neither."""
    word = text.strip().lower()
    if bool in kinds and word in _YES_OR_NO:
        return _YES_OR_NO[word]
    if type(None) in kinds and word in _OPEN:
        return None
    found = number(text) if int in kinds or float in kinds else text
    return int(found) if isinstance(found, float) and float not in kinds and found.is_integer() else found


def number(value: Any) -> Any:
    """The number that a text is (`8`, `1,024`, `0.5`, `1e-3`); anything else as it is."""
    if not isinstance(value, str) or not _NUMBER.fullmatch(value.strip()):
        return value
    text = value.strip().replace(",", "")
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def _constant(name: str) -> float:
    raise ValueError(f"{name} is no number in JSON")


def sample(lines: list[Line], each: int) -> list[Line]:
    """At most `each` lines of every source, spread evenly; lines without a readable source count as one."""
    sources: dict[str, list[Line]] = {}
    for line in lines:
        try:
            source = str(parse_line(line).get("source"))
        except Refused:
            source = ""
        sources.setdefault(source, []).append(line)
    chosen = {
        (line.file, line.number)
        for rows in sources.values()
        for line in (rows if len(rows) <= each else [rows[i * len(rows) // each] for i in range(each)])
    }
    return [line for line in lines if (line.file, line.number) in chosen]
