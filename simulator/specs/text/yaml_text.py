"""YAML text to nodes that remember where they stand.

A subset of YAML 1.2: one document, core-schema scalars (`yes`, `on`, `1:30` are text, octal is `0o17`, `1e3` is a
float), no tags, no merge keys, no duplicate keys. Anchors and aliases work but count as what they expand to. Size,
nesting and the number of expanded nodes are bounded, so that no input takes long or much memory.
"""

import re
import stat
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from simulator.errors import InputError, Problem, shortened

MAX_BYTES = 4 * 2**20
"""Largest file."""
MAX_DEPTH = 64
"""Deepest nesting of mappings and sequences."""
MAX_NODES = 100_000
"""Most values in a file, aliases expanded."""
_REMEMBERED = 2**16
"""Letters of the longest text whose nodes are kept for the next time that it is read."""

Scalar = str | int | float | bool | None


class Place(NamedTuple):
    """Where a value stands."""

    file: str
    """Name of the file for messages, or the text of an override."""
    line: int | None = None
    """Line, from 1; None in an override."""
    column: int | None = None
    """Column, from 1; None in an override."""

    def __str__(self) -> str:
        """`file:line`."""
        return self.file if self.line is None else f"{self.file}:{self.line}"

    def problem(self, message: str, path: str = "", hint: str = "") -> Problem:
        """A problem at this place."""
        return Problem(message, self.file, self.line, self.column, path, hint)


@dataclass(frozen=True, slots=True)
class Node:
    """A value with its place; aliases share nodes, so nothing changes one after it is built."""

    value: "dict[str, Node] | list[Node] | Scalar"
    """A mapping, a sequence or a scalar."""
    place: Place
    """Where it starts."""
    keys: dict[str, Place] = field(default_factory=dict)
    """For a mapping, where each key stands."""
    whole: bool = False
    """Whether it stands for a whole file (a reference was followed): it then replaces what it is merged over."""

    def children(self) -> "dict[str, Node]":
        """What a mapping holds by key, a list by index; empty for a scalar."""
        if isinstance(self.value, dict):
            return self.value
        return {str(i): item for i, item in enumerate(self.value)} if isinstance(self.value, list) else {}

    def child(self, key: str) -> "Node | None":
        """What `children` has under a key, without building it all: a list may be long and asked for each item."""
        if isinstance(self.value, list):
            index = int(key) if key.isdecimal() and len(key) <= _MAX_DIGITS else len(self.value)
            return self.value[index] if index < len(self.value) else None
        return self.value.get(key) if isinstance(self.value, dict) else None


def read(path: Path, shown: str | None = None, problems: list[Problem] | None = None) -> Node:
    """The mapping that a YAML file holds; `shown` is the file's name in messages.

    Raises InputError where the file cannot be read or is no YAML. Faults that leave the rest readable (duplicate keys,
    tags) are appended to `problems` where it is given, and raised else.
    """
    name = str(path) if shown is None else shown
    root = compose(file_text(path, name), name, problems)
    if not isinstance(root.value, dict):
        raise InputError(root.place.problem("the file holds no mapping", hint="write `key: value` lines"))
    return root


def compose(text: str, name: str, problems: list[Problem] | None = None, place: Place | None = None) -> Node:
    """The node that a YAML text holds, a null scalar where it is empty.

    With `place` (an override) all nodes stand there. Errors as in `read`.
    """
    repeated = place is None and len(text) <= _REMEMBERED
    root, found = (_composed if repeated else _composed.__wrapped__)(text, name, place)
    if problems is not None:
        problems.extend(found)
    elif found:
        raise InputError(*found)
    return root


@lru_cache(maxsize=128)
def _composed(text: str, name: str, place: Place | None) -> tuple[Node, tuple[Problem, ...]]:
    """The node, and the faults that leave it readable; the same profiles are read again and again."""
    composer = _Composer(name, place)
    try:
        return composer.run(text), tuple(composer.problems)
    except yaml.YAMLError as error:
        raise InputError(*composer.problems, _syntax_problem(error, text, name, place)) from None


def plain(node: Node) -> Any:
    """The node's value as dicts, lists and scalars."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def scalar(text: str) -> Scalar:
    """A plain (unquoted) scalar by the core schema of YAML 1.2; ValueError for one that is not finite or too long."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        if len(text) > _MAX_DIGITS:
            raise ValueError(f"a number of {len(text)} digits is too long")
        return int(text, 0 if text[:2] in ("0o", "0x") else 10)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if not isfinite(number):
            raise ValueError(f"`{shortened(text, 40)}` is not a finite number")
        return number
    if _INFINITE.fullmatch(text):
        raise ValueError(f"`{text}` is not a finite number")
    return text


_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_MAX_DIGITS = 100


def file_text(path: Path, name: str, kind: str = "YAML file", most: int | None = None) -> str:
    """The text of a regular UTF-8 file of bounded size; `name` and `kind` are for messages.

    Raises InputError where it cannot be read, is no text, is empty or is larger than `most` bytes, `MAX_BYTES` where
    left out.
    """
    most = MAX_BYTES if most is None else most
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise InputError(Problem("is a directory", name, hint=f"name a {kind} in it"))
        if not stat.S_ISREG(mode):  # opening a pipe could wait for ever
            raise InputError(Problem("is not a regular file", name, hint=f"name a {kind}"))
        with path.open("rb") as file:
            data = file.read(most + 1)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path, or half a surrogate pair
        reason = "no file has such a name" if isinstance(error, ValueError) else error.strerror or str(error)
        raise InputError(Problem(f"cannot be read: {reason}", name)) from None
    if len(data) > most:
        raise InputError(Problem(f"is larger than {most // 2**20} MiB", name, hint=f"is it a {kind}?"))
    if b"\0" in data:
        raise InputError(Problem("is no text in UTF-8", name, hint=f"name a {kind}"))
    text = decoded(data, name, f"save it as UTF-8, or name a {kind}")
    if not text.strip():
        hint = "write `key: value` lines" if kind == "YAML file" else f"name a {kind}"
        raise InputError(Problem("is empty", name, hint=hint))
    return text


def decoded(data: bytes, name: str, hint: str = "save it as UTF-8") -> str:
    """The text of bytes in UTF-8, with or without its mark; InputError names the place of the first that is none."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        byte = f"byte 0x{data[error.start]:02x} is no text in UTF-8"
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise InputError(Problem(byte, name, line, column, hint=hint)) from None


class _Fatal(yaml.YAMLError):
    """Reading cannot go on."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(slots=True)
class _Frame:
    """A mapping or sequence that is still being read."""

    node: Node
    anchor: str | None
    size: int = 1
    height: int = 1
    key: str | None = None
    dropped: bool = False
    """Whether the next value belongs to a key that was refused."""


class _Composer:
    """Turns parser events into nodes with a stack of its own, so that depth costs no recursion."""

    def __init__(self, name: str, place: Place | None) -> None:
        self.name = name
        self.fixed = place
        self.problems: list[Problem] = []
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[Node, int, int]] = {}
        self.root: Node | None = None
        self.documents = 0
        self.nodes = 0

    def run(self, text: str) -> Node:
        """The node of the only document."""
        parser = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
        try:
            while True:
                event = parser.get_event()
                if isinstance(event, yaml.StreamEndEvent):
                    break
                self._take(event)
        finally:
            parser.dispose()
        return self.root or Node(None, self.fixed or Place(self.name, 1, 1))

    def _take(self, event: Any) -> None:
        place = self.fixed or Place(self.name, event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, place)
        elif isinstance(event, (yaml.MappingStartEvent, yaml.SequenceStartEvent)):
            self._open(event, place)
        elif isinstance(event, (yaml.MappingEndEvent, yaml.SequenceEndEvent)):
            frame = self.stack.pop()
            self._attach(frame.node, frame.anchor, frame.size, frame.height)
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                raise _Fatal(place.problem(f"`*{event.anchor}` refers to nothing above it, or to itself"))
            self._attach(self.anchors[event.anchor][0], None, *self.anchors[event.anchor][1:])
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise _Fatal(place.problem("a second document starts here", hint="write one document a file"))

    def _scalar(self, event: Any, place: Place) -> None:
        self._refuse_tag(event, place)
        frame = self.stack[-1] if self.stack else None
        if frame is not None and isinstance(frame.node.value, dict) and frame.key is None:
            self._key(frame, event.value, place)
            return
        value: Scalar = event.value
        if event.implicit[0]:
            try:
                value = scalar(event.value)
            except ValueError as error:
                self.problems.append(place.problem(str(error)))
        self._attach(Node(value, place), event.anchor, 1, 0)

    def _key(self, frame: _Frame, key: str, place: Place) -> None:
        frame.key = key
        earlier = frame.node.keys.get(key)
        frame.dropped = True
        if earlier is not None:
            where = "" if earlier.line is None else f" (first on line {earlier.line})"
            self.problems.append(place.problem(f"duplicate key `{shortened(key, 40)}`{where}", hint="keep one of them"))
        elif key == "<<":
            self.problems.append(place.problem("merge keys are not accepted", hint="write `extends: NAME`"))
        elif not key:
            self.problems.append(place.problem("a key is empty", hint="write `key: value`"))
        else:
            frame.node.keys[key] = place
            frame.dropped = False

    def _open(self, event: Any, place: Place) -> None:
        self._refuse_tag(event, place)
        frame = self.stack[-1] if self.stack else None
        if frame is not None and isinstance(frame.node.value, dict) and frame.key is None:
            raise _Fatal(place.problem("a key must be plain text", hint="quote a value that starts with `{` or `[`"))
        if len(self.stack) >= MAX_DEPTH:
            raise _Fatal(place.problem(f"values are nested more than {MAX_DEPTH} deep"))
        value: dict[str, Node] | list[Node] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self.stack.append(_Frame(Node(value, place), event.anchor))

    def _attach(self, node: Node, anchor: str | None, size: int, height: int) -> None:
        """Put a finished node where it belongs; `size` counts its expanded nodes, `height` the nesting below it."""
        if anchor is not None:
            self.anchors[anchor] = (node, size, height)
        if not self.stack:
            self.root = node
            return
        frame = self.stack[-1]
        frame.size += size
        self.nodes += 1
        frame.height = max(frame.height, height + 1)
        if max(frame.size, self.nodes) > MAX_NODES:
            raise _Fatal(node.place.problem(f"more than {MAX_NODES:,} values, aliases expanded"))
        if len(self.stack) + height > MAX_DEPTH:
            raise _Fatal(node.place.problem(f"values are nested more than {MAX_DEPTH} deep, aliases expanded"))
        if isinstance(frame.node.value, list):
            frame.node.value.append(node)
        elif isinstance(frame.node.value, dict):
            if frame.key is None:
                raise _Fatal(node.place.problem("a key must be plain text", hint="write the key out"))
            if not frame.dropped:
                frame.node.value[frame.key] = node
            frame.key = None

    def _refuse_tag(self, event: Any, place: Place) -> None:
        if event.tag is not None and event.tag != "!":
            self.problems.append(
                place.problem(f"tag `{shortened(event.tag, 40)}` is not accepted", hint="write the value alone")
            )


_HINTS = (
    ("mapping values are not allowed", "quote text that contains `: `, and check the indentation"),
    ("cannot start any token", "indent with spaces, and quote text that starts with a special character"),
    ("could not find expected ':'", "write `key: value`"),
    ("expected ',' or", "close the bracket, or quote text that contains a comma or a bracket"),
    ("did not find expected", "check indentation, brackets and quotes"),
)


def _syntax_problem(error: yaml.YAMLError, text: str, name: str, fixed: Place | None) -> Problem:
    if isinstance(error, _Fatal):
        return error.problem
    if isinstance(error, yaml.reader.ReaderError):
        before = text[: next((i for i, letter in enumerate(text) if _is_control(letter)), 0)]
        place = fixed or Place(name, before.count("\n") + 1, len(before) - before.rfind("\n"))
        return place.problem("a control character", hint="remove it, or name a text file")
    message = getattr(error, "problem", None) or "the text ends too early"
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = fixed or (Place(name, mark.line + 1, mark.column + 1) if mark is not None else Place(name))
    if "maximum nesting depth" in message:  # the scanner of libyaml in PyYAML 6.0.4 has a limit too, far above ours
        return place.problem(f"values are nested more than {MAX_DEPTH} deep")
    hint = next((hint for start, hint in _HINTS if start in message), "")
    return place.problem(f"no YAML: {message}", hint=hint)


def _is_control(letter: str) -> bool:
    """Whether YAML refuses a character."""
    return (
        not letter.isprintable() and unicodedata.category(letter) in ("Cc", "Cs", "Cn") and letter not in "\t\n\r\x85"
    )
